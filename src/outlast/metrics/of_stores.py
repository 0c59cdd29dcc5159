"""The numbers of the tasks in a store, as `outlast status` would tell them."""

import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from datetime import datetime
from typing import get_args

from outlast import metering as m
from outlast.checkpoint.history import AttemptHistory, State, TaskHistory, history_of
from outlast.checkpoint.lineage import claimed_attempts, read_lineage
from outlast.checkpoint.places import TaskPlace
from outlast.checkpoint.record import load_record
from outlast.checkpoint.survey import tasks_in
from outlast.errors import CheckpointCorrupt, ObjectMissing
from outlast.metering import Metric, Point, label
from outlast.ports import Store
from outlast.urls import masked

_STATES: tuple[str, ...] = get_args(State)
_MOST_TASKS = 1_000  # each has some 40 series; those beyond are counted
_MOST_LOOKS = 2  # at a checkpoint that is gone when it is to be read: a newer one is there


@dataclass(frozen=True, slots=True)
class Newest:
    """The newest checkpoint that counts: its step, and when its state was taken, in wall-clock seconds."""

    step: int
    taken_at: float | None


@dataclass(slots=True)
class StoreNumbers:
    """Reads a store again and again; what is finished is read once, as long as nobody claims it anew."""

    store: Store
    url: str
    wall: Callable[[], float] = time.time
    _finished: dict[TaskPlace, tuple[list[int], list[Point]]] = field(default_factory=dict)

    def read(self) -> Iterator[Point]:
        """The numbers now, of the newest run of each job. Raises StoreUnreachable, CheckpointCorrupt."""
        places = tasks_in(self.store)
        for place in places[:_MOST_TASKS]:
            yield from self._task(place)
        self._finished = {place: kept for place, kept in self._finished.items() if place in set(places)}
        yield Point(m.LEFT_OUT, {"url": label(masked(self.url))}, max(0, len(places) - _MOST_TASKS))

    def _task(self, place: TaskPlace) -> list[Point]:
        kept = self._finished.get(place)
        if kept is not None and kept[0] == claimed_attempts(self.store, place):
            return kept[1]
        task = history_of(self.store, place, now=self.wall)
        points = list(points_of(task, newest_checkpoint(self.store, place), now=self.wall()))
        if task.state == "finished":
            self._finished[place] = ([one.number for one in task.attempts], points)
        return points


def newest_checkpoint(store: Store, place: TaskPlace) -> Newest | None:
    """What a resume would go on from, as far as names and one record tell; None where there is none."""
    for _ in range(_MOST_LOOKS):
        counted = read_lineage(store, place).counted
        if not counted:
            return None
        try:
            record = load_record(store, place.commit(counted[0]))
        except ObjectMissing:
            continue
        except CheckpointCorrupt:
            return Newest(counted[0].step, None)
        try:
            return Newest(record.step, datetime.fromisoformat(record.saved_at).timestamp())
        except (ValueError, OverflowError):
            return Newest(record.step, None)
    return None


def points_of(task: TaskHistory, newest: Newest | None, *, now: float) -> Iterator[Point]:
    """The numbers of one task."""
    place = task.place
    labels = {m.JOB: label(place.job), m.RUN: label(place.run), m.TASK: str(place.index)}

    def point(metric: Metric, value: float, *own: str) -> Point:
        return Point(metric, {**labels, **dict(zip(metric.labels, own, strict=True))}, value)

    running = task.state == "running"
    yield point(m.RUNNING, running)
    for state in _STATES:
        yield point(m.STATE, task.state == state, state)
    if task.attempts:
        yield from (point(metric, value) for metric, value in _of_last(task.attempts[-1]))
    if task.steps_done is not None:
        yield point(m.STEP, task.steps_done)
    if task.steps_total is not None:
        yield point(m.STEPS_PLANNED, task.steps_total)
    yield point(m.PREEMPTIONS, task.preemptions)
    yield point(m.FAILURES, task.failures)
    yield point(m.DAMAGED, len(task.problems))
    for bucket, seconds in asdict(task.buckets).items():
        yield point(m.RUN_TIME, seconds, bucket)
    yield point(m.RUN_WAITING, task.waiting_seconds)
    if task.goodput is not None:
        yield point(m.RUN_GOODPUT, task.goodput)
    if newest is not None:
        yield point(m.CHECKPOINT_STEP, newest.step)
        if newest.taken_at is not None:
            yield point(m.CHECKPOINT_AGE, max(0.0, now - newest.taken_at))
    yield from (point(metric, value) for metric, value in _at_risk(task, newest, now=now))


def _of_last(attempt: AttemptHistory) -> Iterator[tuple[Metric, float]]:
    yield m.ATTEMPT, attempt.number
    if attempt.exit_code is not None:
        yield m.EXIT_CODE, attempt.exit_code


def _at_risk(task: TaskHistory, newest: Newest | None, *, now: float) -> Iterator[tuple[Metric, float]]:
    """Of a running task: its steps since the checkpoint, and the time since, or since its attempt began."""
    if task.state != "running" or task.steps_done is None:
        return
    unsaved = max(0, task.steps_done - (0 if newest is None else newest.step))
    yield m.STEPS_AT_RISK, unsaved
    began = task.attempts[-1].started_at
    taken = None if newest is None else newest.taken_at
    since = max((one for one in (began, taken) if one is not None), default=now)
    yield m.AT_RISK, max(0.0, now - since) if unsaved else 0.0
