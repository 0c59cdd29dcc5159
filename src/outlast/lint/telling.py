"""Findings in words for people, and as JSON and SARIF for machines."""

import json
import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

from outlast.lint.files import NotRead
from outlast.lint.linting import Linted
from outlast.lint.rule import Finding, Rule, Severity

_WIDEST = 160  # of a source line that is shown
_LEVELS = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.INFO: "note"}
_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"


def as_lines(linted: Linted) -> Iterator[str]:
    """Text: each finding with its source line, and a sum at the end."""
    for one in linted.findings:
        yield from _told(one)
    for read in (*linted.skipped, *linted.unreadable):
        yield not_read(read)
    yield _sum_of(linted)


def _told(finding: Finding) -> Iterator[str]:
    rule = finding.rule.id
    place = f"{_printable(str(finding.path))}:{finding.line}:{finding.column}"
    yield f"{place}: {finding.severity} {rule}: {_one_line(finding.message)}"
    start = max(0, finding.column - _WIDEST // 2) if len(finding.excerpt) > _WIDEST else 0
    shown = _printable(finding.excerpt[start : start + _WIDEST])
    if shown.strip():
        indent = len(shown) - len(shown.lstrip())
        yield f"    {shown.strip()}"
        yield f"    {' ' * max(0, finding.column - 1 - start - indent)}^"
    yield f"    fix: {_one_line(finding.fix)}"


def _one_line(text: object) -> str:
    return " ".join(_printable(str(text)).split())


def _printable(text: str) -> str:
    """Without what a terminal would obey: colours, a text that runs backwards, half a letter of a file's name."""
    return "".join(letter if letter.isprintable() else " " for letter in text)


def not_read(read: NotRead) -> str:
    """A line for a file that could not be looked at."""
    line = f":{read.line}" if read.line is not None else ""
    return f"{_printable(str(read.path))}{line}: not read: {_one_line(read.why)}"


def _sum_of(linted: Linted) -> str:
    counts = Counter(one.severity for one in linted.findings)
    parts = [
        f"{counts[kind]} {kind}{'s' if counts[kind] != 1 and kind is not Severity.INFO else ''}" for kind in Severity
    ]
    unread = len(linted.skipped) + len(linted.unreadable)
    read = linted.files - unread
    files = f"{read} file{'s' if read != 1 else ''}"
    told = f"{files}: " + (", ".join(parts) if linted.findings else "nothing found")
    told += f"; {unread} not read" if unread else ""
    return told + ("; `outlast explain RULE` tells more" if linted.findings else "")


def as_json(linted: Linted) -> str:
    """A list of findings, as contract has it, with a little more."""
    return json.dumps(
        [
            {
                "rule": one.rule.id,
                "severity": str(one.severity),
                "path": str(one.path),
                "line": one.line,
                "column": one.column,
                "message": one.message,
                "why": one.rule.why,
                "fix": one.fix,
                "source": one.rule.source,
            }
            for one in linted.findings
        ],
        indent=2,
    )


def as_sarif(linted: Linted, *, version: str) -> str:
    """SARIF 2.1.0, as code-scanning services take it; what could not be read is told as a notification."""
    rules = sorted({one.rule.id: one.rule for one in linted.findings}.values(), key=lambda rule: rule.id)
    places = {rule.id: number for number, rule in enumerate(rules)}
    run: dict[str, Any] = {
        "tool": {"driver": {"name": "outlast", "version": version, "rules": [_sarif_rule(rule) for rule in rules]}},
        "columnKind": "unicodeCodePoints",
        "results": [_sarif_result(one, places[one.rule.id]) for one in linted.findings],
        "invocations": [
            {
                "executionSuccessful": not linted.unreadable,
                "toolExecutionNotifications": _notifications((*linted.skipped, *linted.unreadable)),
            }
        ],
    }
    return json.dumps({"$schema": _SCHEMA, "version": "2.1.0", "runs": [run]}, indent=2)


def _sarif_rule(rule: Rule) -> dict[str, Any]:
    return {
        "id": rule.id,
        "shortDescription": {"text": rule.title},
        "fullDescription": {"text": rule.why},
        "help": {"text": f"{rule.fix}\nSource: {rule.source}"},
        "defaultConfiguration": {"level": _LEVELS[rule.severity]},
    }


def _sarif_result(finding: Finding, index: int) -> dict[str, Any]:
    return {
        "ruleId": finding.rule.id,
        "ruleIndex": index,
        "level": _LEVELS[finding.severity],
        "message": {"text": f"{finding.message}. Fix: {finding.fix}"},
        "locations": [_location(finding.path, finding.line, finding.column)],
    }


def _notifications(reads: Sequence[NotRead]) -> list[dict[str, Any]]:
    return [
        {"level": "warning", "message": {"text": one.why}, "locations": [_location(one.path, one.line or 1, 1)]}
        for one in reads
    ]


def _location(path: Path, line: int, column: int) -> dict[str, Any]:
    uri = path.absolute().as_uri() if path.is_absolute() else quote(os.fsencode(path.as_posix()))
    region = {"startLine": line, "startColumn": column}
    return {"physicalLocation": {"artifactLocation": {"uri": uri}, "region": region}}


def listing(families: Mapping[str, Sequence[Rule]]) -> Iterator[str]:
    """All rules in one line each, under their families' titles."""
    for title, rules in families.items():
        yield title
        for one in rules:
            yield f"  {one.id:<5}  {one.severity:<7}  {one.title}"
        yield ""
    yield "`outlast explain RULE` tells why, what to do, and the source"


def explanation(rule: Rule) -> Iterator[str]:
    """What `outlast explain` tells of a rule."""
    yield f"{rule.id} ({rule.severity}): {rule.title}"
    yield ""
    yield f"Why:    {rule.why}"
    yield f"Fix:    {rule.fix}"
    yield f"Source: {rule.source}"
    yield f"Ignore: # outlast: ignore[{rule.id}] and the reason, on the line or above it"
