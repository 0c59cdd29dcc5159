"""What a platform does at which moment: it is done once the moment has come and somebody looks or waits."""

import asyncio
import math
import threading
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from outlast.clock import Clock, SystemClock
from outlast.emulate.scale import TimeScale

_LOOK_SECONDS = 1.0  # how long a wait goes on at most before it is asked whether the client is still there
REAL_TIME = TimeScale()
SYSTEM_CLOCK = SystemClock()


@dataclass(eq=False, slots=True)
class Planned:
    """Something that will happen, unless it is called off."""

    at: float  # monotonic seconds
    action: Callable[[], None]
    off: bool = False

    def call_off(self) -> None:
        """Makes nothing of it happen any more."""
        self.off = True


class Timeline:
    """The changes of one emulated machine, from any thread; without a thread of its own.

    Documented times are in seconds of the platform, and pass as `scale` says.
    """

    def __init__(self, *, scale: TimeScale = REAL_TIME, clock: Clock = SYSTEM_CLOCK) -> None:
        self.scale, self._clock = scale, clock
        self.lock = threading.RLock()
        self._planned: list[Planned] = []
        self._waiting: set[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = set()
        self._closed = False

    def now(self) -> float:
        """Monotonic seconds here."""
        return self._clock.monotonic_seconds()

    def moment_in(self, documented_seconds: float) -> datetime:
        """When a documented time from now is over, on this machine's wall clock, in UTC."""
        here = datetime.fromtimestamp(self._clock.wall_seconds(), UTC)
        return here + timedelta(seconds=self.scale.here(documented_seconds))

    def after(self, documented_seconds: float, action: Callable[[], None]) -> Planned:
        """Plans `action`, which runs with the lock held. Raises ValueError for a time below 0 or not finite."""
        if not 0 <= documented_seconds < math.inf:
            raise ValueError(f"a time from now is 0 s or more, not {documented_seconds}")
        planned = Planned(self.now() + self.scale.here(documented_seconds), action)
        with self.lock:
            self._planned.append(planned)
        self.changed()  # who waits looks anew at what comes next
        return planned

    def catch_up(self) -> None:
        """Does everything that is due, the earliest first."""
        while True:
            with self.lock:
                due = [one for one in self._planned if one.off or one.at <= self.now()]
                if not due:
                    return
                first = min(due, key=lambda one: one.at)
                self._planned.remove(first)
                if not first.off:
                    first.action()
            self.changed()

    def changed(self) -> None:
        """Wakes everybody who waits for a change."""
        with self.lock:
            waiting = list(self._waiting)
        for loop, event in waiting:
            loop.call_soon_threadsafe(event.set)

    def close(self) -> None:
        """Lets nobody wait any longer."""
        self._closed = True
        self.changed()

    async def wait(
        self, ready: Callable[[], bool], seconds: float, gone: Callable[[], Awaitable[bool]] | None = None
    ) -> None:
        """Returns once `ready`, or after `seconds` here, or when the client is `gone`."""
        until = self.now() + seconds
        entry = (asyncio.get_running_loop(), asyncio.Event())
        with self.lock:
            self._waiting.add(entry)
        try:
            while not self._closed:
                entry[1].clear()
                self.catch_up()
                left = until - self.now()
                if ready() or left <= 0 or (gone is not None and await gone()):
                    return
                await _set_within(entry[1], min(left, _LOOK_SECONDS, self._next_in()))
        finally:
            with self.lock:
                self._waiting.discard(entry)

    def _next_in(self) -> float:
        with self.lock:
            return max(0.0, min((one.at for one in self._planned), default=math.inf) - self.now())


async def _set_within(event: asyncio.Event, seconds: float) -> None:
    try:
        await asyncio.wait_for(event.wait(), seconds)
    except TimeoutError:
        return
