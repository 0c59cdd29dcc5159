"""The doors to batch work: items, leases on them, results, and the places that keep them."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, runtime_checkable

State = Literal["ready", "leased", "done", "dead"]

# --- what a queue is given and gives -----------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Draft:
    """An item to publish. `payload` is JSON text; equal payloads are equal texts."""

    id: str
    payload: str


@dataclass(frozen=True, slots=True)
class Accepted:
    """What became of drafts: how many are new, how many were there with this payload.

    `conflicting` are the ids of those that are there with another payload, which stays; `refused` are (id, reason) of
    those that this queue cannot keep. Neither were published.
    """

    new: int
    already: int
    conflicting: tuple[str, ...] = ()
    refused: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class LeasedItem:
    """An item in somebody's hands. `claim` counts its leases from 1 on and only grows.

    `errors`, `deaths` and `releases` are what its earlier leases ended with.
    """

    id: str
    payload: str
    claim: int
    errors: int = 0
    deaths: int = 0
    releases: int = 0


@dataclass(frozen=True, slots=True)
class Lease:
    """A hold on some items until it ends, unless it is extended; never longer than its holder lives.

    `token` is new for each lease. `renewal` is one line of text by which any process can extend or expire it.
    """

    token: str
    renewal: str
    items: tuple[LeasedItem, ...]


@dataclass(frozen=True, slots=True)
class Failure:
    """Why an item has no result: one line or a traceback, for people."""

    id: str
    reason: str


@dataclass(frozen=True, slots=True)
class ItemState:
    """All that a queue knows of an item. `payload` is JSON text; `reason` is the last failure's, None without one.

    A queue that cannot know a figure has None there.
    """

    id: str
    state: State
    payload: str
    claim: int | None
    errors: int | None
    deaths: int | None
    releases: int | None
    reason: str | None


@dataclass(frozen=True, slots=True)
class QueueStats:
    """Items by state, and the age of the oldest that is neither done nor dead, in seconds; None: cannot be known."""

    ready: int | None
    leased: int | None
    done: int | None
    dead: int | None
    oldest_seconds: float | None = None

    @property
    def left(self) -> int | None:
        """Items that are neither done nor dead; None where that cannot be known."""
        return None if self.ready is None or self.leased is None else self.ready + self.leased


@dataclass(frozen=True, slots=True)
class QueueTraits:
    """What a queue is like.

    `most_payload_bytes`: a larger payload, as UTF-8, is refused. `counts`: whether it knows states, counts and claims,
    and so when nothing is left; one that does not says None for all of them. `publish_batch`: how many drafts one
    `publish` takes at its best speed.
    """

    most_payload_bytes: int
    counts: bool = True
    publish_batch: int = 1000


# In the transaction of an ack: called with the database's connection and the ids that the lease still holds.
Storing = Callable[[object, frozenset[str]], None]


class Queue(Protocol):
    """A place that keeps items and hands them out under leases.

    Every verb is atomic, and survives any process's death once it returns. What was published survives a power cut,
    too; one may undo the last leases and what became of them, which repeats work and loses none.

    Methods may be called from several threads, and many processes use one queue at a time. All raise QueueUnreachable
    when the place does not answer, after having waited and tried again for some seconds; what was asked for then may or
    may not have happened.

    Time is told by one clock for all users of a queue: nobody's lease ends because a machine's clock is ahead.

    What a lease does not hold any more is left alone: `ack`, `fail`, `bury` and `release` pass over items that the
    lease has lost or settled, and return the ids that they changed.
    """

    @property
    def url(self) -> str:
        """Where it is, for any process of this machine: a relative path in it is made absolute."""
        ...

    @property
    def traits(self) -> QueueTraits:
        """What it is like."""
        ...

    @property
    def database(self) -> str | None:
        """Names the database; a sink of the same name can store in the transaction of an `ack`. None: there is none."""
        ...

    def publish(self, drafts: Sequence[Draft]) -> Accepted:
        """Adds what is not there yet, all or nothing. Of equal ids among the drafts the first counts."""
        ...

    def lease(self, most: int, seconds: float, *, begin: bool, max_deaths: int) -> Lease | None:
        """Claims up to `most` items for so long, the oldest first; None when none can be had now.

        Before that it ends what has expired: an item whose lease was begun has one death more and is a suspect, or dead
        where that is more than `max_deaths`; one that was not begun is as before. Suspects are leased alone, after the
        others. `begin`: work on them begins at once.
        """
        ...

    def begin(self, lease: Lease) -> bool:
        """Work on the items begins: should the lease expire, that counts as a death. False if it is lost."""
        ...

    def extend(self, renewal: str, seconds: float) -> bool:
        """The lease ends in so many seconds from now. False if it is lost: somebody has ended it, or all is settled."""
        ...

    def expire(self, renewal: str) -> None:
        """The holder is dead: the lease ends now. No error if it is gone."""
        ...

    def lift(self, lease: Lease, claims: Mapping[str, int]) -> Lease:
        """Raises the claims of items to those numbers where they are lower; a sink may hold more from another queue.

        Returns the lease with what its items have now; those it has lost are not among them.
        """
        ...

    def ack(self, lease: Lease, ids: Sequence[str], *, storing: Storing | None = None) -> frozenset[str]:
        """Marks as done. `storing` runs before, in the same transaction: both happen or neither does.

        Only a queue with a `database` takes `storing`; an exception from it goes through.
        """
        ...

    def release(self, lease: Lease, ids: Sequence[str]) -> frozenset[str]:
        """Gives back, to be leased again at once. It costs the items nothing and is counted apart."""
        ...

    def fail(
        self, lease: Lease, failures: Sequence[Failure], *, max_errors: int, delay_seconds: float = 0.0
    ) -> frozenset[str]:
        """One error more; ready again after the delay, or dead where that is more than `max_errors`."""
        ...

    def bury(self, lease: Lease, failures: Sequence[Failure]) -> frozenset[str]:
        """Dead at once."""
        ...

    def stats(self) -> QueueStats:
        """Counts as they are now; what an ended lease held counts as ready."""
        ...

    def note_success(self, version: str | None) -> None:
        """Somebody has computed a result of this version for the queue: its function works."""
        ...

    def has_success(self, version: str | None) -> bool:
        """Whether that was ever noted, by any process. False, too, where the queue keeps no note."""
        ...

    def items(self, state: State | None = None) -> Iterator[ItemState]:
        """All items, or those in one state, the oldest first; read piece by piece, at any size.

        Raises SettingsError, as `retry` does, where the queue keeps no list of them (one that does not count).
        """
        ...

    def retry(self, ids: Sequence[str] | None = None, *, state: Literal["dead", "done"] = "dead") -> int:
        """Makes items in that state ready again, all of them or those named, with all three counts at 0.

        Returns how many. The claim goes on counting.
        """
        ...

    def close(self) -> None:
        """Lets go of connections. Leases stay."""
        ...


@runtime_checkable
class InFiles(Protocol):
    """A queue that lies in files of this machine."""

    @property
    def files(self) -> frozenset[str]:
        """Their real paths, whether they are there or not; none if it does not, after all."""
        ...


# --- sinks --------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Result:
    """What became of an item. `value` is JSON text; `claim` is that of the item's lease."""

    id: str
    value: str
    version: str | None
    claim: int


