"""The Parquet sink: what readers see while others compact, and what it says of files that are not as they should be."""

import os
import random
import tempfile
from collections.abc import Callable
from contextlib import nullcontext
from itertools import product
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from outlast.errors import SettingsError, SinkUnreachable, StoreUnreachable
from outlast.items import LeasedItem, Result
from outlast.ports import StoreTraits
from outlast.registry import open_sink
from outlast.sinks import parquet, parquet_compact, parquet_rows
from outlast.sinks.parquet import ParquetSink
from outlast.sinks.parquet_layout import PartNames, PartSet, newest_compaction, result_name
from outlast.sinks.parquet_merge import MergePlan, merged
from outlast.sinks.parquet_rows import table_of
from outlast.testing import MemoryStore


def sink_on(store: Any) -> ParquetSink:
    return ParquetSink(store, url=f"parquet:{store.url}")


def opened(folder: Path) -> ParquetSink:
    sink = open_sink(f"parquet:{folder}")
    assert isinstance(sink, ParquetSink)
    sink.prepare()
    return sink


def results(*names: str, claim: int = 1, value: str = "1", version: str | None = None) -> list[Result]:
    return [Result(name, value, version, claim) for name in names]


def leased(*names: str, claim: int = 1) -> list[LeasedItem]:
    return [LeasedItem(name, "null", claim) for name in names]


def stored(sink: ParquetSink) -> dict[str, Result]:
    found = list(sink.results())
    assert len({one.id for one in found}) == len(found)
    return {one.id: one for one in found}


class InterruptedStore:
    """A store that lets somebody else act just before call number `at`."""

    def __init__(self, store: MemoryStore, at: int, act: Callable[[], object]) -> None:
        self._store, self._at, self._act = store, at, act
        self.calls = 0

    def __getattr__(self, name: str) -> Any:
        attribute = getattr(self._store, name)
        if not callable(attribute):
            return attribute

        def call(*args: Any, **more: Any) -> Any:
            self.calls += 1
            if self.calls == self._at:
                self._act()
            return attribute(*args, **more)

        return call


def interrupted(act: Callable[[MemoryStore], object]) -> "list[tuple[InterruptedStore, MemoryStore]]":
    """For each call of a compaction, a sink's store with and without an earlier one, and what interrupts it there."""
    made = []
    for at, compacted in product(range(1, 40), (True, False)):
        store = MemoryStore(f"memory://{at}")
        sink = sink_on(store)
        sink.store(results("a", "b", value='"first"'))
        if compacted:
            sink.compact()
        sink.store(results("b", "c", claim=2, value='"second"'))
        sink.store(results("d", claim=3))
        made.append((InterruptedStore(store, at, lambda store=store: act(store)), store))
    return made


def test_two_compactions_at_once_and_a_store_between_lose_and_double_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parquet_compact, "_DELETERS", 1)

    def act(store: MemoryStore) -> None:
        other = sink_on(store)
        other.store(results("e", "a", claim=5))
        other.compact()
        other.store(results("f"))

    met = 0
    for store, inner in interrupted(act):
        sink_on(store).compact()
        was_met = store.calls >= store._at
        met += was_met
        found = stored(sink_on(inner))
        assert set(found) == set("abcdef" if was_met else "abcd")
        assert (found["b"].value, found["a"].claim) == ('"second"', 5 if was_met else 1)
        assert sink_on(inner).compact() == len(found)
        assert stored(sink_on(inner)) == found
        assert not inner.list("parts")
        assert len(inner.list("compactions")) == 1
        assert len(inner.list("results")) == 1
    assert met > 24


def renaming(store: MemoryStore) -> None:
    """A compaction that gives the files of the last one another number, and removes its record."""
    number = newest_compaction(store)[0].number + 1
    store.create(result_name(number, "0" * 16, 0), b"what a compaction left that was killed")
    sink_on(store).compact()


def several(store: MemoryStore) -> None:
    """Two compactions: the number of the first is free again."""
    other = sink_on(store)
    other.store(results("e", claim=5))
    other.compact()
    renaming(store)
    other.store(results("f"))


@pytest.mark.parametrize(("act", "more"), [(renaming, ""), (several, "ef")])
def test_a_compaction_that_is_overtaken_at_any_call_takes_nothing_away(
    act: Callable[[MemoryStore], object], more: str
) -> None:
    for store, inner in interrupted(act):
        count = sink_on(store).compact()
        found = stored(sink_on(inner))
        assert set(found) == {*"abcd", *(more if store.calls >= store._at else "")}
        assert count >= 4
        assert sink_on(inner).compact() == len(found)
        assert stored(sink_on(inner)) == found
        assert len(inner.list("compactions")) == len(inner.list("results")) == 1


