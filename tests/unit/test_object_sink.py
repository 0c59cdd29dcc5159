"""One object per result: names, versions that replace one another, deaths and rivals at every request."""

import json
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from outlast.errors import SettingsError, SinkUnreachable, StoreUnreachable
from outlast.items import LeasedItem, Result
from outlast.registry import open_sink
from outlast.sinks import objects
from outlast.sinks.objects import ObjectSink
from outlast.stores.mount import MountStore
from outlast.testing import MemoryStore


def sink_on(store: MemoryStore) -> ObjectSink:
    return ObjectSink(store, url="results")


def result(name: str, value: str = "1", version: str | None = "1", claim: int = 1) -> Result:
    return Result(name, value, version, claim)


def known(sink: ObjectSink, *names: str) -> dict[str, tuple[str | None, int]]:
    found = sink.known([LeasedItem(name, "null", 99) for name in names])
    return {name: (one.version, one.claim) for name, one in found.items()}


def objects_in(store: MemoryStore) -> list[str]:
    return [one.name for one in store.list("") if one.name.endswith(".json")]


class Dead(BaseException):
    """The process is gone."""


class Counting(MemoryStore):
    """Calls `then` before its request number `at`."""

    def __init__(self) -> None:
        super().__init__()
        self.count, self.at, self.then = 0, -1, lambda: None
        self.created: list[str] = []

    def fate(self, at: int, then: Callable[[], None]) -> None:
        self.count, self.at, self.then = 0, at, then

    def _counted(self) -> None:
        self.count += 1
        if self.count == self.at:
            self.then()

    def create(self, name: str, data: bytes) -> None:
        self._counted()
        self.created.append(name)
        super().create(name, data)

    def delete(self, name: str) -> None:
        self._counted()
        super().delete(name)

    def read(self, name: str) -> bytes:
        self._counted()
        return super().read(name)

    def list(self, prefix: str) -> list:
        self._counted()
        return super().list(prefix)


# --- names and content ----------------------------------------------------------------------------------


def test_a_result_is_a_json_file_named_by_its_id(tmp_path: Path) -> None:
    sink = open_sink(str(tmp_path / "results"))
    sink.prepare()
    sink.store([result("img-1.png", '{"label": "cat"}', "model-3", 2), result("Ä", "1", None)])
    found = {path.name: path.read_text() for path in (tmp_path / "results").glob("??/*.json")}
    assert found.pop("img-1.png@model-3.json") == (
        '{"id": "img-1.png", "value": {"label": "cat"}, "version": "model-3", "claim": 2}\n'
    )
    (name, content) = found.popitem()
    assert name.startswith("_=")
    assert json.loads(content) == {"id": "Ä", "value": 1, "version": None, "claim": 1}


TEXTS = st.one_of(st.text(min_size=1), st.text("aA.-_/@=%Ä", min_size=1, max_size=4), st.text("ab", min_size=90))


@settings(max_examples=50)
@given(TEXTS, TEXTS, st.one_of(st.none(), TEXTS), st.one_of(st.none(), TEXTS))
def test_names_are_apart_on_every_disk_and_lead_nowhere_else(
    one: str, other: str, version: str | None, another: str | None
) -> None:
    name, second = (objects._name(of, objects._tag(at)) for of, at in ((one, version), (other, another)))
    assert (name.casefold() == second.casefold()) == ((one, version) == (other, another))
    folder, _, rest = name.partition("/")
    assert len(folder) == 2
    assert len(rest.encode()) <= 255
    assert "/" not in rest
    assert not rest.startswith(".")
    assert objects._OBJECT.fullmatch(name)


@settings(max_examples=30)
@given(st.text("aA.-_Ä1", min_size=1, max_size=3))
def test_a_name_tells_id_and_version_apart(text: str) -> None:
    match = objects._OBJECT.fullmatch(objects._name(text, objects._tag("v")))
    assert match
    assert (match["id"], match["version"]) == (objects._safe(text), "@v")


def test_other_files_in_the_folder_are_no_results(tmp_path: Path) -> None:
    sink = open_sink(str(tmp_path))
    sink.prepare()
    sink.store([result("a")])
    (tmp_path / "ab").mkdir(exist_ok=True)
    (tmp_path / "ab" / "notes.json").write_text('{"mine": 1}')
    (tmp_path / "notes.json").write_text('{"id": "b", "value": 1}')
    assert [one.id for one in sink.results()] == ["a"]


# --- versions and claims --------------------------------------------------------------------------------


def test_the_first_writer_of_a_version_wins() -> None:
    store = MemoryStore()
    sink, other = sink_on(store), sink_on(store)
    sink.store([result("a", "1")])
    other.store([result("a", "2", claim=2)])
    assert list(sink.results()) == [result("a", "1")]


def test_a_new_version_of_an_equal_claim_replaces_also_on_the_way_back() -> None:
    store = MemoryStore()
    for number, version in enumerate(["1", "2", None, "1", "2"]):
        sink = sink_on(store)
        sink.store([result("a", f"[ {number} ]", version), result("b", str(number), version, claim=number)])
        assert known(sink, "a", "b") == {"a": (version, 1), "b": (version, number)}
        assert {one.id: one.value for one in sink.results()} == {"a": f"[ {number} ]", "b": str(number)}
        assert len(objects_in(store)) == 2


