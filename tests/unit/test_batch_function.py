"""What a declared batch function promises: each item its outcome, whatever the function does with the others."""

import functools
import math
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

import outlast
from outlast.errors import LoopMisused, SettingsError, SinkUnreachable
from outlast.items import Lease, Result
from outlast.testing import MemoryQueue, MemorySink
from outlast.worker.publishing import Row, publish_rows


class Place:
    """A queue and a sink in memory, and what they hold."""

    def __init__(self, count: int = 6, *, url: str = "memory://test") -> None:
        self.queue, self.sink = MemoryQueue(clock=outlast_clock()), MemorySink(url)
        publish_rows(self.queue, [Row(f"i{number}", {"n": number}) for number in range(count)])

    @property
    def results(self) -> dict[str, str]:
        return {one.id: one.value for one in self.sink.results()}

    @property
    def dead(self) -> dict[str, str]:
        return {one.id: one.reason or "" for one in self.queue.items("dead")}

    def run(self, function: object, **options: object) -> object:
        return outlast.batch(self.queue, sink=self.sink, **{"chunk": 3, "max_errors": 0, **options})(function).run()


def outlast_clock() -> object:
    from outlast.clock import SystemClock

    return SystemClock()


@pytest.fixture(params=["memory://test", "memory://other"], ids=["one database", "two databases"])
def place(request: pytest.FixtureRequest) -> Place:
    return Place(url=request.param)


def _twice(items: list) -> list:
    return [item.payload["n"] * 2 for item in items]


def test_a_list_a_mapping_and_a_generator_say_the_same(place: Place) -> None:
    def mapped(items: list) -> dict:
        return {item.id: item.payload["n"] * 2 for item in items}

    def yielded(items: list) -> Iterator:
        for item in items:
            yield item, item.payload["n"] * 2

    found = []
    for function in (
        _twice,
        mapped,
        yielded,
        lambda items: np.array(_twice(items)),
        lambda items: tuple(_twice(items)),
    ):
        fresh = Place(url=place.sink.url)
        told = fresh.run(function)
        assert (told.computed, told.failed, told.dead) == (6, 0, 0)
        found.append(fresh.results)
    assert all(one == {f"i{number}": str(2 * number) for number in range(6)} for one in found)


_CANNOT_BE_CALLED: dict[str, tuple[Callable, dict[str, Callable], str]] = {
    "no setup": (lambda items, weights: [], {}, r"the function .*\(items, weights\).*'weights'; .* give --setup"),
    "no place for setup's": (lambda items: [], {"setup": dict}, "the function .* and what setup returned: too many"),
    "no arguments": (lambda: None, {}, "the function .* with a list of items: too many"),
    "a setup with one": (lambda items, model: [], {"setup": lambda path: path}, "setup .*with nothing: .*'path'"),
    "a load without": (lambda items: [], {"load": lambda: 1}, "load .* with an item: too many"),
}


@pytest.mark.parametrize("case", _CANNOT_BE_CALLED)
def test_a_function_that_cannot_be_called_is_refused_before_anything_is_leased(case: str) -> None:
    function, options, says = _CANNOT_BE_CALLED[case]
    place = Place()
    with pytest.raises(SettingsError, match=says):
        place.run(function, **options)
    assert {(item.state, item.claim, item.errors) for item in place.queue.items()} == {("ready", 0, 0)}


def test_what_a_decorator_adds_to_the_arguments_is_its_own_affair(place: Place) -> None:
    def with_factor(items: list, factor: int) -> list:
        return [factor * item.payload["n"] for item in items]

    @functools.wraps(with_factor)
    def wrapper(*arguments: object) -> object:
        return with_factor(*arguments, 2)

    for function in (wrapper, functools.partial(with_factor, factor=2), lambda items, factor=2: with_factor(items, 2)):
        fresh = Place(url=place.sink.url)
        assert fresh.run(function).computed == 6


