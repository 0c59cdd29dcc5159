"""Reads a store or a queue into the rows of the live view; how often that may be done depends on what it costs."""

import time
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path

from outlast.checkpoint.history import TaskHistory, history_of
from outlast.checkpoint.runs import check_store
from outlast.checkpoint.survey import survey, tasks_in
from outlast.errors import SettingsError
from outlast.items import Queue
from outlast.monitor.watch_rows import QueueRow, Row, TaskRow
from outlast.ports import Store
from outlast.registry import QUEUES, open_queue, open_store

# Between two readings, at least: what is charged by the request, and somebody else's database.
_LEAST_SECONDS = {"gs": 15.0, "s3": 15.0, "az": 15.0, "pubsub": 15.0, "postgresql": 2.0, "postgres": 2.0}


def least_seconds(url: str) -> float:
    """How long to wait between two readings at least, whatever the user wants; 0 for folders and local databases."""
    scheme, separator, _ = url.partition("://")
    return _LEAST_SECONDS.get(scheme, 0.0) if separator else 0.0


def reader(url: str) -> Callable[[], list[Row]]:
    """Reads a URL as often as it is called. Raises SettingsError at once for one that cannot work."""
    scheme, separator, _ = url.partition("://")
    if separator and (scheme in QUEUES or scheme == "postgres"):
        queue = open_queue(url)
        return lambda: [_queue_row(url, queue)]
    if not separator and not Path(url).is_dir():
        raise SettingsError(f"there is no store at {url!r}: no such folder")
    store = open_store(url)
    check_store(store)
    return lambda: list(_task_rows(url, store))


def _queue_row(url: str, queue: Queue) -> QueueRow:
    stats = queue.stats()
    return QueueRow(url, stats.ready, stats.leased, stats.done, stats.dead, stats.oldest_seconds)


def _task_rows(url: str, store: Store) -> Iterator[TaskRow]:
    for place in tasks_in(store):
        yield _task_row(url, store, history_of(store, place))


def _task_row(url: str, store: Store, task: TaskHistory) -> TaskRow:
    counted = [one for one in survey(store, task.place, verify=False) if one.standing == "counted" and one.record]
    last = counted[-1] if counted else None
    age = (
        None
        if last is None or last.record is None
        else max(0.0, time.time() - datetime.fromisoformat(last.record.saved_at).timestamp())
    )
    step = None if last is None else last.name.step
    at_risk = None if task.steps_done is None else max(0, task.steps_done - (step or 0))
    running = task.state == "running"
    notice = task.attempts[-1].notice if task.attempts and running else None
    return TaskRow(
        url,
        task.place.job,
        task.place.run,
        task.place.index,
        task.state,
        task.steps_done,
        task.steps_total,
        None,
        step,
        age,
        age if running else None,
        at_risk if running else None,
        tuple(one.ended_by for one in task.attempts),
        "" if notice is None else f"{notice.source}: {notice.reason}",
        None if notice is None else notice.grace_seconds,
        task.goodput,
        task.attempts[-1].host if task.attempts else "",
    )