def test_a_reader_sees_all_whenever_a_compaction_comes_between() -> None:
    met = 0
    for store, _ in interrupted(lambda store: sink_on(store).compact()):
        assert set(stored(sink_on(store))) == set("abcd")
        met += store.calls >= store._at
    assert met >= 8


def test_a_worker_knows_all_whenever_a_compaction_comes_between() -> None:
    for store, inner in interrupted(lambda store: sink_on(store).compact()):
        sink = sink_on(store)
        sink.prepare()
        sink_on(inner).store(results("g", claim=2))
        known = sink.known(leased(*"abcdg", claim=3))
        assert {one: known[one].claim for one in known} == {"a": 1, "b": 2, "c": 2, "d": 3, "g": 2}


def test_what_others_stored_is_looked_for_only_where_there_can_be_something_new(tmp_path: Path) -> None:
    store = InterruptedStore(MemoryStore("memory://one"), 0, lambda: None)
    sink, other = sink_on(store), sink_on(store)
    sink.prepare()
    other.store(results("a", claim=3))
    before = store.calls
    assert sink.known(leased("a", "b", "c")) == {}  # never leased before: nobody can have it from this queue
    assert store.calls == before
    assert sink.known(leased("a", "b", claim=4))["a"].claim == 3
    after = store.calls
    assert sink.known(leased("a", claim=4))["a"].claim == 3
    assert store.calls == after
    other.store(results("a", claim=7))
    other.compact()
    other.store(results("b", claim=7))
    assert {one: two.claim for one, two in sink.known(leased("a", "b", claim=9)).items()} == {"a": 7, "b": 7}


def test_a_forked_child_has_an_index_of_its_own() -> None:
    store = MemoryStore("memory://forked")
    sink = sink_on(store)
    sink.prepare()
    sink.store(results("a"))
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        sink.store(results("b"))
        os.write(writer, ",".join(sorted(sink.known(leased("a", "b", "c")))).encode())
        os._exit(0)
    os.waitpid(child, 0)
    os.close(writer)
    with os.fdopen(reader) as pipe:
        assert pipe.read() == "a,b"
    assert set(sink.known(leased("a", "b", "c"))) == {"a"}


# --- rows of any number -----------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(6))
def test_a_merge_in_little_memory_keeps_of_each_id_what_counts(seed: int) -> None:
    rng = random.Random(seed)
    names = ["", "ä", "🦜", "z", *(f"{rng.randrange(200):03d}" for _ in range(60))]
    rows = [Result(rng.choice(names), f'"{number}"', None, rng.randrange(4)) for number in range(3000)]
    right: dict[str, Result] = {}
    tables = []
    for start in range(0, len(rows), 30):
        part = {one.id: one for one in sorted(rows[start : start + 30], key=lambda one: one.claim)}
        tables.append(table_of(list(part.values())))
        for one in part.values():
            if one.id not in right or one.claim >= right[one.id].claim:
                right[one.id] = one
    split = rng.randrange(1, 60)
    oldest = list(merged(iter(()), tables[:split]))
    plan = MergePlan(run_bytes=4000, runs_at_once=3, block_bytes=200, gather_tables=4)
    found = [Result(*row.values()) for table in merged(iter(oldest), tables[split:], plan) for row in table.to_pylist()]
    assert found == [right[one] for one in sorted(right)]


