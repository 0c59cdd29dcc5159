"""One attempt: what it is planned to be, and what was seen of it."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from outlast.events import (
    ChunkBegun,
    Logged,
    LoopStarted,
    NoticeHeard,
    Recorded,
    RestoreChecked,
    Restored,
    SaveCommitted,
    from_lines,
)
from outlast.rehearse.notice import NoticeView
from outlast.rehearse.scenario import Kind
from outlast.rehearse.stage import Stage
from outlast.rehearse.watch import SaveFilter, WriteWatch
from outlast.rehearse.words import CountsAs, Due

EndedBy = Literal[
    "finished",
    "SIGTERM",
    "notice",  # it left by itself after an announcement, before any signal
    "SIGKILL",
    "SIGKILL at a save",
    "SIGKILL after the grace",
    "one rank killed",  # the others left after it
    "superseded",  # it left by itself after the next attempt had begun
    "exit",
    "hung",
]
Sign = Literal["loop", "activity", "start"]
WORK_BEGINS = (LoopStarted, ChunkBegun)  # a job's first step, a worker's first chunk


@dataclass(frozen=True, slots=True)
class Plan:
    """What happens to one attempt; `kind` is that of its end.

    What is due after the first sign of work comes anyhow if there is none until `sign_timeout_seconds`. Seconds here.
    """

    kind: Kind
    due: tuple[Due, ...]
    sign: Sign
    sign_timeout_seconds: float
    saves: SaveFilter

    @property
    def name(self) -> str:
        """What happens, in the platform's words."""
        return ", then ".join(one.name for one in self.due)

    @property
    def overlaps(self) -> bool:
        """Whether the next attempt may begin while this one lives."""
        return any(one.overlaps for one in self.due)


@dataclass(frozen=True, slots=True)
class Attempt:
    """What became of one attempt. Seconds; None where there was nothing to measure.

    `interrupted_at_seconds` counts from the start; None when no interruption landed. `happened` are the platform's
    words for what did, `counts_as` what the platform makes of its end; `heard_from` is the first source from which a
    job of outlast heard a notice. `grace_seconds` is from that notice to the SIGKILL that was to follow.
    `recorded` are its own events, without the numbers that it logged; `saves_seen` the moments of writes that are part
    of a save, monotonic.
    """

    number: int
    seconds: float
    ended_by: EndedBy
    exit_code: int
    started_at: float  # monotonic
    kind: Kind | None = None
    interrupted_at_seconds: float | None = None
    heard_notice_after_seconds: float | None = None
    stopped_after_seconds: float | None = None
    resumed_from_step: int | None = None
    worked_seconds: float = 0.0  # from the first sign of work, as far as one was looked for
    commits: int = 0
    writes: int = 0  # of whole files, seen in the copy
    cut_write: str | None = None  # the file that was being written when it was killed at a save
    checked_leaves: int = 0
    different_leaves: tuple[str, ...] = ()
    listened: bool = False  # the first process was seen with a handler for SIGTERM before any notice
    notice: NoticeView | None = None
    happened: tuple[str, ...] = ()
    heard_from: str | None = None
    counts_as: CountsAs = "its exit code"
    grace_seconds: float | None = None
    recorded: tuple[Recorded, ...] = ()
    saves_seen: tuple[float, ...] = ()
    ranks: int = 0  # how many processes that train together were seen, where that was looked for
    rank: int | None = None  # the one that something happened to alone; -1: each of them, one after the other
    hit_what: Literal["rank", "node"] = "rank"
    node_killed: bool = False  # after the grace that it had

    @property
    def succeeded(self) -> bool:
        """Whether the platform records success."""
        return self.exit_code == 0 and self.counts_as == "its exit code"


class SignOfWork:
    """When an attempt first shows that it works: its loop starts, or it writes something."""

    def __init__(self, stage: Stage, number: int, watch: WriteWatch, started_at: float) -> None:
        self._events = stage.events(number)
        self._outputs = (stage.stdout(number), stage.stderr(number))
        self._watch, self._started_at = watch, started_at
        self._finders: dict[Sign, Callable[[], float | None]] = {
            "loop": self._loop_started,
            "activity": self._first_activity,
            "start": lambda: started_at,
        }

    def find(self, sign: Sign) -> float | None:
        """The monotonic moment of the sign; None so far."""
        return self._finders[sign]()

    def _loop_started(self) -> float | None:
        if not self._events.exists():
            return None
        return first_moment(from_lines(self._events.read_bytes()), WORK_BEGINS)

    def _first_activity(self) -> float | None:
        if any(output.stat().st_size for output in self._outputs):
            return time.monotonic()
        written = self._watch.writes_since(self._started_at)
        return written[0].at if written else None


def first_moment(recorded: Sequence[Recorded], kind: type | tuple[type, ...]) -> float | None:
    """When the first event of a kind (or of several) happened, on the monotonic clock."""
    return next((one.monotonic_seconds for one in recorded if isinstance(one.event, kind)), None)


def read_events(stage: Stage, number: int) -> list[Recorded]:
    """The events of an attempt; none for a program that does not use outlast."""
    file = stage.events(number)
    return from_lines(file.read_bytes()) if file.exists() else []


def add_events(attempt: Attempt, recorded: Sequence[Recorded], *, notice_at: float | None) -> Attempt:
    """The attempt with what its own events tell."""
    heard = [
        (one.monotonic_seconds - notice_at, one.event.source)
        for one in recorded
        if notice_at is not None and isinstance(one.event, NoticeHeard)
    ]
    restored = [one.event.step for one in recorded if isinstance(one.event, Restored)]
    checks = [one.event for one in recorded if isinstance(one.event, RestoreChecked)]
    return replace(
        attempt,
        heard_notice_after_seconds=max(0.0, min(heard)[0]) if heard else None,
        heard_from=min(heard)[1] if heard else None,
        resumed_from_step=restored[-1] if restored else None,
        commits=sum(isinstance(one.event, SaveCommitted) for one in recorded),
        checked_leaves=sum(check.leaves for check in checks),
        different_leaves=tuple(name for check in checks for name in check.different),
        recorded=tuple(one for one in recorded if not isinstance(one.event, Logged)),
    )
