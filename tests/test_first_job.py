"""docs/first-job.md: a plain loop becomes resumable by five lines at most, and the page shows what is tested."""

import difflib
from pathlib import Path

from docs_pages import ROOT, read_page

_CASES = Path(__file__).with_name("docs_cases")
_PAGE = ROOT / "docs" / "first-job.md"
PLAIN = (_CASES / "plain_loop.py").read_text()
RESUMABLE = (_CASES / "resumable_loop.py").read_text()


def changed_lines(before: str, after: str) -> list[str]:
    """The lines that were added, or stand in place of others; blank ones do not count."""
    return [
        line[2:]
        for line in difflib.ndiff(before.splitlines(), after.splitlines())
        if line.startswith("+ ") and line[2:]
    ]


def test_a_plain_loop_becomes_resumable_by_five_lines_at_most() -> None:
    changed = changed_lines(PLAIN, RESUMABLE)
    assert 1 <= len(changed) <= 5
    assert "outlast" not in PLAIN
    assert "outlast" in RESUMABLE


def test_no_line_of_the_plain_loop_is_lost() -> None:
    removed = [line for line in difflib.ndiff(PLAIN.splitlines(), RESUMABLE.splitlines()) if line.startswith("- ")]
    assert len(removed) == 2  # the two loops' heads


def test_the_page_shows_both_programs_and_their_difference() -> None:
    files = read_page(_PAGE.read_text()).files
    assert files == {"plain_loop.py": PLAIN, "resumable_loop.py": RESUMABLE}
    shown = "".join(list(difflib.unified_diff(PLAIN.splitlines(True), RESUMABLE.splitlines(True), n=2))[2:])
    assert f"```diff\n{shown}```" in _PAGE.read_text()


def test_the_examples_need_five_marked_lines() -> None:
    for name in ("digits.py", "train_torch.py"):
        lines = (ROOT / "examples" / name).read_text().splitlines()
        marked = [line for line in lines if "# <-- " in line]
        unmarked = [line for line in lines if ("outlast." in line or "job." in line) and line not in marked]
        assert len(marked) == 5, name
        assert unmarked == [], name
