"""Leases of real processes: kept while their worker lives, lost when it is frozen, free at once when it dies."""

import os
import signal
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

import outlast
from outlast.registry import open_queue, open_sink
from rehearsal.batch_crew import Order, check, publish, started


def _order(tmp_path: Path, **more: object) -> Order:
    url = f"sqlite:///{tmp_path}/work.db"
    return Order(url, f"{url}?table=labels", tmp_path / "diary", **more)


def _lines(path: Path) -> list[str]:
    return path.read_text().split() if path.exists() else []


def _wait_for(path: Path, count: int) -> None:
    until = time.monotonic() + 30
    while len(_lines(path)) < count:
        assert time.monotonic() < until
        time.sleep(0.01)


def test_b31_long_items_are_done_once_though_the_function_holds_the_interpreter(tmp_path: Path) -> None:
    order = _order(tmp_path, chunk=1, seconds=3.0, lease=1.0, holds_lock=True)
    publish(order, 3)
    crew = [started(order) for _ in range(3)]
    for worker in crew:
        worker.join(60)
    assert [worker.exitcode for worker in crew] == [0, 0, 0]
    assert Counter(_lines(order.diary)) == Counter({f"item-{number:05d}": 1 for number in range(3)})
    assert all((item.errors, item.deaths, item.claim) == (0, 0, 1) for item in open_queue(order.queue).items())


def test_b31_a_worker_that_was_frozen_past_its_lease_stores_nothing(tmp_path: Path) -> None:
    for sink in ("same", "other"):
        folder = tmp_path / sink
        folder.mkdir()
        order = _order(folder, chunk=2, seconds=0.4, lease=0.6)
        if sink == "other":
            order = replace(order, sink=f"sqlite:///{folder}/results.db")
        publish(order, 2)
        slow = started(order)
        _wait_for(order.diary.with_suffix(".begun"), 1)
        os.kill(slow.pid or 0, signal.SIGSTOP)
        quick = started(order)
        quick.join(60)
        assert quick.exitcode == 0
        stored = {one.id: one.claim for one in open_sink(order.sink).results()}
        assert stored == {"item-00000": 2, "item-00001": 2}
        os.kill(slow.pid or 0, signal.SIGCONT)
        slow.join(60)
        assert slow.exitcode == 0
        assert {one.id: one.claim for one in open_sink(order.sink).results()} == stored
        check(order, 2)


@pytest.mark.serial
def test_what_a_killed_worker_held_runs_elsewhere_within_the_lease(tmp_path: Path) -> None:
    order = _order(tmp_path, chunk=1, seconds=0.05, lease=2.0, stuck="item-00000")
    publish(order, 1)
    first = started(order)
    _wait_for(order.diary.with_suffix(".begun"), 1)
    second = started(order)
    time.sleep(1.0)
    os.kill(first.pid or 0, signal.SIGKILL)
    killed = time.monotonic()
    _wait_for(order.diary.with_suffix(".begun"), 2)
    took = time.monotonic() - killed
    second.kill()
    first.join()
    second.join()
    assert took <= 1.0  # its keeper saw it die, and did not wait for the lease to end


def test_b32_a_worker_holds_what_it_works_on_and_others_get_the_rest(tmp_path: Path) -> None:
    order = _order(tmp_path, chunk=1, seconds=0.1)
    publish(order, 60)
    crew = [started(order)]
    _wait_for(order.diary, 2)
    crew += [started(order) for _ in range(3)]
    while any(worker.exitcode is None for worker in crew):
        assert len(list(open_queue(order.queue).items("leased"))) <= len(crew)
        time.sleep(0.02)
    check(order, 60)
    assert len(Counter(_lines(order.diary.with_suffix(".who")))) == len(crew)


def test_an_item_that_ends_its_worker_is_buried_and_its_neighbours_are_done(tmp_path: Path) -> None:
    order = _order(tmp_path, chunk=32, seconds=0.0005, lease=1.0, deadly="item-00040", max_deaths=3)
    publish(order, 300)
    deaths, worker = 0, started(order)
    while True:
        worker.join(60)
        if worker.exitcode == 0:
            break
        assert worker.exitcode == -signal.SIGABRT
        deaths += 1
        assert deaths <= 4
        worker = started(order)
    [dead] = outlast.Queue(order.queue).dead()
    assert (dead.id, dead.deaths, dead.errors) == ("item-00040", 4, 0)
    computed = Counter(_lines(order.diary))
    assert len(computed) == 299
    assert max(computed.values()) <= 1 + 3
    assert len(list(open_sink(order.sink).results())) == 299


def test_an_item_that_takes_too_long_fails_alone(tmp_path: Path) -> None:
    for number, holds_lock in enumerate((False, True)):
        folder = tmp_path / str(number)
        folder.mkdir()
        order = _order(folder, chunk=4, seconds=0.01, stuck="item-00002", item_timeout=0.4, max_errors=0)
        order = replace(order, holds_lock=holds_lock)
        publish(order, 6)
        worker = started(order)
        worker.join(60)
        codes = [worker.exitcode]
        while worker.exitcode != 0:
            worker = started(order)
            worker.join(60)
            codes.append(worker.exitcode)
            assert len(codes) < 15
        [dead] = outlast.Queue(order.queue).dead()
        assert dead.id == "item-00002"
        assert "item_timeout" in (dead.reason or ""), dead
        assert len(list(open_sink(order.sink).results())) == 5


def test_an_item_that_holds_the_interpreter_for_good_is_buried_too(tmp_path: Path) -> None:
    order = _order(tmp_path, chunk=1, seconds=0.01, locks_up="item-00001", item_timeout=0.3, max_deaths=0)
    publish(order, 4)
    worker = started(order)
    worker.join(60)
    assert worker.exitcode == -signal.SIGKILL
    worker = started(order)
    worker.join(60)
    assert worker.exitcode == 0
    [dead] = outlast.Queue(order.queue).dead()
    assert (dead.id, dead.deaths) == ("item-00001", 1)
    assert len(list(open_sink(order.sink).results())) == 3


def test_x06_any_number_of_workers_goes_on_where_others_stopped(tmp_path: Path) -> None:
    order = _order(tmp_path, chunk=7, seconds=0.002)
    publish(order, 200)
    for workers in (1, 3, 2):
        crew = [started(order) for _ in range(workers)]
        _wait_for(order.diary, len(_lines(order.diary)) + 10)
        for worker in crew:
            os.kill(worker.pid or 0, signal.SIGTERM)
        for worker in crew:
            worker.join(60)
    last = [started(order) for _ in range(4)]
    for worker in last:
        worker.join(60)
    check(order, 200)
    assert Counter(_lines(order.diary)) == Counter(f"item-{number:05d}" for number in range(200))
