"""What is known of a path in a program: its fixed text, and what stands in the gaps between."""

import ast
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from outlast.lint.reading.python import Function, Module

_DEEPEST = 6
# Names that differ from one save to the next.
_MOVING = re.compile(
    r"(?:^|_)(?:epochs?|steps?|iter(?:ation)?s?|it|batch(?:_idx)?|idx|index|count(?:er)?|n|i|j|k|ep|e|now|time(?:stamp)?"
    r"|date|uuid|num|round|t|loss|score|acc(?:uracy)?|metric|best_\w+|val_\w+|episode|update|gen(?:eration)?|trial|fold)$",
    re.IGNORECASE,
)
_MOVING_CALLS = re.compile(r"time|date|uuid|strftime|random|mktemp|mkdtemp|NamedTemporaryFile|next", re.IGNORECASE)
_SAME = {"os.fspath", "os.path.abspath", "os.path.expanduser", "os.path.realpath", "os.path.normpath", "upath.UPath"}
_KEEPING = ("with_suffix", "with_name", "strip", "rstrip", "resolve", "expanduser", "absolute", "as_posix")


@dataclass(frozen=True, slots=True)
class Gap:
    """What is not fixed in a path: `name` as written, `env` where it is an environment variable, `moves`: it differs
    from one save to the next; `open`: nothing is known of it."""

    name: str
    env: str | None = None
    moves: bool = False
    open: bool = False


@dataclass(frozen=True, slots=True)
class Shape:
    """A path as texts and gaps in their order."""

    parts: tuple[str | Gap, ...]

    @property
    def text(self) -> str:
        """With each gap as `{name}`."""
        return "".join(part if isinstance(part, str) else f"{{{part.name}}}" for part in self.parts)

    @property
    def start(self) -> str:
        """The fixed text that it begins with."""
        found = ""
        for part in self.parts:
            if isinstance(part, Gap):
                break
            found += part
        return found

    @property
    def fixed(self) -> str:
        """All fixed text."""
        return "".join(part for part in self.parts if isinstance(part, str))

    @property
    def gaps(self) -> tuple[Gap, ...]:
        """What is not fixed."""
        return tuple(part for part in self.parts if isinstance(part, Gap))

    @property
    def moves(self) -> bool:
        """Whether it differs from one save to the next."""
        return any(gap.moves for gap in self.gaps)

    @property
    def is_open(self) -> bool:
        """Whether something in it may be anything."""
        return any(gap.open for gap in self.gaps)


Bound = dict[str, Shape]


