"""Which code to leave with, whether to try again and after how long: rules only, no clock and no process."""

import os
import signal
from dataclasses import dataclass

from outlast.errors import EXIT_HUMAN, EXIT_RETRY

EXIT_NOT_EXECUTABLE = 126
EXIT_NOT_FOUND = 127
EXIT_TERMINATED = 128 + signal.SIGTERM
_EXIT_USER_CANCELLED = 128 + signal.SIGINT
# A terminal's keys and its closing: whoever sent one of these does not want another attempt.
USER_SIGNALS = frozenset({signal.SIGINT, signal.SIGQUIT, signal.SIGHUP})
_HIGHEST_SIGNAL = 64

_STORAGE_PAUSE_SECONDS = 5.0
_LONGEST_PAUSE_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class Ended:
    """How one attempt ended. `code` is 128+n for a death by signal n, as shells have it."""

    code: int
    signal_number: int | None = None
    timed_out: bool = False
    asked_by_user: bool = False  # the supervisor passed a SIGINT on

    @classmethod
    def from_wait_status(cls, status: int, *, timed_out: bool, asked_by_user: bool) -> "Ended":
        """From what waitpid reported."""
        code = os.waitstatus_to_exitcode(status)
        if code < 0:
            return cls(128 - code, -code, timed_out, asked_by_user)
        return cls(code, None, timed_out, asked_by_user)

    @property
    def failed(self) -> bool:
        """An attempt that was stopped by its timeout has failed, even if it left with 0: work may be left."""
        return self.code != 0 or self.timed_out

    @property
    def cancelled(self) -> bool:
        """Whether a user, not a fault, ended it."""
        by_signal = self.signal_number in USER_SIGNALS or self.code == _EXIT_USER_CANCELLED
        return by_signal or (self.asked_by_user and self.failed)

    @property
    def torn_away(self) -> bool:
        """Whether it was interrupted or killed, rather than failing by itself (a shell reports 128+n too)."""
        return 128 < self.code <= 128 + _HIGHEST_SIGNAL

    def __str__(self) -> str:
        if self.signal_number is None:
            how = f"ended with exit code {self.code}"
        else:
            how = f"was killed by {signal_name(self.signal_number)}"
        return f"{how} at its timeout" if self.timed_out else how


def leaving_code(ended: Ended, *, noticed: bool, interrupted_exit_code: int) -> int:
    """The supervisor's exit code after the last attempt."""
    if noticed:
        # 0 says that the work is done, 75 and 78 what is wrong; all else only says that it was cut off.
        return ended.code if ended.code in (0, EXIT_RETRY, EXIT_HUMAN) else interrupted_exit_code
    if ended.timed_out and ended.code == 0:
        return EXIT_TERMINATED
    return ended.code


def is_retried(ended: Ended, *, noticed: bool) -> bool:
    """Whether another attempt makes sense, if there are retries left."""
    return ended.failed and not noticed and not ended.cancelled and ended.code != EXIT_HUMAN


def is_plain_failure(ended: Ended) -> bool:
    """Whether the command failed by itself, so that the next attempt may fail in the same way."""
    return ended.failed and not ended.torn_away and not ended.timed_out and ended.code != EXIT_RETRY


def pause_seconds(ended: Ended, *, plain_failures: int) -> float:
    """How long to wait before the next attempt; `plain_failures` in a row, this one included.

    An attempt that was torn away starts again at once, an unreachable storage gets 5 s, and a command that fails
    by itself 0, 1, 2, 4 … 30 s.
    """
    if ended.code == EXIT_RETRY:
        return _STORAGE_PAUSE_SECONDS
    if not is_plain_failure(ended) or plain_failures < 2:
        return 0.0
    doublings = min(plain_failures - 2, 10)  # far past the longest pause
    return min(_LONGEST_PAUSE_SECONDS, float(2**doublings))


def signal_name(number: int) -> str:
    """`SIGTERM` for 15; real-time signals have numbers only."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
