"""Python sources as syntax trees with parents, imported names and functions, within bounds."""

import ast
import re
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from outlast.lint.source import Unreadable

MOST_CHARACTERS = 2 << 20
MOST_NODES = 400_000
MOST_WORDS = 300_000  # and opening brackets: each becomes a node of a kilobyte, before anything can count them
_MOST_BRACES = 50_000  # CPython's parser takes the square of those in one f-string
_WORD = re.compile(r"\w+|[\[({]")
_LONGEST_CHAIN = 100  # attributes and calls; what is before them is "?"
Function = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
_MARKS = (ast.expr_context, ast.operator, ast.cmpop, ast.boolop, ast.unaryop)
Loop = ast.For | ast.AsyncFor | ast.While


@dataclass(frozen=True, eq=False)
class Module:
    """One program. Names are resolved by its imports: `t.save` is `torch.save` after `import torch as t`."""

    tree: ast.Module
    nodes: tuple[ast.AST, ...]
    parents: dict[ast.AST, ast.AST]
    scopes: dict[ast.AST, Function | None]
    names: dict[str, str]

    @cached_property
    def functions(self) -> dict[str, list[ast.FunctionDef | ast.AsyncFunctionDef]]:
        """Functions and methods by their name."""
        found: dict[str, list[ast.FunctionDef | ast.AsyncFunctionDef]] = {}
        for node in self.nodes:
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                found.setdefault(node.name, []).append(node)
        return found

    @cached_property
    def calls(self) -> tuple[ast.Call, ...]:
        """All calls, in the order of their places."""
        return tuple(node for node in self.nodes if isinstance(node, ast.Call))

    @cached_property
    def bindings(self) -> dict[tuple[Function | None, str], list[ast.expr | None]]:
        """What each name of a scope is given; None for what moves it: a loop, an addition, an unpacking."""
        found: dict[tuple[Function | None, str], list[ast.expr | None]] = {}
        for node in self.nodes:
            scope = self.scopes.get(node)
            for name, value in _bound_by(node):
                found.setdefault((scope, name), []).append(value)
        return found

    @cached_property
    def attributes(self) -> dict[str, list[ast.expr]]:
        """What is assigned to `self.NAME`, in any class."""
        return self._assigned_attributes(frozenset({"self", "cls"}))

    @cached_property
    def attributes_anywhere(self) -> dict[str, list[ast.expr]]:
        """What is assigned to `ANYTHING.NAME`, such as `args.start_epoch`."""
        return self._assigned_attributes(None)

    def _assigned_attributes(self, owners: frozenset[str] | None) -> dict[str, list[ast.expr]]:
        found: dict[str, list[ast.expr]] = {}
        for node in self.nodes:
            if not isinstance(node, ast.Assign | ast.AnnAssign) or node.value is None:
                continue
            for one in node.targets if isinstance(node, ast.Assign) else [node.target]:
                if not isinstance(one, ast.Attribute) or not isinstance(one.value, ast.Name):
                    continue
                if owners is None or one.value.id in owners:
                    found.setdefault(one.attr, []).append(node.value)
        return found

    @cached_property
    def identifiers(self) -> frozenset[str]:
        """Every name, attribute, keyword and parameter."""
        found: set[str] = set()
        for node in self.nodes:
            if isinstance(node, ast.Name):
                found.add(node.id)
            elif isinstance(node, ast.Attribute):
                found.add(node.attr)
            elif isinstance(node, ast.keyword | ast.arg) and node.arg:
                found.add(node.arg)
            elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                found.add(node.name)
            elif isinstance(node, ast.alias):
                found.add(node.asname or node.name)
        return frozenset(found)

    @cached_property
    def packages(self) -> frozenset[str]:
        """The top names of what is imported."""
        return frozenset(target.split(".")[0] for target in self.names.values())

    def dotted(self, node: ast.AST) -> str:
        """`torch.save` for a name or a chain of attributes; what it begins with stays as it is if it is no import."""
        parts: list[str] = []
        called = ""
        for _ in range(_LONGEST_CHAIN):  # each call of a chain is asked for: a longer one would cost its square
            if isinstance(node, ast.Attribute):
                parts.append(f"{node.attr}{called}")
                called, node = "", node.value
            elif isinstance(node, ast.Call):
                called, node = f"{called}()", node.func
            else:
                break
        first = self.names.get(node.id, node.id) if isinstance(node, ast.Name) else "?"
        return ".".join(reversed([*parts, f"{first}{called}"]))

    def above(self, node: ast.AST) -> Iterator[ast.AST]:
        """What a node is in, the nearest first."""
        current = self.parents.get(node)
        while current is not None:
            yield current
            current = self.parents.get(current)

    def function_of(self, node: ast.AST) -> Function | None:
        """The function that a node is in; None at the top."""
        return self.scopes.get(node)

    def loops_of(self, node: ast.AST) -> list[Loop]:
        """The loops around a node within its function, the nearest first; a `for`'s own iterable is before it."""
        found: list[Loop] = []
        child = node
        for one in self.above(node):
            if isinstance(one, Function):
                break
            in_iterable = isinstance(one, ast.For | ast.AsyncFor) and child is one.iter
            if isinstance(one, Loop) and not in_iterable and child not in one.orelse:
                found.append(one)
            child = one
        return found

    def below(self, node: ast.AST) -> Iterator[ast.AST]:
        """A node and all in it, functions that are defined there left out."""
        stack = [node]
        while stack:
            one = stack.pop()
            yield one
            for child in reversed(list(ast.iter_child_nodes(one))):
                if not isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                    stack.append(child)


