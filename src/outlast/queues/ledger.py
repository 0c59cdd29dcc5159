"""What a queue must do beside the verbs of every queue, to be the ledger of a broker that forgets and repeats."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, TypeGuard

from outlast.items import Draft, Lease, Queue


@dataclass(frozen=True, slots=True)
class Standing:
    """What a ledger says of items that a broker has handed over.

    `lease` holds those that could be had, None without one. `settled` are done or dead. `held` are in other hands, with
    the seconds until that lease ends if nobody extends it. `later` are ready, but not now, with the seconds until then:
    after an error, or 0 for a suspect that has to be leased alone, after others. `unknown` were never published here.
    """

    lease: Lease | None = None
    settled: frozenset[str] = frozenset()
    held: Mapping[str, float] = field(default_factory=dict)
    later: Mapping[str, float] = field(default_factory=dict)
    unknown: frozenset[str] = frozenset()


class Ledger(Queue, Protocol):
    """A queue that decides what becomes of a broker's messages. A `retry` of an item forgets that it was sent.

    No verb here is given more than some thousand ids at a time.
    """

    def dedicate(self, name: str) -> str | None:
        """Makes this the ledger of the subscription of that name, if it holds no items and is nobody's.

        Returns whose ledger it is; None if it is a queue of its own.
        """
        ...

    def note_strangers(self) -> None:
        """Items have come that were not published here, so that nobody knows how many more there are; durable."""
        ...

    def has_strangers(self) -> bool:
        """Whether that was ever noted, by any process."""
        ...

    def lease_named(self, ids: Sequence[str], seconds: float, *, begin: bool, max_deaths: int) -> Standing:
        """Leases, of exactly these items, all that can be had, as `lease` would; first ends what has expired.

        Suspects can be had one at a time, and only when no other item is ready. With an unknown one among the items
        nothing is leased.
        """
        ...

    def held(self, renewal: str) -> frozenset[str]:
        """The ids that a lease holds still."""
        ...

    def unsent(self, ids: Sequence[str]) -> Sequence[Draft]:
        """Those of the items that are ready and were never marked as sent, with the payloads that are kept here."""
        ...

    def mark_sent(self, ids: Sequence[str]) -> None:
        """The broker has these items; durable when it returns."""
        ...


def is_ledger(queue: Queue) -> TypeGuard[Ledger]:
    """Whether a queue has these verbs; asks its class, since its properties may have to connect."""
    verbs = {name for name in vars(Ledger) if not name.startswith("_")}
    return all(hasattr(type(queue), name) for name in verbs)