def test_what_is_in_the_sink_at_this_version_is_not_computed(place: Place) -> None:
    place.sink.store([Result("i1", '"old"', "m1", 1), Result("i2", '"old"', "m0", 9), Result("i3", '"old"', None, 1)])
    seen: list[str] = []

    def function(items: list) -> list:
        seen.extend(item.id for item in items)
        return [0 for _ in items]

    told = place.run(function, version="m1")
    assert (told.computed, told.known) == (5, 1)
    assert sorted(seen) == ["i0", "i2", "i3", "i4", "i5"]
    assert place.results == {"i1": '"old"', **{f"i{number}": "0" for number in (0, 2, 3, 4, 5)}}


@pytest.mark.parametrize(
    "how", ["raise ItemError", "give ItemError", "give an error", "raise an error", "no JSON", "yield"]
)
def test_a_bad_item_fails_alone(place: Place, how: str) -> None:
    def function(items: list) -> list:
        out = []
        for item in items:
            value: object = item.payload["n"]
            if item.id == "i1":
                if how == "raise ItemError":
                    raise outlast.ItemError(item.id, "no face in it")
                if how == "raise an error":
                    raise ZeroDivisionError("no face in it")
                value = {
                    "give ItemError": outlast.ItemError(item.id, "no face in it"),
                    "give an error": ValueError("no face in it"),
                    "no JSON": {("no", "face in it"): object()},
                }[how]
            out.append(value)
        return out

    def yielded(items: list) -> Iterator:
        for item in items:
            if item.id == "i1":
                raise ValueError("no face in it")
            yield item.id, item.payload["n"]

    told = place.run(yielded if how == "yield" else function)
    assert set(place.results) == {"i0", "i2", "i3", "i4", "i5"}
    assert set(place.dead) == {"i1"}
    assert how == "no JSON" or "no face in it" in place.dead["i1"]
    assert (told.computed, told.failed, told.dead) == (5, 1, 1)


def test_an_item_can_be_given_up_at_once(place: Place) -> None:
    def function(items: list) -> list:
        return [outlast.ItemError(item.id, "no picture", retry=False) if item.id == "i1" else 1 for item in items]

    place.run(function, max_errors=9)
    assert place.dead == {"i1": "no picture"}
    assert len(place.results) == 5


def test_a_reason_shows_the_users_code_and_not_ours(place: Place) -> None:
    def function(items: list) -> list:
        raise ZeroDivisionError("no face in it")

    place.run(function, chunk=1)
    for reason in place.dead.values():
        assert reason.endswith("ZeroDivisionError: no face in it")
        assert "in function" in reason
        assert "calling.py" not in reason


