"""The items of one lease, and what has become of each."""

import json
import threading
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property

from outlast.errors import Interrupted, ItemError, LoopMisused
from outlast.items import Failure, Lease, LeasedItem
from outlast.worker.options import Load
from outlast.worker.values import NotJson, value_text


class Item:
    """One item to work on.

    `id`: its text. `payload`: what was published. `attempt`: how often it came back, by an error, a death or a release
    (0 at first). `loaded`: what `load` made of it, None without one.
    """

    def __init__(self, leased: LeasedItem) -> None:
        self._leased = leased
        self.loaded: object = None
        self.load_error: BaseException | None = None
        self._load: Load | None = None

    @property
    def id(self) -> str:
        return self._leased.id

    @cached_property
    def payload(self) -> object:
        return json.loads(self._leased.payload)

    @property
    def attempt(self) -> int:
        return self._leased.errors + self._leased.deaths + self._leased.releases

    @property
    def errors(self) -> int:
        """How often it has failed before."""
        return self._leased.errors

    @property
    def claim(self) -> int:
        """Counts the item's leases; what a sink compares."""
        return self._leased.claim

    def load(self, load: Load) -> None:
        """Sets `loaded`, or `load_error`: also what is no Exception, since nobody would hear of it in a thread."""
        self._load = load
        try:
            self.loaded = load(self)
        except BaseException as error:  # noqa: BLE001 - fails this item, when its chunk is worked on
            self.load_error = error

    def renew(self) -> None:
        """As before the function had it: what that has changed in the payload, or in what was loaded, is undone."""
        self.__dict__.pop("payload", None)
        if self._load is not None:
            self.loaded = self.load_error = None
            self.load(self._load)
            if isinstance(self.load_error, KeyboardInterrupt | Interrupted):
                raise self.load_error

    def __repr__(self) -> str:
        return f"Item({self.id!r}, attempt={self.attempt})"


class Chunk(Sequence[Item]):
    """Items under one lease. Iterating over it stops early when the worker has to leave, or the lease is lost."""

    def __init__(self, lease: Lease) -> None:
        self.lease = lease
        self.stops = threading.Event()  # no further item is to be begun
        self.lost = self.timed = False  # `timed`: somebody else notes how long its items take
        self._items = [Item(leased) for leased in lease.items]
        self._by_id = {item.id: item for item in self._items}
        self._lock = threading.Lock()
        self._values: dict[str, str] = {}
        self._failures: dict[str, Failure] = {}
        self._hopeless: set[str] = set()  # of those that failed
        self._started: set[str] = set()
        self._settled: set[str] = set()
        self.settling = threading.RLock()  # held by whoever settles

    def __len__(self) -> int:
        return len(self._items)

    def __getitem__(self, index):  # type: ignore[no-untyped-def]  # as Sequence has it: an item, or several
        self.start(None)
        return self._items[index]

    def __iter__(self) -> Iterator[Item]:
        for item in self._items:
            if self.stops.is_set():
                return
            if item.load_error is not None:
                continue
            with self._lock:
                self._started.add(item.id)
            yield item

    def done(self, item: Item | str, value: object) -> None:
        """The item's result: stored when the next chunk is asked for. One that JSON cannot hold fails the item."""
        name = self._name(item)
        try:
            text = value_text(value)
        except NotJson as error:
            self.fail(name, f"the result cannot be stored: {error}")
            return
        with self._lock:
            self._failures.pop(name, None)
            self._values[name] = text

    def done_all(self, values: Iterable[tuple[str, object]]) -> None:
        """As `done` for each of (id, value), whose ids are of this chunk."""
        texts = {}
        for name, value in values:
            try:
                texts[name] = value_text(value)
            except NotJson as error:
                self.fail(name, f"the result cannot be stored: {error}")
        with self._lock:
            self._values.update(texts)
            for name in self._failures.keys() & texts.keys():
                del self._failures[name]

    def fail(self, item: Item | str, why: str | BaseException, *, retry: bool = True) -> None:
        """The item has no result this time; it is tried again, or dead, by max_errors; dead at once if not `retry`."""
        name = self._name(item)
        if isinstance(why, ItemError):
            retry = why.retry
        reason = _told(why.why if isinstance(why, ItemError) else why)
        with self._lock:
            self._values.pop(name, None)
            self._failures[name] = Failure(name, reason)
            if not retry:
                self._hopeless.add(name)

    # --- for the worker -----------------------------------------------------------------------------

    def start(self, names: Sequence[str] | None) -> None:
        """These items are in progress; None: all."""
        with self._lock:
            self._started.update(self._by_id if names is None else names)

    def give_up(self) -> None:
        """The lease is somebody else's: nothing further is begun, and nothing is stored."""
        self.lost = True
        self.stops.set()

    def all_items(self) -> list[Item]:
        """All items, without starting them."""
        return list(self._items)

    def pending(self) -> list[Item]:
        """Those without an outcome yet, in the order in which they were published."""
        with self._lock:
            known = {*self._values, *self._failures, *self._settled}
            return [item for item in self._items if item.id not in known]

    def unsettled(self) -> tuple[dict[str, str], list[Failure]]:
        """(values as JSON text by id, failures) so far, without what was settled before."""
        with self._lock:
            values = {name: text for name, text in self._values.items() if name not in self._settled}
            return values, [one for name, one in self._failures.items() if name not in self._settled]

    def settled(self, names: Iterable[str]) -> None:
        """The queue knows what became of these."""
        with self._lock:
            self._settled.update(names)

    def open_ids(self) -> list[str]:
        """Those of which the queue has heard nothing."""
        with self._lock:
            return [name for name in self._by_id if name not in self._settled]

    def untouched(self) -> list[str]:
        """Ids of those that nobody has begun."""
        return [item.id for item in self.pending() if item.id not in self._started]

    def in_progress(self) -> list[str]:
        """Ids of those that were begun and have no outcome."""
        return [item.id for item in self.pending() if item.id in self._started]

    def is_hopeless(self, name: str) -> bool:
        """Whether an item that failed is not to be tried again."""
        return name in self._hopeless

    def item(self, name: str) -> Item:
        return self._by_id[name]

    def _name(self, item: Item | str) -> str:
        name = item if isinstance(item, str) else item.id
        if name not in self._by_id:
            raise LoopMisused(f"{name!r} is no item of this chunk, which has {', '.join(list(self._by_id)[:5])}")
        return name


def _told(reason: object) -> str:
    """A reason as text that every database can keep: without half surrogate pairs and NULs."""
    try:
        text = f"{type(reason).__name__}: {reason}" if isinstance(reason, BaseException) else str(reason)
    except Exception as error:  # noqa: BLE001 - somebody's __str__
        text = f"{type(reason).__name__}, whose text cannot be had ({type(error).__name__})"
    return text.encode(errors="backslashreplace").decode().replace("\0", "\\x00")
