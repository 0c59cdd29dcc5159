"""A function that fails for whatever it is given does not bury the queue; one that has bad items goes on."""

import json
import shlex
from collections.abc import Callable
from pathlib import Path

import pytest

import outlast
from outlast.cli.main import main
from outlast.clock import SystemClock
from outlast.errors import EXIT_HUMAN, EXIT_RETRY, EveryItemFailed
from outlast.items import Failure, Result
from outlast.testing import MemoryQueue, MemorySink
from outlast.worker.publishing import Row, publish_rows

MOST = 100  # items that fail before a worker stops, at small chunks


class Place:
    """A queue of numbered items and a sink of another database, in memory."""

    def __init__(self, count: int) -> None:
        self.queue, self.sink = MemoryQueue(clock=SystemClock()), MemorySink("memory://other")
        publish_rows(self.queue, [Row(f"i{number}", {"n": number}) for number in range(count)])

    def run(self, function: Callable, **options: object) -> object:
        return outlast.batch(self.queue, sink=self.sink, **{"chunk": 10, "max_errors": 0, **options})(function).run()


def _broken(items: list) -> list:
    return [item.payload["text"] for item in items]


def _loop(place: Place) -> None:
    with outlast.Worker(place.queue, sink=place.sink, chunk=10, max_errors=0) as worker:
        for chunk in worker:
            for item in chunk:
                chunk.fail(item, KeyError("text"))


_ALL_FAIL: dict[str, Callable[[Place], object]] = {
    "raises": lambda place: place.run(_broken),
    "returns exceptions": lambda place: place.run(lambda items: [KeyError("text") for _ in items]),
    "gives nothing": lambda place: place.run(lambda items: {}),
    "cannot load": lambda place: place.run(lambda items: [1] * len(items), load=lambda item: item.payload["text"]),
    "a loop": _loop,
}


@pytest.mark.parametrize("how", _ALL_FAIL)
def test_a_function_that_fails_for_every_item_is_stopped_before_it_has_buried_them(
    how: str, capfd: pytest.CaptureFixture[str]
) -> None:
    place = Place(1000)
    with pytest.raises(EveryItemFailed, match=f"first {MOST} items") as caught:
        _ALL_FAIL[how](place)
    assert caught.value.code == EXIT_HUMAN
    stats = place.queue.stats()
    assert (stats.dead, stats.leased, stats.ready) == (MOST, 0, 1000 - MOST)
    assert capfd.readouterr().err.count("outlast queue retry memory://test") == 1


def test_a_large_chunk_is_given_three_times_before_it_is_the_functions_fault() -> None:
    place = Place(1000)
    with pytest.raises(EveryItemFailed):
        place.run(_broken, chunk=200)
    assert place.queue.stats().dead == 600


def test_with_tries_left_nothing_is_dead_by_then() -> None:
    place = Place(1000)
    with pytest.raises(EveryItemFailed):
        place.run(_broken, max_errors=3, chunk=50)
    assert (place.queue.stats().dead, place.queue.stats().ready) == (0, 1000)


def test_bad_items_at_the_front_do_not_keep_a_worker_from_the_good_ones_behind() -> None:
    bad = MOST - 10

    def some(items: list) -> list:
        return [ValueError("bad") if item.payload["n"] < bad else 1 for item in items]

    place = Place(2 * MOST)
    told = place.run(some)
    assert (told.computed, told.dead) == (2 * MOST - bad, bad)


def test_what_the_function_judges_to_be_bad_is_no_failure_of_its_own() -> None:
    place = Place(3 * MOST)
    told = place.run(lambda items: [outlast.ItemError(item.id, "not found", retry=False) for item in items])
    assert told.dead == 3 * MOST


def test_once_an_item_has_a_result_any_number_may_fail() -> None:
    place = Place(3 * MOST)
    told = place.run(lambda items: [ValueError("bad") if item.payload["n"] else 1 for item in items])
    assert (told.computed, told.dead) == (1, 3 * MOST - 1)


