"""A worker that is told to go: what fits is finished, what does not is given back at once, and the code says the truth.

OUTLAST_DRAINS=100 repeats the timed ones so often.
"""

import os
import signal
import time
from dataclasses import replace
from multiprocessing.process import BaseProcess
from pathlib import Path

import pytest

import outlast
from outlast.items import Lease
from outlast.registry import open_queue, open_sink
from rehearsal.batch_crew import Order, publish, started
from rehearsal.batch_places import QUEUES, SINKS

DRAINS = int(os.environ.get("OUTLAST_DRAINS", "1"))
GRACE = 3.0
AMPLE = 12.0  # where no guard is to be needed: a busy machine takes no half of it


def _order(tmp_path: Path, *, queue: str = "sqlite", grace: float = GRACE, **more: object) -> Order:
    url, variables = QUEUES[queue](tmp_path)
    variables["OUTLAST_GRACE"] = f"{grace}s"
    return Order(url, SINKS["same"](tmp_path, url), tmp_path / "diary", variables=variables, **more)


def _begun(order: Order) -> list[str]:
    return order.diary.with_suffix(".begun").read_text().split() if order.diary.with_suffix(".begun").exists() else []


def _wait_until_begun(order: Order, count: int) -> None:
    until = time.monotonic() + 30
    while len(_begun(order)) < count:
        assert time.monotonic() < until, order.diary.with_suffix(".log").read_text()
        time.sleep(0.01)


def _end(process: BaseProcess) -> tuple[int | None, float]:
    """(exit code, seconds) after a SIGTERM."""
    began = time.monotonic()
    os.kill(process.pid or 0, signal.SIGTERM)
    process.join(60)
    return process.exitcode, time.monotonic() - began


def _holds(order: Order, names: list[str], *, within: float) -> bool:
    """Whether just these are leased, at some moment of so many seconds."""
    queue, until = outlast.Queue(order.queue), time.monotonic() + within
    while [item.id for item in queue.items("leased")] != names:
        if time.monotonic() > until:
            return False
        time.sleep(0.01)
    return True


def _lease_within(order: Order, most: int, seconds: float) -> Lease | None:
    queue, until = open_queue(order.queue), time.monotonic() + seconds
    while True:
        lease = queue.lease(most, 60, begin=True, max_deaths=3)
        if lease is not None or time.monotonic() > until:
            return lease
        time.sleep(0.01)


@pytest.mark.serial
def test_an_item_that_fits_is_finished_first(tmp_path: Path) -> None:
    for number in range(DRAINS):
        order = _order(tmp_path / str(number), grace=AMPLE, chunk=1, seconds=1.0)
        order.diary.parent.mkdir()
        publish(order, 3)
        worker = started(order)
        _wait_until_begun(order, 1)
        code, took = _end(worker)
        assert code == 143
        assert took < AMPLE / 2
        assert len(list(open_sink(order.sink).results())) == 1
        [released, other] = outlast.Queue(order.queue).items("ready")
        assert (released.deaths, released.errors, other.deaths) == (0, 0, 0)


@pytest.mark.serial
@pytest.mark.parametrize("queue", ["sqlite", "postgres", "pubsub"])
def test_what_does_not_fit_is_given_back_in_time_and_the_finished_part_is_kept(queue: str, tmp_path: Path) -> None:
    for number in range(DRAINS):
        order = _order(tmp_path / str(number), queue=queue, chunk=8, seconds=0.02, form="yield", stuck="item-00003")
        order.diary.parent.mkdir()
        publish(order, 8)
        worker = started(order)
        _wait_until_begun(order, 4)
        os.kill(worker.pid or 0, signal.SIGTERM)
        heard = time.monotonic()
        rest = _lease_within(order, 8, GRACE)
        visible = time.monotonic() - heard
        assert worker.is_alive()  # the third item has it stuck until the guard ends it
        assert rest is not None
        assert [item.id for item in rest.items] == [f"item-{one:05d}" for one in range(4, 8)]
        print(f"{queue}: the rest was visible after {visible:.3f} s")
        assert visible <= GRACE / 2
        worker.join(60)
        assert worker.exitcode == 143
        assert time.monotonic() - heard <= GRACE
        assert sorted(one.id for one in open_sink(order.sink).results()) == [f"item-{one:05d}" for one in range(3)]
        given_back = _lease_within(order, 8, GRACE)
        assert given_back is not None
        assert [(item.id, item.deaths, item.releases) for item in given_back.items] == [("item-00003", 0, 1)]


def test_an_item_known_not_to_fit_is_given_back_at_once(tmp_path: Path) -> None:
    order = _order(tmp_path, chunk=1, seconds=GRACE)
    publish(order, 6)
    worker = started(order)
    _wait_until_begun(order, 4)  # three have shown how long one takes
    time.sleep(0.3)
    code, took = _end(worker)
    assert code == 143
    assert took < 0.7 * GRACE  # and the guard would end it after 0.8
    assert len(list(open_sink(order.sink).results())) == 3


def test_ten_polite_preemptions_of_one_item_cost_it_nothing(tmp_path: Path) -> None:
    order = _order(tmp_path, chunk=1, seconds=0.05, stuck="item-00000")
    publish(order, 1)
    for number in range(10):
        worker = started(replace(order, variables={"OUTLAST_GRACE": "1s"}))
        _wait_until_begun(order, number + 1)
        assert _end(worker)[0] == 143
    [item] = outlast.Queue(order.queue).items()
    assert (item.state, item.errors, item.deaths, item.releases) == ("ready", 0, 0, 10)
    free = replace(order, stuck=None)
    worker = started(free)
    worker.join(60)
    assert worker.exitcode == 0


@pytest.mark.serial
def test_a_notice_when_nothing_is_left_ends_with_0_and_one_during_setup_with_143(tmp_path: Path) -> None:
    order = _order(tmp_path, chunk=1, seconds=0.5)
    publish(order, 1)
    worker = started(order)
    _wait_until_begun(order, 1)
    assert _end(worker)[0] == 0  # it was the last one, and it fitted
    slow = _order(tmp_path / "b", grace=AMPLE, setup_seconds=60.0)
    slow.diary.parent.mkdir()
    publish(slow, 1)
    worker = started(slow)
    _wait_until_begun(slow, 1)
    code, took = _end(worker)
    assert (code, took < AMPLE / 2) == (143, True)


def test_loaded_ahead_is_given_back_at_once(tmp_path: Path) -> None:
    order = _order(tmp_path, chunk=2, seconds=0.05, form="load", stuck="item-00001", prefetch=3)
    publish(order, 20)
    worker = started(order)
    _wait_until_begun(order, 2)
    assert _holds(order, [f"item-{number:05d}" for number in range(2 + 3 * 2)], within=30)
    os.kill(worker.pid or 0, signal.SIGTERM)
    # Before it leaves, which gives back these, too.
    assert _holds(order, ["item-00000", "item-00001"], within=GRACE)
    worker.join(60)
    assert worker.exitcode == 143
    assert outlast.Queue(order.queue).stats().ready == 20
    assert "8 given back" in order.diary.with_suffix(".log").read_text()


def test_the_code_is_what_the_user_says(tmp_path: Path) -> None:
    order = _order(tmp_path, chunk=1, seconds=0.2)
    publish(order, 50)
    worker = started(replace(order, variables={"OUTLAST_EXIT_CODE": "0"}))
    _wait_until_begun(order, 2)
    assert _end(worker)[0] == 0
    assert (outlast.Queue(order.queue).stats().ready or 0) > 0
