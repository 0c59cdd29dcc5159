"""What every queue promises, asked of each adapter and of the fake."""

import os
import secrets
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from outlast.items import Draft, Failure, Lease, Queue
from outlast.queues.postgres import PostgresQueue
from outlast.queues.sqlite import SqliteQueue
from outlast.testing import FakeClock, MemoryQueue
from service import postgres_server


@dataclass(frozen=True)
class Place:
    """One queue. `again` opens it anew, as another process would; `let_pass` lets seconds pass for all of them.

    `seconds` is how long a lease in these tests lasts: no time at all where the clock is a fake.
    """

    again: Callable[[], Queue]
    let_pass: Callable[[float], None]
    seconds: float = 60.0


def _memory(tmp_path: Path) -> Place:
    clock = FakeClock()
    queue = MemoryQueue(clock=clock)
    return Place(again=lambda: queue, let_pass=clock.advance)


def _sqlite(tmp_path: Path) -> Place:
    clock = FakeClock()
    return Place(again=lambda: SqliteQueue(f"sqlite:///{tmp_path}/work.db", clock=clock), let_pass=clock.advance)


def _pubsub(tmp_path: Path) -> Place:
    from outlast.queues.pubsub import PubsubQueue, read_address
    from service.pubsub_server import fresh_subscription, pubsub_server

    os.environ["PUBSUB_EMULATOR_HOST"] = pubsub_server()  # the same in the whole test run
    address, clock = read_address(fresh_subscription(pubsub_server(), ack_deadline=60)), FakeClock()

    def again() -> Queue:  # a message comes again in real time; the ledger, whose clock is a fake, does not wait for it
        return PubsubQueue(address, SqliteQueue(f"sqlite:///{tmp_path}/ledger.db", clock=clock), quiet_seconds=0.2)

    return Place(again=again, let_pass=clock.advance)


def _postgres(tmp_path: Path) -> Place:
    url = postgres_server.fresh_queue()
    mine = f"(SELECT queue FROM outlast_queues WHERE name = '{url.partition('=')[2]}')"

    def let_pass(seconds: float) -> None:  # for everybody who asks the server's clock
        postgres_server.execute(
            url,
            f"UPDATE outlast_leases SET until = until - interval '{seconds} s' WHERE queue = {mine}",
            f"UPDATE outlast_items SET not_before = not_before - interval '{seconds} s' WHERE queue = {mine}",
        )

    return Place(again=lambda: PostgresQueue(url), let_pass=let_pass)


def _postgres_losing_answers(tmp_path: Path) -> Place:
    """As above, and whatever is asked happens, its answer is lost, and it is asked again."""
    place = _postgres(tmp_path)

    def again() -> Queue:
        queue = place.again()
        run = queue._database.run

        def twice(work, **how):
            run(work, **how)
            return run(lambda connection, _: work(connection, True), **how)

        queue._database.run = twice
        return queue

    return Place(again=again, let_pass=place.let_pass)


# One row per queue: how a fresh one is made.
QUEUES: dict[str, Callable[[Path], Place]] = {
    "memory": _memory,
    "sqlite": _sqlite,
    "postgres": _postgres,
    "pubsub": _pubsub,
    "postgres, losing answers": _postgres_losing_answers,
}


@pytest.fixture(params=QUEUES)
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    return QUEUES[request.param](tmp_path)


@pytest.fixture
def queue(place: Place) -> Queue:
    return place.again()


def drafts(count: int, *, start: int = 0) -> list[Draft]:
    return [Draft(f"item-{number:05d}", f'{{"n":{number}}}') for number in range(start, start + count)]


def published(queue: Queue, count: int) -> Queue:
    queue.publish(drafts(count))
    return queue


def taken(queue: Queue, most: int = 10, *, seconds: float = 60.0, begin: bool = True, max_deaths: int = 3) -> Lease:
    """A lease; a broker may need a moment to hand out what it has."""
    until = time.monotonic() + 20
    while time.monotonic() < until:
        lease = queue.lease(most, seconds, begin=begin, max_deaths=max_deaths)
        if lease is not None:
            return lease
        time.sleep(0.02)
    raise AssertionError(f"nothing to lease: {queue.stats()}")


def ids_of(lease: Lease) -> list[str]:
    return [item.id for item in lease.items]


def counts(queue: Queue) -> tuple[int | None, ...]:
    stats = queue.stats()
    return (stats.ready, stats.leased, stats.done, stats.dead)


# --- publishing -------------------------------------------------------------------------------------


def test_what_is_published_twice_is_there_once(queue: Queue) -> None:
    first, second = queue.publish(drafts(5)), queue.publish(drafts(7))
    assert (first.new, first.already) == (5, 0)
    assert (second.new, second.already) == (2, 5)
    assert counts(queue) == (7, 0, 0, 0)


