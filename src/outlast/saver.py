"""A save under way: who takes part in it, and at which pace it is written beside the training."""

import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Protocol, TypeAlias

from outlast.checkpoint.attempt import Attempt, Superseded, Wishes
from outlast.checkpoint.places import CommitName
from outlast.clock import Clock
from outlast.errors import CheckpointCorrupt, StoreUnreachable

if TYPE_CHECKING:  # a single process loads nothing of what several say to each other
    from outlast.ranks.following import MemberAttempt

# How fast a save is written beside the training, unless there is a hurry: so that it takes little of the machine, and
# still ends soon.
_BACKGROUND_BYTES_PER_SECOND = 400e6
_BACKGROUND_SECONDS = 60.0
_LONGEST_BURST_SECONDS = 0.05

Mark = tuple[int, int, int]
# What a save is made of: an attempt, or the share that one of several processes has in it.
AnyAttempt: TypeAlias = "Attempt | MemberAttempt"
# How a save is read back: beside what follows; whole, before it counts; only looked at, since the process leaves; or as
# another process says.
Check = Literal["beside", "whole", "glance", "told"]


@dataclass(frozen=True, slots=True)
class Safe:
    """What nothing can take away any more: the last durable checkpoint, its progress, when its state was taken."""

    name: CommitName | None
    mark: Mark
    since: float


class Together(Protocol):
    """Other processes that save when this one does."""

    def ready(self) -> bool:
        """Whether all stand at this border; if not, they soon meet at one."""
        ...

    def order(self, *, beside: bool) -> None:
        """All save the state of this border."""
        ...


def said_of(error: BaseException) -> str:
    """The text of a failure."""
    expected = isinstance(error, StoreUnreachable | CheckpointCorrupt)
    return str(error) if expected else f"{type(error).__name__}: {error}"


class GivenUp(Exception):
    """The rest of the work is no longer wanted."""


class Speed:
    """The pace of one save of so many bytes: limited, and without a limit once told to hurry."""

    def __init__(self, size: int, clock: Clock) -> None:
        self._rate, self._clock = max(_BACKGROUND_BYTES_PER_SECOND, size / _BACKGROUND_SECONDS), clock
        self._hurry, self._lock = threading.Event(), threading.Lock()
        self._unwanted = False
        self._free_at = self.last_moved_at = self._waited_until = clock.monotonic_seconds()
        self.waited_seconds = 0.0  # for the rate, by one thread at least

    def hurry(self) -> None:
        """No limit from now on."""
        self._hurry.set()

    def give_up(self) -> None:
        """No limit from now on, and what goes at `pace_or_give_up` is not wanted any more."""
        self._unwanted = True
        self.hurry()

    def pace_or_give_up(self, moved: int) -> None:
        """The same as `pace`; raises GivenUp once the work is not wanted any more."""
        self.pace(moved)
        if self._unwanted:
            raise GivenUp

    def pace(self, moved: int) -> None:
        """Waits as long as the rate asks for before so many bytes are moved; see ports.Pace."""
        now = self._clock.monotonic_seconds()
        self.last_moved_at = now
        if self._hurry.is_set():
            return
        with self._lock:
            wait = self._free_at - now
            self._free_at = max(now - _LONGEST_BURST_SECONDS, self._free_at) + moved / self._rate
        if wait > 0:
            self._hurry.wait(wait)
            self._note_waited(now)

    def _note_waited(self, since: float) -> None:
        with self._lock:
            now = self._clock.monotonic_seconds()
            self.waited_seconds += max(0.0, now - max(since, self._waited_until))
            self._waited_until = max(self._waited_until, now)


@dataclass(slots=True)
class Flight:
    """A save under way beside the training: written there, or only read back there.

    `committed` is set once it is durable; `reading` while that is read back, and nothing is done about it yet; `error`
    and `superseded` when it has ended badly; `ended_at` when it has ended. Nobody cares for one that was `left`.
    """

    step: int
    mark: Mark
    wishes: Wishes
    speed: Speed
    taken_at: float
    stall_seconds: float
    written_beside: bool
    ended_at: float = 0.0
    committed: bool = False
    reading: bool = False
    left: bool = False
    error: str | None = None
    superseded: Superseded | None = None
    postponed: bool = False

    def has_read(self) -> None:
        """What is to be read back was; from here on things are changed."""
        self.reading = False
