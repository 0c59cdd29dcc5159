"""What a timeline shows, as data: attempts with their notices, saves and lost work, whoever saw them."""

from dataclasses import dataclass
from typing import Literal

from outlast.checkpoint.goodput import Buckets

End = Literal["finished", "left", "killed", "failed", "running"]


@dataclass(frozen=True, slots=True)
class Span:
    """A piece of time."""

    start: float
    end: float

    @property
    def seconds(self) -> float:
        return max(0.0, self.end - self.start)


@dataclass(frozen=True, slots=True, kw_only=True)
class Save:
    """A save from its begin until it was durable, or until it failed or was cut off. `step` None: not known."""

    span: Span
    durable: bool
    step: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NoticeGiven:
    """A notice: when it came, when the program heard it, and when it kills. None where that is not known."""

    at: float
    heard_at: float | None = None
    kill_at: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptLine:
    """One attempt. `end`: it finished, left by itself on a notice, was killed, failed by itself, or runs.

    `ended_by` says the same in words; `met` what happened to it, in the platform's. `work_from`: when its first step
    began. `lost`: work that was done again, or has to be. `unsaved`: work after the last save that was seen, where
    nobody can say whether it was lost. `buckets`: where its time went, by its own account and so without the leaving
    after a stop; None where it gives none.
    """

    number: int
    span: Span
    end: End
    ended_by: str
    met: tuple[str, ...] = ()
    work_from: float | None = None
    from_step: int | None = None
    reached_step: int | None = None
    saves: tuple[Save, ...] = ()
    notices: tuple[NoticeGiven, ...] = ()
    lost: Span | None = None
    unsaved: Span | None = None
    buckets: Buckets | None = None


@dataclass(frozen=True, slots=True)
class Timeline:
    """Attempts on one clock: seconds since the first one began."""

    attempts: tuple[AttemptLine, ...]

    @property
    def seconds(self) -> float:
        """Until the last end."""
        return max((one.span.end for one in self.attempts), default=0.0)
