"""Whether a SIGTERM that the first process of a container gets reaches the program: as `outlast lint` judges it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from outlast.lint.command_line import CommandLine, Word
from outlast.lint.commands.entry import Entry, Hears, Surroundings, follow
from outlast.lint.commands.shells import sh_of_image

Verdict = Literal["hears", "deaf", "late", "unclear"]


@dataclass(frozen=True, slots=True)
class Judged:
    """What becomes of a SIGTERM, and why."""

    verdict: Verdict
    why: str


def entry_of(argv: Sequence[str], *, image: str) -> Entry:
    """What becomes of the words that an image starts; its name may tell which shell `sh` is there."""
    return follow([Word(one, 1, 1, one) for one in argv], Surroundings(sh=sh_of_image(image)))


def judge(entry: Entry) -> Judged:
    """What the program at the end of it hears."""
    if entry.hears is Hears.NO:
        return Judged("deaf", f"SIGTERM does not reach {entry.main_told}: {entry.why}")
    if entry.hears is Hears.SOME:
        return Judged("unclear", f"SIGTERM may not reach {entry.main_told}: {entry.why}")
    if entry.hears is Hears.UNKNOWN or not entry.main:
        return Judged("unclear", "it cannot be seen here which program gets SIGTERM")
    if entry.first is False or _is_outlast(entry.main):
        return Judged("hears", f"SIGTERM reaches {entry.main_told}")
    if (CommandLine(entry.main).program or "").startswith(("python", "pypy")):
        why = f"{entry.main_told} as first process ignores SIGTERM until a Job is made or a handler is set"
        return Judged("late", f"{why}: not while it loads")
    return Judged("unclear", f"what {entry.main_told} does with SIGTERM is not known here")


def _is_outlast(words: Sequence[Word]) -> bool:
    """`outlast work` hears from its first moment, as `outlast run` does, which passes it on."""
    return CommandLine(tuple(words)).program == "outlast" and [word.text for word in words[1:2]] == ["work"]