@dataclass(frozen=True, slots=True)
class Stored:
    """What a sink has for an id. `claim` is 0 where the sink keeps none to compare with."""

    version: str | None
    claim: int


@dataclass(frozen=True, slots=True)
class SinkTraits:
    """What a sink is like.

    `few`: it is meant for thousands of results, not for millions.
    """

    few: bool = False


def one_per_id(results: Sequence[Result]) -> dict[str, Result]:
    """By id, the results that count: of two for one id the one with the higher claim, of equal claims the later."""
    chosen: dict[str, Result] = {}
    for result in results:
        if result.id not in chosen or result.claim >= chosen[result.id].claim:
            chosen[result.id] = result
    return chosen


class Sink(Protocol):
    """A place that keeps results, one per id: of two for one id the one with the higher claim stays, of equal claims
    the later.

    Methods raise SinkUnreachable when the place does not answer or refuses (full, read-only), and SettingsError when
    the URL cannot be a sink. Many processes store at a time.
    """

    @property
    def url(self) -> str:
        """Where it is, in the user's words."""
        ...

    @property
    def traits(self) -> SinkTraits:
        """What it is like."""
        ...

    @property
    def database(self) -> str | None:
        """As Queue.database: `store` takes a connection of that one."""
        ...

    def prepare(self) -> None:
        """Makes what must be there (a table, a folder) and mends what a death has left. Called once by each worker."""
        ...

    def known(self, items: Sequence[LeasedItem]) -> Mapping[str, Stored]:
        """What is stored for those of the items that have a result; costs about a probe of an index per item."""
        ...

    def store(self, results: Sequence[Result], *, connection: object | None = None) -> None:
        """Adds or replaces, all or nothing where the place can; durable when it returns.

        With `connection`, which is in a transaction of the sink's own database, it is as durable as that.
        """
        ...

    def results(self) -> Iterator[Result]:
        """All that is stored, in no order, read piece by piece."""
        ...

    def close(self) -> None:
        """Lets go of connections."""
        ...


@runtime_checkable
class CompactableSink(Sink, Protocol):
    """A sink in which results gather in parts, until they are joined."""

    def compact(self) -> int:
        """Leaves one result per id, in few parts; a death inside it costs nothing. Returns how many results."""
        ...
