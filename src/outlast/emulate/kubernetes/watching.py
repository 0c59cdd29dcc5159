"""Changes of objects, and those who want to hear of them."""

import queue
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

from outlast.emulate.kubernetes.copying import copied
from outlast.emulate.kubernetes.selecting import Chosen

Json = dict[str, Any]


class WatchEvent(NamedTuple):
    """One change. `kind` is ADDED, MODIFIED, DELETED or BOOKMARK; the object of a deletion is its last state."""

    kind: str
    object: Json


class Change(NamedTuple):
    """One change as the store keeps it; `kind` is ADDED, MODIFIED or DELETED."""

    number: int
    kind: str
    before: Json | None
    after: Json


@dataclass(eq=False, frozen=True)
class Subscription:
    """What a subscriber wants to hear, and where it hears it."""

    kind: str | None
    namespace: str | None
    chosen: Chosen
    deliver: Callable[[WatchEvent], None]

    def tell(self, change: Change) -> None:
        """Delivers the change if it is wanted; an object that leaves its selector is deleted, to the subscriber."""
        if self.kind is not None and change.after["kind"] != self.kind:
            return
        if self.namespace is not None and change.after["metadata"].get("namespace", "") != self.namespace:
            return
        before = change.before is not None and self.chosen(change.before)
        now = change.kind != "DELETED" and self.chosen(change.after)
        if before or now:
            kind = "MODIFIED" if before and now else "ADDED" if now else "DELETED"
            self.deliver(WatchEvent(kind, copied(change.after)))


class Watch:
    """Changes as they come, for a thread: iterate, or ask with `next_within`. Close it, or use it as a context."""

    def __init__(self, events: "queue.SimpleQueue[WatchEvent | None]", stop: Callable[[], None]) -> None:
        self._events, self._stop = events, stop

    def __enter__(self) -> "Watch":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __iter__(self) -> Iterator[WatchEvent]:
        """Every event until the watch is closed."""
        while (event := self._events.get()) is not None:
            yield event

    def next_within(self, seconds: float) -> WatchEvent | None:
        """The next event, or None if none comes in that time or the watch is closed."""
        try:
            return self._events.get(timeout=seconds)
        except queue.Empty:
            return None

    def close(self) -> None:
        """No event comes after this, and an iteration ends."""
        self._stop()
        self._events.put(None)
