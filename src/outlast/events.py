"""What happened to a job, as typed records; one JSON line each in an attempt's journal.

Fields are only ever added, with a default: old journals stay readable, and of a line from a later version the fields
that are known here are read.
"""

import json
import math
import os
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, fields
from functools import cache
from types import UnionType
from typing import Any, TypeGuard, Union, get_args, get_origin, get_type_hints

from outlast.clock import Clock, iso_utc


@dataclass(frozen=True, slots=True)
class AttemptStarted:
    """An attempt claimed the run, `lived_seconds` after its process began. `machine` and `birth`: see machine.py."""

    attempt: int
    platform: str
    pid: int
    host: str
    execution: str | None = None
    platform_attempt: int | None = None
    machine: str = ""
    birth: int = 0
    lived_seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class EnvironmentSeen:
    """What the attempt runs, and on what; see drift.py. Empty text: unknown."""

    script: str
    script_digest: str
    arguments: list[str]
    python: str
    system: str
    accelerator: str
    tasks: int
    packages: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Drifted:
    """What changed since `attempt` made the checkpoint that this one goes on from, in words."""

    attempt: int
    changes: list[str]


@dataclass(frozen=True, slots=True)
class CheckpointRefused:
    """A checkpoint did not verify, and an older one was tried."""

    commit: str
    reason: str


@dataclass(frozen=True, slots=True)
class Restored:
    """The state of a checkpoint is back in the program; `bytes` of it were read."""

    step: int
    commit: str
    seconds: float
    bytes: int = 0


@dataclass(frozen=True, slots=True)
class RestoreChecked:
    """In a rehearsal: the state after the restore against what was saved; `different` names leaves that differ."""

    step: int
    leaves: int
    different: list[str]


@dataclass(frozen=True, slots=True)
class LoopStarted:
    """The first step is about to be yielded. `unit` says of what `total` is the number: "steps" or "epochs"."""

    step: int
    total: int | None = None
    unit: str = "steps"


@dataclass(frozen=True, slots=True)
class FirstStepDone:
    """The first step that this attempt did is complete: warm-up and compiling are over."""

    step: int


@dataclass(frozen=True, slots=True)
class Progressed:
    """A sign of life, written now and then where nothing else is: so many steps are complete."""

    step: int


@dataclass(frozen=True, slots=True)
class SaveStarted:
    """A save began."""

    step: int


@dataclass(frozen=True, slots=True)
class SaveStalled:
    """The training waited so long at `step` for a save: for the copy, and all of it where it is written at once."""

    step: int
    seconds: float


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
class SavesSummed:
    """In a shortened journal: the saves whose own lines are left out. Seconds in all."""

    saves: int
    failed: int
    stall_seconds: float
    persist_seconds: float


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
class PlanMade:
    """What the last seconds are for: the choice, why, and how many seconds it was given."""

    choice: str
    why: str
    seconds: float


@dataclass(frozen=True, slots=True)
class Logged:
    """Numbers that the program logged for a step (0-based, the step under way); "nan" and "inf" are text."""

    step: int
    values: Mapping[str, float | str]


@dataclass(frozen=True, slots=True)
class Stopped:
    """The attempt ends with work left.

    `final_save_seconds` is from the notice until the state of `step` was durable; None where it is not, or was before.
    `fitted` is whether it is durable; None where no notice asked for it.
    """

    step: int
    exit_code: int
    reason: str
    lost_steps: int = 0
    final_save_seconds: float | None = None
    fitted: bool | None = None


@dataclass(frozen=True, slots=True)
class Crashed:
    """An exception of the program reached the top."""

    step: int
    error: str


@dataclass(frozen=True, slots=True)
class Failed:
    """An error was raised that leaves with its own exit code, unless the program goes on after all: one of outlast's,
    or any after the finish."""

    step: int
    exit_code: int
    error: str


@dataclass(frozen=True, slots=True)
class Left:
    """The process ends by itself: its code after the loop is over, or the run is left unfinished. `exit_code`: the one
    that it leaves with whatever the program says, after a notice; None for the program's own, which nobody knows."""

    step: int
    exit_code: int | None = None


@dataclass(frozen=True, slots=True)
class Finished:
    """The run is finished for this task."""

    step: int


@dataclass(frozen=True, slots=True)
class BatchStarted:
    """In a rehearsal: a worker is about to take items. Relative paths in the two URLs begin at `folder`; one of the
    program's own making has none."""

    queue: str
    sink: str
    version: str | None
    folder: str


@dataclass(frozen=True, slots=True)
class LeaseTaken:
    """In a rehearsal: a worker holds items, and `renewal` is how anybody can end that."""

    renewal: str


@dataclass(frozen=True, slots=True)
class ChunkBegun:
    """In a rehearsal: the program is handed so many items."""

    items: int


@dataclass(frozen=True, slots=True)
class ItemsStored:
    """In a rehearsal: so many results are stored, and about to be acknowledged."""

    items: int


@dataclass(frozen=True, slots=True)
class ItemsGivenBack:
    """In a rehearsal: so many items that the worker held are for others to have, at once."""

    items: int


