"""A process that is killed in the middle of a verb: no lock stays, no count is wrong, nothing is lost or half done."""

import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import psycopg
import pytest

from outlast.items import Draft, Failure, Lease, Result
from outlast.postgresql import one_trip
from outlast.queues import postgres_statements as sql
from outlast.queues.postgres import PostgresQueue
from outlast.sinks.postgres import PostgresSink
from service.postgres_server import execute, fresh_database

ITEMS = 30
_NAMED = "?application_name=victim"


class Victim:
    """What a process does that will not live to see the answer."""

    def __init__(self, url: str) -> None:
        self.queue, self.sink = PostgresQueue(f"{url}{_NAMED}"), PostgresSink(f"{url}{_NAMED}")
        self.queue.publish(drafts(ITEMS))
        self.sink.prepare()
        lease = self.queue.lease(10, 60, begin=False, max_deaths=3)
        dead = self.queue.lease(2, 60, begin=True, max_deaths=3)
        assert lease is not None
        assert dead is not None
        self.lease: Lease = lease
        self.ids = [item.id for item in lease.items]
        self.failures = [Failure(name, "why") for name in self.ids]
        self.queue.bury(dead, [Failure(item.id, "why") for item in dead.items])
        self.queue.close()
        self.sink.close()

    def publish(self) -> None:
        self.queue.publish(drafts(2 * ITEMS))

    def take(self) -> None:
        self.queue.lease(5, 60, begin=True, max_deaths=3)

    def begin(self) -> None:
        self.queue.begin(self.lease)

    def extend(self) -> None:
        self.queue.extend(self.lease.renewal, 60)

    def expire(self) -> None:
        self.queue.expire(self.lease.renewal)

    def lift(self) -> None:
        self.queue.lift(self.lease, dict.fromkeys(self.ids, 7))

    def ack(self) -> None:
        self.queue.ack(self.lease, self.ids, storing=self._store)

    def release(self) -> None:
        self.queue.release(self.lease, self.ids)

    def fail(self) -> None:
        self.queue.fail(self.lease, self.failures, max_errors=3, delay_seconds=0.01)

    def bury(self) -> None:
        self.queue.bury(self.lease, self.failures)

    def retry(self) -> None:
        self.queue.retry()

    def store(self) -> None:
        self.sink.store([Result(name, "1", None, 1) for name in self.ids])

    def _store(self, connection: object, held: frozenset[str]) -> None:
        self.sink.store([Result(name, "1", None, 1) for name in held], connection=connection)


# Each verb, and the table that it comes to last.
VERBS: dict[str, tuple[Callable[[Victim], None], str]] = {
    "publish": (Victim.publish, "outlast_counts"),
    "lease": (Victim.take, "outlast_counts"),
    "begin": (Victim.begin, "outlast_leases"),
    "extend": (Victim.extend, "outlast_leases"),
    "expire": (Victim.expire, "outlast_leases"),
    "lift": (Victim.lift, "outlast_items"),
    "ack": (Victim.ack, "results"),
    "release": (Victim.release, "outlast_counts"),
    "fail": (Victim.fail, "outlast_counts"),
    "bury": (Victim.bury, "outlast_counts"),
    "retry": (Victim.retry, "outlast_counts"),
    "store": (Victim.store, "results"),
}


def drafts(count: int) -> list[Draft]:
    return [Draft(f"item-{number:03d}", "1") for number in range(count)]


@pytest.mark.parametrize("verb", VERBS)
def test_a_kill_in_the_middle_of_a_verb_leaves_no_lock_and_nothing_half_done(verb: str) -> None:
    url = fresh_database()
    victim = Victim(url)
    act, last = VERBS[verb]
    with _locked(url, last) as waiting:
        child = os.fork()
        if child == 0:
            try:
                act(victim)
            finally:
                os._exit(0)
        _wait_until(waiting)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    # A session is all that can hold a lock.
    _wait_until(lambda: execute(url, "SELECT FROM pg_stat_activity WHERE application_name = 'victim'") == [])
    _check(url, published=2 * ITEMS if execute(url, "SELECT 1 FROM outlast_items OFFSET 30") else ITEMS)


@contextmanager
def _locked(url: str, table: str) -> Iterator[Callable[[], bool]]:
    """While a table is locked; gives what says whether somebody waits for it."""
    with psycopg.connect(url) as holder, psycopg.connect(url, autocommit=True) as watcher:
        holder.execute(f"LOCK TABLE {table} IN ACCESS EXCLUSIVE MODE")
        waits = "SELECT count(*) FROM pg_locks WHERE NOT granted"
        yield lambda: watcher.execute(waits).fetchall() != [(0,)]
        holder.rollback()


def _wait_until(ready: Callable[[], bool]) -> None:
    until = time.monotonic() + 20
    while not ready():
        assert time.monotonic() < until
        time.sleep(0.005)


def _check(url: str, *, published: int) -> None:
    """All can be worked off, as if the dead had never been; what is done is stored."""
    queue, sink = PostgresQueue(url), PostgresSink(url)
    states = [item.state for item in queue.items()]
    stats = queue.stats()
    assert (stats.ready, stats.leased, stats.done, stats.dead) == tuple(
        states.count(state) for state in ("ready", "leased", "done", "dead")
    )
    stored = {result.id for result in sink.results()}
    assert {item.id for item in queue.items("done")} <= stored
    execute(url, "UPDATE outlast_leases SET until = '-infinity'", "UPDATE outlast_items SET not_before = '-infinity'")
    while lease := queue.lease(100, 60, begin=True, max_deaths=3):
        assert all(item.deaths <= 1 and item.errors <= 1 and item.releases <= 1 for item in lease.items)
        queue.ack(lease, [item.id for item in lease.items])
    stats = queue.stats()
    assert (stats.ready, stats.leased) == (0, 0)
    assert (stats.done or 0) + (stats.dead or 0) == published
    assert execute(url, "SELECT count(*) FROM outlast_leases") == [(0,)]


@pytest.mark.parametrize("statistics", ["none", "of an empty table", "of another queue"])
def test_each_statement_finds_its_items_by_index_whatever_the_server_believes(statistics: str) -> None:
    url = fresh_database()
    queue = PostgresQueue(f"{url}?queue=a")
    queue.stats()
    if statistics == "of another queue":
        PostgresQueue(f"{url}?queue=b").publish(drafts(2000))
    if statistics != "none":
        execute(url, "ANALYZE outlast_items")
    queue.publish(drafts(3000))
    lease = queue.lease(100, 60, begin=True, max_deaths=3)
    assert lease is not None
    told = {
        "queue": queue._number(),
        "lease": int(lease.token),
        "mark": 1,
        "most": 100,
        "seconds": 60.0,
        "begin": True,
        "max_deaths": 3,
        "again": False,
        "ids": [item.id for item in lease.items],
        "reasons": [""] * 100,
        "last": 0,
        "after": 0,
    }
    plans = []

    def work(connection: psycopg.Connection, _: bool) -> None:
        for statement in (sql.TAKE_UNLESS, sql.TAKE, sql.END_EXPIRED, sql.ACK, sql.page_of("done"), sql.OLDEST):
            with one_trip(connection):
                plan = connection.execute(f"EXPLAIN {statement}", told)
            plans.append("\n".join(row[0] for row in plan))

    queue._database.run(work)
    for plan in plans:
        assert "Seq Scan on outlast_items" not in plan
        assert "Bitmap Heap Scan on outlast_items" not in plan
    assert all("Index Scan using outlast_ready" in plan for plan in plans[:2])
    assert all("Sort Key: outlast_items" not in plan for plan in plans[:2])
