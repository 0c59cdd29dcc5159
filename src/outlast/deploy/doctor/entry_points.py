"""Whether a SIGTERM that the first process of a container gets reaches the program.

What shells do (2026-11-29, tried): bash execs the last simple command of `-c`; dash, the sh of Debian and Ubuntu, never
does, and neither lets a signal through to what runs in the foreground.
"""

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Literal

Verdict = Literal["hears", "deaf", "late", "unclear"]

# First processes that pass signals on, and end with their child.
_INITS = {"tini", "tini-static", "dumb-init", "catatonit", "pause", "docker-init"}
_SHELLS = {"sh", "dash", "ash", "bash", "zsh", "ksh"}
_PYTHONS = ("python", "pypy")
_WRAPPERS = {"env", "nice", "nohup", "stdbuf", "time", "chrt", "ionice", "setpriv", "numactl", "taskset"}
_OPERATORS = {";", "&&", "||", "|", "&", "(", ")", "{", "}", "<", ">"}


@dataclass(frozen=True, slots=True)
class Judged:
    """What becomes of a SIGTERM, and why."""

    verdict: Verdict
    why: str


def judge(argv: Sequence[str]) -> Judged:
    """What a container's first process does with SIGTERM."""
    if not argv:
        return Judged("unclear", "no command is known")
    name, rest = PurePosixPath(argv[0]).name, list(argv[1:])
    if name in _WRAPPERS:
        return judge(_after_options(rest))
    if name in _SHELLS:
        return _shell(name, rest)
    return _program(name, rest)


def _program(name: str, rest: list[str]) -> Judged:
    if name == "outlast" and rest[:1] in (["run"], ["work"]):
        return Judged("hears", f"`outlast {rest[0]}` hears SIGTERM from its first moment")
    if name in _INITS:
        return Judged("hears", f"{name} passes SIGTERM on")
    if name.startswith(_PYTHONS):
        why = f"{name} as first process ignores SIGTERM until a Job is made or a handler is set: not while it loads"
        return Judged("late", why)
    return Judged("unclear", f"what {name} does with SIGTERM is not known here")


def _after_options(words: list[str]) -> list[str]:
    """What a wrapper starts: behind its options, their numbers, and variables."""
    for place, word in enumerate(words):
        if not word.startswith("-") and "=" not in word and not word.isdigit():
            return words[place:]
    return []


def _shell(name: str, rest: list[str]) -> Judged:
    """`sh -c SCRIPT`, or `sh FILE`, of which only the first can be read here."""
    place = next((n for n, word in enumerate(rest) if word.startswith("-") and word.endswith("c")), None)
    if place is None or len(rest) <= place + 1:
        file = next((word for word in rest if not word.startswith("-")), "a script")
        return Judged(
            "unclear", f"{name} runs {file}: SIGTERM reaches the program only if its last line is `exec` of it"
        )
    words = _words(rest[place + 1])
    if words is None:
        return Judged("unclear", f"the script of {name} -c cannot be taken apart here")
    last = _last_command(words)
    if last[:1] == ["exec"]:
        return judge([word for word in last[1:] if word != "--"])
    if name == "bash" and last and "|" not in words and "&" not in words:
        return judge(last)
    return Judged("deaf", f"{name} is the first process and keeps SIGTERM for itself; the program hears nothing")


def _words(script: str) -> list[str] | None:
    try:
        return list(shlex.shlex(script, posix=True, punctuation_chars=True))
    except ValueError:
        return None


def _last_command(words: list[str]) -> list[str]:
    """The words behind the last operator; none where the script ends with one."""
    ends = [place for place, word in enumerate(words) if word and set(word) <= set("".join(_OPERATORS))]
    return words[ends[-1] + 1 :] if ends else words
