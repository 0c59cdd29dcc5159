"""Looks at stores and queues, one after the other, and keeps what it saw for whoever asks."""

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path

from outlast import metering as m
from outlast.checkpoint.runs import check_store
from outlast.console import Console
from outlast.errors import OutlastError, SettingsError
from outlast.metering import Point, label
from outlast.metrics.of_queues import read_queue
from outlast.metrics.of_stores import StoreNumbers
from outlast.registry import QUEUES, open_queue, open_store
from outlast.urls import masked

Read = Callable[[], Iterable[Point]]


def open_source(url: str) -> Read:
    """What reads a store or a queue; raises SettingsError for what is neither."""
    scheme, separator, _ = url.partition("://")
    if separator and scheme in (*QUEUES, "postgres"):
        queue = open_queue(url)
        return lambda: read_queue(queue)
    if not separator and not Path(url).is_dir():
        raise SettingsError(f"there is no store at {url!r}: no such folder")
    store = open_store(url)
    check_store(store)
    return StoreNumbers(store, url).read


@dataclass(slots=True)
class Watched:
    """One store or queue, and what was seen of it last."""

    url: str
    console: Console
    read: Read | None = None
    points: Sequence[Point] = ()
    _trouble: str = field(default="")

    def look(self) -> bool:
        """Looks once; whether that succeeded. What was seen before stays only where it did."""
        labels, began = {"url": label(masked(self.url))}, time.monotonic()
        points: list[Point] = []
        trouble = ""
        try:
            if self.read is None:
                self.read = open_source(self.url)
            points = list(self.read())
        except OutlastError as error:
            trouble, points = str(error), []
        if trouble and trouble != self._trouble:
            self.console.warning(f"{masked(self.url)} could not be read: {trouble}. It is tried again")
        self._trouble = trouble
        up = Point(m.SOURCE_UP, labels, 0 if trouble else 1)
        self.points = [*points, up, Point(m.READ_SECONDS, labels, time.monotonic() - began)]
        return not trouble


class Sources:
    """Several stores and queues. Who asks gets what was seen last."""

    def __init__(self, urls: Sequence[str], console: Console) -> None:
        self.watched = [Watched(url, console) for url in dict.fromkeys(urls)]

    def look(self) -> bool:
        """Looks at each once; whether all succeeded."""
        looked = [one.look() for one in self.watched]
        return all(looked)

    def points(self) -> Sequence[Point]:
        """What was seen last, each series once: two URLs may lead to one store."""
        return list(_once(chain.from_iterable(one.points for one in self.watched)))

    def go_on(self, every: float, stop: threading.Event) -> None:
        """Looks again and again, until told to stop."""
        while not stop.wait(every):
            self.look()


def _once(points: Iterable[Point]) -> Iterator[Point]:
    seen: set[tuple[str, frozenset[tuple[str, str]]]] = set()
    for point in points:
        key = (point.metric.name, frozenset(point.labels.items()))
        if key not in seen:
            seen.add(key)
            yield point