def test_a_temporary_folder_without_room_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(**_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(tempfile, "TemporaryFile", full)
    tables = [table_of(results(f"{number:04d}" * 50)) for number in range(20)]
    with pytest.raises(SinkUnreachable, match="TMPDIR"):
        list(merged(iter(()), tables, MergePlan(run_bytes=500)))


def test_an_index_without_room_is_named_and_made_anew(tmp_path: Path) -> None:
    sink = opened(tmp_path)
    sink._index._database.execute("PRAGMA max_page_count = 3")  # type: ignore[union-attr]  # made by prepare
    names = [f"{number:0200d}" for number in range(300)]
    with pytest.raises(SinkUnreachable, match="SQLITE_TMPDIR"):
        sink.store(results(*names))
    assert set(sink.known(leased(*names))) == set(names)  # the part was stored all the same


def test_part_sets_hold_what_they_were_given() -> None:
    rng = random.Random(3)
    one, two = PartSet(), PartSet()
    in_one = {("ab"[rng.randrange(2)], rng.randrange(50)) for _ in range(60)}
    in_two = {(who, number) for who, number in in_one if number % 3}
    for name in rng.sample(sorted(in_one), len(in_one)):
        one.add(*name)
    for name in sorted(in_two):
        two.add(*name)
    everything = [(who, number) for who in "abc" for number in range(60)]
    assert {name for name in everything if name in one} == in_one
    assert one.covers(two)
    assert not two.covers(one)
    two.update(one)
    assert two.as_spans() == one.as_spans()


def test_names_of_parts_differ_in_a_forked_child_and_rise() -> None:
    names = PartNames()
    own = [names.next() for _ in range(3)]
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(writer, names.next().name.encode())
        os._exit(0)
    os.waitpid(child, 0)
    os.close(writer)
    with os.fdopen(reader) as pipe:
        theirs = pipe.read()
    assert theirs.split("-")[1] != own[0].who
    assert [part.name for part in own] == sorted(part.name for part in own)


# --- parts ------------------------------------------------------------------------------------------


def test_everybody_can_read_what_is_stored(tmp_path: Path) -> None:
    sink = opened(tmp_path)
    sink.store(results("b", value='{"label": "Ä"}', version="m"))
    sink.store(results("a", "b", claim=2))
    [first, _] = sorted((tmp_path / "parts").iterdir())
    table = pq.read_table(first)
    assert table.to_pylist() == [{"id": "b", "value": '{"label": "Ä"}', "version": "m", "claim": 1}]
    assert sink.compact() == 2
    table = pq.read_table(tmp_path / "results")
    assert table["id"].to_pylist() == ["a", "b"]
    assert [str(field.type) for field in table.schema] == ["string", "string", "string", "int64"]


def test_one_chunk_that_names_an_id_twice_is_one_result(tmp_path: Path) -> None:
    sink = opened(tmp_path)
    sink.store([*results("a", value='"old"', claim=2), *results("a", value='"new"', claim=2), *results("a", claim=1)])
    assert [one.value for one in sink.results()] == ['"new"']


def test_large_results_go_into_several_parts_and_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parquet, "PART_BYTES", 8000)
    monkeypatch.setattr(parquet_rows, "_GROUP_BYTES", 1000)
    monkeypatch.setitem(parquet_compact.compact.__kwdefaults__ or {}, "file_bytes", 3000)
    rng = random.Random(0)
    sink = opened(tmp_path)
    large = [Result(f"{number}", f'"{rng.randbytes(1000).hex()}"', None, 1) for number in range(9)]
    sink.store([*large, Result("huge", f'"{rng.randbytes(9000).hex()}"', None, 1)])
    assert len(list((tmp_path / "parts").iterdir())) == 4
    assert sink.compact() == 10
    assert len(list((tmp_path / "results").iterdir())) >= 3
    assert {one.id: one.value for one in sink.results() if one.id != "huge"} == {one.id: one.value for one in large}


def test_files_of_others_are_passed_over_and_stay(tmp_path: Path) -> None:
    sink = opened(tmp_path)
    sink.store(results("a"))
    theirs = [tmp_path / "parts" / "theirs.parquet", tmp_path / "results" / "theirs.parquet", tmp_path / "x.parquet"]
    for path in theirs:
        path.parent.mkdir(exist_ok=True)
        pq.write_table(pa.table({"x": [1]}), path)
    assert sink.compact() == 1
    assert set(stored(opened(tmp_path))) == {"a"}
    assert all(path.exists() for path in theirs)


def spoil(path: Path, at: float) -> None:
    content = bytearray(path.read_bytes())
    content[int(len(content) * at)] ^= 0xFF
    path.write_bytes(content)


def cut(path: Path, at: float) -> None:
    path.write_bytes(path.read_bytes()[: int(path.stat().st_size * at)])


def foreign(path: Path, _at: float) -> None:
    pq.write_table(pa.table({"id": [1]}), path)


@pytest.mark.parametrize(("harm", "at"), [(spoil, 0.05), (cut, 0.0), (cut, 0.5), (foreign, 0)])
@pytest.mark.parametrize("folder", ["parts", "results"])
def test_a_damaged_file_is_named_and_nothing_is_deleted(
    tmp_path: Path, folder: str, harm: Callable[[Path, float], None], at: float
) -> None:
    sink = opened(tmp_path)
    sink.store(results(*(f"item-{number}" for number in range(300))))
    if folder == "results":
        sink.compact()
        sink.store(results("new"))
    [path] = (tmp_path / folder).iterdir()
    harm(path, at)
    before = sorted(tmp_path.rglob("*"))
    for ask in (lambda: list(sink.results()), sink.compact, lambda: opened(tmp_path)):
        with pytest.raises(SettingsError, match=f"{path.name} .*damaged.*copy"):
            ask()
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize("bit", [0xFF, 0x01])
def test_whichever_byte_of_a_part_is_wrong_no_result_is_another_one(bit: int) -> None:
    good = MemoryStore("memory://good")
    sink_on(good).store([Result(f"item-{number}", f'{{"n": {number}}}', "m", number) for number in range(50)])
    [part] = good.list("parts")
    content, right = good.read(part.name), stored(sink_on(good))
    named = 0
    for at in range(bit % 5, len(content), 5):
        bad = MemoryStore("memory://bad")
        bad.create(part.name, content[:at] + bytes([content[at] ^ bit]) + content[at + 1 :])
        try:
            found = stored(sink_on(bad))
        except SettingsError as error:
            named += part.name in str(error)
        else:
            assert found == right  # it was a byte of no meaning
    assert named > 100