Event = (
    AttemptStarted
    | EnvironmentSeen
    | Drifted
    | CheckpointRefused
    | Restored
    | RestoreChecked
    | LoopStarted
    | FirstStepDone
    | Progressed
    | SaveStarted
    | SaveStalled
    | SaveCommitted
    | SaveVerified
    | SaveTakenBack
    | SavePostponed
    | SaveFailed
    | SavesSummed
    | NoticeHeard
    | NoticeRevoked
    | Advised
    | SourceTrouble
    | PlanMade
    | Logged
    | Stopped
    | Crashed
    | Failed
    | Left
    | Finished
    | BatchStarted
    | LeaseTaken
    | ChunkBegun
    | ItemsStored
    | ItemsGivenBack
)
_TYPES: dict[str, type[Event]] = {kind.__name__: kind for kind in Event.__args__}
# A journal comes from a store, and anybody may have written there: numbers that no clock and no job has are refused.
LATEST_WALL_SECONDS = 253402300799.0  # the end of the year 9999
_MOST_SECONDS = 1e10
_LARGEST_WHOLE = 2**63


@dataclass(frozen=True, slots=True)
class Recorded:
    """An event with its moment: seconds since the epoch, and on the machine's monotonic clock."""

    event: Event
    wall_seconds: float
    monotonic_seconds: float = field(default=0.0)


@dataclass(frozen=True, slots=True)
class ReadLines:
    """What lines of a journal say. `damaged`: lines that are none, but for a torn last one. `unknown`: of a later
    version, perhaps."""

    recorded: list[Recorded]
    damaged: int
    unknown: int


def to_line(event: Event, clock: Clock) -> bytes:
    """The event as one JSON line, stamped with the moment now."""
    return line_of(Recorded(event, clock.wall_seconds(), clock.monotonic_seconds()))


def line_of(recorded: Recorded) -> bytes:
    """A recorded event as one JSON line."""
    stamped = {
        "event": type(recorded.event).__name__,
        "at": iso_utc(recorded.wall_seconds),
        "wall": round(recorded.wall_seconds, 6),
        "monotonic": round(recorded.monotonic_seconds, 6),
        **asdict(recorded.event),
    }
    return json.dumps(stamped, separators=(",", ":")).encode() + b"\n"


def from_lines(data: bytes) -> list[Recorded]:
    """The events in a journal; a torn or foreign line is passed over, since a kill may cut the last one."""
    return read_lines(data).recorded


def read_lines(data: bytes, *, without: tuple[str, ...] = ()) -> ReadLines:
    """The events in a journal, and how many lines are none. `without`: names of events to pass over, unread."""
    passed_over = tuple(f'{{"event":"{name}",'.encode() for name in without)
    recorded, damaged, unknown = [], 0, 0
    lines = data.split(b"\n")
    for number, line in enumerate(lines):
        if not line.strip() or (passed_over and line.startswith(passed_over)):
            continue
        stamped = _object_in(line)
        one = _from_fields(stamped) if stamped is not None else None
        if one is not None:
            recorded.append(one)
        elif stamped is not None and _kind_of(stamped) is None and isinstance(stamped.get("event"), str):
            unknown += 1
        elif number + 1 < len(lines):
            damaged += 1
    return ReadLines(recorded, damaged, unknown)


def _object_in(line: bytes) -> dict[str, Any] | None:
    try:
        stamped = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return stamped if isinstance(stamped, dict) else None


def _kind_of(stamped: Mapping[str, Any]) -> type[Event] | None:
    name = stamped.get("event")
    return _TYPES.get(name) if isinstance(name, str) else None


def _from_fields(stamped: Mapping[str, Any]) -> Recorded | None:
    """None for what is no event, or whose fields are not what they should be."""
    kind, wall, monotonic = _kind_of(stamped), stamped.get("wall"), stamped.get("monotonic")
    if kind is None or "at" not in stamped or not _is_float(wall) or not _is_float(monotonic):
        return None
    if not 0 <= wall <= LATEST_WALL_SECONDS or not 0 <= monotonic <= _MOST_SECONDS:
        return None
    known = {}
    for field_name, fits in _fields(kind.__name__):
        if field_name in stamped:
            known[field_name] = stamped[field_name]
            if not fits(known[field_name]):
                return None
    try:
        return Recorded(kind(**known), float(wall), float(monotonic))
    except TypeError:  # a field is missing
        return None


Fits = Callable[[object], bool]


@cache
def _fields(name: str) -> list[tuple[str, Fits]]:
    """The fields of a kind of event, each with what tells whether a JSON value can be that field."""
    kind = _TYPES[name]
    hints = get_type_hints(kind)
    return [(one.name, _fitting(hints[one.name])) for one in fields(kind)]


def _fitting(hint: Any) -> Fits:
    origin, inner = get_origin(hint), [_fitting(one) for one in get_args(hint)]
    if origin in (Union, UnionType):
        return lambda value: any(fits(value) for fits in inner)
    if origin is list:
        return lambda value: isinstance(value, list) and all(map(inner[0], value))
    if origin is not None:
        return lambda value: isinstance(value, dict) and all(map(inner[1], value.values()))
    if hint is float:
        return _is_float
    if hint is int:
        return _is_int
    return lambda value: type(value) is hint


def _is_int(value: object) -> TypeGuard[int]:
    return type(value) is int and abs(value) < _LARGEST_WHOLE


def _is_float(value: object) -> TypeGuard[float]:
    return (type(value) is float and math.isfinite(value)) or _is_int(value)


def append_event(path: str | None, line: bytes) -> None:
    """Adds a line, in one write, to the events file that a rehearsal watches; None for no such file."""
    if not path:
        return
    handle = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o666)
    try:
        os.write(handle, line)
    finally:
        os.close(handle)
