"""Pub/Sub as a queue: the broker hands messages out, a ledger beside it decides what becomes of their items."""

import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cached_property
from itertools import islice
from typing import TYPE_CHECKING, Literal

from outlast.console import Console
from outlast.errors import QueueUnreachable, SettingsError
from outlast.items import (
    Accepted,
    Draft,
    Failure,
    InFiles,
    ItemState,
    Lease,
    Queue,
    QueueStats,
    QueueTraits,
    State,
    Storing,
)
from outlast.queues.ledger import Ledger, Standing, is_ledger
from outlast.queues.pubsub_address import PubsubAddress, read_address
from outlast.queues.pubsub_alone import PubsubAlone
from outlast.queues.pubsub_checks import Checks, SubscriptionFacts, refused_drafts
from outlast.queues.pubsub_messages import (
    MOST_MESSAGES,
    MOST_PAYLOAD_BYTES,
    MOST_SECONDS,
    Delivery,
    Renewal,
    read_renewal,
    renewal_of,
    whole_seconds,
)
from outlast.queues.pubsub_opening import require_client, service_of
from outlast.registry import open_queue

if TYPE_CHECKING:
    from outlast.queues.pubsub_service import PubsubService

_HELD_ELSEWHERE_SECONDS = 10  # a duplicate waits so long, at most, before it asks again
_SUSPECT_SECONDS = 1
_LOOK_SECONDS = 1.0
_BETWEEN_PULLS_SECONDS = 0.1
_AFTERWARDS_SECONDS = 2.0  # for what the ledger has already; a worker that is being stopped has no time for more
_QUIET_SECONDS = 3.0


def open_pubsub(url: str, ledger: Queue | None = None) -> Queue:
    """The queue at ``pubsub://PROJECT/SUBSCRIPTION?topic=TOPIC&ledger=URL``.

    `ledger` is taken where the URL names none, and from then on is in the queue's `url`. Without any ledger the queue
    counts nothing (PubsubAlone). Raises SettingsError for a URL that makes no sense.
    """
    address = read_address(url)
    require_client(address)
    if address.ledger is not None:
        ledger = open_queue(address.ledger)
    elif ledger is not None:
        address = address.with_ledger(ledger.url)
    if ledger is None:
        return PubsubAlone(address)
    if not is_ledger(ledger):
        kind = ledger.url.partition("://")[0]
        raise SettingsError(
            f"{address.shown}: a queue of {kind}:// cannot be a ledger; sqlite:// and postgresql:// can"
        )
    return PubsubQueue(address, ledger)


