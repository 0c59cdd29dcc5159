"""What a pod or a task would lose now, by the store that its manifest names; each store has a thread of its own."""

import time
from collections.abc import Callable, Mapping, Sequence

from outlast.clock import format_duration
from outlast.errors import SettingsError
from outlast.monitor.nodes_losses import AtRisk, Worksite
from outlast.monitor.watch_polling import Poller, stopped
from outlast.monitor.watch_reading import least_seconds, reader
from outlast.monitor.watch_rows import QueueRow, Row, TaskRow
from outlast.urls import masked

_LEAST_SECONDS = 1.0
_PATIENCE_SECONDS = 25.0  # a bucket that is away is given up after some 18 s
_STOP_SECONDS = 2.0
_MOST_STORES = 32  # at once; each has a thread
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


class StoreLosses:
    """Asks the stores, each in a thread of its own, as often as that is cheap. `close` it.

    `places`: where those are reached from here that the platform calls otherwise. `patience_seconds`: for the first
    answer of all that are asked at once; a store that takes longer is told as that, and goes on being read.
    """

    def __init__(self, places: Mapping[str, str] | None = None, *, patience_seconds: float = _PATIENCE_SECONDS) -> None:
        self._places, self._patience_seconds = dict(places or {}), patience_seconds
        self._pollers: dict[str, Poller[Sequence[Row]]] = {}

    def __call__(self, sites: Sequence[Worksite]) -> list[tuple[AtRisk, ...]]:
        wanted = {place: None for site in sites for url in site.urls if (place := self._reached(url)) is not None}
        self._watch(list(wanted)[:_MOST_STORES])
        return [tuple(risk for url in site.urls for risk in self._at(url, site)) for site in sites]

    def close(self) -> bool:
        """Reads nothing more. Whether all of it has ended: a store that hangs may hold a thread."""
        return stopped(self._pollers.values(), _STOP_SECONDS)

    def _watch(self, places: Sequence[str]) -> None:
        """Has these read and no others, and waits for the first answer of each."""
        for gone in set(self._pollers) - set(places):
            self._pollers.pop(gone).stop(0.0)
        for place in places:
            if place not in self._pollers:
                least = max(_LEAST_SECONDS, least_seconds(place))
                self._pollers[place] = Poller(place, _Opened(place).read, least=least)
                self._pollers[place].start()
        until = time.monotonic() + self._patience_seconds
        for place in places:
            self._pollers[place].first.wait(max(0.0, until - time.monotonic()))

    def _at(self, url: str, site: Worksite) -> list[AtRisk]:
        shown, place = masked(url), self._reached(url)
        if place is None:
            return [AtRisk(shown, problem=_NOT_ASKED)]
        poller = self._pollers.get(place)
        if poller is None:
            return [AtRisk(shown, problem=f"not asked: {_MOST_STORES} other stores are")]
        last = poller.latest
        if last.problem or last.value is None:
            why = last.problem or f"it has not answered within {format_duration(self._patience_seconds)}"
            return [AtRisk(shown, problem=why)]
        elapsed = time.monotonic() - last.at
        rows = [row.later(elapsed) for row in last.value]
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


class _Opened:
    """A store or a queue that is opened when it is first read: that may fail, and again succeed later."""

    def __init__(self, place: str) -> None:
        self._place = place
        self._read: Callable[[], Sequence[Row]] | None = None

    def read(self) -> Sequence[Row]:
        if self._read is None:
            self._read = reader(self._place)
        return self._read()


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
