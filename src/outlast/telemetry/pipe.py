"""Carries events to monitoring systems, in a thread of its own: whoever tells one waits for nothing.

Only numbers that were summed up are sent, so a collector that is away for an hour costs nothing but that hour's curve.
"""

import os
import threading
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from outlast.clock import Clock
from outlast.console import Console
from outlast.errors import SettingsError
from outlast.events import Crashed, Event, Failed, Finished, Left, Logged, NoticeHeard, Recorded, Stopped
from outlast.exits import call_at_exit
from outlast.metering import THREAD, Exporter, Point, Span

_URGENT = (NoticeHeard, Stopped, Crashed, Failed, Finished, Left)  # what a process tells that may be gone soon
_MOST_EVENTS, _MOST_SPANS = 20_000, 2_000  # waiting
_GATHER_SECONDS = 0.02
# How long the end of the process waits for the last numbers: of what a notice leaves only a share.
_LAST_SECONDS, _SHARE_OF_NOTICE = 5.0, 0.1
_PATIENCE_SECONDS = 2.0  # a push that takes longer is waited for no more


class Measured(Protocol):
    """What makes numbers and spans of events."""

    def hear(self, recorded: Recorded) -> Sequence[Span]:
        """One more event; the spans that it ends."""
        ...

    def points(self) -> Sequence[Point]:
        """The numbers now."""
        ...

    def last_spans(self) -> Sequence[Span]:
        """At the end of the process: what is left to be told."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """How often numbers are sent, and how long before a notice's deadline the process is gone. Seconds."""

    every: float
    margin: float


class Telemetry:
    """The telemetry of one job or worker. `open_exporter` is called in its thread: it may import for long.

    It raises OSError or ValueError, with words for people, where nothing can be sent.
    """

    def __init__(
        self,
        measured: Measured,
        open_exporter: Callable[[], Exporter | None],
        *,
        clock: Clock,
        console: Console,
        pace: Pace,
    ) -> None:
        self._measured, self._open, self._clock, self._console, self._pace = (
            measured, open_exporter, clock, console, pace
        )  # fmt: skip
        self._events: deque[Recorded] = deque(maxlen=_MOST_EVENTS)
        self._spans: deque[Span] = deque(maxlen=_MOST_SPANS)
        self._lock = threading.Lock()  # of what is measured
        self._wake, self._done = threading.Event(), threading.Event()
        self._owner, self._closing = os.getpid(), False
        self._deadline: float | None = None
        self._pushing_since: float | None = None
        self._failed = self._warned = False
        call_at_exit(self.close)
        threading.Thread(target=self._serve, name=THREAD, daemon=True).start()

    def hear(self, event: Event) -> None:
        """One more event, from any thread; takes some microseconds."""
        if isinstance(event, Logged) or os.getpid() != self._owner:
            return
        self._events.append(Recorded(event, self._clock.wall_seconds(), self._clock.monotonic_seconds()))
        if isinstance(event, NoticeHeard):
            self._deadline = self._clock.monotonic_seconds() + event.grace_seconds
        if isinstance(event, _URGENT):
            self._wake.set()

    def read(self) -> Sequence[Point]:
        """The numbers now; for a Prometheus that asks."""
        with self._lock:
            self._take()
            return self._measured.points()

    def close(self) -> None:
        """The process, or the worker, ends: the last numbers are sent, if that takes no time that others need."""
        if os.getpid() != self._owner or self._closing:
            return
        self._closing = True
        self._wake.set()
        wait_until = self._clock.monotonic_seconds() + self._last_seconds()
        while not self._done.wait(0.02):
            now, since = self._clock.monotonic_seconds(), self._pushing_since
            hangs = since is not None and now - since > _PATIENCE_SECONDS
            if now >= wait_until or hangs or self._failed:
                return

    def _last_seconds(self) -> float:
        if self._deadline is None:
            return _LAST_SECONDS
        left = self._deadline - self._pace.margin - self._clock.monotonic_seconds()
        return min(_LAST_SECONDS, max(0.0, _SHARE_OF_NOTICE * left))

    # --- the thread -----------------------------------------------------------------------------------

    def _serve(self) -> None:
        try:
            exporter = self._open()
            while True:
                closing = self._closing
                self._push(exporter, last=closing)
                if closing:
                    break
                self._wake.wait(self._pace.every)
                self._done.wait(_GATHER_SECONDS)  # what comes with it goes along
                self._wake.clear()
        except (OSError, ValueError, SettingsError) as error:
            self._warn(str(error))
        finally:
            self._done.set()

    def _push(self, exporter: Exporter | None, *, last: bool) -> None:
        with self._lock:
            self._take()
            if last:
                self._spans.extend(self._measured.last_spans())
            points, spans = self._measured.points(), list(self._spans)
        if exporter is None:  # there is but the port, where somebody may ask
            self._spans.clear()
            return
        self._pushing_since = self._clock.monotonic_seconds()
        error = exporter.push(points, spans)
        self._pushing_since = None
        self._failed = error is not None
        if error is None:
            told = {one.key for one in spans}
            with self._lock:
                self._spans = deque((one for one in self._spans if one.key not in told), maxlen=_MOST_SPANS)
        else:
            self._warn(error)

    def _take(self) -> None:
        """Makes numbers of the events that wait."""
        while self._events:
            self._spans.extend(self._measured.hear(self._events.popleft()))

    def _warn(self, error: str) -> None:
        if not self._warned:
            self._warned = True
            self._console.warning(f"telemetry is not being sent: {error}. The job goes on; this is said once")
