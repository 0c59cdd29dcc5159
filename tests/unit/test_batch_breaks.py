"""What a hostile function does to a batch, and that it harms its own item alone."""

import contextlib
import errno
import gc
import json
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import outlast
from outlast.errors import LoopMisused, SettingsError
from outlast.testing import MemoryQueue, MemorySink
from outlast.worker.publishing import Row, publish_rows

COUNT = 6


class Place:
    """A queue and a sink in memory; item i3 is the bad one."""

    def __init__(self, count: int = COUNT) -> None:
        self.queue, self.sink = MemoryQueue(), MemorySink("memory://other")
        publish_rows(self.queue, [Row(f"i{number}", {"n": number}) for number in range(count)])

    @property
    def results(self) -> dict[str, object]:
        return {one.id: json.loads(one.value) for one in self.sink.results()}

    @property
    def dead(self) -> dict[str, str]:
        return {one.id: one.reason or "" for one in self.queue.items("dead")}

    def run(self, function: object, **options: object) -> object:
        return outlast.batch(self.queue, sink=self.sink, **{"chunk": COUNT, "max_errors": 0, **options})(function).run()


RIGHT = {f"i{number}": 2 * number for number in range(COUNT)}
NEIGHBOURS = {name: value for name, value in RIGHT.items() if name != "i3"}


class Panic(BaseException):
    """As PyO3's PanicException, which is no Exception."""


ENDINGS: tuple[BaseException, ...] = (SystemExit(0), SystemExit(1), GeneratorExit(), Panic("a panic"), StopIteration())


@pytest.mark.parametrize("form", ["list", "yield", "load"])
@pytest.mark.parametrize("ending", ENDINGS, ids=repr)
def test_whatever_an_item_raises_fails_it_alone(ending: BaseException, form: str) -> None:
    def one(item: object) -> int:
        if item.id == "i3":
            raise ending
        return 2 * item.payload["n"]

    def yielded(items: list) -> Iterator:
        for item in items:
            yield item, one(item)

    def doubled(items: list) -> list:
        return [item.loaded for item in items if item.load_error is None]

    place = Place()
    options = {"load": one} if form == "load" else {}
    functions = {"list": lambda items: [one(item) for item in items], "yield": yielded, "load": doubled}
    told = place.run(functions[form], **options)
    assert place.results == NEIGHBOURS
    assert list(place.dead) == ["i3"]
    assert (told.computed, told.failed) == (COUNT - 1, 1)


def test_what_a_function_changes_is_as_it_was_when_an_item_is_tried_again() -> None:
    def popping(items: list) -> list:
        taken = [(item, item.payload.pop("n"), item.loaded) for item in items]
        for _, _, loaded in taken:
            np.add(loaded, 1, out=loaded)
        if any(item.id == "i3" for item in items):
            raise ValueError("i3")
        return [int(n + loaded[0]) for _, n, loaded in taken]

    place = Place()
    place.run(popping, load=lambda item: np.array([item.payload["n"] - 1]))
    assert place.results == NEIGHBOURS
    assert list(place.dead) == ["i3"]


@pytest.mark.parametrize("change", [list.reverse, list.clear, list.pop], ids=lambda one: one.__name__)
def test_results_beside_a_list_that_the_function_changed_are_refused(change: Callable[[list], object]) -> None:
    def changing(items: list) -> list:
        values = [2 * item.payload["n"] for item in items]
        change(items)
        return values[: len(items) or None]

    place = Place()
    with pytest.raises(LoopMisused, match="changed the list"):
        place.run(changing)
    assert place.results == {}

    def named(items: list) -> dict:
        values = {item.id: 2 * item.payload["n"] for item in items}
        change(items)
        return values

    place = Place()
    place.run(named)
    assert place.results == RIGHT


class Labelled:
    """As a pandas Series of a table that was sorted: `[0]` is the row of that label, and not the first."""

    def __init__(self, values: list) -> None:
        self.values = values

    def __len__(self) -> int:
        return len(self.values)

    def __getitem__(self, label: int) -> object:
        return self.values[-1 - label]

    def __iter__(self) -> Iterator:
        return iter(self.values)

    def tolist(self) -> list:
        return self.values


