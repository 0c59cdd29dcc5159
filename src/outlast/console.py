"""outlast's own lines: plain on a terminal, JSON with a severity where logs are collected."""

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal

from outlast.errors import ExitingError

_LONGEST = 20_000

Severity = Literal["INFO", "NOTICE", "WARNING", "ERROR"]


def printable(text: str, *, longest: int = _LONGEST) -> str:
    """The text without what would steer a terminal, such as escape sequences or a reversed direction of writing.

    Names in a store and the words of exceptions may come from anybody. Such a character is shown as Python writes it;
    lines and tabs stay; what is longer than `longest` is cut.
    """
    shown = "".join(
        letter if letter.isprintable() or letter in "\n\t" else ascii(letter)[1:-1] for letter in text[:longest]
    )
    return shown if len(text) <= longest else f"{shown}…"


@dataclass(frozen=True, slots=True)
class Console:
    """Writes outlast's own lines to standard error; `as_json` where a platform collects logs."""

    as_json: bool = False
    rank: int | None = None  # of several processes that do the same: only the first one says what is no trouble

    def info(self, message: str) -> None:
        self._write("INFO", message)

    def notice(self, message: str) -> None:
        self._write("NOTICE", message)

    def warning(self, message: str) -> None:
        self._write("WARNING", message)

    def error(self, message: str) -> None:
        self._write("ERROR", message)

    def tell(self, error: ExitingError) -> None:
        """Writes an error that may leave the process with its own code, once."""
        if not error.told:
            error.told = True
            self.error(str(error))

    @contextmanager
    def telling(self) -> Iterator[None]:
        """Around what may raise an error that leaves the process: a SystemExit would show nothing at the top."""
        try:
            yield
        except ExitingError as error:
            self.tell(error)
            raise

    def _write(self, severity: Severity, message: str) -> None:
        if self.rank:
            if severity in ("INFO", "NOTICE"):
                return
            message = f"rank {self.rank}: {message}"
        if self.as_json:
            line = json.dumps({"severity": severity, "message": f"outlast: {message}"})
        else:
            mark = {"WARNING": "warning: ", "ERROR": "error: "}.get(severity, "")
            line = printable(f"outlast: {mark}{message}")
        try:
            sys.stderr.write(line + "\n")
            sys.stderr.flush()
        except (OSError, ValueError, AttributeError):
            pass  # nobody reads standard error any more; the journal still has the event
