"""What a batch script asks of Slurm: its #SBATCH lines, and the same options on a command line."""

import re
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from outlast.lint.rule import At

_SIGNAL = re.compile(r"^(?:(?P<who>[RB]{1,2}):)?(?:SIG)?(?P<signal>[A-Z]+[0-9]?|[0-9]+)(?:@(?P<seconds>\d+))?$")
_NUMBERS = {"10": "USR1", "12": "USR2", "15": "TERM", "2": "INT", "1": "HUP", "3": "QUIT"}
_HARMLESS = {"CONT", "CHLD", "URG", "WINCH", "18", "17", "23", "28"}
_GPU = ("--gres=gpu", "--gpus", "-G", "--gpus-per-node", "--gpus-per-task", "--gpus-per-socket")


@dataclass(frozen=True, slots=True)
class Option:
    """One option with its value, in the long form where it has one; `value` empty for a bare one."""

    name: str
    value: str
    place: At


@dataclass(frozen=True, slots=True)
class WarningSignal:
    """`--signal`: which one, and whether the batch shell gets it (`B:`) or the steps do."""

    name: str
    to_shell: bool
    place: At
    written: str


@dataclass(frozen=True, slots=True)
class Directives:
    """All options of one job."""

    options: tuple[Option, ...]

    def find(self, *names: str) -> Option | None:
        """The last of these options."""
        return next((one for one in reversed(self.options) if one.name in names), None)

    @property
    def wants_gpu(self) -> bool:
        """Whether it asks for a GPU."""
        return any(f"{one.name}={one.value}".startswith(_GPU) or one.name in _GPU for one in self.options)

    @property
    def signal(self) -> WarningSignal | None:
        """The warning signal, if one is asked for that has an effect."""
        found = self.find("--signal")
        parts = _SIGNAL.match(found.value.upper()) if found is not None else None
        if found is None or parts is None or parts["signal"] in _HARMLESS:
            return None
        name = _NUMBERS.get(parts["signal"], parts["signal"])
        return WarningSignal(name, "B" in (parts["who"] or ""), found.place, f"--signal={found.value}")


def directives_of(text: str) -> Directives | None:
    """Those of a batch script; None for a text without any. They end at the first command, as for sbatch."""
    found: list[Option] = []
    any_line = False
    for number, line in enumerate(text.split("\n"), 1):
        bare = line.strip()
        if bare and not bare.startswith("#"):
            break
        if line.startswith("#SBATCH"):
            any_line = True
            found += _options(_words(line[7:]), At(number))
    return Directives(tuple(found)) if any_line else None


def options_of(words: Sequence[str], place: At) -> Directives:
    """Those of a command line, up to the first word that is no option."""
    return Directives(tuple(_options(words, place)))


def _words(text: str) -> list[str]:
    try:
        return shlex.split(text, comments=True)
    except ValueError:
        return text.split()


def _options(words: Sequence[str], place: At) -> Iterator[Option]:
    position = 0
    while position < len(words):
        word = words[position]
        position += 1
        if not word.startswith("-"):
            continue
        name, equals, value = word.partition("=")
        if not equals and position < len(words) and not words[position].startswith("-"):
            value = words[position]
        yield Option(name, value, place)