def test_errors_are_tried_again_up_to_their_number(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("outlast.worker.settling._FIRST_DELAY_SECONDS", 0.001)
    tries: Counter = Counter()

    def function(items: list) -> list:
        for item in items:
            assert item.attempt == tries[item.id]
            tries[item.id] += 1
        return [ValueError("not yet") if tries[item.id] <= (2 if item.id == "i0" else 9) else 1 for item in items]

    told = place.run(function, max_errors=2, chunk=1)
    assert place.results == {"i0": "1"}
    assert tries == Counter({f"i{number}": 3 for number in range(6)})
    assert (told.computed, told.dead) == (1, 5)
    assert all(item.errors == 3 for item in place.queue.items("dead"))


@pytest.mark.parametrize("answer", ["too few", "a stranger", "text", "nothing", "a pair of a stranger"])
def test_an_answer_that_is_not_about_the_items_ends_the_worker_and_loses_nothing(place: Place, answer: str) -> None:
    def function(items: list) -> object:
        return {"too few": [1], "a stranger": {"who": 1}, "text": "abc", "nothing": None}[answer]

    def yielded(items: list) -> Iterator:
        yield "who", 1

    with pytest.raises(LoopMisused):
        place.run(yielded if answer.startswith("a pair") else function)
    stats = place.queue.stats()
    assert (stats.done, stats.dead, place.results) == (0, 0, {})


def test_an_item_without_a_result_has_failed(place: Place) -> None:
    place.run(lambda items: {item.id: 1 for item in items if item.id != "i4"})
    assert set(place.dead) == {"i4"}
    assert "no result" in place.dead["i4"]
    assert len(place.results) == 5


def test_setup_is_called_once_and_only_if_there_is_work(place: Place) -> None:
    calls = []

    def setup() -> str:
        calls.append(1)
        return "model"

    def function(items: list, model: str) -> list:
        return [model for _ in items]

    place.run(function, setup=setup)
    place.run(function, setup=setup)
    assert calls == [1]
    assert set(place.results.values()) == {'"model"'}


def test_load_runs_ahead_in_threads_and_its_errors_fail_one_item(place: Place) -> None:
    def load(item: object) -> int:
        if item.id == "i3":
            raise OSError("no such file")
        time.sleep(0.01)
        return item.payload["n"] + 100

    place.run(lambda items: [item.loaded for item in items], load=load, prefetch=2)
    assert place.results == {f"i{number}": str(100 + number) for number in (0, 1, 2, 4, 5)}
    assert "no such file" in place.dead["i3"]


def test_a_sink_that_does_not_answer_ends_the_worker_and_gives_the_items_back(place: Place) -> None:
    def broken(results: object, *, connection: object = None) -> None:
        raise SinkUnreachable("the disk is full")

    place.sink.store = broken
    with pytest.raises(SinkUnreachable) as caught:
        place.run(_twice)
    assert caught.value.code == 75
    stats = place.queue.stats()
    assert (stats.ready, stats.leased, stats.done) == (6, 0, 0)
    assert all((item.errors, item.deaths) == (0, 0) for item in place.queue.items())


def test_a_keeper_that_looks_while_a_chunk_is_acknowledged_loses_nothing(
    place: Place, capsys: pytest.CaptureFixture[str]
) -> None:
    """B31: the lease is gone because it is settled, and the worker does not know yet that it is."""
    acknowledge, looks = place.queue.ack, []

    def ack(lease: Lease, *given: object, **more: object) -> frozenset[str]:
        done = acknowledge(lease, *given, **more)
        looks.append(threading.Thread(target=worker._on_lost, args=(lease.renewal,)))
        looks[-1].start()
        looks[-1].join(0.05)
        return done

    place.queue.ack = ack
    with outlast.Worker(place.queue, sink=place.sink, chunk=3) as worker:
        for chunk in worker:
            for item in chunk:
                chunk.done(item, 1)
    for look in looks:
        look.join()
    assert len(looks) == 2
    assert len(place.results) == worker.summary.computed == 6
    assert "was lost" not in capsys.readouterr().err


def test_the_explicit_form_does_the_same(place: Place) -> None:
    with outlast.Worker(place.queue, sink=place.sink, chunk=4, max_errors=0) as worker:
        for chunk in worker:
            for item in chunk:
                if item.id == "i2":
                    chunk.fail(item, "no face in it")
                elif item.id != "i5":
                    chunk.done(item, item.payload["n"])
    assert set(place.results) == {"i0", "i1", "i3", "i4"}
    assert place.dead["i2"] == "no face in it"
    assert "without a result" in place.dead["i5"]


def test_the_explicit_form_refuses_a_time_limit_that_it_cannot_watch(place: Place) -> None:
    def loop() -> None:
        with outlast.Worker(place.queue, sink=place.sink, item_timeout=1.0) as worker:
            for _ in worker:
                pytest.fail("nothing is handed out")

    with pytest.raises(outlast.SettingsError, match="item_timeout"):
        loop()
    assert place.queue.stats().ready == 6


@pytest.mark.parametrize("most", [3, 100])
def test_a_sink_for_thousands_warns_of_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], most: int
) -> None:
    monkeypatch.setattr("outlast.worker.worker._FEW_ITEMS", most)
    outlast.batch(Place().queue, sink=str(tmp_path / "results"), chunk=6)(_twice).run()
    assert ("parquet:FOLDER" in capsys.readouterr().err) is (most == 3)