@dataclass(frozen=True, slots=True)
class Shaper:
    """Works out paths in one module."""

    module: Module

    def of(self, node: ast.expr | None, bound: Bound | None = None, depth: int = 0) -> Shape:
        """The shape of an expression; `bound`: what parameters stand for."""
        bound = bound or {}
        if node is None or depth > _DEEPEST:
            return _gap("...", is_open=True)
        if isinstance(node, ast.Constant):
            return Shape((str(node.value),)) if isinstance(node.value, str | int) else _gap("...", is_open=True)
        reader = _READERS.get(type(node))
        return _gap("...", is_open=True) if reader is None else reader(self, node, bound, depth)

    def of_text(self, node: ast.JoinedStr, bound: Bound, depth: int) -> Shape:
        return _joined([self._in_text(part, bound, depth) for part in node.values])

    def of_choice(self, node: ast.IfExp, bound: Bound, depth: int) -> Shape:
        return self.of(node.body, bound, depth + 1)

    def _in_text(self, node: ast.expr, bound: Bound, depth: int) -> Shape:
        return self.of(node.value if isinstance(node, ast.FormattedValue) else node, bound, depth + 1)

    def of_operation(self, node: ast.BinOp, bound: Bound, depth: int) -> Shape:
        left, right = self.of(node.left, bound, depth + 1), self.of(node.right, bound, depth + 1)
        if isinstance(node.op, ast.Div):
            return _joined([left, Shape(("/",)), right])
        if isinstance(node.op, ast.Add):
            # `epoch + 1` in a name is a number that moves with the epoch.
            return (
                left
                if isinstance(node.right, ast.Constant) and isinstance(node.right.value, int)
                else _joined([left, right])
            )
        if isinstance(node.op, ast.Mod):
            values = node.right.elts if isinstance(node.right, ast.Tuple) else [node.right]
            return _joined([left, *(self.of(value, bound, depth + 1) for value in values)])
        return _gap("...", is_open=True)

    def of_call(self, node: ast.Call, bound: Bound, depth: int) -> Shape:
        name = self.module.dotted(node.func)
        owner = node.func.value if isinstance(node.func, ast.Attribute) else None
        last = name.rsplit(".", 1)[-1]
        if name in ("os.environ.get", "os.getenv", "environ.get", "getenv"):
            return _env(node.args[0] if node.args else None)
        if last == "join" and not name.endswith("path.join"):
            return _gap("...", is_open=True)
        if last in ("join", "Path", "str", "PurePath") or name in _SAME:
            return self._row(node.args, "/", bound, depth)
        if owner is not None and last in ("joinpath", "format", *_KEEPING):
            inner = [*node.args, *(word.value for word in node.keywords)] if last not in _KEEPING[2:] else []
            return self._row([owner, *inner], "/" if last == "joinpath" else "", bound, depth)
        return self._of_other_call(node, name, bound, depth)

    def _of_other_call(self, node: ast.Call, name: str, bound: Bound, depth: int) -> Shape:
        """A function of this file that returns one value; what moves by its name; else anything."""
        last = name.rsplit(".", 1)[-1]
        if name in ("os.getcwd", "pathlib.Path.cwd", "pathlib.Path.home"):
            return _gap(last)
        returned = self._returned(last)
        if returned is not None:
            function, value = returned
            names = [one.arg for one in function.args.args if one.arg not in ("self", "cls")]
            given = {one: self.of(arg, bound, depth + 1) for one, arg in zip(names, node.args, strict=False)}
            given |= {word.arg: self.of(word.value, bound, depth + 1) for word in node.keywords if word.arg}
            return self.of(value, given, depth + 1)
        moves = bool(_MOVING_CALLS.search(name)) or any(
            isinstance(one, ast.Name) and bool(_MOVING.search(one.id)) for one in node.args
        )
        return _gap(last, moves=moves, is_open=not moves)

    def _returned(self, name: str) -> tuple[ast.FunctionDef | ast.AsyncFunctionDef, ast.expr] | None:
        """The one value that a function of this file returns."""
        functions = self.module.functions.get(name, [])
        if len(functions) != 1:
            return None
        values = [one.value for one in ast.walk(functions[0]) if isinstance(one, ast.Return) and one.value is not None]
        return (functions[0], values[0]) if len(values) == 1 else None

    def _row(self, nodes: Sequence[ast.expr], between: str, bound: Bound, depth: int) -> Shape:
        shapes = [self.of(one, bound, depth + 1) for one in nodes]
        return _joined([part for shape in shapes for part in (Shape((between,)), shape)][1:])

    def of_subscript(self, node: ast.Subscript, _bound: Bound, _depth: int) -> Shape:
        if self.module.dotted(node.value) in ("os.environ", "environ"):
            return _env(node.slice)
        name = node.slice.value if isinstance(node.slice, ast.Constant) else None
        return _gap(str(name) if name is not None else "...", is_open=name is None)

    def of_attribute(self, node: ast.Attribute, bound: Bound, depth: int) -> Shape:
        if isinstance(node.value, ast.Name) and node.value.id in ("self", "cls"):
            values = self.module.attributes.get(node.attr, [])
            found = self.of(values[0], {}, depth + 1) if len(values) == 1 else None
            if found is not None and not found.is_open:
                return found
        if node.attr in ("parent", "name", "stem"):
            return self.of(node.value, bound, depth + 1)
        return _gap(node.attr, moves=bool(_MOVING.search(node.attr)))

    def of_name(self, node: ast.Name, bound: Bound, depth: int) -> Shape:
        if node.id in bound:
            return bound[node.id]
        scope = self.module.function_of(node)
        for one in (scope, None) if scope is not None else (None,):
            values = self.module.bindings.get((one, node.id), [])
            if None in values:
                return _gap(node.id, moves=True)
            if len(values) == 1:
                return self.of(values[0], bound, depth + 1)
            if values:
                moves = any(value is not None and self.module.loops_of(value) for value in values)
                return _gap(node.id, moves=moves, is_open=True)
            if one is not None and _has_parameter(one, node.id):
                break
        imported = node.id in self.module.names  # a constant of another file
        return _gap(node.id, moves=bool(_MOVING.search(node.id)) and not imported, is_open=not imported)


_READERS: dict[type[ast.expr], Callable[[Shaper, Any, Bound, int], Shape]] = {
    ast.JoinedStr: Shaper.of_text,
    ast.BinOp: Shaper.of_operation,
    ast.Call: Shaper.of_call,
    ast.Subscript: Shaper.of_subscript,
    ast.Name: Shaper.of_name,
    ast.Attribute: Shaper.of_attribute,
    ast.IfExp: Shaper.of_choice,
}


def _has_parameter(function: Function, name: str) -> bool:
    arguments = function.args
    return any(one.arg == name for one in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs))


def _gap(name: str, *, env: str | None = None, moves: bool = False, is_open: bool = False) -> Shape:
    return Shape((Gap(name, env, moves, is_open),))


def _env(node: ast.expr | None) -> Shape:
    name = node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else None
    return _gap(name or "...", env=name, is_open=name is None)


def _joined(shapes: list[Shape]) -> Shape:
    return Shape(tuple(part for shape in shapes for part in shape.parts))
