"""What the tests of the Pub/Sub queue share: queues on the test's server, raw messages, faults between two calls."""

import os
import time
from collections.abc import Callable, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any
from unittest import mock

from google.cloud import pubsub_v1

from outlast.items import Draft, Lease, Queue
from outlast.queues.pubsub import PubsubQueue
from outlast.queues.pubsub_address import PubsubAddress, read_address
from outlast.queues.pubsub_service import PubsubService
from outlast.queues.sqlite import SqliteQueue


class Killed(BaseException):
    """The process ends here."""


class ServiceWithFaults(PubsubService):
    """The service, with `before`, called with the name of each verb, and `after` likewise; it counts the verbs."""

    def __init__(self, address: PubsubAddress, **settings: Any) -> None:
        super().__init__(address, **settings)
        self.before: Callable[[str], None] = lambda verb: None
        self.after: Callable[[str], None] = lambda verb: None
        self.asked: list[str] = []

    def _ask(self, kind: str, verb: str, request: Any, **more: Any) -> Any:
        self.asked.append(verb)
        self.before(verb)
        answer = super()._ask(kind, verb, request, **more)
        self.after(verb)
        return answer


def killed_at(wanted: str) -> Callable[[str], None]:
    """A fault: the process ends at that verb."""

    def fault(verb: str) -> None:
        if verb == wanted:
            raise Killed(verb)

    return fault


class Desk:
    """A subscription and a folder for ledgers. `quiet_seconds` is long: what is handed out comes by messages."""

    def __init__(self, url: str, folder: Path) -> None:
        self.url, self.address, self.folder = url, read_address(url), folder
        self.told: list[str] = []

    def queue(self, *, quiet_seconds: float = 60.0, patience_seconds: float = 8.0) -> tuple[PubsubQueue, Any]:
        """A queue as a process of its own would have it, and its service."""
        service = ServiceWithFaults(self.address, patience_seconds=patience_seconds)
        queue = PubsubQueue(
            self.address, self.ledger(), quiet_seconds=quiet_seconds, service=service, warn=self.told.append
        )
        return queue, service

    def ledger(self) -> SqliteQueue:
        return SqliteQueue(f"sqlite:///{self.folder}/ledger.db")

    def send(self, data: bytes, **attributes: str) -> None:
        """A message from somebody else."""
        assert self.address.topic is not None
        raw_publish(self.address.topic, data, attributes)

    def waiting(self) -> list[str]:
        """The ids of the messages that the subscription hands out now; they stay leased for its own deadline."""
        return [one.id for one in PubsubService(self.address).pull(1000)]


def raw_publish(topic: str, data: bytes, attributes: Mapping[str, str]) -> None:
    publisher = pubsub_v1.PublisherClient()
    with closing(publisher.transport):
        publisher.publish(topic, data, **attributes).result(10)
        publisher.stop()


def drafts(count: int) -> list[Draft]:
    return [Draft(f"item-{number:04d}", f'{{"n":{number}}}') for number in range(count)]


def taken(queue: Queue, most: int = 100, *, seconds: float = 30.0, within: float = 8.0) -> Lease:
    """A lease, waited for."""
    until = time.monotonic() + within
    while time.monotonic() < until:
        lease = queue.lease(most, seconds, begin=True, max_deaths=3)
        if lease is not None:
            return lease
        time.sleep(0.01)
    raise AssertionError(f"nothing to lease within {within} s: {queue.stats()}")


def nothing(queue: Queue, *, during: float = 0.0) -> bool:
    """Whether the queue gives nothing now, and for so many seconds."""
    until = time.monotonic() + during
    while queue.lease(100, 30.0, begin=True, max_deaths=3) is None:
        if time.monotonic() >= until:
            return True
        time.sleep(0.05)
    return False


def ids(lease: Lease) -> list[str]:
    return sorted(item.id for item in lease.items)


def counts(queue: Queue) -> tuple[int | None, ...]:
    stats = queue.stats()
    return (stats.ready, stats.leased, stats.done, stats.dead)


def drained(queue: Queue) -> list[str]:
    """Acknowledges everything; the ids, in the order in which they came."""
    done: list[str] = []
    while counts(queue)[:2] != (0, 0):
        lease = taken(queue)
        assert queue.ack(lease, ids(lease)) == frozenset(ids(lease))
        done += ids(lease)
    return done


def without_emulator(**variables: str) -> Any:
    """The environment of a machine without an emulator."""
    own = {name: value for name, value in os.environ.items() if name != "PUBSUB_EMULATOR_HOST"}
    return mock.patch.dict(os.environ, {**own, **variables}, clear=True)
