"""A lint from its paths to its findings."""

import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from outlast.lint.catalogue import checks_of
from outlast.lint.files import NotRead, find_files, read_source
from outlast.lint.ignoring import apply_ignores
from outlast.lint.rule import ERROR, Finding
from outlast.lint.settings import LintSettings
from outlast.lint.source import Source, Unreadable

_RECURSION = 4_000  # nested expressions of a program; deeper ones are told as unreadable


@dataclass(frozen=True, slots=True)
class Linted:
    """What was found, and what could not be looked at: `unreadable` was asked for, `skipped` met in a folder."""

    files: int
    findings: tuple[Finding, ...]
    unreadable: tuple[NotRead, ...] = ()
    skipped: tuple[NotRead, ...] = ()

    @property
    def exit_code(self) -> int:
        """2 where something could not be read, else 1 with an error among the findings, else 0."""
        if self.unreadable:
            return 2
        return 1 if any(one.severity is ERROR for one in self.findings) else 0


def lint(paths: Iterable[Path], settings: LintSettings) -> Linted:
    """Looks at files and, for folders, at all files below that are of a kind it reads."""
    findings: list[Finding] = []
    unreadable: list[NotRead] = []
    skipped: list[NotRead] = []
    files = 0
    for path, named in find_files(paths, settings.exclude):
        source = path if isinstance(path, NotRead) else read_source(path, named=named, known=settings.known)
        if source is None:
            continue
        files += 1
        found = source if isinstance(source, NotRead) else lint_source(source, settings)
        if isinstance(found, NotRead):
            (unreadable if named else skipped).append(found)
        else:
            findings += found
    return Linted(files, tuple(findings), tuple(unreadable), tuple(skipped))


def lint_source(source: Source, settings: LintSettings) -> list[Finding] | NotRead:
    """The findings of one text in the order of their places, each once."""
    try:
        with _deep_recursion():
            found = [finding for check in checks_of(source.kind) for finding in check(source)]
    except Unreadable as error:
        return NotRead(source.path, error.why, error.line)
    except RecursionError:
        return NotRead(source.path, "it is nested too deeply")
    kept = [one for one in found if one.rule.id not in settings.ignore]
    lines = source.text.split("\n")
    told = {
        replace(one, path=source.path, excerpt=lines[one.line - 1] if 0 < one.line <= len(lines) else "")
        for one in apply_ignores(source, kept)
    }
    return sorted(told, key=lambda one: (one.line, one.column, one.rule.id, one.message))


@contextmanager
def _deep_recursion() -> Iterator[None]:
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(max(before, _RECURSION))
    try:
        yield
    finally:
        sys.setrecursionlimit(before)
