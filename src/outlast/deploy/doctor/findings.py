"""One finding of the doctor: what was looked at, how it is, why, and the command that mends it."""

import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

State = Literal["ok", "bad", "unknown"]


@dataclass(frozen=True, slots=True)
class Finding:
    """`why` tells in a sentence; `mend` is a command line for a shell, None where nothing is to be mended."""

    check: str
    state: State
    why: str
    mend: str | None = None


def ok(check: str, why: str) -> Finding:
    """It is as it has to be."""
    return Finding(check, "ok", why)


def bad(check: str, why: str, mend: str) -> Finding:
    """It would fail, or not survive."""
    return Finding(check, "bad", why, mend)


def unknown(check: str, why: str, mend: str | None = None) -> Finding:
    """Nobody can say from here."""
    return Finding(check, "unknown", why, mend)


def command(*words: str) -> str:
    """A command line that a shell takes apart again as it was."""
    return shlex.join(words)


def commands(lines: Iterable[str]) -> str:
    """Several, of which each needs the one before."""
    return " && ".join(lines)


def listed(names: Sequence[str]) -> str:
    """`a, b and c`."""
    return " and ".join(filter(None, [", ".join(names[:-1]), *names[-1:]]))
