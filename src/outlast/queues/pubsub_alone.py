"""Pub/Sub without a ledger: nobody counts, so items are done at least once and the sink keeps one result of each."""

import math
import secrets
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Literal

from outlast.clock import Clock, SystemClock
from outlast.console import Console
from outlast.errors import SettingsError
from outlast.items import (
    Accepted,
    Draft,
    Failure,
    ItemState,
    Lease,
    LeasedItem,
    QueueStats,
    QueueTraits,
    State,
    Storing,
)
from outlast.queues.pubsub_address import PubsubAddress
from outlast.queues.pubsub_checks import Checks, SubscriptionFacts, refused_drafts
from outlast.queues.pubsub_messages import (
    MOST_MESSAGES,
    MOST_PAYLOAD_BYTES,
    MOST_SECONDS,
    Renewal,
    read_renewal,
    renewal_of,
    whole_seconds,
)
from outlast.queues.pubsub_opening import service_of

if TYPE_CHECKING:
    from outlast.queues.pubsub_service import PubsubService

_MOST_REASON_BYTES = 1000  # an attribute has at most 1024
_MOST_REMEMBERED = 1000  # leases


class PubsubAlone:
    """A subscription by itself, as an items.Queue that counts nothing.

    Errors are taken from the subscription's count of deliveries if it has one (a dead-letter policy makes it), else
    they are 0 for ever; deaths are not told from them. A claim is the time of the lease in milliseconds. A dead letter
    goes to the subscription's dead-letter topic; without one it stays, and comes again every 10 min. Whether a lease is
    lost each process judges by its own clock, and an exactly-once subscription by its answers.
    """

    def __init__(
        self,
        address: PubsubAddress,
        *,
        service: "PubsubService | None" = None,
        clock: Clock | None = None,
        warn: Callable[[str], None] | None = None,
    ) -> None:
        if service is not None:
            self._service = service
        self._address, self._warn = address, warn or Console().warning
        self._checks = Checks(address, self._facts, self._warn)
        self._clock = clock or SystemClock()
        self._lock = threading.Lock()
        self._open: dict[str, set[str]] = {}  # by token: what this process has leased and not settled
        self._until: dict[str, float] = {}  # by token, on the monotonic clock

    @cached_property
    def _service(self) -> "PubsubService":
        return service_of(self._address)

    def _facts(self) -> SubscriptionFacts | None:
        return self._service.facts()

    @property
    def url(self) -> str:
        return self._address.url

    @property
    def traits(self) -> QueueTraits:
        return QueueTraits(most_payload_bytes=MOST_PAYLOAD_BYTES, counts=False, publish_batch=5 * MOST_MESSAGES)

    @property
    def database(self) -> None:
        return None

    def publish(self, drafts: Sequence[Draft]) -> Accepted:
        topic = self._checks.topic()
        good, refused = refused_drafts(drafts, MOST_PAYLOAD_BYTES)
        first: dict[str, Draft] = {}
        for draft in good:
            first.setdefault(draft.id, draft)
        conflicting = tuple(draft.id for draft in good if first[draft.id].payload != draft.payload)
        self._service.publish(topic, list(first.values()))
        already = len(good) - len(first) - len(conflicting)
        return Accepted(new=len(first), already=already, conflicting=conflicting, refused=tuple(refused))

    # --- leases -------------------------------------------------------------------------------------

    def lease(self, most: int, seconds: float, *, begin: bool, max_deaths: int) -> Lease | None:
        self._checks.before_leasing()
        pulled = self._service.pull(most)
        if not pulled:
            return None
        claim = int(self._clock.wall_seconds() * 1000)
        ack_ids: dict[str, list[str]] = {}
        items: dict[str, LeasedItem] = {}
        for one in pulled:
            ack_ids.setdefault(one.id, []).append(one.ack_id)
            items.setdefault(one.id, LeasedItem(one.id, one.draft().payload, claim, errors=(one.attempt or 1) - 1))
        token = secrets.token_hex(8)
        self._service.hold([one.ack_id for one in pulled], whole_seconds(seconds))
        with self._lock:
            self._forget_ended()
            self._open[token] = set(items)
            self._until[token] = self._clock.monotonic_seconds() + seconds
        return Lease(token, Renewal(token, ack_ids).line(), tuple(items.values()))

    def begin(self, lease: Lease) -> bool:
        with self._lock:
            return self._lasts(lease.token)

    def extend(self, renewal: str, seconds: float) -> bool:
        read = read_renewal(renewal)
        if read is None:
            return False
        with self._lock:
            if not self._lasts(read.ledger):
                return False
            open_here = self._open.get(read.ledger)
        ack_ids = read.of(list(read.ack_ids) if open_here is None else list(open_here))
        if ack_ids and len(self._service.hold(ack_ids, whole_seconds(seconds))) == len(ack_ids):
            return False
        with self._lock:
            self._until[read.ledger] = self._clock.monotonic_seconds() + seconds
        return True

    def expire(self, renewal: str) -> None:
        read = read_renewal(renewal)
        if read is not None:
            with self._lock:
                self._open.pop(read.ledger, None)
                self._until[read.ledger] = -math.inf
            self._service.hold(read.of(list(read.ack_ids)), 0)

    def lift(self, lease: Lease, claims: Mapping[str, int]) -> Lease:
        held = self._held(lease, [item.id for item in lease.items])
        kept = [item for item in lease.items if item.id in held]
        return replace(
            lease, items=tuple(replace(item, claim=max(item.claim, claims.get(item.id, 0))) for item in kept)
        )

    # --- how an item's lease ends -------------------------------------------------------------------

    def ack(self, lease: Lease, ids: Sequence[str], *, storing: Storing | None = None) -> frozenset[str]:
        renewal, held = renewal_of(lease), self._held(lease, ids)
        void = self._service.acknowledge(renewal.of(held))
        done = frozenset(one for one in held if not set(renewal.ack_ids[one]) <= void)
        self._close(lease, held)
        return done

    def release(self, lease: Lease, ids: Sequence[str]) -> frozenset[str]:
        return self._back(lease, self._held(lease, ids), 0)

    def fail(
        self, lease: Lease, failures: Sequence[Failure], *, max_errors: int, delay_seconds: float = 0.0
    ) -> frozenset[str]:
        held = self._held(lease, [one.id for one in failures])
        dead = {item.id for item in lease.items if item.id in held and item.errors + 1 > max_errors}
        back = self._back(lease, held - dead, whole_seconds(delay_seconds) if delay_seconds > 0 else 0)
        return back | self.bury(lease, [one for one in failures if one.id in dead])

    def bury(self, lease: Lease, failures: Sequence[Failure]) -> frozenset[str]:
        renewal, held = renewal_of(lease), self._held(lease, [one.id for one in failures])
        facts = self._checks.facts()
        topic = facts.dead_letter_topic if facts is not None else None
        payloads = {item.id: item.payload for item in lease.items}
        for one in failures:
            if one.id not in held:
                continue
            if topic is None:
                self._warn(
                    f"{self._address.shown}: item {one.id!r} is a dead letter ({one.reason}); without a ledger and a "
                    "dead-letter topic it stays in the subscription and comes again"
                )
                self._service.hold(renewal.of([one.id]), MOST_SECONDS)
            else:
                reason = one.reason.encode()[:_MOST_REASON_BYTES].decode(errors="ignore")
                self._service.publish(topic, [Draft(one.id, payloads[one.id])], {"reason": reason})
                self._service.acknowledge(renewal.of([one.id]))
        self._close(lease, held)
        return held

    # --- looking ------------------------------------------------------------------------------------

    def stats(self) -> QueueStats:
        return QueueStats(ready=None, leased=None, done=None, dead=None)

    def note_success(self, version: str | None) -> None:
        """There is no place to note it."""

    def has_success(self, version: str | None) -> bool:
        return False

    def items(self, state: State | None = None) -> Iterator[ItemState]:
        raise self._not_kept(state)

    def retry(self, ids: Sequence[str] | None = None, *, state: Literal["dead", "done"] = "dead") -> int:
        raise self._not_kept(state)

    def _not_kept(self, state: State | None) -> SettingsError:
        what = "items" if state is None else f"{state} items"
        return SettingsError(
            f"{self._address.shown} without a ledger keeps no list of {what}; name the ledger in the URL (ledger=URL)"
        )

    def close(self) -> None:
        if "_service" in self.__dict__:
            self._service.close()

    # --- what this process knows of its leases ------------------------------------------------------

    def _held(self, lease: Lease, ids: Sequence[str]) -> frozenset[str]:
        with self._lock:
            return frozenset(ids) & self._open.get(lease.token, set()) if self._lasts(lease.token) else frozenset()

    def _back(self, lease: Lease, held: frozenset[str], seconds: int) -> frozenset[str]:
        self._service.hold(renewal_of(lease).of(held), seconds)
        self._close(lease, held)
        return held

    def _close(self, lease: Lease, ids: frozenset[str]) -> None:
        with self._lock:
            still = self._open.get(lease.token)
            if still is not None:
                still -= ids
                if not still:
                    del self._open[lease.token]
                    self._until[lease.token] = -math.inf

    def _lasts(self, token: str) -> bool:
        """Whether a lease is not known to have ended; another process's may have."""
        return self._until.get(token, math.inf) > self._clock.monotonic_seconds()

    def _forget_ended(self) -> None:
        for token in [one for one in self._open if not self._lasts(one)]:
            del self._open[token]
        self._until = dict(list(self._until.items())[-_MOST_REMEMBERED:])
