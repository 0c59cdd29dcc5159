"""What a comment in a file excuses, and why: `# outlast: ignore[CR008] because ...`, on the line or above it.

`# outlast: ignore-file[CR008, K023] because ...` holds for the whole file. An ignore needs its reason; one that
excuses nothing is told, so that none outlives its cause.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from outlast.lint.rule import INFO, WARNING, At, Finding, Rule
from outlast.lint.source import Source

WITHOUT_REASON = Rule(
    "L001",
    WARNING,
    "an ignore without a reason",
    "Whoever reads it later cannot tell whether it still holds.",
    "write why after the bracket: # outlast: ignore[CR008] a second run is paid for",
    "outlast, docs/howto/lint.md",
)
OF_NOTHING = Rule(
    "L002",
    INFO,
    "an ignore that excuses nothing",
    "The finding is gone, or the rule's id is mistyped; left in place it would hide the next one.",
    "delete it, or name a rule that `outlast explain` knows",
    "outlast, docs/howto/lint.md",
)
RULES = (WITHOUT_REASON, OF_NOTHING)
# JSON has no comments and thus no ignores. A Python string that holds such a text is taken for a comment, too.
_COMMENT = re.compile(r"(?:#|//)\s*outlast:\s*ignore(?P<file>-file)?\[(?P<rules>[^\]\n]*)\](?P<reason>[^\n]*)")

_EVERY, _NONE = 0, -1  # lines that no file has


@dataclass(frozen=True, slots=True)
class _Ignore:
    rules: frozenset[str]
    line: int
    column: int
    whole_file: bool
    alone: bool
    reason: str

    def lines(self, following: list[int]) -> tuple[int, ...]:
        """Those that it is about."""
        if self.whole_file:
            return (_EVERY,)
        return (self.line, following[self.line]) if self.alone else (self.line,)


def apply_ignores(source: Source, findings: Iterable[Finding]) -> Iterator[Finding]:
    """The findings that no comment excuses, and what is wrong with the comments."""
    ignores = list(_ignores_in(source.text))
    if not ignores:
        yield from findings
        return
    following = _next_code_lines(source.text.split("\n"))
    about = [(one, one.lines(following)) for one in ignores]
    covered = {(rule, line) for one, lines in about for rule in one.rules for line in lines}
    hit: set[tuple[str, int]] = set()
    for finding in findings:
        excused = {(finding.rule.id, finding.line), (finding.rule.id, _EVERY)} & covered
        hit |= excused
        if not excused:
            yield finding
    for one, lines in about:
        yield from _faults_of(one, {rule for rule in one.rules if not any((rule, line) in hit for line in lines)})


def _faults_of(ignore: _Ignore, unused: set[str]) -> Iterator[Finding]:
    place = At(ignore.line, ignore.column)
    if not ignore.reason:
        yield WITHOUT_REASON.at(place, f"this ignore of {', '.join(sorted(ignore.rules))} does not say why")
    for rule in sorted(unused):
        yield OF_NOTHING.at(place, f"{rule} has no finding here that this could excuse")


def _ignores_in(text: str) -> Iterator[_Ignore]:
    if "outlast:" not in text:
        return
    for number, line in enumerate(text.split("\n"), 1):
        found = _COMMENT.search(line)
        if found is None:
            continue
        rules = frozenset(part.strip().upper() for part in found["rules"].split(",") if part.strip())
        reason = found["reason"].strip(" -:*/")
        alone = not line[: found.start()].strip()
        yield _Ignore(rules, number, found.start() + 1, found["file"] is not None, alone, reason)


def _next_code_lines(lines: list[str]) -> list[int]:
    """For each line the one that a comment there is about: the next that is neither empty nor a comment."""
    found = [_NONE] * (len(lines) + 1)
    for number in range(len(lines) - 1, 0, -1):
        stripped = lines[number].strip()
        found[number] = number + 1 if stripped and not stripped.startswith(("#", "//")) else found[number + 1]
    return found
