"""What the events of one attempt come to in numbers; the times are those that `outlast status` would show."""

from collections.abc import Callable, Sequence
from dataclasses import asdict
from functools import singledispatchmethod

from outlast import metering as m
from outlast.checkpoint.goodput import Buckets, buckets, timeline
from outlast.clock import Clock
from outlast.events import (
    AttemptStarted,
    CheckpointRefused,
    Crashed,
    Failed,
    Finished,
    FirstStepDone,
    Left,
    LoopStarted,
    NoticeHeard,
    NoticeRevoked,
    Recorded,
    Restored,
    SaveCommitted,
    SaveFailed,
    SavePostponed,
    SavesSummed,
    SaveStalled,
    SaveStarted,
    SaveTakenBack,
    SaveVerified,
    SourceTrouble,
    Stopped,
)
from outlast.metering import Point, Subject
from outlast.telemetry.series import Series

_MOST_KEPT = 600  # events that the times are worked out from; older ones are summed up
_LANDMARKS = (AttemptStarted, Restored, LoopStarted, FirstStepDone, NoticeHeard, NoticeRevoked, Stopped)


class Meter:
    """The numbers of one attempt. Not for several threads at once."""

    def __init__(self, subject: Subject, clock: Clock) -> None:
        self._clock = clock
        self._series = Series(subject.labels)
        self._kept: list[Recorded] = []
        self._now = self._began = 0.0  # of the event at hand, and of the process, on the monotonic clock
        self._step = self._first = 0
        self._taken: dict[int, float] = {}  # when the state of saves that have begun was taken, by step
        self._durable: list[tuple[int, float | None]] = []  # the newest checkpoints: their step, when it was taken
        self._safe_since: float | None = None
        self._noticed: tuple[float, float] | None = None  # when a notice was heard, and how much time it left
        self._lost_from: int | None = None
        self._ended_at: float | None = None
        self._may_go_on = False  # after an error that the program may catch
        self.complete_steps: Callable[[], int | None] = lambda: None

    def hear(self, recorded: Recorded) -> None:
        """One more event."""
        self._now = recorded.monotonic_seconds
        if self._may_go_on and not isinstance(recorded.event, Left):
            self._may_go_on, self._ended_at, self._lost_from = False, None, None
        self._keep(recorded)
        self._count(recorded.event)

    def points(self) -> Sequence[Point]:
        """The numbers now."""
        self._look()
        return list(self._series.points())

    # --- events ---------------------------------------------------------------------------------------

    @singledispatchmethod
    def _count(self, event: object) -> None:
        """Most kinds of events are no numbers."""

    @_count.register
    def _(self, event: AttemptStarted) -> None:
        self._began = self._now - max(0.0, event.lived_seconds)
        self._series.put(m.ATTEMPT, event.attempt)
        for outcome in ("committed", "failed", "postponed", "taken_back"):  # from 0 on, or no increase is seen
            self._series.add(m.SAVES, 0, outcome)
        for metric in (m.MISSED, m.STEPS_LOST, m.REFUSED):
            self._series.add(metric, 0)

    @_count.register
    def _(self, event: CheckpointRefused) -> None:
        self._series.add(m.REFUSED, 1)

    @_count.register
    def _(self, event: Restored) -> None:
        self._series.note(m.RESTORE_SECONDS, event.seconds)
        self._durable = [(event.step, None)]
        self._step = event.step

    @_count.register
    def _(self, event: LoopStarted) -> None:
        self._step = self._first = event.step
        self._safe_since = self._now
        if event.total is not None and event.unit == "steps":
            self._series.put(m.STEPS_PLANNED, event.total)

    @_count.register
    def _(self, event: FirstStepDone) -> None:
        self._series.note(m.START_SECONDS, self._now - self._began)

    @_count.register
    def _(self, event: SaveStarted) -> None:
        self._taken = {event.step: self._now, **dict(list(self._taken.items())[:7])}

    @_count.register
    def _(self, event: SaveStalled) -> None:
        self._series.note(m.STALL_SECONDS, event.seconds)

    @_count.register
    def _(self, event: SaveCommitted) -> None:
        self._series.add(m.SAVES, 1, "committed")
        self._series.add(m.SAVED_BYTES, max(0, event.written))
        self._series.note(m.SAVE_SECONDS, event.seconds)
        self._durable = [*self._durable[-3:], (event.step, self._taken.get(event.step, self._now))]

    @_count.register
    def _(self, event: SaveVerified) -> None:
        self._series.note(m.VERIFY_SECONDS, event.seconds)

    @_count.register
    def _(self, event: SaveTakenBack) -> None:
        self._series.add(m.SAVES, 1, "taken_back")
        self._durable = [one for one in self._durable if one[0] != event.step]

    @_count.register
    def _(self, event: SavePostponed) -> None:
        self._series.add(m.SAVES, 1, "postponed")

    @_count.register
    def _(self, event: SaveFailed) -> None:
        self._series.add(m.SAVES, 1, "failed")

    @_count.register
    def _(self, event: NoticeHeard) -> None:
        self._series.add(m.NOTICES, 1, event.source, event.kind)
        self._noticed = (self._now, event.grace_seconds)

    @_count.register
    def _(self, event: NoticeRevoked) -> None:
        self._noticed = None

    @_count.register
    def _(self, event: SourceTrouble) -> None:
        self._series.add(m.TROUBLES, 1, event.source)

    @_count.register
    def _(self, event: Stopped) -> None:
        if self._noticed is not None:
            self._series.note(m.STOP_SECONDS, self._now - self._noticed[0])
        if event.fitted is False:
            self._series.add(m.MISSED, 1)
        self._series.add(m.STEPS_LOST, max(0, event.lost_steps))
        if event.lost_steps:
            self._lost_from = event.step - event.lost_steps
        self._end("stopped", event.step, event.exit_code)

    @_count.register
    def _(self, event: Crashed) -> None:
        self._lose_from_checkpoint()
        self._series.add(m.STEPS_LOST, max(0, event.step - (self._lost_from or 0)))
        self._end("crashed", event.step, 1)

    @_count.register
    def _(self, event: Failed) -> None:
        self._lose_from_checkpoint()
        self._end("failed", event.step, event.exit_code)
        self._may_go_on = True

    @_count.register
    def _(self, event: Left) -> None:
        if self._ended_at is None:  # after a finish, the end of the code that followed
            self._lose_from_checkpoint()
            self._end("left", event.step, event.exit_code)
        self._ended_at = self._now

    @_count.register
    def _(self, event: Finished) -> None:
        self._end("finished", event.step, 0)

    def _lose_from_checkpoint(self) -> None:
        self._lost_from = self._durable[-1][0] if self._durable else 0

    def _end(self, how: str, step: int, code: int | None) -> None:
        self._series.add(m.ENDS, 1, how)
        self._step, self._ended_at = step, self._now
        if code is not None:
            self._series.put(m.EXIT_CODE, code)

    # --- the numbers that move by themselves ------------------------------------------------------------

    def _look(self) -> None:
        """Gauges, as of this moment; of an attempt that has ended, as of its end."""
        now = self._clock.monotonic_seconds() if self._ended_at is None else self._ended_at
        step = self.complete_steps() if self._ended_at is None else None
        self._step = max(self._step, self._step if step is None else step)
        self._series.put(m.RUNNING, 0 if self._ended_at is not None else 1)
        if self._safe_since is not None or self._durable or self._step:  # before, it is not known where it goes on
            self._series.put(m.STEP, self._step)
        self._series.put(m.STEPS_DONE, max(0, self._step - self._first) if self._safe_since is not None else 0)
        self._look_at_risk(now)
        if self._noticed is not None and self._ended_at is None:
            self._series.put(m.NOTICE_LEFT, max(0.0, sum(self._noticed) - now))
        else:
            self._series.drop(m.NOTICE_LEFT)
        spent = self._buckets(now)
        for name, seconds in asdict(spent).items():
            self._series.put(m.TIME, seconds, name)
        if spent.billed > 0:
            self._series.put(m.GOODPUT, spent.compute / spent.billed)

    def _look_at_risk(self, now: float) -> None:
        if self._safe_since is None:  # no step was begun
            return
        step, taken = self._durable[-1] if self._durable else (0, None)
        if self._durable:
            self._series.put(m.CHECKPOINT_STEP, step)
        if taken is not None:
            self._series.put(m.CHECKPOINT_AGE, now - taken)
        unsaved = max(0, self._step - step)
        self._series.put(m.STEPS_AT_RISK, unsaved)
        self._series.put(m.AT_RISK, max(0.0, now - (self._safe_since if taken is None else taken)) if unsaved else 0.0)

    def _buckets(self, now: float) -> Buckets:
        last = self._kept[-1].monotonic_seconds if self._kept else now
        return buckets(timeline(self._kept, more_seconds=now - last), cut=self._lost_from)

    def _keep(self, recorded: Recorded) -> None:
        """Keeps what the times are worked out from."""
        self._kept.append(recorded)
        if len(self._kept) > _MOST_KEPT:
            self._kept = _summed(self._kept[: _MOST_KEPT // 2]) + self._kept[_MOST_KEPT // 2 :]


def _summed(kept: Sequence[Recorded]) -> list[Recorded]:
    """The landmarks among these, and one line for the time that saves took."""
    stall = sum(_stall(one) for one in kept)
    at = kept[-1]
    summed = Recorded(SavesSummed(0, 0, stall, 0.0), at.wall_seconds, at.monotonic_seconds)
    return [*(one for one in kept if isinstance(one.event, _LANDMARKS)), summed]


def _stall(one: Recorded) -> float:
    event = one.event
    if isinstance(event, SavesSummed):
        return max(0.0, event.stall_seconds)
    return max(0.0, event.seconds) if isinstance(event, SaveStalled) else 0.0
