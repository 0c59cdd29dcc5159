"""A hundred thousand comments that ignore findings cost a moment, not a square of one."""

import time
from pathlib import Path

from outlast.lint.ignoring import apply_ignores
from outlast.lint.known import Known
from outlast.lint.rule import ERROR, At, Rule
from outlast.lint.source import Kind, Source

_RULE = Rule("T001", ERROR, "a bad thing", "it is bad", "make it good", "these tests")


def _left(text: str, findings: int) -> tuple[int, float]:
    source = Source(Path("a.yaml"), text, Kind.YAML, Known())
    found = [_RULE.at(At(line, 1), "bad") for line in range(1, findings + 1)]
    began = time.process_time()
    left = sum(one.rule is _RULE for one in apply_ignores(source, found))
    return left, time.process_time() - began


def test_ignores_take_time_in_proportion() -> None:
    for line in ("# outlast: ignore[T001] it is a test\n", "# outlast: ignore-file[T001] it is a test\n"):
        left, seconds = _left(line * 50_000, 20_000)
        assert left == 0
        assert seconds < 5


def test_a_comment_at_the_end_of_a_file_excuses_nothing_else() -> None:
    assert _left("a: 1\nb: 2\n# outlast: ignore[T001] it is a test\n", 2)[0] == 2


def test_a_page_break_moves_no_ignore_to_another_line() -> None:
    assert _left("a: 1\x0c\nb: 2 # outlast: ignore[T001] it is a test\n", 2)[0] == 1
