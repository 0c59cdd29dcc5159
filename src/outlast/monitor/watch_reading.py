"""Reads a store or a queue into the rows of the live view; how often that may be done depends on what it costs."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from outlast.checkpoint.history import AttemptHistory, TaskHistory, history_of
from outlast.checkpoint.lineage import claimed_attempts, read_lineage
from outlast.checkpoint.places import TaskPlace
from outlast.checkpoint.record import load_record
from outlast.checkpoint.runs import check_store
from outlast.checkpoint.survey import tasks_in
from outlast.errors import CheckpointCorrupt, ObjectMissing, SettingsError
from outlast.items import Queue
from outlast.monitor.watch_rows import QueueRow, Row, TaskRow
from outlast.ports import Store
from outlast.registry import QUEUES, open_queue, open_store
from outlast.urls import masked

# Between two readings, at least: what is charged by the request, and somebody else's database.
_LEAST_SECONDS = {"gs": 15.0, "s3": 15.0, "az": 15.0, "pubsub": 15.0, "postgresql": 2.0, "postgres": 2.0}
_QUEUES = (*QUEUES, "postgres")
_MOST_LOOKS = 2  # at a checkpoint that is gone when it is to be read: a newer one is there


def least_seconds(url: str) -> float:
    """How long to wait between two readings at least, whatever the user wants; 0 for folders and local databases."""
    scheme, separator, _ = url.partition("://")
    return _LEAST_SECONDS.get(scheme, 0.0) if separator else 0.0


def reader(url: str) -> Callable[[], list[Row]]:
    """Reads a URL as often as it is called. Raises SettingsError at once for one that cannot work."""
    scheme, separator, _ = url.partition("://")
    if separator and scheme in _QUEUES:
        queue = open_queue(url)
        return lambda: [_queue_row(url, queue)]
    if not separator and not Path(url).is_dir():
        raise SettingsError(f"there is no store at {url!r}: no such folder")
    store = open_store(url)
    check_store(store)
    return _StoreRows(url, store).read


def _queue_row(url: str, queue: Queue) -> QueueRow:
    stats = queue.stats()
    return QueueRow(masked(url), stats.ready, stats.leased, stats.done, stats.dead, stats.oldest_seconds)


@dataclass(slots=True)
class _StoreRows:
    """The newest run of each job; what is finished is read once, as long as nobody claims it anew."""

    url: str
    store: Store
    _finished: dict[TaskPlace, tuple[int, float, TaskRow]] = field(default_factory=dict)

    def read(self) -> list[Row]:
        """Raises StoreUnreachable where the storage does not answer."""
        places = tasks_in(self.store)
        self._finished = {place: kept for place, kept in self._finished.items() if place in set(places)}
        return [self._row(place) for place in places]

    def _row(self, place: TaskPlace) -> TaskRow:
        kept = self._finished.get(place)
        if kept is not None and kept[0] == len(claimed_attempts(self.store, place)):
            return kept[2].later(time.monotonic() - kept[1])
        task = history_of(self.store, place)
        row = _task_row(self.url, task, _newest(self.store, place), now=time.time())
        if row.state == "finished":
            self._finished[place] = (len(task.attempts), time.monotonic(), row)
        return row


@dataclass(frozen=True, slots=True)
class _Newest:
    """The newest checkpoint that counts, and when its state was taken, in wall-clock seconds."""

    step: int
    taken_at: float | None


def _newest(store: Store, place: TaskPlace) -> _Newest | None:
    """What a resume would go on from, as far as names and one record tell; None where there is none."""
    for _ in range(_MOST_LOOKS):
        counted = read_lineage(store, place).counted
        if not counted:
            return None
        try:
            record = load_record(store, place.commit(counted[0]))
            return _Newest(record.step, datetime.fromisoformat(record.saved_at).timestamp())
        except ObjectMissing:
            continue
        except (CheckpointCorrupt, ValueError, OverflowError):
            return _Newest(counted[0].step, None)
    return None


def _task_row(url: str, task: TaskHistory, newest: _Newest | None, *, now: float) -> TaskRow:
    last = task.attempts[-1] if task.attempts else None
    running = last if task.state == "running" else None
    taken = None if newest is None else newest.taken_at
    row = TaskRow(
        url=masked(url),
        job=task.place.job,
        run=task.place.run,
        task=task.place.index,
        state=last.ended_by if task.state == "unfinished" and last is not None else task.state,
        steps_done=task.steps_done,
        steps_total=task.steps_total,
        eta_seconds=None if running is None else _eta(task, running),
        checkpoint_step=None if newest is None else newest.step,
        checkpoint_age_seconds=None if taken is None else max(0.0, now - taken),
        attempts=tuple(one.ended_by for one in task.attempts),
        goodput=task.goodput,
        host="" if last is None else last.host,
        troubles=task.problems,
    )
    return row if running is None else _with_risk(row, running, taken, now=now)


def _with_risk(row: TaskRow, running: AttemptHistory, taken: float | None, *, now: float) -> TaskRow:
    """With what a running attempt would lose, and with the notice that it has heard."""
    since = max((one for one in (running.started_at, taken) if one is not None), default=now)
    # A journal tells of steps now and then only, so that none since the checkpoint does not mean that there are none.
    steps = None if row.steps_done is None else row.steps_done - (row.checkpoint_step or 0)
    steps = steps if steps is not None and steps > 0 else None
    notice = running.notice
    left = None if notice is None else max(0.0, notice.grace_seconds - (running.seconds - notice.at))
    words = "" if notice is None else f"{notice.source}: {notice.reason}" if notice.reason else notice.source
    return row.with_risk(max(0.0, now - since), steps, words, left)


def _eta(task: TaskHistory, running: AttemptHistory) -> float | None:
    """By the rate of the running attempt."""
    seconds = running.seconds - (running.loop_seconds or 0.0)
    if task.steps_total is None or task.steps_done is None or not running.steps or seconds <= 0:
        return None
    return max(0, task.steps_total - task.steps_done) / (running.steps / seconds)