def test_a_loop_that_is_left_keeps_what_is_finished_and_gives_back_the_rest(place: Place) -> None:
    with outlast.Worker(place.queue, sink=place.sink, chunk=4) as worker:
        for chunk in worker:
            for item in chunk:
                if item.id == "i2":
                    break
                chunk.done(item, 1)
            break
    assert set(place.results) == {"i0", "i1"}
    assert place.queue.stats().ready == 4

    def fail_at_i4() -> None:
        with outlast.Worker(place.queue, sink=place.sink, chunk=4, max_errors=0) as worker:
            for chunk in worker:
                for item in chunk:
                    if item.id == "i4":
                        raise RuntimeError("no face in it")
                    chunk.done(item, 1)

    with pytest.raises(RuntimeError):
        fail_at_i4()
    assert set(place.results) == {"i0", "i1", "i2", "i3"}
    assert "no face in it" in place.dead["i4"]
    assert place.queue.stats().ready == 1


def test_x13_what_a_model_returns_is_stored_as_valid_json(place: Place) -> None:
    import json

    values = [
        np.float32(0.5),
        {"p": np.array([0.25, np.nan, np.inf], dtype=np.float32), "n": np.int64(3)},
        {"long": np.longdouble(1.25), "longs": np.array([np.longdouble("nan"), 2])},
        [math.inf, {"deep": [np.float64("nan")]}],
        {np.int64(7): np.bool_(True)},
        Path("a/b"),
    ]
    place.run(lambda items: [values[item.payload["n"]] for item in items])
    strict = {name: json.loads(text, parse_constant=pytest.fail) for name, text in place.results.items()}
    assert strict == {
        "i0": 0.5,
        "i1": {"p": [0.25, None, None], "n": 3},
        "i2": {"long": 1.25, "longs": [None, 2.0]},
        "i3": [None, {"deep": [None]}],
        "i4": {"7": True},
        "i5": "a/b",
    }


@pytest.mark.parametrize("value", [object(), {1j: 2}, b"bytes", {"a": [1, {2, 3}]}])
def test_x13_what_json_cannot_hold_fails_its_item_and_says_where(value: object) -> None:
    place = Place(2)
    place.run(lambda items: [value if item.id == "i0" else 1 for item in items])
    assert place.results == {"i1": "1"}
    assert "cannot be stored" in place.dead["i0"]


@pytest.mark.parametrize(
    "options",
    [
        {"chunk": 0},
        {"chunk": 1.5},
        {"lease": "soon"},
        {"lease": "10ms"},
        {"max_errors": -1},
        {"version": 3},
        {"item_timeout": 0},
    ],
)
def test_a_setting_that_cannot_work_is_named_at_once(options: dict) -> None:
    place = Place(1)
    with pytest.raises(outlast.SettingsError, match=next(iter(options))):
        place.run(_twice, **options)
    assert place.queue.stats().ready == 1


def test_publishing_says_what_became_of_each_row() -> None:
    queue = MemoryQueue()
    told = publish_rows(
        queue,
        [
            Row("a", {"x": 1, "y": 2}, 2),
            Row("a", {"y": 2, "x": 1}, 3),
            Row("a", {"x": 3}, 4),
            Row("", 1, 5),
            Row(None, 1, 6),
            Row(7, 1, 7),
            Row("\ud800", 1, 8),
            Row("big", "x" * (2 << 20), 9),
            Row("nan", float("nan"), 10),
            Row("bad", None, 11, why="the row has 3 fields, not 2"),
            Row("b", None, 12),
        ],
    )
    assert (told.new, told.already) == (2, 1)
    assert [one.line for one in sorted(told.rejected, key=lambda one: one.line or 0)] == [4, 5, 6, 7, 8, 9, 10, 11]
    assert all(one.reason for one in told.rejected)