def read_python(text: str) -> Module:
    """Parses a program. Raises Unreadable for what is no Python 3, or too large or deep for a bounded look."""
    if len(text) > MOST_CHARACTERS:
        raise Unreadable(f"it has {len(text):,} characters; of a program at most {MOST_CHARACTERS:,} are read")
    if text.count("{") > _MOST_BRACES:
        raise Unreadable(f"it has {text.count('{'):,} times {{; of a program at most {_MOST_BRACES:,} are read")
    words = sum(1 for _ in _WORD.finditer(text))
    if words > MOST_WORDS:
        raise Unreadable(f"it has {words:,} words; of a program at most {MOST_WORDS:,} are read")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(text)
    except SyntaxError as error:
        raise Unreadable(f"it is no Python 3: {error.msg}", error.lineno) from error
    except (RecursionError, MemoryError) as error:
        raise Unreadable("it is nested too deeply") from error
    except ValueError as error:
        raise Unreadable(f"it is no Python: {error}") from error
    return _module(tree)


def _module(tree: ast.Module) -> Module:
    nodes: list[ast.AST] = []
    parents: dict[ast.AST, ast.AST] = {}
    scopes: dict[ast.AST, Function | None] = {}
    stack: list[tuple[ast.AST, Function | None]] = [(tree, None)]
    while stack:
        node, scope = stack.pop()
        nodes.append(node)
        scopes[node] = scope
        if len(nodes) > MOST_NODES:
            raise Unreadable(f"it has more than {MOST_NODES:,} parts")
        if isinstance(node, ast.Name | ast.Constant):
            continue  # half of all nodes, and nothing is in them
        inner = node if isinstance(node, Function) else scope
        below = [child for child in ast.iter_child_nodes(node) if not isinstance(child, _MARKS)]
        for child in reversed(below):
            parents[child] = node
            stack.append((child, inner))
    return Module(tree, tuple(nodes), parents, scopes, _imported(nodes))


def _bound_by(node: ast.AST) -> Iterator[tuple[str, ast.expr | None]]:
    """The names that a statement binds, with their value; None where that moves or is not one value."""
    if isinstance(node, ast.Assign):
        for target in node.targets:
            if isinstance(target, ast.Name):
                yield target.id, node.value
            elif isinstance(target, ast.Tuple | ast.List):
                yield from ((one.id, None) for one in ast.walk(target) if isinstance(one, ast.Name))
    elif isinstance(node, ast.AnnAssign | ast.NamedExpr):
        if isinstance(node.target, ast.Name) and node.value is not None:
            yield node.target.id, node.value
    elif isinstance(node, ast.AugAssign | ast.For | ast.AsyncFor | ast.comprehension):
        yield from ((one.id, None) for one in ast.walk(node.target) if isinstance(one, ast.Name))
    elif isinstance(node, ast.withitem) and isinstance(node.optional_vars, ast.Name):
        yield node.optional_vars.id, node.context_expr


def _imported(nodes: list[ast.AST]) -> dict[str, str]:
    found: dict[str, str] = {}
    for node in nodes:
        if isinstance(node, ast.Import):
            for alias in node.names:
                found[alias.asname or alias.name.split(".")[0]] = (
                    alias.name if alias.asname else alias.name.split(".")[0]
                )
        elif isinstance(node, ast.ImportFrom):
            origin = "." * node.level + (node.module or "")
            for alias in node.names:
                found[alias.asname or alias.name] = f"{origin}.{alias.name}" if origin else alias.name
    return found