class Table(Labelled):
    """As a pandas DataFrame, whose iteration gives the names of its columns."""

    def __getattribute__(self, name: str) -> object:
        if name == "tolist":
            raise AttributeError(name)
        return super().__getattribute__(name)


def test_answers_are_taken_in_their_order_and_what_has_none_is_refused() -> None:
    def values(items: list) -> list:
        return [2 * item.payload["n"] for item in items]

    for answer in (
        lambda items: Labelled(values(items)),
        lambda items: dict(zip(items, values(items), strict=True)),  # an item stands for its id
        lambda items: np.array(values(items), dtype="float32"),
    ):
        place = Place()
        place.run(answer)
        assert place.results == RIGHT
    for answer in (
        lambda items: Table(values(items)),
        lambda items: map(str, items),
        lambda items: set(values(items)),
        lambda _: None,
        lambda _: np.float32(1),
    ):
        place = Place()
        with pytest.raises(LoopMisused, match="it is to return a list"):
            place.run(answer)
        assert place.results == {}


class Unspeakable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no words")


REASONS: tuple[object, ...] = ("half \udcff", "a nul \0", 7, None, {"a": "dict"}, ValueError("\ud800\0"), Unspeakable())


@pytest.mark.parametrize("reason", REASONS, ids=lambda one: ascii(repr(type(one))))
def test_any_reason_is_kept_as_text_and_ends_no_worker(reason: object, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/work.db"
    outlast.Queue(url).publish({"bad": 0, "good": 1, "worse": 2})

    def function(items: list) -> list:
        return [
            outlast.ItemError(item.id, reason) if item.id == "bad" else reason if isinstance(reason, Exception) else 1
            for item in items
        ]

    outlast.batch(url, sink=f"{url}?table=t", chunk=3, max_errors=0)(function).run()
    reasons = [one.reason for one in outlast.Queue(url).dead()]
    assert reasons
    for said in reasons:
        said.encode()
        assert "\0" not in said


@pytest.mark.parametrize("form", ["raised", "yielded", "returned"])
def test_a_large_chunk_of_bad_items_takes_no_longer_for_each(form: str) -> None:
    count = 1200 if form == "raised" else 3000  # each that is raised makes the function be called again for the rest

    def raised(items: list) -> list:
        raise outlast.ItemError(items[0], "bad") if form == "raised" else ValueError

    def yielded(items: list) -> Iterator:
        for item in items:
            yield item.id, ValueError("bad")

    def returned(items: list) -> list:
        return [outlast.ItemError(item.id, "bad") for item in items]

    place, began, threads = Place(count), time.monotonic(), threading.active_count()
    place.run({"raised": raised, "yielded": yielded, "returned": returned}[form], chunk=count)
    assert len(place.dead) == count
    assert time.monotonic() - began < 10
    assert threading.active_count() < threads + 10


# --- the process around it --------------------------------------------------------------------------


@pytest.mark.parametrize("place", ["as it is", "another folder", "no more files", "frozen", "no interpreter"])
def test_leases_are_renewed_wherever_the_worker_runs(
    place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    queue = outlast.Queue("sqlite:///work.db")
    queue.publish({"i1": 1})
    Path("elsewhere").mkdir()
    Path("elsewhere", "queue.py").write_text("raise RuntimeError('somebody else')")
    if place == "another folder":
        monkeypatch.chdir("elsewhere")
    if place == "no more files":
        monkeypatch.setattr(subprocess, "Popen", _no_more_files)
    if place == "frozen":
        monkeypatch.setattr(sys, "frozen", True, raising=False)
    if place == "no interpreter":
        monkeypatch.setattr(sys, "executable", "")

    def function(items: list) -> list:
        time.sleep(1.2)
        assert queue.port.lease(1, 60, begin=False, max_deaths=3) is None
        return [1]

    told = outlast.batch(queue, sink=f"sqlite:///{tmp_path}/work.db", lease=0.6, max_errors=0)(function).run()
    assert (told.computed, told.dead) == (1, 0)
    assert ("cannot be started" in capfd.readouterr().err) is (place == "no more files")
    assert not Path("elsewhere", "work.db").exists()


def _no_more_files(*_arguments: object, **_named: object) -> object:
    raise OSError(errno.EMFILE, "Too many open files")


def test_a_program_that_runs_its_batch_again_and_again_grows_in_nothing(tmp_path: Path) -> None:
    queue = outlast.Queue(f"sqlite:///{tmp_path}/work.db")
    held = []
    for round_ in range(6):
        queue.publish({f"{round_}-{number}": number for number in range(8)})
        outlast.batch(queue, sink=f"sqlite:///{tmp_path}/work.db", chunk=2, load=lambda item: item.id, item_timeout=60)(
            lambda items: [1] * len(items)
        ).run()
        gc.collect()
        time.sleep(0.1)
        held.append((len(list(Path("/proc/self/fd").iterdir())), threading.active_count()))
    assert held[-1] == held[2], held


def test_an_error_that_leaves_the_process_is_told_in_a_line(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    url = f"sqlite:///{tmp_path}/work.db"
    outlast.Queue(url).publish({"i1": 1})
    told = {
        "is no queue's URL": lambda: outlast.Queue("foo://x"),
        "chunk=0 is not": lambda: outlast.batch(url, sink=url, chunk=0)(list).run(),
        "sink='/proc/": lambda: outlast.Worker(url, sink="sqlite:////proc/none/there.db").__enter__(),
    }
    for words, call in told.items():
        with pytest.raises(SystemExit):
            call()
        assert capfd.readouterr().err.count(words) == 1


@pytest.mark.parametrize(
    "option", [{"chunk": 10**30}, {"max_errors": 10**30}, {"max_deaths": 2**31}, {"lease": 1e300}, {"idle": "2000d"}]
)
def test_a_number_beyond_what_a_database_counts_is_refused_by_name(option: dict) -> None:
    with pytest.raises(SettingsError, match=next(iter(option))):
        Place().run(list, **option)


def test_a_table_that_refuses_a_result_is_told_and_nothing_is_lost(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/work.db"
    outlast.Queue(url).publish({"i1": 1})
    with sqlite3.connect(tmp_path / "work.db") as database:
        database.execute(
            "CREATE TABLE results (id TEXT PRIMARY KEY, value TEXT CHECK (value <> '1'), version TEXT, claim INT)"
        )
    with pytest.raises(SettingsError, match="CHECK constraint failed"):
        outlast.batch(url, sink=url)(lambda items: [1]).run()
    [item] = outlast.Queue(url).items()
    assert (item.state, item.errors, item.deaths) == ("ready", 0, 0)


def test_a_notice_that_leaves_an_hour_does_not_keep_a_worker_that_has_nothing_left() -> None:
    place = Place()
    with outlast.Worker(place.queue, sink=place.sink, chunk=COUNT) as worker:
        worker.board = SimpleNamespace(notice=object())
        for chunk in worker:
            for item in chunk:
                chunk.done(item, 1)
    assert len(place.results) == COUNT


class Disturbed:
    """Presses Ctrl-C right after the n-th call of one method of a queue or a sink has done its work."""

    def __init__(self, place: object, method: str) -> None:
        self._done, self.left = getattr(place, method), 2
        setattr(place, method, self)

    def __call__(self, *arguments: object, **named: object) -> object:
        done = self._done(*arguments, **named)
        self.left -= 1
        if not self.left:
            signal.raise_signal(signal.SIGINT)
        return done


@pytest.mark.parametrize("method", ["lease", "known", "begin", "store", "ack"])
@pytest.mark.parametrize("load", [None, lambda item: 1], ids=["direct", "ahead"])
def test_ctrl_c_at_any_moment_gives_everything_back(method: str, load: object) -> None:
    place = Place()
    Disturbed(place.sink if method in ("known", "store") else place.queue, method)
    ends = contextlib.nullcontext() if method == "begin" and load is None else pytest.raises(KeyboardInterrupt)
    with ends:
        place.run(lambda items: [1 for _ in items], chunk=2, load=load)
    stats = place.queue.stats()
    assert stats.leased == 0
    assert stats.done == len(place.results)
    assert [(one.errors, one.deaths) for one in place.queue.items()] == [(0, 0)] * COUNT
