"""The queue that users hold: named by a URL, opened when first used."""

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Literal, Self

from outlast.errors import SettingsError
from outlast.items import ItemState, QueueStats, State
from outlast.items import Queue as Port
from outlast.registry import open_queue
from outlast.settings import console_for
from outlast.worker.publishing import Published, Row, publish_rows


class Queue:
    """A queue of items, each to be done once.

    `url`: ``sqlite:///work.db`` (a file, for the processes of one machine), ``postgresql://HOST/DATABASE``, or
    ``pubsub://PROJECT/SUBSCRIPTION?topic=TOPIC&ledger=postgresql://…``. Raises SettingsError for another.
    """

    def __init__(self, url: str) -> None:
        with _telling():
            self.port = open_queue(url)

    @property
    def url(self) -> str:
        """Where it is."""
        return self.port.url

    def publish(self, items: Mapping[str, object] | Iterable[Row | tuple[str, object] | str]) -> Published:
        """Adds items that are not there yet: {id: payload}, pairs of these, or ids alone, whose payload is {"id": id}.

        Ids are texts; payloads are whatever JSON can hold. To publish again is safe: an id that is there is not added
        twice, and counted as `already`. Rows that cannot be published are in `rejected`, and stop no others; a line on
        standard error says how many. Raises QueueUnreachable.
        """
        pairs = items.items() if isinstance(items, Mapping) else items
        with _telling():
            told = publish_rows(self.port, (one if isinstance(one, Row) else _row(one) for one in pairs))
        if told.rejected:
            count, first = len(told.rejected), told.rejected[0]
            console_for(os.environ).warning(
                f"publish: {count} of the rows were rejected, the first of them {first.id!r}: {first.reason}"
            )
        return told

    def stats(self) -> QueueStats:
        """How many items are ready, leased, done and dead; None where the queue cannot know."""
        with _telling():
            return self.port.stats()

    def items(self, state: State | None = None) -> Iterator[ItemState]:
        """All items, or those in one state, the oldest first."""
        with _telling():
            yield from self.port.items(state)

    def dead(self) -> Iterator[ItemState]:
        """The dead letters, with the reason of each."""
        return self.items("dead")

    def retry(self, ids: Sequence[str] | None = None, *, state: Literal["dead", "done"] = "dead") -> int:
        """Makes dead letters (or done items) ready again, all or those named, with a clean record. Returns how many."""
        with _telling():
            return self.port.retry(ids, state=state)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Lets go of connections."""
        self.port.close()


def _telling() -> AbstractContextManager[None]:
    return console_for(os.environ).telling()


def port_of(queue: "Queue | Port | str") -> Port:
    """The adapter behind what somebody passes as a queue."""
    if isinstance(queue, str):
        return open_queue(queue)
    return queue.port if isinstance(queue, Queue) else queue


def _row(pair: object) -> Row:
    if isinstance(pair, str):
        return Row(pair, {"id": pair})
    if isinstance(pair, tuple) and len(pair) == 2:
        return Row(pair[0], pair[1])
    raise SettingsError(
        f"publish() takes {{id: payload}}, (id, payload) pairs or ids, not {type(pair).__name__}; it was not published"
    )
