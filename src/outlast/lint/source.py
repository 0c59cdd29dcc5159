"""A file, or a part of one in another language, as the checks get it: its text, its kind, and readings made once."""

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any, TypeVar, cast

from outlast.lint.known import Known

_Reading = TypeVar("_Reading")


class Kind(StrEnum):
    """The languages that are read."""

    YAML = "YAML"
    SHELL = "shell script"
    CONTAINERFILE = "Dockerfile"
    HCL = "Terraform"
    PYTHON = "Python"


class Unreadable(Exception):
    """A text that is not of its kind, or too large for a bounded look; `line` where that is known."""

    def __init__(self, why: str, line: int | None = None) -> None:
        super().__init__(why)
        self.why, self.line = why, line


@dataclass(frozen=True, slots=True)
class Source:
    """One text to check. `known`: what the user has told besides (sizes, limits, installed tools).

    Readings are made by `read(parser)`: each parser sees the text once, however many checks ask for it.
    """

    path: Path
    text: str
    kind: Kind
    known: Known = field(default_factory=Known)
    _readings: dict[object, object] = field(default_factory=dict, repr=False, compare=False)

    def read(self, parser: Callable[[str], _Reading]) -> _Reading:
        """What the parser makes of the text; raises Unreadable as often as it is asked when it cannot."""
        if parser not in self._readings:
            try:
                self._readings[parser] = parser(self.text)
            except Unreadable as error:
                self._readings[parser] = error
        made = self._readings[parser]
        if isinstance(made, Unreadable):
            raise made
        return cast(_Reading, cast(Any, made))
