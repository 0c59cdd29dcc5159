"""What every sink promises, asked of each adapter and of the fake."""

import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from outlast.items import CompactableSink, LeasedItem, Result, Sink, Stored
from outlast.registry import open_sink
from outlast.sinks.objects import ObjectSink
from outlast.sinks.parquet import ParquetSink
from outlast.testing import MemorySink
from service import postgres_server, servers


def _sqlite(tmp_path: Path) -> Callable[[], Sink]:
    return lambda: open_sink(f"sqlite:///{tmp_path}/results.db?table=labels")


def _jsonl(tmp_path: Path) -> Callable[[], Sink]:
    return lambda: open_sink(f"jsonl:{tmp_path}/results.jsonl")


def _objects(tmp_path: Path) -> Callable[[], Sink]:
    return lambda: open_sink(f"{tmp_path}/results")


def _objects_on(scheme: str) -> Callable[[Path], Callable[[], Sink]]:
    def fresh(_folder: Path) -> Callable[[], Sink]:
        url, variables, alone = servers.fresh_url(scheme), servers.environment_of(scheme), threading.Lock()

        def opened() -> Sink:
            with alone:  # the environment, which leads a store to the server, is that of all threads
                return ObjectSink(servers.store_at(url, **variables), url=url)

        return opened

    return fresh


def _memory(tmp_path: Path) -> Callable[[], Sink]:
    sink = MemorySink()
    return lambda: sink


def _postgres(tmp_path: Path) -> Callable[[], Sink]:
    url = postgres_server.fresh_table()
    return lambda: open_sink(url)


def _parquet(tmp_path: Path) -> Callable[[], Sink]:
    return lambda: open_sink(f"parquet:{tmp_path}/results")


def _parquet_s3(_tmp_path: Path) -> Callable[[], Sink]:
    store = servers.fresh_store("s3")
    return lambda: ParquetSink(store, url=f"parquet:{store.url}")


# One row per sink: how to open, again and again, one that is fresh at first.
SINKS: dict[str, Callable[[Path], Callable[[], Sink]]] = {
    "memory": _memory,
    "sqlite": _sqlite,
    "postgres": _postgres,
    "jsonl": _jsonl,
    "objects": _objects,
    "objects-gs": _objects_on("gs"),
    "objects-s3": _objects_on("s3"),
    "parquet": _parquet,
    "parquet on s3": _parquet_s3,
}


@pytest.fixture(params=SINKS)
def again(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[], Sink]:
    return SINKS[request.param](tmp_path)


@pytest.fixture
def sink(again: Callable[[], Sink]) -> Sink:
    opened = again()
    opened.prepare()
    return opened


def leased(*names: str, claim: int = 1) -> list[LeasedItem]:
    return [LeasedItem(name, "null", claim) for name in names]


def results(*names: str, value: str = "1", version: str | None = None, claim: int = 1) -> list[Result]:
    return [Result(name, value, version, claim) for name in names]


def stored(sink: Sink) -> dict[str, Result]:
    """All results by id; a sink whose parts must be joined first is."""
    if isinstance(sink, CompactableSink):
        sink.compact()
    found = list(sink.results())
    assert len({one.id for one in found}) == len(found), "an id has two results"
    return {one.id: one for one in found}


def test_what_is_stored_is_there_for_everybody(sink: Sink, again: Callable[[], Sink]) -> None:
    sink.store(results("a", "b", value='{"label": "Ä🦜", "p": [0.5, null, "\\u0000"]}', version="model-3"))
    other = again()
    other.prepare()
    assert stored(other)["b"] == Result("b", '{"label": "Ä🦜", "p": [0.5, null, "\\u0000"]}', "model-3", 1)
    assert set(stored(other)) == {"a", "b"}


def test_what_is_known_is_told_with_its_version(sink: Sink) -> None:
    sink.store(results("a", version="model-3", claim=2))
    sink.store(results("b", claim=4))
    known = sink.known(leased("a", "b", "c", claim=5))
    assert set(known) == {"a", "b"}
    assert (known["a"].version, known["b"].version) == ("model-3", None)
    assert {known["a"].claim, known["b"].claim} <= {0, 2, 4}
    assert isinstance(known["a"], Stored)


def test_a_result_of_a_newer_claim_replaces_and_an_older_one_does_not(sink: Sink) -> None:
    sink.store(results("a", value='"first"', version="1", claim=3))
    sink.store(results("a", value='"new version"', version="2", claim=4))
    assert stored(sink)["a"].value == '"new version"'
    sink.store(results("a", value='"late"', version="0", claim=2))
    assert stored(sink)["a"].value == '"new version"'
    assert sink.known(leased("a", claim=5))["a"].version == "2"


def test_the_same_result_again_is_one(sink: Sink, again: Callable[[], Sink]) -> None:
    sink.store(results("a", "b", claim=1))
    other = again()
    other.prepare()
    other.store(results("b", "c", claim=2))
    assert set(stored(sink)) == {"a", "b", "c"}
    assert set(again().known(leased("a", "b", "c", claim=3))) in ({"a", "b", "c"}, set())


STRANGE_IDS = [
    "ä/ö",
    "../../x",
    "/abs",
    "a b\n\t",
    "🦜" * 50,
    "'; DROP TABLE labels; --",
    "A",
    "a",
    "%2e",
    ".",
    "x" * 900,
]


def test_any_text_is_an_id(sink: Sink) -> None:
    sink.store([Result(one, f'"{number}"', "v", 1) for number, one in enumerate(STRANGE_IDS)])
    assert {one.id: one.value for one in stored(sink).values()} == {
        one: f'"{number}"' for number, one in enumerate(STRANGE_IDS)
    }
    assert set(sink.known(leased(*STRANGE_IDS, claim=2))) == set(STRANGE_IDS)


def test_many_results_are_read_piece_by_piece(sink: Sink) -> None:
    names = [f"item-{number:04d}" for number in range(1203 if not sink.traits.few else 60)]
    for start in range(0, len(names), 100):
        sink.store(results(*names[start : start + 100]))
    assert sorted(stored(sink)) == names
    assert set(sink.known(leased(*names, claim=2))) == set(names)


def test_many_hands_store_at_a_time(again: Callable[[], Sink]) -> None:
    again().prepare()

    def work(number: int) -> None:
        own = again()
        own.prepare()
        for start in range(5):
            own.store(results(*[f"w{number}-{start}-{one}" for one in range(3)], "shared", claim=number * 10 + start))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    opened = again()
    opened.prepare()
    found = stored(opened)
    assert len(found) == 4 * 5 * 3 + 1


def test_nothing_is_stored_and_nothing_known_at_first(sink: Sink) -> None:
    sink.store([])
    assert sink.known(leased("a")) == {}
    assert stored(sink) == {}