def test_another_payload_under_an_id_is_told_and_the_first_one_stays(queue: Queue) -> None:
    told = queue.publish([Draft("a", "1"), Draft("b", "1"), Draft("a", "1"), Draft("b", "2")])
    assert (told.new, told.already, told.conflicting) == (2, 1, ("b",))
    again = queue.publish([Draft("a", "3")])
    assert (again.new, again.already, again.conflicting) == (0, 0, ("a",))
    assert {item.id: item.payload for item in queue.items()} == {"a": "1", "b": "1"}


STRANGE_IDS = ["ä/ö", "…/../x", "a b\n\t", "🦜" * 50, "'; DROP TABLE items; --", "%s", "NULL", "x" * 900, " "]


def test_an_id_with_a_nul_is_kept_as_it_is_or_refused(queue: Queue) -> None:
    told = queue.publish([Draft("a\0b", "1"), Draft("a", "1"), Draft("a\0c", "1")])
    assert told.new + len(told.refused) == 3
    assert all("\0" in name and why for name, why in told.refused)
    lease = taken(queue)
    names = ids_of(lease)
    if not told.refused:
        assert sorted(names) == ["a", "a\0b", "a\0c"]
        assert queue.release(lease, names[:1]) == {names[0]}
    assert queue.ack(lease, names) | {names[0]} == set(names)


def test_any_text_is_an_id_and_comes_back_as_it_was(queue: Queue) -> None:
    queue.publish([Draft(one, '"\\u0000 é \\ud83e"') for one in STRANGE_IDS])
    found = set()
    while found != set(STRANGE_IDS):
        lease = taken(queue, 4)
        assert all(item.payload == '"\\u0000 é \\ud83e"' for item in lease.items)
        found |= set(ids_of(lease))
        assert queue.ack(lease, ids_of(lease)) == frozenset(ids_of(lease))
    assert counts(queue) == (0, 0, len(STRANGE_IDS), 0)


# --- leases -----------------------------------------------------------------------------------------


def test_no_item_is_in_two_hands(place: Place) -> None:
    one, two = published(place.again(), 10), place.again()
    leases = [taken(one, 4), taken(two, 4), taken(one, 4)]
    names = [name for lease in leases for name in ids_of(lease)]
    assert sorted(names) == [draft.id for draft in drafts(10)]
    assert len({lease.token for lease in leases}) == 3
    assert two.lease(4, 60, begin=True, max_deaths=3) is None
    assert counts(one) == (0, 10, 0, 0)


def test_an_item_tells_how_often_it_was_claimed_and_why_it_came_back(queue: Queue) -> None:
    published(queue, 1)
    lease = taken(queue)
    assert (lease.items[0].claim, lease.items[0].payload) == (1, '{"n":0}')
    queue.release(lease, ids_of(lease))
    lease = taken(queue)
    queue.fail(lease, [Failure("item-00000", "no")], max_errors=3)
    [item] = taken(queue).items
    assert (item.claim, item.errors, item.deaths, item.releases) == (3, 1, 0, 1)


def test_a_lease_that_is_extended_lasts_and_one_that_is_not_ends(place: Place) -> None:
    queue = published(place.again(), 2)
    kept, left = taken(queue, 1, seconds=2.0), taken(queue, 1, seconds=2.0)
    for _ in range(3):
        place.let_pass(1.0)
        assert place.again().extend(kept.renewal, 2.0)  # by another process, the keeper
    [item] = taken(queue).items
    assert item.id == ids_of(left)[0]
    assert not queue.extend(left.renewal, 2.0)
    assert queue.ack(kept, ids_of(kept)) == frozenset(ids_of(kept))
    assert not queue.extend(kept.renewal, 2.0)  # nothing of it is open


@pytest.mark.parametrize("verb", ["ack", "release", "fail", "bury"])
def test_a_worker_that_outlived_its_lease_settles_nothing(place: Place, verb: str) -> None:
    queue, stored = published(place.again(), 1), []
    slow = taken(queue, seconds=1.0)
    place.let_pass(1.5)
    quick = taken(place.again())
    assert ids_of(quick) == ids_of(slow)
    names = ids_of(slow)
    if verb == "ack":
        storing = (lambda connection, held: stored.append(held)) if queue.database else None
        assert queue.ack(slow, names, storing=storing) == frozenset()
    elif verb == "release":
        assert queue.release(slow, names) == frozenset()
    elif verb == "fail":
        assert queue.fail(slow, [Failure(names[0], "late")], max_errors=0) == frozenset()
    else:
        assert queue.bury(slow, [Failure(names[0], "late")]) == frozenset()
    assert stored == []
    assert counts(queue) == (0, 1, 0, 0)
    assert queue.ack(quick, names) == frozenset(names)