def test_a_worker_that_comes_when_only_the_bad_are_left_is_not_to_blame() -> None:
    place = Place(2 * MOST)
    lease = place.queue.lease(2 * MOST, 60.0, begin=True, max_deaths=3)
    place.queue.fail(lease, [Failure(item.id, "it failed before") for item in lease.items], max_errors=1)
    assert place.run(_broken, max_errors=1).dead == 2 * MOST


@pytest.mark.parametrize("elsewhere", ["this version", "an older version", "nothing"])
def test_only_what_others_computed_at_this_version_makes_it_this_machine(elsewhere: str) -> None:
    """What was copied into the sink is nobody's success, whichever broken worker of several finds it there."""
    place = Place(1000)
    place.sink.store([Result(f"i{number}", "1", "v2", 1) for number in range(5, 1000, 20)])
    lease = place.queue.lease(10, 60.0, begin=True, max_deaths=3)
    place.queue.ack(lease, [item.id for item in lease.items])  # as another worker does that finds them in the sink
    if elsewhere != "nothing":
        _one_result(place, version="v2" if elsewhere == "this version" else "v1")

    def broken(items: list) -> list:
        raise OSError("no device")

    for _ in range(2):
        with pytest.raises(EveryItemFailed) as caught:
            place.run(broken, version="v2")
        assert caught.value.works_elsewhere is (elsewhere == "this version")
        assert caught.value.code == (EXIT_RETRY if elsewhere == "this version" else EXIT_HUMAN)
    assert ("its packages" in str(caught.value)) is (elsewhere == "this version")


def _one_result(place: Place, version: str | None = None) -> None:
    """As of a worker that computed one item, and then was told to leave."""
    with outlast.Worker(place.queue, sink=place.sink, version=version) as worker:
        chunk = worker.next_chunk()
        chunk.done(chunk.all_items()[0], 1)
        worker.next_chunk()


def test_a_worker_that_begins_with_a_stretch_of_bad_items_asks_for_a_retry_which_gets_past_them() -> None:
    """A preemption may let the next worker begin anywhere, and 78 would end the whole job."""
    place = Place(3 * MOST)
    _one_result(place)

    def some(items: list) -> list:
        return [ValueError("bad") if item.payload["n"] <= 2 * MOST else 1 for item in items]

    codes = []
    for _ in range(2):
        with pytest.raises(EveryItemFailed) as caught:
            place.run(some, max_errors=1)
        codes.append(caught.value.code)
    assert codes == [EXIT_RETRY, EXIT_RETRY]
    assert place.run(some, max_errors=1).computed == MOST - 1
    assert place.queue.stats().dead == 2 * MOST


@pytest.mark.parametrize("max_errors", [0, 3])
def test_it_says_where_each_traceback_is_and_how_to_go_on(
    max_errors: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each command can be copied whole, to the end of the line or of its quotation."""
    url = f"sqlite:///{tmp_path}/the work.db"
    outlast.Queue(url).publish({f"i{number}": {"n": number} for number in range(2 * MOST)})
    with pytest.raises(EveryItemFailed) as caught:
        outlast.batch(url, sink=f"{url}?table=t", chunk=10, max_errors=max_errors)(_broken).run()
    said = str(caught.value)
    shown = shlex.split(said.partition("`")[2].partition("`")[0])
    main(shown[1:], standalone_mode=False)
    assert capsys.readouterr().out.count("in _broken") == MOST
    if max_errors:
        assert said.endswith("start again")
        return
    assert f"{MOST} are dead" in said
    main(shlex.split(said.rpartition("mended: ")[2])[1:], standalone_mode=False)
    assert outlast.Queue(url).stats().ready == 2 * MOST


def test_a_small_queue_without_any_result_is_told_at_the_end(capfd: pytest.CaptureFixture[str]) -> None:
    place = Place(5)
    assert place.run(_broken).dead == 5
    said = capfd.readouterr().err
    assert said.count("no item has a result") == 1
    assert "KeyError: 'text'" in said
    place = Place(5)
    place.run(lambda items: [1 if item.payload["n"] == 3 else ValueError() for item in items])
    assert "no item has a result" not in capfd.readouterr().err
    assert [json.loads(one.value) for one in place.sink.results()] == [1]
