"""The door to where platforms announce that they want a machine back: what a source says, and how it is asked."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, Protocol

from outlast.clock import Deadline

DisruptionKind = Literal["final", "advance", "advisory"]


@dataclass(frozen=True, slots=True)
class Disruption:
    """What a source says will happen to this process or to its machine.

    `key` tells it from others of the source. `kind`: "final", the platform has begun to end this process, and nothing
    takes that back; "advance", it will, unless the source stops saying so; "advisory", it is worth a record and
    stops nothing. `deadline` is when the process may be gone; None where that is unknown: the platform's grace counts.
    """

    key: str
    reason: str
    kind: DisruptionKind = "advance"
    deadline: Deadline | None = None


@dataclass(frozen=True, slots=True)
class Look:
    """What a source sees: all that stands now, and in how many seconds it wants to look again.

    What it saw before and does not see any more is revoked. `told`: variables that the environment might have set and
    that the source has found out, by which the grace is known better.
    """

    disruptions: tuple[Disruption, ...] = ()
    again_seconds: float = 0.0
    told: Mapping[str, str] = field(default_factory=dict)


class SourceUnavailable(Exception):
    """A source cannot be asked; the text says why, and what was seen before stands.

    `absent`: there is nothing of the kind here, so that asking seldom is enough. `told`: worth a line, once.
    """

    def __init__(self, why: str, *, absent: bool = False, told: bool = False) -> None:
        super().__init__(why)
        self.absent, self.told = absent, told


class NoticeSource(Protocol):
    """A place where a platform announces that it wants its machine back."""

    @property
    def name(self) -> str:
        """As in `PlatformFacts.notice_sources`, with the key that is watched where there are several."""
        ...

    def look(self) -> Look:
        """Asks once; may wait until something changes. Runs in a thread of its own; raises SourceUnavailable.

        The first one says what stands already.
        """
        ...