def test_what_was_released_is_there_at_once_and_costs_the_item_nothing(queue: Queue) -> None:
    published(queue, 1)
    for releases in range(12):
        lease = taken(queue, max_deaths=0)
        assert (lease.items[0].errors, lease.items[0].deaths, lease.items[0].releases) == (0, 0, releases)
        assert queue.release(lease, ids_of(lease)) == frozenset(ids_of(lease))
    assert counts(queue) == (1, 0, 0, 0)


def test_a_part_of_a_lease_is_settled_and_the_rest_is_held(queue: Queue) -> None:
    published(queue, 4)
    lease = taken(queue, 4)
    a, b, c, d = ids_of(lease)
    assert queue.ack(lease, [a, b]) == {a, b}
    assert queue.ack(lease, [a]) == frozenset()
    assert queue.release(lease, [c]) == {c}
    assert counts(queue) == (1, 1, 2, 0)
    assert queue.extend(lease.renewal, 60)
    assert queue.bury(lease, [Failure(d, "bad")]) == {d}
    assert counts(queue) == (1, 0, 2, 1)


def test_a_raised_claim_grows_on(queue: Queue) -> None:
    published(queue, 2)
    lease = queue.lift(taken(queue, 2), {"item-00000": 7})
    assert [item.claim for item in lease.items] == [7, 1]
    queue.release(lease, ids_of(lease))
    assert sorted(item.claim for item in taken(queue, 2).items) == [2, 8]


# --- deaths -----------------------------------------------------------------------------------------


def test_a_death_in_progress_counts_and_its_chunk_comes_back_one_by_one_after_the_others(place: Place) -> None:
    queue = published(place.again(), 5)
    lease = taken(queue, 3, seconds=1.0)
    place.let_pass(1.5)
    others = taken(queue, 3)
    assert set(ids_of(others)) == {"item-00003", "item-00004"}
    suspects = [taken(queue, 3) for _ in range(3)]
    assert [len(one.items) for one in suspects] == [1, 1, 1]
    assert sorted(one.items[0].id for one in suspects) == ids_of(lease)
    assert [one.items[0].deaths for one in suspects] == [1, 1, 1]


def test_what_an_ended_lease_held_is_counted_as_ready(place: Place) -> None:
    queue = published(place.again(), 3)
    left = taken(queue, 2, seconds=1.0)
    assert counts(queue) == (1, 2, 0, 0)
    queue.ack(left, ids_of(left)[:1])
    place.let_pass(1.5)
    assert counts(queue) == (2, 0, 1, 0)


def test_a_death_before_the_work_began_counts_for_nothing(place: Place) -> None:
    queue = published(place.again(), 2)
    taken(queue, 2, seconds=1.0, begin=False)
    place.let_pass(1.5)
    lease = taken(queue, 2, seconds=1.0, begin=False)
    assert [item.deaths for item in lease.items] == [0, 0]
    assert queue.begin(lease)
    place.let_pass(1.5)
    assert [item.deaths for item in taken(queue, 2).items] == [1]
    assert not queue.begin(lease)


def test_an_item_that_ends_its_process_again_and_again_is_buried(place: Place) -> None:
    queue = published(place.again(), 1)
    for _ in range(4):
        taken(queue, seconds=1.0, max_deaths=3)
        place.let_pass(1.5)
    assert queue.lease(1, 60, begin=True, max_deaths=3) is None
    [dead] = queue.items("dead")
    assert dead.deaths == 4
    assert dead.reason == "its process died while it was in progress, 4 times"


def test_a_keeper_that_sees_its_worker_die_ends_the_lease_at_once(place: Place) -> None:
    queue = published(place.again(), 1)
    lease = taken(queue, seconds=600.0)
    place.again().expire(lease.renewal)
    [item] = taken(queue).items
    assert item.deaths == 1
    assert [one.reason for one in queue.items()] == ["its process died while it was in progress, 1 time"]
    queue.expire(lease.renewal)  # it is gone
    assert counts(queue) == (0, 1, 0, 0)


# --- errors -----------------------------------------------------------------------------------------


def test_errors_are_allowed_up_to_their_number_and_then_it_is_dead(queue: Queue) -> None:
    published(queue, 1)
    for number in range(3):
        lease = taken(queue)
        assert lease.items[0].errors == number
        queue.fail(lease, [Failure("item-00000", f"why {number}")], max_errors=2)
    assert counts(queue) == (0, 0, 0, 1)
    [dead] = queue.items("dead")
    assert (dead.id, dead.errors, dead.reason, dead.payload) == ("item-00000", 3, "why 2", '{"n":0}')


