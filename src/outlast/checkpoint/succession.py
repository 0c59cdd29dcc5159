"""One attempt and the next: how the first ended, given what came after, and the time between their journals."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

from outlast.checkpoint.endings import Ending
from outlast.checkpoint.signs import longest_silence_seconds
from outlast.events import AttemptStarted, Recorded
from outlast.machine import is_alive

EndedBy = Literal["finished", "interrupted", "killed", "crashed", "failed", "superseded", "left", "running", "unknown"]
_SLACK_SECONDS = 60.0  # what a slow storage may add to the silence of a process that lives
_MOST_AHEAD_SECONDS = 86400.0  # clocks of two machines may differ by hours; more tells nothing of who still lives


def how_it_ended(
    recorded: Sequence[Recorded], ending: Ending, later: Sequence[Recorded] | None, *, now: float, is_last: bool
) -> tuple[EndedBy, str]:
    """How it ended, with what else is known: whether the process lives, and what came after."""
    if ending.end != "silent":
        return ending.end, ending.why
    if not recorded:
        return "unknown", ending.why
    started = started_in(recorded)
    alive = is_alive(machine=started.machine, pid=started.pid, birth=started.birth) if started else None
    if later is not None or not is_last:
        return _overtaken(recorded, later or (), ending, alive=bool(alive))
    if alive is not None:
        return ("running", "") if alive else ("killed", ending.why)
    silent = now - recorded[-1].wall_seconds
    if -_MOST_AHEAD_SECONDS <= silent <= patience(recorded):
        return "running", "by its last sign of life"
    how = f"no sign of life for {silent:.0f} s" if silent > 0 else f"its last sign of life is {-silent:.0f} s ahead"
    return "unknown", f"{how}, by the clock of this machine"


def _overtaken(
    recorded: Sequence[Recorded], later: Sequence[Recorded], ending: Ending, *, alive: bool
) -> tuple[EndedBy, str]:
    """How an attempt ended that says nothing of it and was not the last."""
    if later and _same_process(recorded, later):
        return "left", "the same process began a newer attempt"
    if alive:
        return "superseded", "a newer attempt took over, and it still runs"
    if later and _same_clock(recorded, later) and gap(recorded, later) < 0:  # else clocks may merely differ
        return "superseded", "a newer attempt took over while it was at work"
    return "killed", ending.why


def patience(recorded: Sequence[Recorded]) -> float:
    """How long a process that lives may write nothing."""
    if not recorded:
        return 0.0
    age = max(0.0, recorded[-1].monotonic_seconds - recorded[0].monotonic_seconds)
    return longest_silence_seconds(age) + _SLACK_SECONDS


def started_in(recorded: Sequence[Recorded]) -> AttemptStarted | None:
    """What the attempt said of itself when it began."""
    return next((one.event for one in recorded if isinstance(one.event, AttemptStarted)), None)


def began_wall(recorded: Sequence[Recorded]) -> float:
    """When its process began, by the wall clock of its machine."""
    started = started_in(recorded)
    return recorded[0].wall_seconds - (max(0.0, started.lived_seconds) if started else 0.0)


def _same_clock(before: Sequence[Recorded], after: Sequence[Recorded]) -> bool:
    """Whether two attempts had one monotonic clock."""
    one, other = started_in(before), started_in(after)
    return one is not None and other is not None and bool(one.machine) and one.machine == other.machine


def _same_process(before: Sequence[Recorded], after: Sequence[Recorded]) -> bool:
    one, other = started_in(before), started_in(after)
    both = one is not None and other is not None and one.birth == other.birth != 0 and one.pid == other.pid
    return both and _same_clock(before, after)


def gap(before: Sequence[Recorded], after: Sequence[Recorded]) -> float:
    """Seconds from the last line of one attempt to the claim of the next; below 0 where they overlap."""
    if _same_clock(before, after):
        return after[0].monotonic_seconds - before[-1].monotonic_seconds
    return after[0].wall_seconds - before[-1].wall_seconds


def waited(recorded: Sequence[Recorded], before: Sequence[Recorded]) -> float:
    """How long nobody worked before this attempt's process began."""
    if not recorded or not before:
        return 0.0
    started = started_in(recorded)
    return max(0.0, gap(before, recorded) - (max(0.0, started.lived_seconds) if started else 0.0))


def with_own_time(recorded: Sequence[Recorded], before: Sequence[Recorded]) -> Sequence[Recorded]:
    """Of two attempts in one process, the second does not bill the time of the first once more."""
    own = started_in(recorded)
    if own is None or not _same_process(before, recorded):
        return recorded
    lived = min(max(0.0, own.lived_seconds), max(0.0, gap(before, recorded)))
    return [replace(two, event=replace(own, lived_seconds=lived)) if two.event is own else two for two in recorded]
