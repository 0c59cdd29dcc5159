"""What a session and its company need of each other."""

from collections.abc import Callable
from dataclasses import replace
from typing import NoReturn, Protocol

from outlast.exits import tell_code
from outlast.notices import Notice, NoticeBoard
from outlast.options import Options
from outlast.ports import Identity
from outlast.ranks.fate import Fate
from outlast.ranks.world import World
from outlast.saves import Saves
from outlast.settings import Surroundings
from outlast.state.parts import Progress
from outlast.state.randomness import RandomState


class Wakeful(Protocol):
    """What hears other ranks, in their threads."""

    def save_wished(self, pinned: bool) -> None:
        """The program of another rank has called job.save()."""
        ...

    def stranded(self, fate: Fate) -> None:
        """The process ends now: a rank has left, and the step under way may never end without it."""
        ...


class Host(Protocol):
    """The session, as its company sees it; for the loop's thread."""

    saves: Saves
    board: NoticeBoard
    options: Options
    progress: Progress

    @property
    def hearing(self) -> Wakeful: ...

    held_random: RandomState | None

    def decide(self) -> None:
        """What is to be done at this border."""
        ...

    def save_now(self) -> str | None:
        """Saves; the text of a failure."""
        ...

    def leave_as_told(self, code: int, reason: str) -> NoReturn:
        """All leave at this border. Raises Interrupted."""
        ...

    def part_ways(self, fate: Fate) -> NoReturn:
        """A rank has left, and nothing can be done together any more. Raises Interrupted."""
        ...


class Company(Protocol):
    """Whom this process trains with."""

    def border(self) -> None:
        """One border of the loop."""
        ...

    def check(self) -> None:
        """Outside of borders: whether all are still there; else the host parts ways."""
        ...

    def ready(self) -> bool:
        """Whether whatever is decided now is done by all; if not, they soon meet at a border where it is."""
        ...

    def ask(self, *, pinned: bool) -> None:
        """The program asks for a save at the coming border."""
        ...

    def save(self) -> str | None:
        """Saves now, outside of the loop; the text of a failure."""
        ...

    def finish(self, finish: Callable[[], None]) -> None:
        """The loop is done: `finish` makes that durable, on the rank that does so."""
        ...

    def ended(self) -> None:
        """The run is finished: whoever leaves from here on is no matter to the others."""
        ...

    def hear(self, notice: Notice | None, *, acts: bool) -> None:
        """A notice that came, has changed or (None) was revoked. `acts`: nothing is trained through."""
        ...

    def blame(self) -> Fate | None:
        """After an exception: whether another rank has left, and so brought it about. May wait a second."""
        ...

    def leave(self, code: int, reason: str) -> None:
        """At a border where something may be decided for all: all leave."""
        ...

    def part(self, how: str, code: int, reason: str) -> None:
        """This process leaves; see ranks.messages.Gone."""
        ...


def farewell(around: Surroundings, how: str, code: int) -> None:
    """A code for `outlast run`; what the program's own is, nobody knows."""
    if how not in ("left", "finished"):
        tell_code(around.env, code)


def around_in(around: Surroundings, world: World | None) -> Surroundings:
    """The surroundings of one of several processes. Where these are the tasks of the platform, the job is one task."""
    if world is None:
        return around
    identity = around.identity
    if around.facts.container_per_attempt and world.spans_tasks(identity.tasks):
        identity = Identity(job=identity.job, execution=identity.execution, attempt=identity.attempt)
    return replace(around, rank=world.rank, identity=identity)
