"""How a place in a program is reached: the calls, loops, conditions and handlers between it and the program's start."""

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from outlast.lint.reading.python import Function, Loop, Module

_DEEPEST = 6
_MOST_CHAINS = 64
_TERM = {"SIGTERM"}


@dataclass(frozen=True, eq=False)
class Chain:
    """One way to a place: `nodes` are the place and the calls above it, the nearest first; the root is a function that
    nobody here calls, or None for the top of the program."""

    nodes: tuple[ast.AST, ...]
    root: Function | None
    loops: tuple[Loop, ...]
    tests: tuple[ast.expr, ...]
    handlers: tuple[ast.ExceptHandler, ...]

    @property
    def outermost(self) -> ast.AST:
        """The call nearest to the start."""
        return self.nodes[-1]


@dataclass(frozen=True, eq=False)
class Flow:
    """The ways through one module."""

    module: Module

    @cached_property
    def calls_of(self) -> dict[str, list[ast.Call]]:
        """Calls by the last name of what is called, where a function of that name is defined here."""
        found: dict[str, list[ast.Call]] = {}
        for call in self.module.calls:
            name = _last_name(call.func)
            if name in self.module.functions:
                found.setdefault(name, []).append(call)
        return found

    @cached_property
    def handlers(self) -> tuple[Function, ...]:
        """The functions that are registered for SIGTERM."""
        return tuple(one for call in self.module.calls for one in self._registered(call))

    @cached_property
    def registers_term(self) -> bool:
        """Whether anything is done about SIGTERM, in a way that is understood or not."""
        return any(name in self.module.identifiers for name in ("SIGTERM", "add_signal_handler", "GracefulKiller"))

    def _registered(self, call: ast.Call) -> Iterator[Function]:
        name = self.module.dotted(call.func)
        if not name.endswith((".signal", "add_signal_handler")) and name != "signal":
            return
        if len(call.args) < 2 or not self._may_be_term(call.args[0]):
            return
        handler = call.args[1]
        if isinstance(handler, ast.Lambda):
            yield handler
        elif (named := _last_name(handler)) is not None:
            yield from self.module.functions.get(named, [])

    def _may_be_term(self, node: ast.expr) -> bool:
        """SIGTERM itself, or a variable of a loop over signals that has it."""
        if _last_name(node) in _TERM:
            return True
        if not isinstance(node, ast.Name):
            return False
        loops = [one for one in self.module.above(node) if isinstance(one, ast.For)]
        return any(_last_name(one) in _TERM for loop in loops for one in ast.walk(loop.iter))

    def chains(self, node: ast.AST) -> list[Chain]:
        """The ways to a node; bounded, as calls of calls could be many."""
        found: list[Chain] = []
        for chain in self._chains(node, (), 0):
            found.append(chain)
            if len(found) >= _MOST_CHAINS:
                break
        return found

    def _chains(self, node: ast.AST, seen: tuple[Function, ...], depth: int) -> Iterator[Chain]:
        own = self._local(node)
        function = self.module.function_of(node)
        if isinstance(function, ast.Lambda):
            yield Chain((node,), function, *own)
            return
        calls = self.calls_of.get(function.name, []) if function is not None else []
        calls = [call for call in calls if self.module.function_of(call) not in (*seen, function)]
        if function is None or not calls or depth >= _DEEPEST:
            yield Chain((node,), function, *own)
            return
        for call in calls:
            for above in self._chains(call, (*seen, function), depth + 1):
                yield Chain(
                    (node, *above.nodes),
                    above.root,
                    (*own[0], *above.loops),
                    (*own[1], *above.tests),
                    (*own[2], *above.handlers),
                )

    def _local(self, node: ast.AST) -> tuple[tuple[Loop, ...], tuple[ast.expr, ...], tuple[ast.ExceptHandler, ...]]:
        """Loops, conditions and handlers around a node within its function; of an `else` the condition counts, too."""
        tests: list[ast.expr] = []
        handlers: list[ast.ExceptHandler] = []
        child = node
        for one in self.module.above(node):
            if isinstance(one, Function):
                break
            if isinstance(one, ast.If) and child is not one.test:
                tests.append(one.test)
            elif isinstance(one, ast.ExceptHandler):
                handlers.append(one)
            child = one
        return tuple(self.module.loops_of(node)), tuple(tests), tuple(handlers)

    @cached_property
    def flags(self) -> frozenset[str]:
        """Names that a SIGTERM handler sets, or whose `set()` it calls."""
        found: set[str] = set()
        for handler in self.handlers:
            for node in ast.walk(handler):
                targets = node.targets if isinstance(node, ast.Assign) else []
                if isinstance(node, ast.AugAssign | ast.AnnAssign | ast.NamedExpr):
                    targets = [node.target]
                found |= {name for one in targets if (name := _flag_name(one)) is not None}
                if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "set":
                    name = _last_name(node.func.value)
                    found |= {name} if name is not None else set()
        return frozenset(found)

    def is_flagged(self, test: ast.expr) -> bool:
        """Whether a condition holds only at the stop: `step % 100 == 0 or stop` holds at other times, too."""
        if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.Or):
            return all(self.is_flagged(one) for one in test.values)
        return self.names_flag(test)

    def names_flag(self, test: ast.expr) -> bool:
        """Whether a condition has to do with the stop at all."""
        return any(_last_name(one) in self.flags for one in ast.walk(test) if isinstance(one, ast.Name | ast.Attribute))

    @cached_property
    def is_program(self) -> bool:
        """Whether the file is run, and not only imported: a `__main__` part, or work at its top."""
        for node in self.module.tree.body:
            if isinstance(node, ast.If) and "__main__" in ast.dump(node.test):
                return True
            if isinstance(node, Loop):
                return True
            if isinstance(node, ast.Expr | ast.Assign) and isinstance(node.value, ast.Call):
                name = _last_name(node.value.func) or ""
                if name in self.module.functions or name in ("fit", "train", "run", "main", "launch"):
                    return True
        return False

    def is_known(self, chain: Chain) -> bool:
        """Whether a way begins at the program's start, and not in a function that a framework may call."""
        root = chain.root
        if root is None:
            return True
        if not isinstance(root, ast.FunctionDef | ast.AsyncFunctionDef):
            return False
        if root.name in ("main", "run", "train", "_main", "cli", "train_model", "training_function"):
            return True
        is_plain = isinstance(self.module.parents.get(root), ast.Module)
        return is_plain and self.is_program and root.name in self._handed_over

    @cached_property
    def _handed_over(self) -> frozenset[str]:
        """Functions whose name is given away: `mp.spawn(worker)`, `Process(target=worker)`, `app.run(main)`."""
        given = [one for call in self.module.calls for one in (*call.args, *(word.value for word in call.keywords))]
        return frozenset(one.id for one in given if isinstance(one, ast.Name))


def _last_name(node: ast.AST) -> str | None:
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else None


def _flag_name(node: ast.expr) -> str | None:
    if isinstance(node, ast.Subscript):
        inner = node.slice
        return inner.value if isinstance(inner, ast.Constant) and isinstance(inner.value, str) else None
    return _last_name(node)
