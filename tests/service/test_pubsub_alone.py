"""Pub/Sub without a ledger, on the official emulator: what can be kept of a queue's promises when nobody counts."""

import sys
import time
from collections.abc import Sequence
from pathlib import Path

import pytest
from click.testing import CliRunner

import outlast
from outlast.cli.main import main
from outlast.errors import SettingsError
from outlast.items import Draft, Failure
from outlast.queues.pubsub import open_pubsub
from outlast.queues.pubsub_alone import PubsubAlone
from outlast.queues.pubsub_service import PubsubService
from outlast.queues.sqlite import SqliteQueue
from outlast.registry import open_queue, open_sink
from outlast.worker.chunk import Item
from service.pubsub_desk import Desk, counts, drafts, ids, nothing, taken
from service.pubsub_server import PROJECT, fresh_subscription, pubsub_server


@pytest.fixture
def desk(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Desk:
    monkeypatch.setenv("PUBSUB_EMULATOR_HOST", pubsub_server())
    return Desk(fresh_subscription(pubsub_server(), ack_deadline=60), tmp_path)


def alone(desk: Desk) -> PubsubAlone:
    """A queue as a process of its own would have it."""
    return PubsubAlone(desk.address, warn=desk.told.append)


def test_without_a_ledger_nothing_is_counted_and_what_is_published_twice_comes_twice(desk: Desk) -> None:
    queue = open_queue(desk.url)
    assert isinstance(queue, PubsubAlone)
    assert not queue.traits.counts
    told = queue.publish([*drafts(3), Draft("item-0000", '{"n":0}'), Draft("item-0000", "2"), Draft("i" * 1025, "1")])
    assert (told.new, told.already, told.conflicting) == (3, 1, ("item-0000",))
    assert [name for name, _ in told.refused] == ["i" * 1025]
    assert queue.publish(drafts(3)).new == 3
    assert counts(queue) == (None,) * 4
    for look in (queue.items, queue.retry):  # "none" would be a lie
        with pytest.raises(SettingsError, match="ledger"):
            look()
    first = taken(queue)
    assert ids(first) == [draft.id for draft in drafts(3)]  # both copies of each, in one pull
    assert queue.ack(first, ids(first)) == frozenset(ids(first))
    assert queue.ack(first, ids(first)) == frozenset()
    assert nothing(queue)


def test_a_worker_says_that_nothing_came_and_not_that_nothing_is_left(
    desk: Desk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    alone(desk).publish(drafts(2))
    (tmp_path / "ones.py").write_text("def one(items):\n    return [1] * len(items)\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.path", [str(tmp_path), *sys.path])
    words = ["work", desk.url, "ones:one", "--sink", "jsonl:out.jsonl", "--chunk", "2", "--idle", "0.5s"]
    said = CliRunner().invoke(main, words)
    assert (said.exit_code, said.stdout) == (0, "nothing came: 2 computed here, 0 known already\n")
    assert "nobody can know whether more is to come" in said.stderr


def test_a_lease_ends_is_extended_and_is_given_back(desk: Desk) -> None:
    one, two, keeper = alone(desk), alone(desk), alone(desk)
    one.publish(drafts(3))
    lease = taken(one, seconds=1)
    assert len(lease.items) == 3
    assert keeper.extend(lease.renewal, 30)
    assert one.extend(lease.renewal, 30)
    assert nothing(two, during=1.2)
    assert one.release(lease, ["item-0001"]) == {"item-0001"}
    assert one.extend(lease.renewal, 30)
    [again] = taken(two).items
    assert (again.id, again.payload) == ("item-0001", '{"n":1}')
    assert again.claim >= lease.items[0].claim
    assert one.lift(lease, {"item-0000": 1 << 60}).items[0].claim == 1 << 60
    keeper.expire(lease.renewal)
    assert not keeper.extend(lease.renewal, 30)
    late = taken(two, seconds=1)
    assert ids(late) == ["item-0000", "item-0002"]
    time.sleep(1.1)
    assert two.ack(late, ids(late)) == frozenset()
    assert not two.begin(late)
    assert not two.extend(late.renewal, 30)
    assert ids(taken(alone(desk))) == ["item-0000", "item-0002"]


def test_an_exactly_once_subscription_tells_another_process_that_a_lease_is_lost(desk: Desk, tmp_path: Path) -> None:
    strict = Desk(fresh_subscription(pubsub_server(), exactly_once=True), tmp_path)
    slow, quick = alone(strict), alone(strict)
    slow.publish(drafts(1))
    late = taken(slow, seconds=1)
    slow.extend(late.renewal, 1)
    time.sleep(1.1)
    first = taken(quick)
    assert not alone(strict).extend(late.renewal, 30)
    assert quick.ack(first, ids(first)) == {"item-0000"}


def test_deliveries_stand_for_errors_where_they_are_counted_and_dead_letters_go_to_their_topic(
    desk: Desk, tmp_path: Path
) -> None:
    counting = Desk(fresh_subscription(pubsub_server(), most_attempts=100), tmp_path)
    queue = alone(counting)
    queue.publish(drafts(2))
    for errors in range(3):
        lease = taken(queue)
        while len(lease.items) < 2:  # both come at about the same time
            queue.release(lease, ids(lease))
            lease = taken(queue)
        assert min(item.errors for item in lease.items) >= errors
        queue.fail(lease, [Failure(name, "bad " * 1000) for name in ids(lease)], max_errors=2)
        if max(item.errors for item in lease.items) >= 2:
            break
    dead = Desk(f"pubsub://{PROJECT}/dead-{counting.address.subscription_id}", tmp_path)
    found = taken(alone(dead))
    assert set(ids(found)) <= {"item-0000", "item-0001"}
    assert found.items[0].payload.startswith('{"n":')


def test_a_dead_letter_that_can_go_nowhere_stays_and_is_told(desk: Desk) -> None:
    queue = alone(desk)
    queue.publish(drafts(1))
    lease = taken(queue)
    assert queue.bury(lease, [Failure("item-0000", "too dark")]) == {"item-0000"}
    assert nothing(queue)
    [line] = desk.told
    assert "item-0000" in line
    assert "too dark" in line


def test_a_ledger_comes_from_the_url_or_else_from_the_caller(desk: Desk, tmp_path: Path) -> None:
    own, default = f"sqlite:///{tmp_path}/own.db", SqliteQueue(f"sqlite:///{tmp_path}/default.db")
    named, given = open_pubsub(f"{desk.url}&ledger={own}", default), open_pubsub(desk.url, default)
    assert named.database == SqliteQueue(own).database
    assert given.database == default.database
    assert given.url == f"{desk.url}&ledger={default.url}"  # by which the keeper finds it, too
    assert open_queue(given.url).database == default.database
    with pytest.raises(SettingsError, match="cannot be a ledger"):
        open_pubsub(desk.url, PubsubAlone(desk.address))
    assert PubsubService(desk.address).facts() is not None


def test_a_worker_keeps_the_ledger_in_its_sinks_database(desk: Desk, tmp_path: Path) -> None:
    outlast.Queue(desk.url).publish((draft.id, 1) for draft in drafts(5))
    sink = f"sqlite:///{tmp_path}/results.db?table=labels"
    computed: list[str] = []

    @outlast.batch(desk.url, sink=sink, chunk=2, idle="1s")
    def work(items: Sequence[Item]) -> list[str]:
        computed.extend(item.id for item in items)
        return [item.id for item in items]

    work.run()
    desk.send(b"1", id="item-0003")  # it comes again, to another worker
    work.run()
    assert sorted(computed) == [draft.id for draft in drafts(5)]
    assert sorted(one.id for one in open_sink(sink).results()) == sorted(computed)
    ledger = open_queue(f"{desk.url}&ledger=sqlite:///{tmp_path}/results.db")
    assert counts(ledger) == (None, 0, 5, 0)