def test_a_lower_claim_of_another_version_is_not_stored_not_even_for_a_moment() -> None:
    store = Counting()
    sink_on(store).store([result("a", version="2", claim=2)])
    sink_on(store).store([result("a", version="1", claim=1)])
    assert [name for name in store.created if name.endswith("/a@1.json")] == []
    assert known(sink_on(store), "a") == {"a": ("2", 2)}
    assert len(objects_in(store)) == 1


def test_one_version_costs_one_request_per_result_and_two_for_the_chunk() -> None:
    store = Counting()
    sink = sink_on(store)
    sink.store([result("first")])
    store.fate(-1, lambda: None)
    sink.store([result(str(number)) for number in range(32)])
    assert store.count == 32 + 2


# --- deaths and rivals ------------------------------------------------------------------------------------


def test_a_death_at_any_request_leaves_a_result_and_the_next_worker_one() -> None:
    def die() -> None:
        raise Dead

    for at in range(1, 40):
        store = Counting()
        sink_on(store).store([result("a", '"old"', "1", 1)])
        store.fate(at, die)
        try:
            sink_on(store).store([result("a", '"new"', "2", 1)])
        except Dead:
            dead = True
        else:
            dead = False
        store.fate(-1, die)
        after = list(sink_on(store).results())
        assert [one.id for one in after] == ["a"]
        again = sink_on(store)
        there = known(again, "a")["a"]
        assert after == [result("a", '"old"' if there[0] == "1" else '"new"', *there)]
        assert len(objects_in(store)) == 1, "a look at the id removes what is replaced"
        again.store([result("a", '"new"', "2", 1)])
        assert list(again.results()) == [result("a", '"new"', "2", 1)]
        if not dead:
            assert at > 5
            return
    pytest.fail("it never came to its end")


@pytest.mark.parametrize(("mine", "others"), [(1, 2), (2, 1)])
@pytest.mark.parametrize("there", [False, True])
def test_whoever_stores_another_version_at_the_same_time_the_higher_claim_stays(
    mine: int, others: int, there: bool
) -> None:
    for at in range(1, 40):
        store, met = Counting(), list[int]()
        if there:
            sink_on(store).store([result("a", "0", "0", 0)])

        def rival(store: Counting = store, met: list[int] = met) -> None:
            met.append(1)
            sink_on(store).store([result("a", "2", "2", others)])

        store.fate(at, rival)
        sink_on(store).store([result("a", "1", "1", mine)])
        if not met:
            assert at > 4
            return
        store.fate(-1, rival)
        best = result("a", "2", "2", others) if others > mine else result("a", "1", "1", mine)
        assert list(sink_on(store).results()) == [best], at
        assert len(objects_in(store)) == 1, at
    pytest.fail("it never came to its end")


@pytest.mark.parametrize("left", [b"", b'{"id": "a", "val', b'{"name": "a"}'])
def test_what_a_killed_mount_left_is_no_result_and_is_replaced(tmp_path: Path, left: bytes) -> None:
    sink = ObjectSink(MountStore(str(tmp_path)), url=str(tmp_path))
    sink.prepare()
    sink.store([result("a"), result("b")])
    (path,) = tmp_path.glob("*/a@1.json")
    path.write_bytes(left)
    assert set(known(sink, "a", "b")) == {"b"}
    assert {one.id for one in sink.results()} == {"b"}
    sink.store([result("a", claim=2)])
    assert set(known(sink, "a", "b")) == {"a", "b"}


# --- places that refuse -----------------------------------------------------------------------------------


class Down(MemoryStore):
    def create(self, name: str, data: bytes) -> None:
        raise StoreUnreachable(f"cannot write {name}: no answer")

    def list(self, prefix: str) -> list:
        raise StoreUnreachable(f"cannot list {prefix}: no answer")


def test_a_store_that_does_not_answer_is_a_sink_that_does_not() -> None:
    sink = sink_on(Down())
    calls: Iterable[Callable[[], object]] = (
        sink.prepare,
        lambda: sink.store([result("a")]),
        lambda: known(sink, "a"),
        lambda: list(sink.results()),
    )
    for call in calls:
        with pytest.raises(SinkUnreachable, match=r"sink='results': cannot .* no answer"):
            call()


def test_a_file_is_no_folder_of_results_and_links_are_not_followed(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(SettingsError, match="file"):
        open_sink(str(tmp_path / "file")).prepare()
    sink = open_sink(str(tmp_path / "results"))
    sink.prepare()
    sink.store([result("a")])
    (path,) = (tmp_path / "results").glob("??/a@1.json")
    path.unlink()
    path.symlink_to(tmp_path / "file")
    with pytest.raises(SettingsError, match="is a link"):
        sink.known([LeasedItem("a", "null", 1)])


def test_an_object_with_somebody_elses_result_is_told(tmp_path: Path) -> None:
    sink = open_sink(str(tmp_path))
    sink.prepare()
    sink.store([result("a")])
    (path,) = tmp_path.glob("??/a@1.json")
    path.write_text('{"id": "b", "value": 1, "version": "1", "claim": 1}\n')
    with pytest.raises(SettingsError, match="holds 'b', and should hold 'a'"):
        known(sink, "a")
    with pytest.raises(SettingsError, match="holds 'b'"):
        sink.store([result("a", claim=2)])
