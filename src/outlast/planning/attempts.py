"""What each attempt of a run was: the facts that estimates are made from, whoever collected them."""

from dataclasses import dataclass
from enum import StrEnum


class Ending(StrEnum):
    """How an attempt ended."""

    FINISHED = "finished"
    SAVED = "interrupted, saved in time"
    NOT_SAVED = "interrupted, not saved in time"
    UNWARNED = "interrupted without notice"
    CRASHED = "crashed by itself"
    RUNNING = "running"

    @property
    def is_interruption(self) -> bool:
        """Whether the platform took the machine away, with or without a notice."""
        return self in (Ending.SAVED, Ending.NOT_SAVED, Ending.UNWARNED)


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptFacts:
    """One attempt. Seconds.

    `exposure_seconds`: from its start to its end, to now if it runs. `stalls_seconds` and `persists_seconds`: of each
    periodic save that succeeded, how long the training stood still, and from then until it was durable (0 for a save
    that blocks). `final_saves_seconds`: of each save after a notice, from the notice until it was durable; those that
    were not in time are not among them, which `ending` tells. `restore_seconds`: from the start to the first new step
    where a checkpoint was restored, else None.
    """

    exposure_seconds: float
    ending: Ending
    stalls_seconds: tuple[float, ...] = ()
    persists_seconds: tuple[float, ...] = ()
    final_saves_seconds: tuple[float, ...] = ()
    restore_seconds: float | None = None
