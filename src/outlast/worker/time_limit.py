"""The time limit of items: an exception in the code that takes too long, and an end for code that ignores it."""

import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

from outlast.clock import format_duration

_PATIENCE_SECONDS = 5.0


class TookTooLong(Exception):
    """Raised inside the user's function."""


class ItemTimeLimit:
    """Watches calls. `seconds` is per item; None: no limit. `on_overrun` is called, in a thread, as the last resort.

    In the main thread SIGALRM raises TookTooLong in the function, also in a sleep or a read; a handler that the program
    has for SIGALRM is left alone. What has not ended a moment later (5 s, or the limit where that is shorter) is beyond
    Python's reach: then `on_overrun` is called, and should not even that thread run, because the call holds the
    interpreter's lock, `on_limit` has told somebody else by when (on the monotonic clock, None when the call is over).
    """

    def __init__(
        self, seconds: float | None, on_overrun: Callable[[], None], on_limit: Callable[[float | None], None]
    ) -> None:
        self.seconds, self._on_overrun, self._on_limit = seconds, on_overrun, on_limit
        self._changed = threading.Condition()
        self._until: float | None = None
        self._alarms = self._closed = False
        if seconds is None:
            return
        is_main = threading.current_thread() is threading.main_thread()
        if is_main and signal.getsignal(signal.SIGALRM) is signal.SIG_DFL:
            signal.signal(signal.SIGALRM, _raise)
            self._alarms = True
        threading.Thread(target=self._watch, name="outlast-time-limit", daemon=True).start()

    @contextmanager
    def around(self, items: int) -> Iterator[None]:
        """A call over so many items; raises TookTooLong in it."""
        if self.seconds is None:
            yield
            return
        limit = min(self.seconds * items, threading.TIMEOUT_MAX)
        self._set(time.monotonic() + limit + (min(_PATIENCE_SECONDS, self.seconds) if self._alarms else 0.0))
        try:
            if self._alarms:
                signal.setitimer(signal.ITIMER_REAL, limit)
            try:
                yield
            finally:
                if self._alarms:
                    signal.setitimer(signal.ITIMER_REAL, 0.0)
        except TookTooLong:
            raise TookTooLong(self.reason) from None
        finally:
            self._set(None)

    @property
    def reason(self) -> str:
        """Why an item failed that took too long."""
        return f"it took longer than item_timeout={format_duration(self.seconds or 0.0)}"

    def close(self) -> None:
        """SIGALRM is as it was, and nobody watches any more."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        if self._alarms:
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
            self._alarms = False

    def _set(self, until: float | None) -> None:
        with self._changed:
            self._until = until
            self._changed.notify_all()
        self._on_limit(None if until is None else until + _PATIENCE_SECONDS)

    def _watch(self) -> None:
        """The last resort is taken under the lock: it is about the call that took too long, and no later one."""
        with self._changed:
            while not self._closed:
                left = None if self._until is None else self._until - time.monotonic()
                if left is not None and left <= 0:
                    self._until = None
                    self._on_overrun()
                else:
                    self._changed.wait(None if left is None else min(left, threading.TIMEOUT_MAX))


def _raise(_number: int, _frame: FrameType | None) -> None:
    raise TookTooLong
