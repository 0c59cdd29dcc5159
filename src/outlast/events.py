"""What happened to a job, as typed records; one JSON line each in an attempt's journal."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from outlast.clock import Clock, iso_utc


@dataclass(frozen=True, slots=True)
class AttemptStarted:
    """An attempt claimed the run."""

    attempt: int
    platform: str
    pid: int
    host: str
    execution: str | None = None
    platform_attempt: int | None = None


@dataclass(frozen=True, slots=True)
class CheckpointRefused:
    """A checkpoint did not verify, and an older one was tried."""

    commit: str
    reason: str


@dataclass(frozen=True, slots=True)
class Restored:
    """The state of a checkpoint is back in the program."""

    step: int
    commit: str
    seconds: float


@dataclass(frozen=True, slots=True)
class RestoreChecked:
    """In a rehearsal: the state after the restore against what was saved; `different` names leaves that differ."""

    step: int
    leaves: int
    different: list[str]


@dataclass(frozen=True, slots=True)
class LoopStarted:
    """The first step is about to be yielded."""

    step: int
    total: int | None = None


@dataclass(frozen=True, slots=True)
class SaveStarted:
    """A save began."""

    step: int


@dataclass(frozen=True, slots=True)
class SaveCommitted:
    """A checkpoint is durable and committed; `written` of its bytes are new. Seconds without the snapshot."""

    step: int
    commit: str
    bytes: int
    seconds: float
    written: int = 0


@dataclass(frozen=True, slots=True)
class SaveVerified:
    """A committed checkpoint was read back as it was written, `seconds` after the read began."""

    step: int
    commit: str
    seconds: float


@dataclass(frozen=True, slots=True)
class SaveTakenBack:
    """A committed checkpoint could not be read back as it was written, and was removed."""

    step: int
    commit: str
    reason: str


@dataclass(frozen=True, slots=True)
class SavePostponed:
    """A save was due at `step` while the one of `running` was still being written; it follows when that has ended."""

    step: int
    running: int


@dataclass(frozen=True, slots=True)
class SaveFailed:
    """A save did not succeed; the last good checkpoint is untouched."""

    step: int
    error: str


@dataclass(frozen=True, slots=True)
class NoticeHeard:
    """A warning of the end arrived, or changed. `by` is "job" or "supervisor", `kind` "final" or "advance".

    `grace_seconds` is the time that was left when it was heard.
    """

    source: str
    reason: str
    grace_seconds: float
    by: str = "job"
    kind: str = "final"


@dataclass(frozen=True, slots=True)
class NoticeRevoked:
    """What a source had announced will not happen."""

    source: str
    reason: str


@dataclass(frozen=True, slots=True)
class Advised:
    """A source said something that stops nothing: a migration, a recommendation, maintenance in a few days."""

    source: str
    reason: str


@dataclass(frozen=True, slots=True)
class SourceTrouble:
    """A source of notices cannot be asked, or cannot be understood; the others are still heard."""

    source: str
    error: str


@dataclass(frozen=True, slots=True)
class Logged:
    """Numbers that the program logged for a step (0-based, the step under way); "nan" and "inf" are text."""

    step: int
    values: Mapping[str, float | str]


@dataclass(frozen=True, slots=True)
class Stopped:
    """The attempt ends with work left."""

    step: int
    exit_code: int
    reason: str
    lost_steps: int = 0


@dataclass(frozen=True, slots=True)
class Crashed:
    """An exception of the program reached the top."""

    step: int
    error: str


@dataclass(frozen=True, slots=True)
class Finished:
    """The run is finished for this task."""

    step: int


Event = (
    AttemptStarted
    | CheckpointRefused
    | Restored
    | RestoreChecked
    | LoopStarted
    | SaveStarted
    | SaveCommitted
    | SaveVerified
    | SaveTakenBack
    | SavePostponed
    | SaveFailed
    | NoticeHeard
    | NoticeRevoked
    | Advised
    | SourceTrouble
    | Logged
    | Stopped
    | Crashed
    | Finished
)
_TYPES: dict[str, type[Event]] = {kind.__name__: kind for kind in Event.__args__}


@dataclass(frozen=True, slots=True)
class Recorded:
    """An event with its moment: seconds since the epoch, and on the machine's monotonic clock."""

    event: Event
    wall_seconds: float
    monotonic_seconds: float = field(default=0.0)


def to_line(event: Event, clock: Clock) -> bytes:
    """The event as one JSON line, stamped with the moment now."""
    wall = clock.wall_seconds()
    stamped = {
        "event": type(event).__name__,
        "at": iso_utc(wall),
        "wall": round(wall, 6),
        "monotonic": round(clock.monotonic_seconds(), 6),
        **asdict(event),
    }
    return json.dumps(stamped, separators=(",", ":")).encode() + b"\n"


def from_lines(data: bytes) -> list[Recorded]:
    """The events in a journal; a torn or foreign line is passed over, since a kill may cut the last one."""
    recorded = []
    for line in data.splitlines():
        one = _from_line(line)
        if one is not None:
            recorded.append(one)
    return recorded


def _from_line(line: bytes) -> Recorded | None:
    try:
        fields: dict[str, Any] = json.loads(line)
        kind = _TYPES[fields.pop("event")]
        fields.pop("at")
        wall, monotonic = float(fields.pop("wall")), float(fields.pop("monotonic"))
        return Recorded(kind(**fields), wall, monotonic)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None
