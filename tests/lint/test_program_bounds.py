"""Programs that would cost the square of their length, or a kilobyte for each letter, are read within bounds."""

import ast
import time
from pathlib import Path

import pytest

from outlast.lint.known import Known
from outlast.lint.linting import lint_source
from outlast.lint.reading.python import read_python
from outlast.lint.settings import LintSettings
from outlast.lint.source import Kind, Source, Unreadable


def test_a_chain_of_a_thousand_calls_costs_no_square() -> None:
    text = ("a" + ".b()" * 1_000 + "\n") * 4
    began = time.process_time()
    assert lint_source(Source(Path("a.py"), text, Kind.PYTHON, Known()), LintSettings()) == []
    assert time.process_time() - began < 5


@pytest.mark.parametrize(
    "text", ["x = [" + "1,\n" * 400_000 + "]\n", "x = [" + "[],\n" * 400_000 + "]\n", "x = f'" + "{a}" * 99_000 + "'\n"]
)
def test_a_program_of_too_many_parts_is_refused_before_it_is_parsed(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ast, "parse", lambda _: pytest.fail("it was parsed"))
    with pytest.raises(Unreadable, match="of a program at most"):
        read_python(text)


@pytest.mark.parametrize("text", ["a.b", "a.b().c", "a()()", "a().b()()", "[1].a()", "(x + y)()", "a[0].b"])
def test_a_chain_is_told_by_its_names(text: str) -> None:
    told = {
        "a.b": "a.b", "a.b().c": "a.b().c", "a()()": "a()()", "a().b()()": "a().b()()", "[1].a()": "?.a()",
        "(x + y)()": "?()", "a[0].b": "?.b",
    }  # fmt: skip
    module = read_python(text)
    (statement,) = module.tree.body
    assert isinstance(statement, ast.Expr)
    whole = statement.value
    assert module.dotted(whole) == told[text]
