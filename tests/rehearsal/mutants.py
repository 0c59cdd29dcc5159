"""Mutants of the good programs: one change each, of the kinds by which people lose work."""

import ast
import copy
import itertools
from collections.abc import Iterator
from dataclasses import dataclass

from proving import GOOD

Body = list[ast.stmt]
_KEPT = (ast.Import, ast.ImportFrom, ast.FunctionDef, ast.ClassDef, ast.Global, ast.Pass, ast.Return, ast.Break)
_QUIET = ("time.sleep", "print")


@dataclass(frozen=True)
class Mutant:
    """`change` says what was done to which line of `base`."""

    base: str
    change: str
    source: str

    @property
    def name(self) -> str:
        return f"{self.base}: {self.change}"


def all_mutants() -> list[Mutant]:
    """Every mutant of every good program, in a fixed order, each source once."""
    found: dict[str, Mutant] = {}
    for path in GOOD:
        good = path.read_text()
        for change, source in _mutate(ast.parse(good)):
            found.setdefault(source, Mutant(path.stem, change, source))
    return list(found.values())


def _mutate(tree: ast.Module) -> Iterator[tuple[str, str]]:
    original = ast.unparse(tree)
    for operator in (_drop, _swap, _expressions, _in_place):
        number = 0
        while True:
            changed = copy.deepcopy(tree)
            change = operator(changed, number)
            if change is None:
                break
            number += 1
            source = ast.unparse(ast.fix_missing_locations(changed))
            if source != original:
                yield change, source


def _bodies(tree: ast.AST) -> Iterator[Body]:
    for node in ast.walk(tree):
        for field in ("body", "orelse", "finalbody"):
            body = getattr(node, field, None)
            if isinstance(body, list) and body and isinstance(body[0], ast.stmt):
                yield body


def _may_go(statement: ast.stmt) -> bool:
    if isinstance(statement, _KEPT):
        return False
    if isinstance(statement, ast.Expr):
        value = statement.value
        return isinstance(value, ast.Call) and ast.unparse(value.func) not in _QUIET
    return True


def _short(node: ast.AST) -> str:
    text = " ".join(ast.unparse(node).split())
    return f"line {getattr(node, 'lineno', 0)} `{text if len(text) < 50 else text[:49] + '…'}`"


def _drop(tree: ast.Module, number: int) -> str | None:
    """Leaves one statement out: a part that is not saved or restored, a sync, a handler, …"""
    for body in _bodies(tree):
        for index, statement in enumerate(body):
            if not _may_go(statement) or isinstance(statement, ast.While | ast.For | ast.Try):
                continue
            if number == 0:
                body[index] = ast.Pass()
                return f"without {_short(statement)}"
            number -= 1
    return None


def _swap(tree: ast.Module, number: int) -> str | None:
    """Two statements in the other order: the marker before the data, the save before the step, …"""
    for body in _bodies(tree):
        for index, (first, second) in enumerate(itertools.pairwise(body)):
            if not (_may_go(first) and _may_go(second)):
                continue
            if number == 0:
                body[index], body[index + 1] = second, first
                return f"{_short(second)} before {_short(first)}"
            number -= 1
    return None


def _expressions(tree: ast.Module, number: int) -> str | None:
    for parent in ast.walk(tree):
        for field, value in ast.iter_fields(parent):
            nodes = value if isinstance(value, list) else [value]
            for index, node in enumerate(nodes):
                if not isinstance(node, ast.AST):
                    continue
                for new in _others(parent, field, node):
                    if number == 0:
                        if isinstance(value, list):
                            value[index] = new
                        else:
                            setattr(parent, field, new)
                        return f"`{ast.unparse(new)}` for {_short(node)}"
                    number -= 1
    return None


def _others(parent: ast.AST, field: str, node: ast.AST) -> Iterator[ast.AST]:
    """What could stand in the place of an expression."""
    if isinstance(node, ast.Constant) and node.value == 143:
        yield from (ast.Constant(0), ast.Constant(1))
    if isinstance(node, ast.Constant) and node.value in ("w", "wb"):
        yield ast.Constant("a" + str(node.value)[1:])
    if field == "test" and isinstance(parent, ast.If):
        yield from (ast.Constant(False), ast.Constant(True))
    if (
        isinstance(parent, ast.Dict)
        and field == "values"
        and isinstance(node, ast.Name | ast.Attribute | ast.Subscript)
    ):
        yield from (_plus_one(node), ast.Constant(0))
    named = isinstance(node, ast.Name | ast.Subscript)
    if named and isinstance(parent, ast.Tuple) and isinstance(getattr(parent, "ctx", None), ast.Load):
        yield _plus_one(node)
    called = ast.unparse(parent.func) if isinstance(parent, ast.Call) and field == "args" else ""
    if named and called in ("save", "keep", "struct.pack"):
        yield from (_plus_one(node), ast.Constant(0))
    if called == "signal.signal" and parent.args[-1] is node and ast.unparse(node) != "signal.SIG_IGN":
        yield ast.parse("signal.SIG_IGN", mode="eval").body
    if isinstance(node, ast.Call) and ast.unparse(node.func) in ("os.replace", "os.rename"):
        yield ast.Call(ast.parse("__import__('shutil').copyfile", mode="eval").body, node.args, [])
    if isinstance(node, ast.AugAssign) and isinstance(node.value, ast.Constant):
        yield ast.AugAssign(node.target, node.op, ast.Constant(node.value.value + 1))


def _plus_one(node: ast.expr) -> ast.expr:
    return ast.BinOp(node, ast.Add(), ast.Constant(1))


def _in_place(tree: ast.Module, number: int) -> str | None:
    """A file written under its own name, in place of one that is renamed when it is whole."""
    for body in _bodies(tree):
        for index, statement in enumerate(body):
            call = statement.value if isinstance(statement, ast.Expr) else None
            if not isinstance(call, ast.Call) or ast.unparse(call.func) not in ("os.replace", "os.rename"):
                continue
            if number == 0:
                old, new = (ast.unparse(argument) for argument in call.args)
                body[index] = ast.Pass()
                _replace(tree, old, call.args[1])
                return f"written in place: {new} for {old}"
            number -= 1
    return None


def _replace(tree: ast.AST, old: str, new: ast.expr) -> None:
    for parent in ast.walk(tree):
        for field, value in ast.iter_fields(parent):
            if isinstance(value, list):
                value[:] = [copy.deepcopy(new) if _is(one, old) else one for one in value]
            elif _is(value, old) and not isinstance(getattr(value, "ctx", None), ast.Store):
                setattr(parent, field, copy.deepcopy(new))


def _is(node: object, text: str) -> bool:
    return isinstance(node, ast.expr) and ast.unparse(node) == text
