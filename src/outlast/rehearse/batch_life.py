"""A worker's life in a rehearsal: leases of the dead end at once, and what all attempts did with their items."""

from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass

from outlast.errors import OutlastError
from outlast.events import ChunkBegun, ItemsGivenBack, ItemsStored, LeaseTaken, Recorded
from outlast.registry import open_queue
from outlast.rehearse.attempt import read_events
from outlast.rehearse.batches import find_batches
from outlast.rehearse.stage import Stage


def end_leases(stage: Stage, number: int) -> None:
    """After attempt `number`: what it held is free, as it is once a lease has run out.

    On the platform the next attempt waits for that, for as long as a lease is; here nobody has to, since everything of
    this attempt is known to be gone.
    """
    recorded = read_events(stage, number)
    queues = {batch.queue for batch in find_batches(recorded, stage.folder) if batch.queue is not None}
    renewals = [one.event.renewal for one in recorded if isinstance(one.event, LeaseTaken)]
    for place in queues:
        if not (stage.folder / place.path).exists():
            continue
        with closing(open_queue(place.url(stage.folder))) as queue:
            for renewal in renewals:
                try:
                    queue.expire(renewal)
                except (OutlastError, ValueError):  # another queue's, or the file is damaged: the next attempt shows it
                    continue


@dataclass(frozen=True, slots=True)
class Items:
    """What attempts did with their items, as their workers told."""

    begun: int = 0
    stored: int = 0
    given_back: int = 0

    def __add__(self, other: "Items") -> "Items":
        return Items(self.begun + other.begun, self.stored + other.stored, self.given_back + other.given_back)


def items_of(recorded: Sequence[Recorded]) -> Items:
    """What one attempt did."""
    begun = sum(one.event.items for one in recorded if isinstance(one.event, ChunkBegun))
    stored = sum(one.event.items for one in recorded if isinstance(one.event, ItemsStored))
    back = sum(one.event.items for one in recorded if isinstance(one.event, ItemsGivenBack))
    return Items(begun, stored, back)


def account_of(uninterrupted: Stage, stage: Stage, last_attempt: int) -> str | None:
    """What the interruptions cost in items, in one line; None for a run that is no batch work."""
    recorded = [one for number in range(last_attempt + 1) for one in read_events(stage, number)]
    if not find_batches(recorded, stage.folder):
        return None
    items, once = items_of(recorded), items_of(read_events(uninterrupted, 0))
    again = max(0, items.begun - items.given_back - once.begun)
    return (
        f"batch work: {_items(again)} computed again after interruptions, and {_items(items.given_back)} given back at "
        "notices, for the next attempt to have at once"
    )


def _items(count: int) -> str:
    return "1 item was" if count == 1 else f"{count} items were"
