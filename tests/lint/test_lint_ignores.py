"""Ignores: a comment excuses a finding where it stands, needs a reason, and is told when it excuses nothing."""

from pathlib import Path

import pytest

from outlast.lint.linting import lint
from outlast.lint.settings import LintSettings

pytestmark = pytest.mark.usefixtures("one_rule")


def _found(folder: Path, text: str) -> list[tuple[str, int]]:
    file = folder / "job.yaml"
    file.write_text(text)
    linted = lint([file], LintSettings())
    assert linted.unreadable == ()
    return [(one.rule.id, one.line) for one in linted.findings]


@pytest.mark.parametrize(
    "text",
    [
        "bad: true  # outlast: ignore[T001] it is meant\n",
        "# outlast: ignore[T001] it is meant\nbad: true\n",
        "# outlast: ignore[T001] it is meant\n# and more is said\n\nbad: true\n",
        "a: 1\n# outlast: ignore-file[T001] it is meant\nb:\n  bad: true\nc: {bad: true}\n",
        "bad: true  # OUTLAST?  # outlast:ignore[t001] - it is meant\n",
        "bad: true  # outlast: ignore[ T001 ] it is meant\n",
    ],
)
def test_an_ignore_with_its_reason_excuses_a_finding(tmp_path: Path, text: str) -> None:
    assert _found(tmp_path, text) == []


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("bad: true\n", [("T001", 1)]),
        ("bad: true  # outlast: ignore[T001]\n", [("L001", 1)]),
        ("bad: true  # outlast: ignore[CR001] it is meant\n", [("T001", 1), ("L002", 1)]),
        ("good: true  # outlast: ignore[T001] it is meant\n", [("L002", 1)]),
        ("# outlast: ignore[T001] it is meant\ngood: 1\na: {bad: true}\n", [("L002", 1), ("T001", 3)]),
        ("a: 1  # outlast: ignore[T001] meant for this line\nbad: true\n", [("L002", 1), ("T001", 2)]),
        ("bad: true  # outlast: ignore T001 no bracket\n", [("T001", 1)]),
    ],
)
def test_what_an_ignore_does_not_cover_is_told(tmp_path: Path, text: str, left: list[tuple[str, int]]) -> None:
    assert sorted(_found(tmp_path, text)) == sorted(left)


def test_a_rule_that_the_project_turns_off_is_silent_everywhere(tmp_path: Path) -> None:
    (tmp_path / "job.yaml").write_text("bad: true\n")
    assert lint([tmp_path], LintSettings(ignore={"T001": "it is meant"})).findings == ()