def test_a_failed_item_waits_for_its_delay(place: Place) -> None:
    queue = published(place.again(), 1)
    queue.fail(taken(queue), [Failure("item-00000", "no")], max_errors=3, delay_seconds=1.0)
    assert queue.lease(1, 60, begin=True, max_deaths=3) is None
    assert counts(queue) == (1, 0, 0, 0)
    place.let_pass(1.5)
    assert taken(queue).items[0].errors == 1


def test_the_dead_come_back_when_told_with_a_clean_record(queue: Queue) -> None:
    published(queue, 3)
    lease = taken(queue, 3)
    queue.bury(lease, [Failure(name, "bad") for name in ids_of(lease)])
    assert queue.retry(["item-00001", "nobody"]) == 1
    assert queue.retry() == 2
    again = taken(queue, 3)
    assert [(item.errors, item.deaths, item.claim) for item in again.items] == [(0, 0, 2)] * 3
    queue.ack(again, ids_of(again))
    assert queue.retry() == 0
    assert queue.retry(state="done") == 3
    assert counts(queue) == (3, 0, 0, 0)


# --- store and ack ----------------------------------------------------------------------------------


def test_a_store_that_fails_inside_an_ack_leaves_the_items_leased(queue: Queue) -> None:
    published(queue, 2)
    lease = taken(queue, 2)

    def fail(connection: object, held: frozenset[str]) -> None:
        assert held == frozenset(ids_of(lease))
        raise RuntimeError("the disk is full")

    if queue.database is None:
        assert queue.ack(lease, ids_of(lease)) == frozenset(ids_of(lease))
        return
    with pytest.raises(RuntimeError, match="full"):
        queue.ack(lease, ids_of(lease), storing=fail)
    assert counts(queue) == (0, 2, 0, 0)
    assert queue.ack(lease, ids_of(lease)) == frozenset(ids_of(lease))


# --- at any size, from many hands -------------------------------------------------------------------


def test_all_items_are_listed_at_any_size_by_state(queue: Queue) -> None:
    published(queue, 1203)
    lease = taken(queue, 40)
    queue.ack(lease, ids_of(lease))
    assert sorted(item.id for item in queue.items()) == [draft.id for draft in drafts(1203)]
    assert sorted(item.id for item in queue.items("done")) == sorted(ids_of(lease))
    assert sum(1 for _ in queue.items("ready")) == 1203 - len(lease.items)
    assert queue.stats().oldest_seconds is not None


def test_many_threads_share_the_work(place: Place) -> None:
    published(place.again(), 300)
    done: list[str] = []

    def work(queue: Queue) -> None:
        while counts(queue)[:2] != (0, 0):
            lease = queue.lease(7, 60, begin=True, max_deaths=3)
            if lease is None:
                time.sleep(0.01)
                continue
            done.extend(queue.ack(lease, ids_of(lease)))

    shared = place.again()  # two threads on one object, two on their own
    threads = [threading.Thread(target=work, args=(one,)) for one in (shared, shared, place.again(), place.again())]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(done) == [draft.id for draft in drafts(300)]
    assert counts(shared) == (0, 0, 300, 0)


def test_two_publishers_at_once_publish_each_item_once(place: Place) -> None:
    told = []

    def publish(start: int) -> None:
        told.append(place.again().publish(drafts(200, start=start)))

    threads = [threading.Thread(target=publish, args=(start,)) for start in (0, 100, 200)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(one.new for one in told) == 400
    assert sum(one.already for one in told) == 200
    assert counts(place.again()) == (400, 0, 0, 0)


def test_a_success_is_noted_by_version_for_every_process(place: Place) -> None:
    """The same text as no version, an empty one, one in quotes: all are versions of their own."""
    versions = ["v-1", None, "", "null", '"v-1"', "a nul \0"]
    one, other = (published(place.again(), 1) for _ in range(2))
    assert not any(one.has_success(version) for version in versions)
    for position, version in enumerate(versions):
        for _ in range(2):
            one.note_success(version)
        assert [other.has_success(known) for known in versions] == [at <= position for at in range(len(versions))]


def test_a_queue_without_anything_says_so(queue: Queue) -> None:
    assert queue.lease(5, 60, begin=True, max_deaths=3) is None
    assert queue.stats().oldest_seconds is None
    assert counts(queue) == (0, 0, 0, 0)
    assert list(queue.items()) == []
    assert queue.publish([]).new == 0
    assert not queue.extend("123456789", 5.0)


def test_tokens_are_never_used_again(queue: Queue) -> None:
    published(queue, 30)
    seen = set()
    for _ in range(30):
        lease = taken(queue, 1)
        seen.add((lease.token, secrets.compare_digest(lease.token, "")))
        queue.release(lease, ids_of(lease))
    assert len(seen) == 30