class PubsubQueue:
    """A subscription with a ledger, as an items.Queue.

    The ledger has every item with its state and counts, and each verb happens there first; what Pub/Sub is told
    afterwards only spares waiting. A message that is lost, repeated, late or acknowledged in vain changes nothing: its
    item is done once, and when no message has led to work for `quiet_seconds`, items are leased from the ledger alone.
    """

    def __init__(
        self,
        address: PubsubAddress,
        ledger: Ledger,
        *,
        quiet_seconds: float = _QUIET_SECONDS,
        service: "PubsubService | None" = None,
        warn: Callable[[str], None] | None = None,
    ) -> None:
        self._address, self._ledger = address, ledger
        if service is not None:
            self._service = service
        self._warn = warn or Console().warning
        self._checks = Checks(address, self._facts, self._warn)
        self._quiet_seconds = quiet_seconds
        self._quiet_since: float | None = None
        self._patient, self._strangers = True, False
        self._dedicating = threading.Lock()
        self._dedicated_by: int | None = None

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
        of_ledger = self._ledger.traits
        return replace(of_ledger, most_payload_bytes=min(of_ledger.most_payload_bytes, MOST_PAYLOAD_BYTES))

    @property
    def database(self) -> str | None:
        return self._ledger.database

    @property
    def files(self) -> frozenset[str]:
        """Those of the ledger."""
        return self._ledger.files if isinstance(self._ledger, InFiles) else frozenset()

    # --- publishing ---------------------------------------------------------------------------------

    def publish(self, drafts: Sequence[Draft]) -> Accepted:
        """First into the ledger, then to the topic, then marked as sent.

        A death in between leaves items unsent, which the next publish of the same sends.
        """
        self._dedicate()
        topic = self._checks.topic()
        good, refused = refused_drafts(drafts, self.traits.most_payload_bytes)
        accepted = self._ledger.publish(good)
        self._send(topic, [draft.id for draft in good])
        return replace(accepted, refused=(*refused, *accepted.refused))

    def _send(self, topic: str, ids: Sequence[str]) -> None:
        for some in _pieces(ids):
            unsent = self._ledger.unsent(some)
            if unsent:
                self._service.publish(topic, unsent)
                self._ledger.mark_sent([draft.id for draft in unsent])

    # --- leases -------------------------------------------------------------------------------------

    def lease(self, most: int, seconds: float, *, begin: bool, max_deaths: int) -> Lease | None:
        self._dedicate()
        self._checks.before_leasing()
        until = time.monotonic() + _LOOK_SECONDS
        while pulled := self._pull(most):
            lease = self._claim(pulled, seconds, begin=begin, max_deaths=max_deaths)
            if lease is not None:
                self._quiet_since = None
                return lease
            if time.monotonic() > until:
                break
        return self._from_the_ledger(most, seconds, begin=begin, max_deaths=max_deaths)

    def _pull(self, most: int) -> Sequence[Delivery]:
        """With a ledger that knows of nothing, the first pull of a process is repeated: it may be empty by mistake."""
        pulled = self._service.pull(most)
        if self._patient and not pulled and _is_empty(self._ledger.stats()):
            until = time.monotonic() + self._quiet_seconds
            while not pulled and time.monotonic() < until:
                time.sleep(_BETWEEN_PULLS_SECONDS)
                pulled = self._service.pull(most)
        self._patient = False
        return pulled

    def _claim(self, pulled: Sequence[Delivery], seconds: float, *, begin: bool, max_deaths: int) -> Lease | None:
        """A lease on those of the pulled items that the ledger gives; the other messages are settled or put back."""
        ack_ids: dict[str, list[str]] = {}
        for one in pulled:
            ack_ids.setdefault(one.id, []).append(one.ack_id)
        standing = self._ledger.lease_named(list(ack_ids), seconds, begin=begin, max_deaths=max_deaths)
        if standing.unknown:
            foreign = {one.id: one.draft() for one in pulled if one.id in standing.unknown}
            if not self._strangers:
                self._ledger.note_strangers()
                self._strangers = True
            refused = dict(self._ledger.publish(list(foreign.values())).refused)
            self._ledger.mark_sent([one for one in foreign if one not in refused])
            self._put_away(refused, ack_ids)
            known = [one for one in ack_ids if one not in refused]
            standing = self._ledger.lease_named(known, seconds, begin=begin, max_deaths=max_deaths)
        renewal = Renewal("", ack_ids)
        if standing.settled:
            self._acknowledge(renewal.of(standing.settled))
        for pause, ids in _put_back(standing).items():
            self._hold(renewal.of(ids), pause)
        if standing.lease is None:
            return None
        return self._held_too(standing.lease, ack_ids, seconds)

    def _put_away(self, refused: Mapping[str, str], ack_ids: Mapping[str, Sequence[str]]) -> None:
        """Messages of others that the ledger cannot keep stay in the subscription, and are told."""
        for one, reason in refused.items():
            self._warn(f"{self._address.shown}: message {one!r} cannot be an item: {reason}; it stays where it is")
            self._hold(ack_ids[one], MOST_SECONDS)

    def _held_too(self, lease: Lease, ack_ids: dict[str, list[str]], seconds: float) -> Lease:
        """The ledger's lease, with the messages, which are held for as long."""
        mine = {item.id: ack_ids[item.id] for item in lease.items if item.id in ack_ids}
        renewal = Renewal(lease.renewal, mine)
        self._hold(renewal.of(list(mine)), whole_seconds(seconds))
        return replace(lease, renewal=renewal.line())

    def _from_the_ledger(self, most: int, seconds: float, *, begin: bool, max_deaths: int) -> Lease | None:
        """A lease on items whose messages do not come; None while it has not been quiet for long."""
        now = time.monotonic()
        if self._quiet_since is None:
            self._quiet_since = now
        if now - self._quiet_since < self._quiet_seconds:
            return None
        lease = self._ledger.lease(most, seconds, begin=begin, max_deaths=max_deaths)
        return None if lease is None else self._held_too(lease, {}, seconds)

    def begin(self, lease: Lease) -> bool:
        return self._ledger.begin(_ledgers(lease))

    def extend(self, renewal: str, seconds: float) -> bool:
        read = read_renewal(renewal)
        if read is None or not self._ledger.extend(read.ledger, seconds):
            return False
        self._hold(read.of(self._ledger.held(read.ledger)), whole_seconds(seconds))
        return True

    def expire(self, renewal: str) -> None:
        read = read_renewal(renewal)
        if read is not None:
            held = self._ledger.held(read.ledger)
            self._ledger.expire(read.ledger)
            self._hold(read.of(held), 0)

    def lift(self, lease: Lease, claims: Mapping[str, int]) -> Lease:
        return replace(self._ledger.lift(_ledgers(lease), claims), renewal=lease.renewal)

    # --- how an item's lease ends -------------------------------------------------------------------

    def ack(self, lease: Lease, ids: Sequence[str], *, storing: Storing | None = None) -> frozenset[str]:
        done = self._ledger.ack(_ledgers(lease), ids, storing=storing)
        self._acknowledge(renewal_of(lease).of(done))
        return done

    def release(self, lease: Lease, ids: Sequence[str]) -> frozenset[str]:
        back = self._ledger.release(_ledgers(lease), ids)
        self._hold(renewal_of(lease).of(back), 0)
        return back

    def fail(
        self, lease: Lease, failures: Sequence[Failure], *, max_errors: int, delay_seconds: float = 0.0
    ) -> frozenset[str]:
        changed = self._ledger.fail(_ledgers(lease), failures, max_errors=max_errors, delay_seconds=delay_seconds)
        dead = frozenset(item.id for item in lease.items if item.id in changed and item.errors + 1 > max_errors)
        renewal = renewal_of(lease)
        self._acknowledge(renewal.of(dead))
        self._hold(renewal.of(changed - dead), whole_seconds(delay_seconds) if delay_seconds > 0 else 0)
        return changed

    def bury(self, lease: Lease, failures: Sequence[Failure]) -> frozenset[str]:
        dead = self._ledger.bury(_ledgers(lease), failures)
        self._acknowledge(renewal_of(lease).of(dead))
        return dead

    # --- looking ------------------------------------------------------------------------------------

    def stats(self) -> QueueStats:
        """The ledger's; but `ready` is None instead of 0 where nobody knows whether messages of others are to come.

        That is so once some have come, and before the first pull where the ledger has nothing at all: it may not be
        where they were published.
        """
        stats = self._ledger.stats()
        if stats.ready or stats.leased:
            return stats
        self._strangers = self._strangers or self._ledger.has_strangers()
        unknown = self._strangers or (self._patient and _is_empty(stats))
        return replace(stats, ready=None) if unknown else stats

    def note_success(self, version: str | None) -> None:
        self._ledger.note_success(version)

    def has_success(self, version: str | None) -> bool:
        return self._ledger.has_success(version)

    def items(self, state: State | None = None) -> Iterator[ItemState]:
        return self._ledger.items(state)

    def retry(self, ids: Sequence[str] | None = None, *, state: Literal["dead", "done"] = "dead") -> int:
        """Makes them ready in the ledger and sends them again: their messages are long acknowledged."""
        self._dedicate()
        topic = self._checks.topic()
        again = 0
        named: Iterable[str] = ids if ids is not None else (item.id for item in self._ledger.items(state))
        for some in _pieces(named):
            again += self._ledger.retry(some, state=state)
            self._send(topic, some)
        return again

    def close(self) -> None:
        if "_service" in self.__dict__:
            self._service.close()
        self._ledger.close()

    # --- to Pub/Sub, after the ledger ---------------------------------------------------------------

    def _acknowledge(self, ack_ids: Sequence[str]) -> None:
        """Void or unheard, it comes again, and the ledger knows that it is settled."""
        with suppress(QueueUnreachable):
            self._service.acknowledge(ack_ids, within_seconds=_AFTERWARDS_SECONDS)

    def _hold(self, ack_ids: Sequence[str], seconds: int) -> None:
        """Void or unheard, it comes at another time, and the ledger knows what is in whose hands."""
        with suppress(QueueUnreachable):
            self._service.hold(ack_ids, seconds, within_seconds=_AFTERWARDS_SECONDS)

    def _dedicate(self) -> None:
        """Makes sure that the ledger is of this subscription: two would take each other's ids for their own."""
        with self._dedicating:
            if self._dedicated_by == os.getpid():
                return
            owner = self._ledger.dedicate(self._address.subscription)
            if owner != self._address.subscription:
                whose = f"the ledger of {owner}" if owner else "a queue of its own"
                raise SettingsError(
                    f"{self._address.shown}: its ledger's database is {whose}; give this subscription another one, by "
                    "&ledger=URL"
                )
            self._dedicated_by = os.getpid()


def _is_empty(stats: QueueStats) -> bool:
    return not any((stats.ready, stats.leased, stats.done, stats.dead))


def _ledgers(lease: Lease) -> Lease:
    """The lease as its ledger gave it."""
    return replace(lease, renewal=renewal_of(lease).ledger)


def _put_back(standing: Standing) -> dict[int, list[str]]:
    """The items whose messages go back, by the seconds after which they come again."""
    found: dict[int, list[str]] = {}
    for one, left in standing.held.items():
        found.setdefault(min(whole_seconds(left), _HELD_ELSEWHERE_SECONDS), []).append(one)
    for one, left in standing.later.items():
        # A suspect comes at once after one that could be had; where none could, others are to come before it.
        soon = 0 if standing.lease is not None else _SUSPECT_SECONDS
        found.setdefault(whole_seconds(left) if left > 0 else soon, []).append(one)
    return found


def _pieces(ids: Iterable[str]) -> Iterator[list[str]]:
    rest = iter(ids)
    while some := list(islice(rest, MOST_MESSAGES)):
        yield some
