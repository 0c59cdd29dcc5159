"""Every rule has files that break it, found on the lines marked `expect: RULE`, and files that look alike but do not.

fixtures/<RULE>/bad_*.ext and good_*.ext. A bad file without a mark (JSON has no comments) breaks its rule somewhere.
"""

import re
from pathlib import Path

import pytest

from outlast.lint.catalogue import all_rules
from outlast.lint.known import Known
from outlast.lint.linting import lint
from outlast.lint.rule import Finding
from outlast.lint.settings import LintSettings

FIXTURES = Path(__file__).parent / "fixtures"
FEWEST = 2
_MARK = re.compile(r"(?:#|//)\s*expect:\s*([A-Z0-9, ]+)")
# Facts that lint is told and cannot see in a file; a rule that needs one has it here.
_FLAGS = frozenset(
    {"--image", "--region", "--service-account", "--gpu", "--gpu-type", "--cpu", "--memory", "--set-env-vars",
     "--quiet", "--task-timeout"}
)  # fmt: skip
KNOWN: dict[str, Known] = {
    "CR013": Known(sdk=lambda _command: _FLAGS, sdk_version="528.0.0"),
    "CR017": Known(state_bytes=12 << 30),
    "CR018": Known(bucket_regions=(("acme-vision-checkpoints", "europe-west4"), ("acme-us", "us"))),
    "CR027": Known(save_seconds=25.0),
    "K012": Known(save_seconds=40.0),
    "K021": Known(work_seconds=3 * 3600.0),
}
# Rules about ignores are tested in test_ignoring.py.
_ELSEWHERE = re.compile(r"L\d+")


def _files(kind: str) -> list[Path]:
    return sorted(path for path in FIXTURES.glob(f"*/{kind}_*") if path.is_file())


def _id(path: Path) -> str:
    return f"{path.parent.name}/{path.name}"


def _found(path: Path) -> list[Finding]:
    linted = lint([path], LintSettings(known=KNOWN.get(path.parent.name, Known())))
    assert not linted.unreadable, linted.unreadable
    return [one for one in linted.findings if one.rule.id == path.parent.name]


def _marked(path: Path) -> list[int]:
    """The lines where the rule's finding has to be."""
    return [
        number
        for number, line in enumerate(path.read_text().splitlines(), 1)
        for found in [_MARK.search(line)]
        if found and path.parent.name in found[1].replace(",", " ").split()
    ]


@pytest.mark.parametrize("path", _files("bad"), ids=_id)
def test_a_bad_file_breaks_its_rule_on_the_marked_lines(path: Path) -> None:
    found = _found(path)
    assert found, f"{path.parent.name} is not found"
    marked = _marked(path)
    if marked:
        assert sorted({one.line for one in found}) == marked, [(one.line, one.message) for one in found]


@pytest.mark.parametrize("path", _files("good"), ids=_id)
def test_a_good_file_does_not_break_the_rule(path: Path) -> None:
    assert [(one.line, one.message) for one in _found(path)] == []


@pytest.mark.parametrize("rule", [rule for rule in all_rules() if not _ELSEWHERE.fullmatch(rule)])
def test_every_rule_has_its_fixtures(rule: str) -> None:
    for kind in ("bad", "good"):
        found = list((FIXTURES / rule).glob(f"{kind}_*"))
        assert len(found) >= FEWEST, f"{rule} has {len(found)} {kind} fixtures; {FEWEST} are needed"


def test_every_fixture_belongs_to_a_rule() -> None:
    assert {path.name for path in FIXTURES.iterdir() if path.is_dir()} <= set(all_rules())
