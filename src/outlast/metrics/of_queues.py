"""The numbers of a queue of items."""

from collections.abc import Iterator

from outlast import metering as m
from outlast.items import Queue
from outlast.metering import Point, label
from outlast.urls import masked


def read_queue(queue: Queue) -> Iterator[Point]:
    """The numbers now; those that the queue cannot know are left out. Raises QueueUnreachable."""
    stats, labels = queue.stats(), {m.QUEUE: label(masked(queue.url))}
    counts = {"ready": stats.ready, "leased": stats.leased, "done": stats.done, "dead": stats.dead}
    for state, items in counts.items():
        if items is not None:
            yield Point(m.QUEUE_ITEMS, {**labels, "state": state}, items)
    if stats.oldest_seconds is not None:
        yield Point(m.QUEUE_OLDEST, labels, stats.oldest_seconds)
