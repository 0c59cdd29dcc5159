"""Signals, heard the moment they arrive: the C handler writes to a pipe that the loop waits on."""

import math
import os
import select
import signal
from collections.abc import Callable, Iterable
from types import FrameType, TracebackType
from typing import Self

PASSED_ON = (
    signal.SIGTERM,
    signal.SIGINT,
    signal.SIGHUP,
    signal.SIGQUIT,
    signal.SIGUSR1,
    signal.SIGUSR2,
    signal.SIGWINCH,
)
# SIGTSTP is left alone: Cloud Run sends it before it moves a task to another host, and a job that obeyed it
# would stand still. SIGCONT is heard because a shell's `fg` means a new owner of the terminal.
HEARD = (*PASSED_ON, signal.SIGCHLD, signal.SIGCONT)
_Handler = Callable[[int, FrameType | None], object] | int | None
_LONGEST_WAIT_SECONDS = 3600.0  # poll() takes milliseconds as a C int: 24 days would not fit
_NEVER_LEFT_IGNORED = frozenset({signal.SIGTERM, signal.SIGCHLD, signal.SIGCONT})


class SignalHearing:
    """A context in which this process hears signals instead of obeying them. For the main thread only."""

    def __init__(self) -> None:
        self._reader, self._writer = os.pipe()
        os.set_blocking(self._reader, False)
        os.set_blocking(self._writer, False)
        self._before: dict[int, _Handler] = {}
        self._wakeup_before = -1

    def __enter__(self) -> Self:
        self._wakeup_before = signal.set_wakeup_fd(self._writer, warn_on_full_buffer=False)
        for number in _heard_here():
            self._before[number] = signal.signal(number, _do_nothing)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, HEARD)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        for number, handler in self._before.items():
            signal.signal(number, signal.SIG_DFL if handler is None else handler)
        signal.set_wakeup_fd(self._wakeup_before)
        os.close(self._reader)
        os.close(self._writer)

    def listen(self, wait_seconds: float | None) -> list[int]:
        """See doors.Hearing."""
        poll = select.poll()
        poll.register(self._reader, select.POLLIN)
        # Rounded up: an alarm that fires a little early would make the loop spin until its time has come.
        poll.poll(None if wait_seconds is None else math.ceil(min(wait_seconds, _LONGEST_WAIT_SECONDS) * 1000))
        try:
            return list(os.read(self._reader, 4096))
        except BlockingIOError:
            return []


def _heard_here() -> Iterable[signal.Signals]:
    # What was ignored when we started stays ignored, for the command too: so do `nohup` and a shell's `&` ask for it.
    for number in HEARD:
        if number in _NEVER_LEFT_IGNORED or signal.getsignal(number) is not signal.SIG_IGN:
            yield number


def _do_nothing(number: int, frame: FrameType | None) -> None:
    """The pipe has the signal already."""
