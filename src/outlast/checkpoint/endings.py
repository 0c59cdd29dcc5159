"""How an attempt ended, as its own journal tells it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from outlast.events import (
    Crashed,
    Event,
    Failed,
    Finished,
    FirstStepDone,
    Left,
    Logged,
    LoopStarted,
    NoticeHeard,
    NoticeRevoked,
    Progressed,
    Recorded,
    Restored,
    SaveStarted,
    Stopped,
)

# "silent": the journal simply ends, so the process still runs, or somebody killed it.
End = Literal["finished", "interrupted", "crashed", "failed", "superseded", "left", "silent"]
_AT_WORK = LoopStarted | FirstStepDone | Progressed | SaveStarted | Logged
_ENDS = Crashed | Stopped | Failed


@dataclass(frozen=True, slots=True)
class Ending:
    """How it ended and why, in words; the exit code is None where nobody can know it."""

    end: End
    why: str = ""
    exit_code: int | None = None


def ending_of(recorded: Sequence[Recorded]) -> Ending:
    """What the journal says of the end. A finished attempt stays one, whatever its code after the loop does."""
    events = [one.event for one in recorded]
    finished = [number for number, event in enumerate(events) if isinstance(event, Finished)]
    if finished:
        return _after_the_finish(events[finished[-1] :])
    last = next((event for event in reversed(events) if isinstance(event, _ENDS | _AT_WORK)), None)
    match last:
        case Crashed(error=error):
            return Ending("crashed", error, 1)
        case Stopped(reason=reason, exit_code=code):
            return Ending("superseded" if reason.startswith("superseded") else "interrupted", reason, code)
        case Failed(error=error, exit_code=code):
            return Ending("failed", error, code)
        case _:  # what it went on after was no end
            left = next((event for event in reversed(events) if isinstance(event, Left)), None)
            return _without_an_end(notice_in(recorded), left)


def _after_the_finish(events: Sequence[Event]) -> Ending:
    """The first of the events is the finish; what came then is the code after the loop."""
    done = f"all is done at step {events[0].step}" if isinstance(events[0], Finished) else ""
    for event in events:
        if isinstance(event, Failed):
            return Ending("finished", f"{done}; the code after the loop failed: {event.error}", event.exit_code)
        if isinstance(event, Stopped):
            return Ending("finished", f"{done}; {event.reason}", event.exit_code)
    # Without the last word the code after the loop still runs, or was killed.
    left = any(isinstance(event, Left) for event in events)
    return Ending("finished", done, 0) if left else Ending("finished", f"{done}; the end of its process is not told")


def _without_an_end(notice: NoticeHeard | None, left: Left | None) -> Ending:
    if left is not None and notice is not None:
        return Ending("interrupted", f"it left by itself after the notice ({notice.reason})", left.exit_code)
    if left is not None:
        return Ending("left", "the program ended by itself and left the run unfinished")
    if notice is not None:
        return Ending("silent", f"it did not leave within the grace of {notice.grace_seconds:g} s ({notice.reason})")
    return Ending("silent", "without notice")


def notice_in(recorded: Sequence[Recorded]) -> NoticeHeard | None:
    """The first notice that the attempt heard and that was not revoked, if any."""
    heard: dict[str, NoticeHeard] = {}
    for one in recorded:
        if isinstance(one.event, NoticeHeard):
            heard.setdefault(one.event.source, one.event)
        elif isinstance(one.event, NoticeRevoked):
            heard.pop(one.event.source, None)
    return next(iter(heard.values()), None)


def first_step_of(recorded: Sequence[Recorded]) -> int | None:
    """The step that the attempt went on from; None where it did not get so far."""
    steps = [one.event.step for one in recorded if isinstance(one.event, Restored | LoopStarted)]
    return steps[-1] if steps else None
