"""What the runs ask of a queue with a worker: take items, do them all, and prove that each result is stored once."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Place:
    """Where a contender works: a folder of its own, and for servers the address of one (a URL, or HOST:PORT)."""

    folder: str
    server: str
    chunk: int


class Contender(Protocol):
    """One queue in a fresh place. `publish` and `drain` are called once each, in this order."""

    def publish(self, ids: Sequence[str]) -> None:
        """Adds an item for each id, with `payload_of` it; durable as this queue does it when it returns."""

    def drain(self, span: "Span") -> None:
        """Does every item: its function calls `span.item()` first and returns `value_of`, which is stored, and then the
        item is acknowledged. Calls `span.end()` once all are stored and acknowledged, or returns then.
        """

    def stored(self) -> int:
        """How many different ids have the right result."""

    def left(self) -> int:
        """How many items are not acknowledged."""


class Span:
    """From the begin of the first item to the end."""

    def __init__(self) -> None:
        self.items = 0
        self._began: float | None = None
        self._ended: float | None = None

    def item(self) -> None:
        """Work on an item begins."""
        if self._began is None:
            self._began = time.perf_counter()
        self.items += 1

    def chunk(self, items: int) -> None:
        """Work on so many items begins."""
        if self._began is None:
            self._began = time.perf_counter()
        self.items += items

    def end(self) -> None:
        """Everything is stored and acknowledged; what comes after is not counted. The last call counts."""
        self._ended = time.perf_counter()

    @property
    def began(self) -> float:
        if self._began is None:
            raise RuntimeError("no item was ever begun")
        return self._began

    @property
    def seconds(self) -> float:
        if self._ended is None:
            raise RuntimeError("it never ended")
        return self._ended - self.began

    @property
    def ended(self) -> bool:
        return self._ended is not None


def ids_of(items: int) -> list[str]:
    """As from a file list: 17 characters each."""
    return [f"images/{number:010d}" for number in range(items)]


def payload_of(name: str) -> dict[str, object]:
    return {"path": name, "label": 3}


def value_of(name: str) -> dict[str, object]:
    """What the no-op function returns for an id."""
    return {"label": len(name), "of": name}


def measure_drain(contender: Contender, items: int) -> dict[str, float]:
    """Seconds per item of publishing, and of lease, store and acknowledgement of an item that takes no time."""
    ids = ids_of(items)
    began = time.perf_counter()
    contender.publish(ids)
    published = time.perf_counter()
    span = Span()
    contender.drain(span)
    if not span.ended:
        span.end()
    if (stored := contender.stored()) != items:
        raise RuntimeError(f"{stored} of {items} results are stored")
    if left := contender.left():
        raise RuntimeError(f"{left} of {items} items are not acknowledged")
    if span.items != items:
        raise RuntimeError(f"{span.items} items were done, and there were {items}")
    return {"publish_item": (published - began) / items, "drain_item": span.seconds / items}
