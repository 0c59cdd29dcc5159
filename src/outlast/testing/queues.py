"""A queue and a sink in memory, for tests."""

import secrets
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from outlast.clock import Clock
from outlast.items import (
    Accepted,
    Draft,
    Failure,
    ItemState,
    Lease,
    LeasedItem,
    QueueStats,
    QueueTraits,
    Result,
    SinkTraits,
    State,
    Stored,
    Storing,
)
from outlast.testing.clocks import FakeClock


@dataclass
class _Item:
    id: str
    payload: str
    published_at: float
    state: State = "ready"
    lease: str | None = None
    claim: int = 0
    errors: int = 0
    deaths: int = 0
    releases: int = 0
    not_before: float = 0.0
    reason: str | None = None

    def leased(self) -> LeasedItem:
        return LeasedItem(self.id, self.payload, self.claim, self.errors, self.deaths, self.releases)

    def seen(self) -> ItemState:
        counts = (self.claim, self.errors, self.deaths, self.releases)
        return ItemState(self.id, self.state, self.payload, *counts, self.reason)


@dataclass
class _Lease:
    until: float
    begun: bool
    items: list[_Item] = field(default_factory=list)


class MemoryQueue:
    """A queue that lives as long as the object, and keeps the promises of `outlast.items.Queue`.

    Safe to use from several threads, and from one process only. Time is what `clock` says; by default it stands still
    until `queue.clock.advance(seconds)`.
    """

    def __init__(self, url: str = "memory://test", *, clock: Clock | None = None) -> None:
        self.clock = clock or FakeClock()
        self._url = url
        self._items: dict[str, _Item] = {}
        self._leases: dict[str, _Lease] = {}
        self._successes: set[str | None] = set()
        self._lock = threading.RLock()

    @property
    def url(self) -> str:
        return self._url

    @property
    def traits(self) -> QueueTraits:
        return QueueTraits(most_payload_bytes=1 << 20)

    @property
    def database(self) -> str:
        return self._url

    def publish(self, drafts: Sequence[Draft]) -> Accepted:
        new, already, conflicting = 0, 0, []
        with self._lock:
            for draft in drafts:
                there = self._items.get(draft.id)
                if there is None:
                    self._items[draft.id] = _Item(draft.id, draft.payload, self.clock.wall_seconds())
                    new += 1
                elif there.payload == draft.payload:
                    already += 1
                else:
                    conflicting.append(draft.id)
        return Accepted(new=new, already=already, conflicting=tuple(conflicting))

    def lease(self, most: int, seconds: float, *, begin: bool, max_deaths: int) -> Lease | None:
        with self._lock:
            self._end_expired(max_deaths)
            now = self.clock.monotonic_seconds()
            ready = [item for item in self._items.values() if item.state == "ready" and item.not_before <= now]
            taken = [item for item in ready if not item.deaths][:most] or [item for item in ready if item.deaths][:1]
            if not taken:
                return None
            token = secrets.token_hex(8)
            self._leases[token] = _Lease(now + seconds, begin, taken)
            for item in taken:
                item.state, item.lease, item.claim = "leased", token, item.claim + 1
            return Lease(token, token, tuple(item.leased() for item in taken))

    def begin(self, lease: Lease) -> bool:
        with self._lock:
            if lease.token in self._leases:
                self._leases[lease.token].begun = True
            return lease.token in self._leases

    def extend(self, renewal: str, seconds: float) -> bool:
        with self._lock:
            if renewal in self._leases:
                self._leases[renewal].until = self.clock.monotonic_seconds() + seconds
            return renewal in self._leases

    def expire(self, renewal: str) -> None:
        with self._lock:
            if renewal in self._leases:
                self._leases[renewal].until = float("-inf")

    def lift(self, lease: Lease, claims: Mapping[str, int]) -> Lease:
        with self._lock:
            held = self._held(lease, [one.id for one in lease.items])
            for item in held:
                item.claim = max(item.claim, claims.get(item.id, 0))
            return Lease(lease.token, lease.renewal, tuple(item.leased() for item in held))

    def ack(self, lease: Lease, ids: Sequence[str], *, storing: Storing | None = None) -> frozenset[str]:
        with self._lock:
            held = self._held(lease, ids)
            names = frozenset(item.id for item in held)
            if storing is not None and held:
                storing(self, names)
            for item in held:
                item.state, item.reason = "done", None
            return self._settled(lease, held)

    def release(self, lease: Lease, ids: Sequence[str]) -> frozenset[str]:
        with self._lock:
            held = self._held(lease, ids)
            for item in held:
                item.state, item.releases = "ready", item.releases + 1
            return self._settled(lease, held)

    def fail(
        self, lease: Lease, failures: Sequence[Failure], *, max_errors: int, delay_seconds: float = 0.0
    ) -> frozenset[str]:
        with self._lock:
            held = self._held(lease, [failure.id for failure in failures])
            reasons = {failure.id: failure.reason for failure in failures}
            for item in held:
                item.errors, item.reason = item.errors + 1, reasons[item.id]
                item.state = "dead" if item.errors > max_errors else "ready"
                item.not_before = self.clock.monotonic_seconds() + delay_seconds
            return self._settled(lease, held)

    def bury(self, lease: Lease, failures: Sequence[Failure]) -> frozenset[str]:
        with self._lock:
            held = self._held(lease, [failure.id for failure in failures])
            reasons = {failure.id: failure.reason for failure in failures}
            for item in held:
                item.state, item.reason = "dead", reasons[item.id]
            return self._settled(lease, held)

    def stats(self) -> QueueStats:
        with self._lock:
            now = self.clock.monotonic_seconds()
            ended = [token for token, lease in self._leases.items() if lease.until <= now]
            states = ["ready" if item.lease in ended else item.state for item in self._items.values()]
            open_since = [item.published_at for item in self._items.values() if item.state in ("ready", "leased")]
            return QueueStats(
                ready=states.count("ready"),
                leased=states.count("leased"),
                done=states.count("done"),
                dead=states.count("dead"),
                oldest_seconds=self.clock.wall_seconds() - min(open_since) if open_since else None,
            )

    def note_success(self, version: str | None) -> None:
        self._successes.add(version)

    def has_success(self, version: str | None) -> bool:
        return version in self._successes

    def items(self, state: State | None = None) -> Iterator[ItemState]:
        with self._lock:
            seen = [item.seen() for item in self._items.values()]
        return iter([item for item in seen if state in (None, item.state)])

    def retry(self, ids: Sequence[str] | None = None, *, state: Literal["dead", "done"] = "dead") -> int:
        with self._lock:
            named = set(self._items) if ids is None else set(ids)
            again = [item for item in self._items.values() if item.state == state and item.id in named]
            for item in again:
                item.state, item.reason, item.not_before = "ready", None, 0.0
                item.errors = item.deaths = item.releases = 0
            return len(again)

    def close(self) -> None:
        """Nothing to let go of."""

    def _held(self, lease: Lease, ids: Sequence[str]) -> list[_Item]:
        return [self._items[one] for one in ids if one in self._items and self._items[one].lease == lease.token]

    def _settled(self, lease: Lease, held: Sequence[_Item]) -> frozenset[str]:
        for item in held:
            item.lease = None
        there = self._leases.get(lease.token)
        if there is not None and not any(item.lease == lease.token for item in there.items):
            del self._leases[lease.token]
        return frozenset(item.id for item in held)

    def _end_expired(self, max_deaths: int) -> None:
        now = self.clock.monotonic_seconds()
        for token, lease in list(self._leases.items()):
            if lease.until > now:
                continue
            for item in lease.items:
                if item.lease != token:
                    continue
                item.lease, item.state = None, "ready"
                if lease.begun:
                    item.deaths += 1
                    times = "time" if item.deaths == 1 else "times"
                    item.reason = f"its process died while it was in progress, {item.deaths} {times}"
                    item.state = "dead" if item.deaths > max_deaths else "ready"
            del self._leases[token]


class MemorySink:
    """A sink that lives as long as the object, and keeps the promises of `outlast.items.Sink`.

    Of the same `url` as a MemoryQueue it stores in that one's transactions.
    """

    def __init__(self, url: str = "memory://test") -> None:
        self._url = url
        self._rows: dict[str, Result] = {}
        self._lock = threading.Lock()

    @property
    def url(self) -> str:
        return self._url

    @property
    def traits(self) -> SinkTraits:
        return SinkTraits()

    @property
    def database(self) -> str:
        return self._url

    def prepare(self) -> None:
        """Nothing to make."""

    def known(self, items: Sequence[LeasedItem]) -> Mapping[str, Stored]:
        with self._lock:
            found = [self._rows[item.id] for item in items if item.id in self._rows]
        return {row.id: Stored(row.version, row.claim) for row in found}

    def store(self, results: Sequence[Result], *, connection: object | None = None) -> None:
        with self._lock:
            for result in results:
                there = self._rows.get(result.id)
                if there is None or result.claim >= there.claim:
                    self._rows[result.id] = result

    def results(self) -> Iterator[Result]:
        with self._lock:
            return iter(list(self._rows.values()))

    def close(self) -> None:
        """Nothing to let go of."""