class DyingStore(MemoryStore):
    """A store whose large objects can be opened and then not be read."""

    def open(self, name: str) -> Any:
        if not name.startswith("results/"):
            return super().open(name)

        class Opened:
            bytes = 1000

            def read_into(self, offset: int, target: memoryview) -> None:
                raise StoreUnreachable("no answer any more")

        return nullcontext(Opened())


def test_a_store_that_dies_while_a_file_is_read_is_unreachable_and_no_damage() -> None:
    store = DyingStore("memory://dying")
    sink = sink_on(store)
    sink.store(results("a"))
    sink.compact()
    with pytest.raises(SinkUnreachable, match="no answer any more"):
        list(sink.results())


def test_a_damaged_record_is_named_and_no_older_one_is_taken_for_it(tmp_path: Path) -> None:
    sink = opened(tmp_path)
    sink.store(results("a"))
    sink.compact()
    [record] = (tmp_path / "compactions").iterdir()
    spoil(record, 0.5)
    for ask in (lambda: list(sink.results()), sink.compact, lambda: opened(tmp_path)):
        with pytest.raises(SettingsError, match=f"{record.name} .*damaged"):
            ask()


def test_a_folder_of_a_later_format_is_refused(tmp_path: Path) -> None:
    (tmp_path / "sink.json").write_text('{"outlast": "parquet sink", "format": 2}\n')
    sink = open_sink(f"parquet:{tmp_path}")
    assert isinstance(sink, ParquetSink)
    for ask in (sink.prepare, sink.compact, lambda: list(sink.results())):
        with pytest.raises(SettingsError, match="format 2"):
            ask()


def test_a_place_without_results_is_empty_and_one_that_is_no_sink_is_neither_read_nor_compacted(tmp_path: Path) -> None:
    sink = open_sink(f"parquet:{tmp_path / 'mistyped'}")
    assert isinstance(sink, ParquetSink)
    for ask in (sink.compact, lambda: list(sink.results())):
        with pytest.raises(SettingsError, match=r"mistyped.*is the place right"):
            ask()
    assert not list(tmp_path.iterdir())
    sink.prepare()
    assert list(sink.results()) == []
    assert sink.compact() == 0


class HalfStore(MemoryStore):
    """A store like a mount: a death may leave a record cut short under its name."""

    @property
    def traits(self) -> StoreTraits:
        return StoreTraits(whole_records=False)


def test_a_part_cut_short_on_a_mount_counts_for_nothing_and_goes_after_a_day() -> None:
    store = HalfStore("memory://half")
    sink = sink_on(store)
    sink.store(results("a", "b"))
    [whole] = store.list("parts")
    data = store.read(whole.name)
    when, who = whole.name[len("parts/") :].split("-")[:2]
    old, young = f"parts/{10**18:020d}-{who}-00000007.parquet", f"parts/{int(when) + 1:020d}-{who}-00000008.parquet"
    for name in (old, young):
        store.create(name, data[:-1])
    assert set(stored(sink_on(store))) == {"a", "b"}
    assert sink.compact() == 2
    assert [entry.name for entry in store.list("parts")] == [young]


# --- the place --------------------------------------------------------------------------------------


def test_a_file_in_the_place_of_the_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("")
    with pytest.raises(SettingsError, match="parquet:"):
        opened(tmp_path / "taken")


def test_a_place_that_does_not_answer_is_unreachable() -> None:
    class Dead(MemoryStore):
        def create(self, name: str, data: bytes) -> None:
            raise StoreUnreachable("no answer")

        def list(self, prefix: str) -> Any:
            raise StoreUnreachable("no answer")

    sink = sink_on(Dead("memory://dead"))
    for ask in (lambda: sink.store(results("a")), sink.compact, lambda: list(sink.results()), sink.prepare):
        with pytest.raises(SinkUnreachable, match=r"memory://dead.*no answer"):
            ask()


def test_a_part_that_somebody_took_away_is_an_error_and_not_a_shorter_result(tmp_path: Path) -> None:
    sink = opened(tmp_path)
    sink.store(results("a"))
    sink.compact()
    [path] = (tmp_path / "results").iterdir()
    path.unlink()
    with pytest.raises(SinkUnreachable, match=path.name):
        list(sink.results())
    sink.store(results("b"))
    with pytest.raises(SinkUnreachable, match=path.name):
        sink.compact()
