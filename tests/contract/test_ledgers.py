"""What every ledger promises beside the promises of a queue, asked of each queue that can be one."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from outlast.items import Draft, Failure, Lease
from outlast.queues.ledger import Ledger
from outlast.queues.postgres import PostgresQueue
from outlast.queues.sqlite import SqliteQueue
from outlast.testing import FakeClock
from service import postgres_server


@dataclass(frozen=True)
class Place:
    """One ledger. `again` opens it anew, as another process would; `let_pass` lets seconds pass for all of them."""

    again: Callable[[], Ledger]
    let_pass: Callable[[float], None]


def _sqlite(tmp_path: Path) -> Place:
    clock = FakeClock()
    return Place(again=lambda: SqliteQueue(f"sqlite:///{tmp_path}/ledger.db", clock=clock), let_pass=clock.advance)


def _postgres(tmp_path: Path) -> Place:
    url = postgres_server.fresh_queue()
    mine = f"(SELECT queue FROM outlast_queues WHERE name = '{url.partition('=')[2]}')"

    def let_pass(seconds: float) -> None:
        earlier = f"SET until = until - interval '{seconds} s' WHERE queue = {mine}"
        postgres_server.execute(url, f"UPDATE outlast_leases {earlier}")

    return Place(again=lambda: PostgresQueue(url), let_pass=let_pass)


LEDGERS: dict[str, Callable[[Path], Place]] = {"sqlite": _sqlite, "postgres": _postgres}


@pytest.fixture(params=LEDGERS)
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    return LEDGERS[request.param](tmp_path)


def published(place: Place, *names: str) -> Ledger:
    ledger = place.again()
    ledger.publish([Draft(name, f'"{name}"') for name in names])
    return ledger


def ids(lease: Lease | None) -> list[str]:
    return [] if lease is None else sorted(item.id for item in lease.items)


def test_named_items_are_leased_as_far_as_they_can_be_had_and_the_others_are_told(place: Place) -> None:
    ledger = published(place, "a", "b", "c", "d", "e", "f")
    first = ledger.lease_named(["c", "a", "b"], 60, begin=True, max_deaths=3).lease
    assert first is not None
    assert [(item.id, item.payload, item.claim) for item in first.items] == [
        ("a", '"a"', 1),
        ("b", '"b"', 1),
        ("c", '"c"', 1),
    ]
    ledger.ack(first, ["a"])
    ledger.bury(first, [Failure("b", "bad")])
    later = ledger.lease_named(["d"], 60, begin=True, max_deaths=3).lease
    assert later is not None
    ledger.fail(later, [Failure("d", "no")], max_errors=3, delay_seconds=30)
    found = place.again().lease_named(["a", "b", "c", "d", "e"], 60, begin=True, max_deaths=3)
    assert ids(found.lease) == ["e"]
    assert found.settled == {"a", "b"}
    assert set(found.held) == {"c"}
    assert 55 < found.held["c"] <= 60
    assert set(found.later) == {"d"}
    assert 25 < found.later["d"] <= 30
    assert found.unknown == frozenset()
    stats = ledger.stats()
    assert (stats.ready, stats.leased, stats.done, stats.dead) == (2, 2, 1, 1)


def test_with_an_unknown_item_nothing_is_leased(place: Place) -> None:
    ledger = published(place, "a")
    found = ledger.lease_named(["a", "x"], 60, begin=True, max_deaths=3)
    assert (found.lease, found.unknown) == (None, {"x"})
    assert ids(ledger.lease_named(["a"], 60, begin=True, max_deaths=3).lease) == ["a"]
    assert ledger.lease_named(["a"], 60, begin=True, max_deaths=3).lease is None


def test_an_item_that_was_named_when_its_lease_had_ended_is_a_suspect_and_is_leased_alone_after_others(
    place: Place,
) -> None:
    ledger = published(place, "a", "b", "c")
    ledger.lease_named(["a", "b"], 1.0, begin=True, max_deaths=3)
    place.let_pass(1.2)
    found = ledger.lease_named(["a", "b"], 60, begin=True, max_deaths=3)
    assert (found.lease, dict(found.later)) == (None, {"a": 0.0, "b": 0.0})  # c is to come before them
    assert ids(ledger.lease_named(["a", "c"], 60, begin=True, max_deaths=3).lease) == ["c"]
    found = ledger.lease_named(["b", "a"], 60, begin=True, max_deaths=3)
    assert ids(found.lease) == ["a"]
    assert found.lease is not None
    assert found.lease.items[0].deaths == 1
    assert dict(found.later) == {"b": 0.0}


def test_a_lease_tells_what_it_holds_still(place: Place) -> None:
    ledger = published(place, "a", "b", "c")
    lease = ledger.lease_named(["a", "b", "c"], 60, begin=False, max_deaths=3).lease
    assert lease is not None
    ledger.ack(lease, ["a"])
    ledger.release(lease, ["b"])
    assert place.again().held(lease.renewal) == {"c"}
    assert ledger.begin(lease)
    ledger.ack(lease, ["c"])
    assert ledger.held(lease.renewal) == frozenset()
    assert not ledger.extend(lease.renewal, 60)


def test_what_was_never_sent_is_known_until_it_is_and_again_after_a_retry(place: Place) -> None:
    ledger = published(place, "a", "b", "ä '\"\t🦜")
    ledger.mark_sent(["a", "nobody"])
    assert list(place.again().unsent(["ä '\"\t🦜", "b", "a", "nobody"])) == [
        Draft("b", '"b"'),
        Draft("ä '\"\t🦜", '"ä \'"\t🦜"'),
    ]
    lease = ledger.lease_named(["a", "b"], 60, begin=True, max_deaths=3).lease
    assert lease is not None
    ledger.ack(lease, ["a"])
    assert ledger.unsent(["a", "b"]) == []  # one is done, one is in hands
    ledger.mark_sent(["b"])
    ledger.bury(lease, [Failure("b", "bad")])
    ledger.retry(state="done")
    ledger.retry(["b"])
    assert [draft.id for draft in ledger.unsent(["a", "b"])] == ["a", "b"]


def test_a_ledger_is_of_one_subscription(place: Place) -> None:
    ledger = place.again()
    assert ledger.dedicate("one") == "one"
    assert place.again().dedicate("two") == "one"
    ledger.publish([Draft("a", "1")])
    assert ledger.dedicate("one") == "one"


def test_a_queue_that_has_items_of_its_own_becomes_no_ledger(place: Place) -> None:
    assert published(place, "a").dedicate("one") is None


def test_strangers_are_remembered(place: Place) -> None:
    ledger = place.again()
    ledger.dedicate("one")
    assert not ledger.has_strangers()
    ledger.note_strangers()
    assert ledger.has_strangers()
    assert place.again().has_strangers()
