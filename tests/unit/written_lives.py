"""Journals written by hand: lives of attempts at moments of one's choice, in a store in memory."""

from dataclasses import dataclass, field

from outlast.checkpoint.history import TaskHistory, history_of
from outlast.checkpoint.places import TaskPlace
from outlast.events import (
    AttemptStarted,
    Event,
    Finished,
    LoopStarted,
    NoticeHeard,
    Restored,
    SaveCommitted,
    SaveStalled,
    SaveStarted,
    Stopped,
    to_line,
)
from outlast.ports import Store
from outlast.testing import FakeClock, MemoryStore

PLACE = TaskPlace("job", "run-1", 0)
NOON = 1_700_000_000.0


@dataclass
class Life:
    """One attempt's journal. `begin` and what follows move the clock, in seconds, before they write."""

    store: Store
    number: int
    clock: FakeClock
    machine: str = "m"
    step: int = 0
    extra: bytes = field(default=b"")

    def tell(self, event: Event, after: float = 0.0) -> "Life":
        self.clock.advance(after)
        self.store.append(PLACE.journal(self.number), to_line(event, self.clock))
        return self

    def begin(self, *, lived: float = 2.0, restore: float = 0.0, step: int = 0, then: float = 1.0) -> "Life":
        """A process that has lived for a while claims the run, restores, and reaches its loop `then` seconds later."""
        birth = 1000 + self.number
        started = AttemptStarted(
            self.number, "local", 10**6 + self.number, "host", None, None, self.machine, birth, lived
        )
        self.tell(started)
        if restore:
            self.tell(Restored(step, f"c{step}", restore, 100), restore)
        self.step = step
        return self.tell(LoopStarted(step, 100), then)

    def work(self, steps: int, seconds: float, *, save: bool = True, stall: float = 0.0) -> "Life":
        """So many steps in so many seconds, then a save for which the training waits."""
        self.clock.advance(seconds)
        self.step += steps
        if save:
            self.tell(SaveStarted(self.step))
            self.tell(SaveCommitted(self.step, f"c{self.step}", 100, stall or 0.5), stall)
            if stall:
                self.tell(SaveStalled(self.step, stall))
        return self

    def notice(self, grace: float = 30.0) -> "Life":
        return self.tell(NoticeHeard("SIGTERM", "asked to stop", grace))

    def stop(self, *, final: float = 1.0, lost: int = 0) -> "Life":
        return self.tell(Stopped(self.step, 143, "asked to stop", lost, final, not lost), final)

    def finish(self) -> "Life":
        return self.tell(Finished(self.step))


@dataclass
class Lives:
    """The attempts of one task."""

    store: Store = field(default_factory=MemoryStore)
    clock: FakeClock = field(default_factory=lambda: FakeClock(wall_seconds=NOON))
    count: int = 0

    def next(self, *, clock: FakeClock | None = None, machine: str = "m") -> Life:
        life = Life(self.store, self.count, clock or self.clock, machine)
        self.count += 1
        return life

    def history(self, *, later: float = 1e6) -> TaskHistory:
        """As somebody sees it so many seconds after the last line, on another machine."""
        return history_of(self.store, PLACE, now=lambda: self.clock.wall_seconds() + later)
