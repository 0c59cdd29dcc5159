"""The exit code a job leaves with, whatever the code around it does with the stop.

Three ways lead out of a Python program, and each is watched: an exception that reaches the top, a normal end or
`sys.exit` (somebody may have swallowed the stop), and the deadline guard's `os._exit` (notices/board.py).
"""

import atexit
import os
import sys
import weakref
from collections.abc import Callable, Mapping
from contextlib import suppress
from types import TracebackType
from typing import Any

from outlast.events import append_event

# None: leave the exit code alone.
CodeNow = Callable[[], int | None]
OnCrash = Callable[[BaseException], None]


class ExitWatch:
    """Watches the end of this process on behalf of one job at a time, and of the workers beside it."""

    def __init__(self) -> None:
        self.owner = os.getpid()
        self._watched: list[tuple[CodeNow, OnCrash, bool]] = []
        sys.excepthook = _Hook(self, sys.excepthook)
        self._last = _LastObject()
        atexit.register(self._decide)

    def watch(self, code_now: CodeNow, on_crash: OnCrash, *, alone: bool = True) -> None:
        """From now on `code_now` says which code an unfinished job must leave with.

        Who is `alone` takes the place of the one that was before.
        """
        self._watched = [one for one in self._watched if not (alone and one[2])]
        self._watched.append((code_now, on_crash, alone))

    def unwatch(self, code_now: CodeNow) -> None:
        """Nothing of this one is left to be said."""
        self._watched = [one for one in self._watched if one[0] != code_now]

    def code_after(self, error: BaseException) -> int | None:
        """An exception has reached the top: the code to leave with, None to leave it alone."""
        if os.getpid() != self.owner:
            return None
        for _, on_crash, _ in self._watched:
            on_crash(error)
        return self._code_now()

    def _code_now(self) -> int | None:
        """The newest that has one to say."""
        codes = (code_now() for code_now, _, _ in reversed(self._watched))
        return next((code for code in codes if code is not None), None)

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


_RESTARTS = "TORCHELASTIC_RESTART_COUNT"  # torchrun starts all its workers again after the crash of one
CODES_FILE = "OUTLAST_CODES_FILE"  # from `outlast run`: where its processes say with which code they leave


def tell_code(env: Mapping[str, str], code: int) -> None:
    """The code that this process leaves with, for `outlast run`: a launcher in between may leave with its own."""
    path = env.get(CODES_FILE)
    if path:
        with suppress(OSError):
            append_event(path, f"{os.getpid()} {code} {env.get(_RESTARTS) or 0}\n".encode())


def call_at_exit(method: Callable[[], None]) -> None:
    """Has a method called when this process ends, if its object is still there; not in a forked child.

    Held weakly: what atexit leads to, the program's globals among it, is not finalized before the process ends.
    """
    atexit.register(_call_weakly, weakref.WeakMethod(method), os.getpid())


def _call_weakly(weak: "weakref.WeakMethod[Callable[[], None]]", owner: int) -> None:
    method = weak()
    if method is not None and os.getpid() == owner:
        method()


_watch: ExitWatch | None = None


def exit_watch() -> ExitWatch:
    """The watch of this process; made at the first call, and anew in a forked child that has a job of its own."""
    global _watch  # noqa: PLW0603 - a process has one end
    if _watch is None or _watch.owner != os.getpid():
        _watch = ExitWatch()
    return _watch
