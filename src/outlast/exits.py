"""The exit code a job leaves with, whatever the code around it does with the stop.

Three ways lead out of a Python program, and each is watched: an exception that reaches the top, a normal end or
`sys.exit` (somebody may have swallowed the stop), and the deadline guard's `os._exit` (notices.py).
"""

import atexit
import os
import sys
from collections.abc import Callable
from types import TracebackType

# None: leave the exit code alone.
CodeNow = Callable[[], int | None]
OnCrash = Callable[[BaseException], None]


class ExitWatch:
    """Watches the end of this process on behalf of one job at a time."""

    def __init__(self) -> None:
        self._owner = os.getpid()
        self._code_now: CodeNow = lambda: None
        self._on_crash: OnCrash = lambda _: None
        self._earlier_hook = sys.excepthook
        sys.excepthook = self._top
        atexit.register(self._decide)

    def watch(self, code_now: CodeNow, on_crash: OnCrash) -> None:
        """From now on `code_now` says which code an unfinished job must leave with."""
        self._code_now, self._on_crash = code_now, on_crash

    def _top(self, kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        """The excepthook: the traceback is shown as ever, then the code is set.

        A SystemExit raised by an excepthook ends the interpreter with its code, atexit and all.
        """
        here = os.getpid() == self._owner
        if here:
            self._on_crash(error)
        self._earlier_hook(kind, error, trace)
        code = self._code_now() if here else None
        if code is not None:
            raise SystemExit(code)

    def _decide(self) -> None:
        """An atexit callback cannot change the exit code, and those registered before this one still have to run.

        So the code is only noted here; one of the last objects to go leaves with it.
        """
        code = self._code_now() if os.getpid() == self._owner else None
        if code is not None:
            setattr(sys, _LAST, _LastObject(code))


class _LastObject:
    """Leaves with its code when the interpreter clears `sys`, after atexit, the other modules and the streams' flush.

    Nothing but `sys` may refer to it: what modules refer to is part of cycles that nobody collects at that point.
    """

    def __init__(self, code: int) -> None:
        self.code = code

    def __del__(self, leave: Callable[[int], None] = os._exit) -> None:
        leave(self.code)


_LAST = "_outlast_last"


_watch: ExitWatch | None = None


def exit_watch() -> ExitWatch:
    """The watch of this process; made at the first call."""
    global _watch  # noqa: PLW0603 - a process has one end
    if _watch is None:
        _watch = ExitWatch()
    return _watch
