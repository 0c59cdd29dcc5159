"""The exit code a job leaves with, whatever the code around it does with the stop.

Three ways lead out of a Python program, and each is watched: an exception that reaches the top, a normal end or
`sys.exit` (somebody may have swallowed the stop), and the deadline guard's `os._exit` (notices/board.py).
"""

import atexit
import os
import sys
import weakref
from collections.abc import Callable
from types import TracebackType
from typing import Any

# None: leave the exit code alone.
CodeNow = Callable[[], int | None]
OnCrash = Callable[[BaseException], None]


class ExitWatch:
    """Watches the end of this process on behalf of one job at a time."""

    def __init__(self) -> None:
        self.owner = os.getpid()
        self._code_now: CodeNow = lambda: None
        self._on_crash: OnCrash = lambda _: None
        sys.excepthook = _Hook(self, sys.excepthook)
        self._last = _LastObject()
        atexit.register(self._decide)

    def watch(self, code_now: CodeNow, on_crash: OnCrash) -> None:
        """From now on `code_now` says which code an unfinished job must leave with."""
        self._code_now, self._on_crash = code_now, on_crash

    def code_after(self, error: BaseException) -> int | None:
        """An exception has reached the top: the code to leave with, None to leave it alone."""
        if os.getpid() != self.owner:
            return None
        self._on_crash(error)
        return self._code_now()

    def _decide(self) -> None:
        """An atexit callback cannot change the exit code, and those registered before this one still have to run.

        So the code is only noted here; the last object to go leaves with it.
        """
        global _watch  # noqa: PLW0603 - see the next comment
        if os.getpid() == self.owner:
            self._last.code = self._code_now()
        # What the last object reaches lives as long as it does: this module must not lead to the user's state.
        _watch = None


class _Hook:
    """The excepthook: the traceback is shown as ever, then the code is set.

    Every thread keeps the hook that was there when it was made, and a daemon thread is never unwound. So the hook
    leads to the watch weakly: the last object must be able to go.
    """

    def __init__(self, watch: ExitWatch, earlier: Callable[..., Any]) -> None:
        self._watch, self._earlier = weakref.ref(watch), earlier

    def __call__(self, kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        """A SystemExit raised by an excepthook ends the interpreter with its code, atexit and all."""
        watch = self._watch()
        code = watch.code_after(error) if watch is not None else None
        self._earlier(kind, error, trace)
        if code is not None:
            raise SystemExit(code)


class _LastObject:
    """Goes with the interpreter itself: after atexit, after all modules and the files that they hold open.

    The interpreter keeps what is registered for forks until then. An object in a module, or in `sys`, goes before
    the globals of the program do, and what they have not written yet would be lost.
    """

    code: int | None = None

    def __init__(self) -> None:
        os.register_at_fork(after_in_child=self._forget)

    def _forget(self) -> None:
        self.code = None

    def __del__(self, leave: Callable[[int], None] = os._exit) -> None:
        if self.code is not None:
            leave(self.code)


_watch: ExitWatch | None = None


def exit_watch() -> ExitWatch:
    """The watch of this process; made at the first call, and anew in a forked child that has a job of its own."""
    global _watch  # noqa: PLW0603 - a process has one end
    if _watch is None or _watch.owner != os.getpid():
        _watch = ExitWatch()
    return _watch
