"""What a pod or a task would lose now, as the store says that its manifest names; each store is read seldom."""

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from outlast.errors import OutlastError, SettingsError
from outlast.monitor.nodes_losses import AtRisk, Worksite
from outlast.monitor.watch_polling import wait_seconds
from outlast.monitor.watch_reading import least_seconds, reader
from outlast.monitor.watch_rows import QueueRow, Row, TaskRow
from outlast.urls import masked

_LEAST_SECONDS = 1.0
# A manifest is written by others. Buckets are asked where it names them; a database could be anybody's, and would see
# the login of whoever looks. A path is one in the container.
_ASKED = ("gs", "s3", "az")
_NOT_ASKED = (
    "not asked: it is a path in the container, or a database that only a manifest names; --at tells where it is"
)
_IS_OVER = ("finished", "superseded")


def places_given(given: Sequence[str]) -> dict[str, str]:
    """FROM=PLACE as the options give it; raises SettingsError for what is none."""
    found = {}
    for one in given:
        # A URL may have "=" in its options, and a place mostly has none.
        origin, separator, place = one.rpartition("=")
        if not separator or not origin or not place:
            raise SettingsError(f"--at={one!r}: write FROM=PLACE, such as gs://bucket=/mnt/bucket")
        found[origin.rstrip("/")] = place.rstrip("/") or "/"
    return found


@dataclass(frozen=True, slots=True)
class _Last:
    """What a store said, when, and how long that is good for."""

    rows: Sequence[Row]
    problem: str
    at: float
    good_for: float


class StoreLosses:
    """Asks the stores. `places`: where those are reached from here that the platform calls otherwise.

    `interval`: how long what a store said counts; longer where reading is slow or charged for.
    """

    def __init__(self, places: Mapping[str, str] = {}, *, interval: float = _LEAST_SECONDS) -> None:
        self._places, self._interval = dict(places), interval
        self._readers: dict[str, Callable[[], Sequence[Row]]] = {}
        self._last: dict[str, _Last] = {}
        self._lock = threading.Lock()

    def __call__(self, site: Worksite) -> Sequence[AtRisk]:
        return [risk for url in site.urls for risk in self._at(url, site)]

    def _at(self, url: str, site: Worksite) -> list[AtRisk]:
        shown, place = masked(url), self._reached(url)
        if place is None:
            return [AtRisk(shown, problem=_NOT_ASKED)]
        with self._lock:
            last = self._read(place)
        if last.problem:
            return [AtRisk(shown, problem=last.problem)]
        elapsed = time.monotonic() - last.at
        rows = [row.later(elapsed) for row in last.rows]
        tasks = _of_site([row for row in rows if isinstance(row, TaskRow)], site)
        queues = [_queue_risk(shown, row) for row in rows if isinstance(row, QueueRow)]
        found = [_task_risk(shown, row) for row in tasks] + queues
        return found or [AtRisk(shown, problem="nothing of this job is there yet")]

    def _reached(self, url: str) -> str | None:
        """Where it is reached from here; None where nobody has told and it is not asked for that."""
        for origin in sorted(self._places, key=len, reverse=True):
            if url == origin or url.startswith(f"{origin}/"):
                return self._places[origin] + url[len(origin) :]
        return url if url.partition("://")[0] in _ASKED and "://" in url else None

    def _read(self, place: str) -> _Last:
        known = self._last.get(place)
        began = time.monotonic()
        if known is not None and began - known.at < known.good_for:
            return known
        rows: Sequence[Row] = ()
        problem = ""
        try:
            if place not in self._readers:
                self._readers[place] = reader(place)
            rows = self._readers[place]()
        except OutlastError as error:
            problem = str(error)
        now = time.monotonic()
        pause = wait_seconds(now - began, least=max(self._interval, least_seconds(place)), failures=int(bool(problem)))
        self._last[place] = _Last(rows, problem, now, pause)
        return self._last[place]


def _of_site(rows: Sequence[TaskRow], site: Worksite) -> list[TaskRow]:
    """The tasks that a process works at: by its machine's name, else by job and index, else all that are not over."""
    here = [row for row in rows if site.host and row.host == site.host and row.state not in _IS_OVER]
    if here:
        return here
    of_job = [row for row in rows if row.job == site.job] or [row for row in rows if row.state not in _IS_OVER]
    return [row for row in of_job if site.task in (None, row.task)] or of_job


def _task_risk(url: str, row: TaskRow) -> AtRisk:
    return AtRisk(
        url=url,
        what=row.name,
        state=row.state,
        step=row.steps_done,
        checkpoint_step=row.checkpoint_step,
        checkpoint_age_seconds=row.checkpoint_age_seconds,
        risk_seconds=row.risk_seconds if row.state not in _IS_OVER else 0.0,
        risk_steps=row.risk_steps if row.state not in _IS_OVER else 0,
    )


def _queue_risk(url: str, row: QueueRow) -> AtRisk:
    """A worker that stops gives its items back: what is lost is the work on those that are in its hands."""
    words = ", ".join(
        f"{name} {'?' if count is None else count}"
        for name, count in (("ready", row.ready), ("leased", row.leased), ("done", row.done), ("dead", row.dead))
    )
    return AtRisk(url, what="queue", state=f"{words}; leased items go back to the queue")
