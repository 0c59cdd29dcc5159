"""What both roles share: the gate at the borders, what the others' leaving means, the guard of a stranded process."""

import os
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from weakref import WeakMethod

from outlast.ranks.agreement import Gate
from outlast.ranks.fate import Fate, Parted, fate_after, fate_of_unequal, graver
from outlast.ranks.messages import Gone
from outlast.ranks.world import World
from outlast.threads import nothing

# How long a process that may be stranded has to come to a border, and then for its words of farewell.
PATIENCE_SECONDS = 5.0
_FAREWELL_SECONDS = 5.0
_LOOK_SECONDS = 0.05

OnStranded = Callable[[Fate], None]


class Bond:
    """One process's tie to the others. `changed` is around all of it; the threads here are never unwound, so what leads
    to the program is held weakly."""

    def __init__(self, world: World, interrupted_code: int, on_stranded: OnStranded) -> None:
        self.world = world
        self.changed = threading.Condition()
        self.gate = Gate()
        self.fate: Fate | None = None
        self.parted: dict[int, Gone] = {}
        self.over = False  # this process has done all it had to do together with the others
        self._code, self._on_stranded = interrupted_code, WeakMethod(on_stranded)
        self._owner = os.getpid()
        for work, name in ((self._guard, "guard"), (self._backstop, "backstop")):
            threading.Thread(target=work, name=f"outlast-ranks-{name}", daemon=True).start()

    def part_with(self, gone: Gone) -> bool:
        """A rank has left; whether that is news."""
        with self.changed:
            if gone.rank in self.parted:
                return False
            self.parted[gone.rank] = gone
            self.fate = graver(self.fate, fate_after(gone, self._code))
            self.changed.notify_all()
        return True

    def lose(self, rank: int, why: str) -> Gone | None:
        """The connection to a rank has ended; what to tell the others, None where it had said good-bye."""
        gone = Gone(rank, "lost", self._code, why)
        return gone if self.part_with(gone) else None

    def end(self) -> None:
        """Nothing is done together any more: whoever leaves now strands nobody here."""
        with self.changed:
            self.over = True
            self.changed.notify_all()

    def wait(self, ready: Callable[[], bool], meanwhile: Callable[[], None] = nothing) -> None:
        """With `changed` held: until that is so. Raises Parted when a rank has left, and what `meanwhile` raises."""
        while not ready():
            fate = self.fate or self._done_without_this
            if fate is not None:
                raise Parted(fate)
            self.changed.wait(_LOOK_SECONDS)
            meanwhile()

    @property
    def _done_without_this(self) -> Fate | None:
        """A rank has finished, and there is something left here that it would have to take part in."""
        done = [rank for rank, gone in self.parted.items() if gone.how == "finished"]
        return fate_of_unequal(done[0]) if done else None

    def await_fate(self, seconds: float) -> Fate | None:
        """What has become of the others, if that is known within so long."""
        with self.changed:
            self.changed.wait_for(lambda: self.fate is not None or self.over, seconds)
            return None if self.over else self.fate

    def check(self) -> None:
        """Raises Parted when a rank has left."""
        if self.fate is not None and not self.over:
            raise Parted(self.fate)

    def _wait_until_stranded(self) -> Fate:
        with self.changed:
            while self.fate is None or not self.fate.strands or self.over:
                self.changed.wait()
            return self.fate

    def _guard(self) -> None:
        fate = self._wait_until_stranded()
        time.sleep(PATIENCE_SECONDS)
        if self.over or os.getpid() != self._owner:
            return
        try:
            method = self._on_stranded()
            if method is not None:
                method(fate)
            for stream in (sys.stdout, sys.stderr):
                with suppress(OSError, ValueError, AttributeError):
                    stream.flush()
        finally:
            os._exit(fate.code)

    def _backstop(self) -> None:
        """Where the guard is held up, by a pipe that nobody reads or a storage that hangs."""
        fate = self._wait_until_stranded()
        time.sleep(PATIENCE_SECONDS + _FAREWELL_SECONDS)
        if not self.over and os.getpid() == self._owner:
            os._exit(fate.code)
