"""A rule: what is wrong, why, what to do, and who says so; and a finding of it at one place."""

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Protocol


class Severity(StrEnum):
    """How bad: an error will lose work or be refused, a warning may, and information is worth a look."""

    ERROR = "error"
    WARNING = "warning"
    INFO = "info"


ERROR, WARNING, INFO = Severity


class Place(Protocol):
    """What a finding can point at: a node of YAML, a word of a command, a statement. Lines and columns start at 1."""

    @property
    def line(self) -> int: ...

    @property
    def column(self) -> int: ...


@dataclass(frozen=True, slots=True)
class At:
    """A bare place."""

    line: int
    column: int = 1


@dataclass(frozen=True, slots=True)
class Finding:
    """One place where a rule is broken. `path` and `excerpt` (the source line) are added where the file is known."""

    rule: "Rule"
    severity: Severity
    line: int
    column: int
    message: str
    fix: str
    path: Path = Path()
    excerpt: str = ""


@dataclass(frozen=True, slots=True)
class Rule:
    """What a check looks for. `source` says where the fact behind it stands, with its date.

    `id` is what ignores and `outlast explain` name. A rule may cover several conditions of one kind; each finding's
    message says which. `severity` is the usual one; a finding may be graver or milder, and says why in its message.
    """

    id: str
    severity: Severity
    title: str
    why: str
    fix: str
    source: str

    @property
    def family(self) -> str:
        """The letters that its id begins with."""
        return self.id.rstrip("0123456789")

    def at(self, place: Place, message: str, *, severity: Severity | None = None, fix: str | None = None) -> Finding:
        """A finding at a place. `message` tells this case, with its values; `fix` where the rule's is too general."""
        return Finding(self, severity or self.severity, place.line, place.column, message, fix or self.fix)
