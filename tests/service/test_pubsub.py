"""Pub/Sub with a ledger, on the official emulator: what is killed, lost, late or repeated does no item twice."""

import os
import random
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest

import outlast
from outlast.errors import QueueUnreachable, SettingsError
from outlast.items import Draft, Failure, Lease
from outlast.queues.pubsub_messages import renewal_of
from outlast.testing import MemorySink
from service.pubsub_desk import (
    Desk,
    Killed,
    counts,
    drafts,
    drained,
    ids,
    killed_at,
    nothing,
    taken,
)
from service.pubsub_server import fresh_subscription, make_subscription, own_server, pubsub_server


@pytest.fixture
def desk(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Desk:
    monkeypatch.setenv("PUBSUB_EMULATOR_HOST", pubsub_server())
    return Desk(fresh_subscription(pubsub_server(), ack_deadline=60), tmp_path)


# --- publishing -------------------------------------------------------------------------------------


@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_publish_killed_around_its_sending_is_mended_by_the_next_one(desk: Desk, moment: str) -> None:
    queue, service = desk.queue()
    setattr(service, moment, killed_at("publish"))
    with pytest.raises(Killed):
        queue.publish(drafts(5))
    queue, service = desk.queue()
    again = queue.publish(drafts(7))
    assert (again.new, again.already) == (2, 5)
    assert drained(queue) == [draft.id for draft in drafts(7)]
    assert nothing(queue)
    service.asked.clear()
    assert queue.publish(drafts(7)).already == 7
    assert "publish" not in service.asked  # all of it is known to have been sent


def test_what_pubsub_cannot_take_is_refused_by_reason_before_anything_is_sent(desk: Desk) -> None:
    queue, service = desk.queue()
    big = f'"{"x" * 4_000_000}"'  # the emulator, unlike the service, never hands out what is larger
    told = queue.publish(
        [Draft("huge", f'"{"x" * 11_000_000}"'), Draft("i" * 1025, "1"), *(Draft(f"big-{n}", big) for n in range(3))]
    )
    assert (told.new, [name for name, _ in told.refused]) == (3, ["huge", "i" * 1025])
    assert "11000002 bytes" in told.refused[0][1]
    assert "1024" in told.refused[1][1]
    assert service.asked.count("publish") == 2  # a request takes 10 MB
    lease = taken(queue, 1)
    assert lease.items[0].payload == big
    assert sorted(item.id for item in queue.items()) == ["big-0", "big-1", "big-2"]


def test_the_topic_may_be_left_out_and_a_wrong_one_is_refused(desk: Desk, tmp_path: Path) -> None:
    bare = Desk(desk.url.partition("?")[0], tmp_path / "a")
    queue, _ = bare.queue()
    assert queue.publish(drafts(1)).new == 1
    assert ids(taken(queue)) == ["item-0000"]
    make_subscription(pubsub_server(), "another-one", "another-topic")
    wrong = Desk(desk.url.partition("?")[0] + "?topic=another-topic", tmp_path / "b")
    queue, _ = wrong.queue()
    with pytest.raises(SettingsError, match=r"listens to .*nothing was published"):
        queue.publish(drafts(1))
    assert counts(queue) == (None, 0, 0, 0)


# --- messages that are lost, late or repeated -------------------------------------------------------


def test_messages_whose_acknowledgement_was_lost_come_again_and_are_acknowledged_without_work(desk: Desk) -> None:
    for number, name in enumerate(("ack", "bury", "fail")):
        queue, service = desk.queue()
        queue.publish(drafts(number + 1))
        lease = taken(queue, seconds=1)
        settle = {
            "ack": lambda queue, lease: queue.ack(lease, ids(lease)),
            "bury": lambda queue, lease: queue.bury(lease, [Failure(ids(lease)[0], "bad")]),
            "fail": lambda queue, lease: queue.fail(lease, [Failure(ids(lease)[0], "bad")], max_errors=0),
        }[name]
        service.before = killed_at("acknowledge")
        with pytest.raises(Killed):
            settle(queue, lease)
    other, service = desk.queue()
    assert counts(other) == (0, 0, 1, 2)
    assert nothing(other, during=1.2)
    assert "acknowledge" in service.asked
    assert counts(other) == (0, 0, 1, 2)
    desk.ledger().retry(["item-0000"], state="done")
    assert nothing(other)  # no message of it is left
    assert other.retry() == 2
    assert ids(taken(other)) == ["item-0001", "item-0002"]


def test_a_repeated_message_reaches_two_workers_and_is_worked_on_by_one(desk: Desk) -> None:
    one, _ = desk.queue()
    two, service = desk.queue()
    one.publish(drafts(2))
    lease = taken(one)
    for draft in drafts(2):
        desk.send(b"anything", id=draft.id)
    assert nothing(two)
    assert service.asked.count("modify_ack_deadline") >= 1
    assert one.ack(lease, ["item-0000"]) == {"item-0000"}
    assert one.release(lease, ["item-0001"]) == {"item-0001"}
    [again] = taken(two).items
    assert (again.id, again.payload, again.claim) == ("item-0001", '{"n":1}', 2)
    assert (again.errors, again.deaths, again.releases) == (0, 0, 1)


def test_a_message_that_comes_twice_in_one_pull_is_one_item_and_both_are_acknowledged(desk: Desk) -> None:
    queue, service = desk.queue()
    queue.publish(drafts(1))
    desk.send(b"1", id="item-0000")
    time.sleep(0.1)
    lease = taken(queue)
    assert ids(lease) == ["item-0000"]
    queue.ack(lease, ids(lease))
    assert nothing(queue, during=0.2)
    assert service.asked.count("acknowledge") == 1


def test_with_a_third_of_all_acks_lost_and_a_fifth_of_all_messages_doubled_each_item_is_done_once(desk: Desk) -> None:
    """B34, without deaths: what is stored and comes again is acknowledged without work."""
    publisher, _ = desk.queue()
    publisher.publish(drafts(100))
    for number in range(0, 100, 5):
        desk.send(b"again", id=f"item-{number:04d}")
    computed: list[str] = []

    def work(seed: int) -> None:
        queue, service = desk.queue()
        chance, acknowledge = random.Random(seed), service.acknowledge

        def lossy(ack_ids: Sequence[str], **how: float) -> frozenset[str]:
            service.hold(ack_ids, 1)  # the deadline of a lost one comes soon
            return acknowledge([one for one in ack_ids if chance.random() > 0.3], **how)

        service.acknowledge = lossy
        while counts(queue)[:2] != (0, 0):
            lease = queue.lease(7, 2, begin=True, max_deaths=3)
            if lease is None:
                time.sleep(0.02)
                continue
            computed.extend(ids(lease))
            queue.ack(lease, ids(lease))

    workers = [threading.Thread(target=work, args=(seed,)) for seed in (1, 2)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(30)
    assert Counter(computed) == Counter(draft.id for draft in drafts(100))
    assert counts(publisher) == (0, 0, 100, 0)
    assert nothing(publisher, during=1.2)  # those that come again after all was done


def test_an_item_whose_message_is_lost_is_leased_from_the_ledger(desk: Desk) -> None:
    queue, service = desk.queue(quiet_seconds=0.3)
    service.before = killed_at("publish")
    with pytest.raises(Killed):
        queue.publish(drafts(3))
    service.before = lambda verb: None
    assert queue.lease(10, 30, begin=True, max_deaths=3) is None
    assert drained(queue) == [draft.id for draft in drafts(3)]


def test_after_the_server_has_forgotten_everything_nothing_is_lost_and_nothing_is_done_twice(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with own_server() as server:
        monkeypatch.setenv("PUBSUB_EMULATOR_HOST", server.host)
        desk = Desk(fresh_subscription(server.host), tmp_path)
        queue, service = desk.queue(quiet_seconds=0.3, patience_seconds=0.5)
        queue.publish(drafts(20))
        lease = taken(queue, 10)
        queue.ack(lease, ids(lease)[:5])
        server.stop()
        assert queue.ack(lease, ids(lease)[5:8]) == frozenset(ids(lease)[5:8])  # the ledger is what counts
        with pytest.raises(QueueUnreachable, match="has not answered"):
            queue.lease(10, 30, begin=True, max_deaths=3)
        with pytest.raises(QueueUnreachable):
            queue.publish(drafts(22))
        server.start()
        queue, service = desk.queue(quiet_seconds=0.3)
        name = desk.address.subscription_id
        with pytest.raises(SettingsError, match=rf"subscription {name} .*make it: curl ") as caught:
            queue.lease(10, 30, begin=True, max_deaths=3)
        # It makes both, as the user would run it: an emulator forgets the topic, too.
        subprocess.run(str(caught.value).partition("make it: ")[2], shell=True, check=True)
        assert queue.publish(drafts(22)).already == 22  # two of them were never sent: they are now
        assert service.asked.count("publish") == 1
        assert queue.release(lease, ids(lease)[8:]) == frozenset(ids(lease)[8:])
        assert sorted(drained(queue)) == sorted({draft.id for draft in drafts(22)} - set(ids(lease)[:8]))
        assert counts(queue) == (0, 0, 22, 0)


# --- leases -----------------------------------------------------------------------------------------


def test_what_is_released_reaches_another_worker_at_once_even_beside_a_part_that_is_extended(desk: Desk) -> None:
    one, _ = desk.queue()
    two, _ = desk.queue()
    one.publish(drafts(4))
    lease = taken(one)
    one.release(lease, ["item-0001"])
    assert one.extend(lease.renewal, 30)
    began = time.monotonic()
    assert ids(taken(two)) == ["item-0001"]
    assert time.monotonic() - began < 5.0  # not the 30 s for which the others are held
    one.release(lease, ["item-0000", "item-0002", "item-0003"])
    assert ids(taken(two)) == ["item-0000", "item-0002", "item-0003"]


def test_after_an_error_the_message_waits_as_long_as_the_item(desk: Desk) -> None:
    queue, _ = desk.queue()
    queue.publish(drafts(2))
    lease = taken(queue)
    queue.fail(lease, [Failure("item-0000", "no")], max_errors=3, delay_seconds=1.0)
    queue.fail(lease, [Failure("item-0001", "no")], max_errors=3)
    [soon] = taken(queue).items
    assert soon.id == "item-0001"
    assert nothing(queue)
    [later] = taken(queue).items
    assert (later.id, later.errors) == ("item-0000", 1)


def test_a_dead_worker_is_followed_within_its_lease_by_messages_alone(desk: Desk) -> None:
    one, _ = desk.queue()
    two, _ = desk.queue()
    one.publish(drafts(3))
    taken(one, seconds=1)
    began = time.monotonic()
    found = [taken(two) for _ in range(3)]  # suspects come one at a time
    assert time.monotonic() - began < 3.5
    assert sorted(name for lease in found for name in ids(lease)) == [draft.id for draft in drafts(3)]
    assert [lease.items[0].deaths for lease in found] == [1, 1, 1]


def test_a_thousand_items_in_one_lease_are_extended_and_acknowledged_in_requests_of_allowed_size(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("outlast.queues.pubsub_service._ACK_BYTES", 20_000)
    queue, service = desk.queue()
    queue.publish(drafts(1000))
    lease = taken(queue, 1000)
    assert "\n" not in lease.renewal
    service.asked.clear()
    assert desk.queue()[0].extend(lease.renewal, 30)
    assert len(queue.ack(lease, ids(lease))) == 1000
    assert service.asked.count("acknowledge") >= 3
    assert counts(queue) == (0, 0, 1000, 0)


def test_an_exactly_once_subscription_keeps_the_same_promises(desk: Desk, tmp_path: Path) -> None:
    strict = Desk(fresh_subscription(pubsub_server(), exactly_once=True), tmp_path / "strict")
    slow, service = strict.queue()
    quick, _ = strict.queue()
    slow.publish(drafts(2))
    late = taken(slow, seconds=1)
    time.sleep(1.1)
    first = taken(quick, seconds=30)
    assert slow.ack(late, ids(late)) == frozenset()
    assert service.acknowledge(service_ack_ids(late)) == frozenset(service_ack_ids(late))  # it says that they are void
    assert quick.ack(first, ids(first)) == frozenset(ids(first))
    assert quick.extend(first.renewal, 30) is False
    rest = taken(quick)
    assert quick.extend(rest.renewal, 30)
    quick.ack(rest, ids(rest))
    assert counts(quick) == (0, 0, 2, 0)


def service_ack_ids(lease: Lease) -> list[str]:
    return renewal_of(lease).of(ids(lease))


# --- messages of others -----------------------------------------------------------------------------


def test_messages_of_others_are_items_too(desk: Desk) -> None:
    queue, _ = desk.queue()
    queue.publish(drafts(1))
    for data in (b'{"a": 1}', "für".encode(), b"\xff\x00", b"NaN", b""):
        desk.send(data, colour="red")
    desk.send(b"[]", id="named")
    found = {}
    while len(found) < 7:
        lease = taken(queue)
        found |= {item.id: item.payload for item in lease.items}
        queue.ack(lease, ids(lease))
    assert (found.pop("item-0000"), found.pop("named")) == ('{"n":0}', "[]")
    assert sorted(found.values()) == ['""', '"/wA="', '"NaN"', '"für"', '{"a": 1}']
    assert counts(queue) == (None, 0, 7, 0)  # who knows how many more there are
    assert desk.queue()[0].stats().ready is None


def test_the_first_pull_of_a_process_may_be_empty_by_mistake(desk: Desk) -> None:
    queue, service = desk.queue(quiet_seconds=2.0)
    pull, answers = service.pull, [[], []]
    service.pull = lambda most: answers.pop() if answers else pull(most)
    desk.send(b"1", id="a")
    lease = queue.lease(5, 30, begin=True, max_deaths=3)
    assert lease is not None
    assert ids(lease) == ["a"]


# --- settings ---------------------------------------------------------------------------------------


def test_a_ledger_serves_one_subscription_only(desk: Desk, tmp_path: Path) -> None:
    desk.queue()[0].publish(drafts(1))
    other = Desk(fresh_subscription(pubsub_server()), tmp_path)
    with pytest.raises(SettingsError, match=f"the ledger of {desk.address.subscription}"):
        other.queue()[0].lease(1, 30, begin=True, max_deaths=3)
    plain = Desk(fresh_subscription(pubsub_server()), tmp_path / "plain")
    plain.ledger().publish(drafts(1))
    with pytest.raises(SettingsError, match="a queue of its own"):
        plain.queue()[0].publish(drafts(1))


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"ack_deadline": 60}, []),
        ({"ack_deadline": 10}, ["deadline of 10 s"]),
        ({"ack_deadline": 60, "most_attempts": 5}, ["after 5 deliveries"]),
        ({"ack_deadline": 60, "most_attempts": 100}, []),
    ],
)
def test_settings_that_work_against_leases_are_told_once(
    desk: Desk, tmp_path: Path, settings: dict[str, int], told: list[str]
) -> None:
    other = Desk(fresh_subscription(pubsub_server(), **settings), tmp_path / "other")
    queue, _ = other.queue(quiet_seconds=0.0)
    assert nothing(queue)
    assert nothing(queue)
    assert len(other.told) == len(told)
    assert all(part in line for part, line in zip(told, other.told, strict=True))


def test_a_forked_child_has_clients_of_its_own(desk: Desk) -> None:
    queue, _ = desk.queue()
    queue.publish(drafts(2))
    lease = taken(queue, 1)
    child = os.fork()
    if child == 0:
        code = 1
        try:
            mine = taken(queue, 1)
            code = 0 if queue.ack(mine, ids(mine)) else 2
        finally:
            os._exit(code)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0
    assert queue.ack(lease, ids(lease)) == frozenset(ids(lease))
    assert counts(queue) == (0, 0, 2, 0)


def test_a_worker_looks_for_messages_of_others_though_its_ledger_has_nothing_left(desk: Desk, tmp_path: Path) -> None:
    sink = MemorySink()

    @outlast.batch(f"{desk.url}&ledger=sqlite:///{tmp_path}/ledger.db", sink=sink, chunk=10, idle=1.0)
    def answer(items: list) -> list:
        return [1 for _ in items]

    outlast.Queue(f"{desk.url}&ledger=sqlite:///{tmp_path}/ledger.db").publish(["a", "b"])
    assert answer.run().computed == 2
    desk.send(b'{"text": "late"}', id="foreign")
    assert answer.run().computed == 1
    assert {one.id for one in sink.results()} == {"a", "b", "foreign"}
