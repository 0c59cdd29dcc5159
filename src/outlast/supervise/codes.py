"""The codes that jobs below the command say they leave with: a launcher in between may leave with its own.

torchrun leaves with 1 whatever its workers left with (torch.distributed.run of PyTorch 2.13, tried 2026-11-30). Open
MPI's mpirun leaves with the code of whichever rank was the first to leave, or with 137 where one was killed (4.1.4);
MPICH's with the bits of all codes together (4.0.2, both tried 2026-12-01).
"""

import operator
import os
import signal
import tempfile
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import reduce
from pathlib import Path

from outlast.errors import EXIT_HUMAN, EXIT_RETRY
from outlast.exits import CODES_FILE
from outlast.supervise.decisions import Ended

_OF_ANY_LAUNCHER = 1
_OF_A_KILLED_RANK = 128 + signal.SIGKILL
_LARGEST_BYTES = 1 << 20  # a launch of ten thousand ranks, several times over


@dataclass(frozen=True, slots=True)
class ToldCode:
    """A process left, or was about to leave, with this code. `restarts`: of its launcher, before it was started."""

    pid: int
    code: int
    restarts: int


class Codes:
    """The file that they are told in; without one (no folder can be written to) nothing is told."""

    def __init__(self) -> None:
        self._path: Path | None = None
        self._read = 0
        with suppress(OSError):
            handle, name = tempfile.mkstemp(prefix="outlast-codes-")
            os.close(handle)
            self._path = Path(name)

    def __enter__(self) -> "Codes":
        return self

    def __exit__(self, *_: object) -> None:
        if self._path is not None:
            self._path.unlink(missing_ok=True)

    def env(self, env: Mapping[str, str]) -> dict[str, str]:
        """The environment of the command. An outer supervisor hears it from this one's own code."""
        return {**env, CODES_FILE: str(self._path)} if self._path is not None else dict(env)

    def take(self) -> list[ToldCode]:
        """What was told since the last time."""
        if self._path is None:
            return []
        try:
            with self._path.open("rb") as file:
                file.seek(self._read)
                data = file.read(_LARGEST_BYTES)
        except OSError:
            return []
        self._read += len(data)
        lines = [line.split() for line in data.splitlines()]
        return [ToldCode(*map(int, words)) for words in lines if len(words) == 3 and _are_numbers(words)]


def _are_numbers(words: Sequence[bytes]) -> bool:
    return all(word.isdigit() and len(word) < 10 for word in words)


def as_told(ended: Ended, told: Sequence[ToldCode], *, command_pid: int, interrupted_exit_code: int) -> Ended:
    """How the command ended, with the code that the jobs below it mean where its own says nothing.

    Of several the gravest counts: a human is needed, a crash, a storage that failed, an interruption. What a launcher
    has answered by starting all of them again is over.
    """
    newest = max((one.restarts for one in told), default=0)
    codes = {one.code for one in told if one.restarts == newest}
    if not codes or any(one.pid == command_pid for one in told) or not _passes_on(ended, codes):
        return ended
    mild = {EXIT_RETRY, interrupted_exit_code, 0}
    for code in (EXIT_HUMAN, *sorted(codes - mild), EXIT_RETRY, interrupted_exit_code):
        if code in codes:
            return Ended(code, None, ended.timed_out, ended.asked_by_user)
    return ended


def _passes_on(ended: Ended, codes: Collection[int]) -> bool:
    """Whether that is what a launcher makes of these codes, and no code that the command has of its own."""
    if ended.signal_number is not None:  # the command itself was killed
        return False
    made_of_them = {*codes, reduce(operator.or_, codes), _OF_ANY_LAUNCHER, _OF_A_KILLED_RANK}
    return ended.code in made_of_them - {0}
