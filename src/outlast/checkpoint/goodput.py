"""Where the time of an attempt went: start, restore, compute, save stall, lost work. The five add up to all of it.

Durations come from the monotonic clock of the attempt's own process, so that no jump of the wall clock changes them.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from outlast.events import (
    AttemptStarted,
    Crashed,
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
    SavesSummed,
    SaveStalled,
    SaveStarted,
    Stopped,
)

_TELLS_STEP = (LoopStarted, SaveStarted, FirstStepDone, Progressed, Logged, Stopped, Crashed, Failed, Left, Finished)


@dataclass(frozen=True, slots=True)
class Buckets:
    """Seconds of one attempt, or of several: each 0 or more.

    `start`: from the start of the process to the first step, without `restore`, the reading of the checkpoint.
    `save_stall`: the training waited for a save. `lost_work`: steps that were, or have to be, done again. `compute`:
    the rest.
    """

    start: float = 0.0
    restore: float = 0.0
    compute: float = 0.0
    save_stall: float = 0.0
    lost_work: float = 0.0

    @property
    def billed(self) -> float:
        """All of it: the time that the process was there."""
        return self.start + self.restore + self.compute + self.save_stall + self.lost_work

    def __add__(self, other: "Buckets") -> "Buckets":
        return Buckets(
            self.start + other.start,
            self.restore + other.restore,
            self.compute + other.compute,
            self.save_stall + other.save_stall,
            self.lost_work + other.lost_work,
        )


@dataclass(frozen=True, slots=True)
class Timeline:
    """An attempt's moments, in seconds since its process began.

    `steps`: (moment, completed steps) as far as they are known, in order. `stalls`: (moment of the end, seconds) of
    each wait for a save. `seconds`: until the last sign of life.
    """

    seconds: float
    restore_seconds: float
    loop_at: float | None
    first_step_at: float | None
    steps: tuple[tuple[float, int], ...]
    stalls: tuple[tuple[float, float], ...]

    @property
    def first(self) -> int | None:
        """The step that it went on from."""
        return self.steps[0][1] if self.steps else None

    @property
    def reached(self) -> int | None:
        """The most steps known to be complete."""
        return max((step for _, step in self.steps), default=None)

    def moment_of(self, step: float) -> float:
        """When so many steps were complete; between two known moments the steps are taken to be equally long."""
        before = (self.loop_at or 0.0, 0)
        for at, known in self.steps:
            if known >= step:
                earlier_at, earlier = before
                share = 1.0 if known == step or known <= earlier else (step - earlier) / (known - earlier)
                return max(earlier_at, self.loop_at or 0.0) + max(0.0, share) * (at - earlier_at)
            before = (at, known)
        return self.seconds


def timeline(recorded: Sequence[Recorded], *, more_seconds: float = 0.0) -> Timeline:
    """The moments in a journal. `more_seconds`: how long the process has run since its last line."""
    if not recorded:
        return Timeline(0.0, 0.0, None, None, (), ())
    started = next((one for one in recorded if isinstance(one.event, AttemptStarted)), recorded[0])
    lived = started.event.lived_seconds if isinstance(started.event, AttemptStarted) else 0.0
    began = started.monotonic_seconds - max(0.0, lived)
    loop_at = first_step_at = noticed_at = None
    restore = now = 0.0
    steps: list[tuple[float, int]] = []
    stalls: list[tuple[float, float]] = []
    for one in recorded:
        now = max(now, one.monotonic_seconds - began)  # two threads may write in another order than they looked
        event = one.event
        if isinstance(event, LoopStarted):
            loop_at, steps, stalls = now, [], []
        elif isinstance(event, Restored):
            restore = max(0.0, event.seconds)
        elif isinstance(event, FirstStepDone) and first_step_at is None:
            first_step_at = now
        elif isinstance(event, SaveStalled):
            stalls.append((now, max(0.0, event.seconds)))
        elif isinstance(event, SavesSummed):
            stalls.append((now, max(0.0, event.stall_seconds)))
        elif isinstance(event, NoticeHeard | NoticeRevoked):
            noticed_at = now if isinstance(event, NoticeHeard) else None
        elif isinstance(event, Stopped) and noticed_at is not None and not event.lost_steps:
            # From the border on, the training has waited for the last save.
            border = max(noticed_at, next((at for at, step in steps if step >= event.step), now))
            stalls = [*(one for one in stalls if one[0] <= border), (now, now - border)]
        if isinstance(event, _TELLS_STEP) and loop_at is not None:
            steps.append((now, max(0, event.step)))
    seconds = now + max(0.0, more_seconds)
    limit = seconds if loop_at is None else loop_at
    return Timeline(seconds, min(restore, limit), loop_at, first_step_at, tuple(_growing(steps)), tuple(stalls))


def _growing(steps: Sequence[tuple[float, int]]) -> list[tuple[float, int]]:
    """Without those that go back: a line about an earlier step that was written late."""
    kept: list[tuple[float, int]] = []
    for at, step in steps:
        if not kept or step >= kept[-1][1]:
            kept.append((at, step))
    return kept


def buckets(line: Timeline, *, cut: float | None) -> Buckets:
    """The attempt's time by what it was for. `cut`: the step that a later attempt went on from, or would; the work
    past it is lost. None where nothing is lost.
    """
    if line.loop_at is None:
        return Buckets(start=line.seconds - line.restore_seconds, restore=line.restore_seconds)
    loop = line.seconds - line.loop_at
    lost_from = line.seconds
    if cut is not None:
        first = line.first or 0
        lost_from = line.loop_at if cut <= first else max(line.loop_at, min(line.moment_of(cut), line.seconds))
    lost_span = line.seconds - lost_from
    # A stall belongs to where it ended; no more of it than there is time.
    stalled_late = min(lost_span, sum(seconds for at, seconds in line.stalls if at > lost_from))
    stalled_early = min(loop - lost_span, sum(seconds for at, seconds in line.stalls if at <= lost_from))
    lost = lost_span - stalled_late
    stalled = stalled_early + stalled_late
    return Buckets(
        start=line.loop_at - line.restore_seconds,
        restore=line.restore_seconds,
        compute=max(0.0, loop - lost - stalled),
        save_stall=stalled,
        lost_work=lost,
    )
