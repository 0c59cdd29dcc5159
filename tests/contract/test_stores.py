"""The port's contract, run on every store and on the fake that users get."""

import importlib
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from outlast.errors import CheckpointCorrupt, ObjectExists, ObjectMissing
from outlast.ports import Store, StoredObject
from outlast.registry import open_store
from service import servers


def _memory(_folder: Path) -> Store:
    return _adapter("outlast.testing:MemoryStore")("memory://contract")


def _directory(folder: Path) -> Store:
    return _adapter("outlast.stores.directory:DirectoryStore")(str(folder / "store"))


# One entry per store. Those of buckets talk to real servers, which are started when a test first needs them.
FACTORIES: dict[str, Callable[[Path], Store]] = {
    "memory": _memory,
    "directory": _directory,
    "gs": lambda _folder: servers.fresh_store("gs"),
    "s3": lambda _folder: servers.fresh_store("s3"),
    "az": lambda _folder: servers.fresh_store("az"),
    "rclone": lambda _folder: open_store(servers.fresh_folder(servers.rclone_mount())),
    "s3fs": lambda _folder: open_store(servers.fresh_folder(servers.s3fs_mount())),
}


def _adapter(entry: str) -> Callable[[str], Store]:
    module, _, name = entry.partition(":")
    adapter: Callable[[str], Store] = getattr(importlib.import_module(module), name)
    return adapter


@pytest.fixture(params=sorted(FACTORIES))
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    return FACTORIES[request.param](tmp_path)


def _read_all(store: Store, name: str) -> bytes:
    with store.open(name) as stored:
        target = bytearray(stored.bytes)
        stored.read_into(0, memoryview(target))
    return bytes(target)


def _names(store: Store, prefix: str) -> list[str]:
    return [stored.name for stored in store.list(prefix)]


def test_it_says_where_it_is(store: Store) -> None:
    assert store.url


# --- create -----------------------------------------------------------------------------------------


def test_what_is_created_reads_back(store: Store) -> None:
    store.create("run/task-0/commits/1.json", b'{"step": 1}')
    assert store.read("run/task-0/commits/1.json") == b'{"step": 1}'


def test_an_empty_object_is_an_object(store: Store) -> None:
    store.create("empty", b"")
    assert store.read("empty") == b""
    assert store.list("") == [StoredObject("empty", 0)]


def test_create_never_replaces(store: Store) -> None:
    store.create("claims/0", b"first")
    with pytest.raises(ObjectExists):
        store.create("claims/0", b"second")
    assert store.read("claims/0") == b"first"


def test_create_never_replaces_what_write_made(store: Store) -> None:
    store.write("data/a", [b"first"])
    with pytest.raises(ObjectExists):
        store.create("data/a", b"second")
    assert store.read("data/a") == b"first"


def test_of_many_that_create_one_name_exactly_one_succeeds(store: Store) -> None:
    for round_number in range(10):
        name, barrier, won = f"claims/{round_number}", threading.Barrier(6), []

        def claim(mine: bytes, name: str = name, barrier: threading.Barrier = barrier, won: list[bytes] = won) -> None:
            barrier.wait()
            try:
                store.create(name, mine)
            except ObjectExists:
                return
            won.append(mine)

        threads = [threading.Thread(target=claim, args=(b"%d" % number * 1000,)) for number in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert [store.read(name)] == won


def test_settling_changes_nothing_and_a_folder_that_is_missing_is_settled(store: Store) -> None:
    store.create("claims/0", b"first")
    store.settle("claims")
    store.settle("nothing/here")
    assert store.list("") == [StoredObject("claims/0", 5)]


# --- write and open ---------------------------------------------------------------------------------


def test_the_parts_of_a_write_follow_one_another(store: Store) -> None:
    parts = [b"ab", bytearray(b"cd"), memoryview(b"xxefxx")[2:4], b"", memoryview(b"gh")]
    assert store.write("data/1", parts) == 8
    assert _read_all(store, "data/1") == b"abcdefgh"
    assert store.read("data/1") == b"abcdefgh"


def test_a_write_takes_parts_from_a_generator(store: Store) -> None:
    assert store.write("data/1", (b"%d," % number for number in range(5))) == 10
    assert store.read("data/1") == b"0,1,2,3,4,"


def test_a_write_of_no_parts_is_an_empty_object(store: Store) -> None:
    assert store.write("data/none", []) == 0
    assert _read_all(store, "data/none") == b""


def test_a_write_takes_more_parts_than_one_system_call(store: Store) -> None:
    parts = [b"%05d" % number for number in range(3000)]
    assert store.write("data/many", parts) == 15_000
    assert _read_all(store, "data/many") == b"".join(parts)


def test_a_large_write_reads_back_whole(store: Store) -> None:
    block = bytes(range(256)) * 4096
    assert store.write("data/large", [block] * 9 + [b"tail"]) == 9 * len(block) + 4
    assert _read_all(store, "data/large") == block * 9 + b"tail"


def test_a_name_without_a_folder_can_be_written(store: Store) -> None:
    store.write("top", [b"x"])
    assert _names(store, "") == ["top"]


def test_ranges_are_read_from_where_they_are_asked_for(store: Store) -> None:
    store.write("data/r", [b"0123456789"])
    with store.open("data/r") as stored:
        assert stored.bytes == 10
        for offset, length in [(0, 4), (3, 5), (9, 1), (0, 10), (10, 0)]:
            target = bytearray(length)
            stored.read_into(offset, memoryview(target))
            assert bytes(target) == b"0123456789"[offset : offset + length]


def test_a_range_is_read_into_the_middle_of_a_buffer_and_nowhere_else(store: Store) -> None:
    store.write("data/r", [b"0123456789"])
    target = bytearray(b"........")
    with store.open("data/r") as stored:
        stored.read_into(2, memoryview(target)[3:6])
    assert target == b"...234.."


@pytest.mark.parametrize(("offset", "length"), [(8, 3), (10, 1), (0, 11), (50, 1)])
def test_an_object_that_ends_too_early_is_corrupt(store: Store, offset: int, length: int) -> None:
    store.write("data/r", [b"0123456789"])
    with store.open("data/r") as stored, pytest.raises(CheckpointCorrupt):
        stored.read_into(offset, memoryview(bytearray(length)))


def test_what_goes_wrong_for_the_caller_while_an_object_is_open_is_not_the_storages_failure(store: Store) -> None:
    store.write("data/r", [b"0123456789"])
    with pytest.raises(OSError, match="his own"), store.open("data/r"):
        raise OSError("the reader's disk is full: his own")


def test_several_threads_read_ranges_of_one_open_object(store: Store) -> None:
    data = bytes(range(256)) * 1000
    store.write("data/r", [data])
    found: dict[int, bytes] = {}

    with store.open("data/r") as stored:

        def read(offset: int) -> None:
            target = bytearray(6400)
            stored.read_into(offset, memoryview(target))
            found[offset] = bytes(target)

        threads = [threading.Thread(target=read, args=(offset,)) for offset in range(0, len(data), 6400)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert b"".join(found[offset] for offset in sorted(found)) == data


def test_the_pace_is_told_of_every_byte_before_it_is_written(store: Store) -> None:
    told: list[int] = []
    assert store.write("data/p", [b"x" * 1000, b"y" * 500], pace=told.append) == 1500
    assert sum(told) == 1500


def test_a_write_that_is_given_up_leaves_nothing_and_the_reason_goes_through(store: Store) -> None:
    class GivenUp(Exception):
        pass

    def give_up(_bytes: int) -> None:
        raise GivenUp

    with pytest.raises(GivenUp):
        store.write("data/p", [b"x" * 1000], pace=give_up)
    assert store.list("") == []
    assert store.write("data/p", [b"again"]) == 5


def test_several_threads_write_objects_of_their_own(store: Store) -> None:
    blocks = {f"data/{number}": bytes([number]) * 300_000 for number in range(6)}
    threads = [threading.Thread(target=store.write, args=(name, [data])) for name, data in blocks.items()]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {name: _read_all(store, name) for name in blocks} == blocks


# --- append -----------------------------------------------------------------------------------------


def test_append_begins_a_journal_and_adds_to_it(store: Store) -> None:
    store.append("journal/0.jsonl", b"one\n")
    store.append("journal/0.jsonl", b"two\n")
    assert store.read("journal/0.jsonl") == b"one\ntwo\n"


def test_appends_of_several_threads_stay_whole_and_in_their_order(store: Store) -> None:
    def add(who: int) -> None:
        for number in range(50):
            store.append("journal", b"%d %d %s\n" % (who, number, b"x" * 200))

    threads = [threading.Thread(target=add, args=(who,)) for who in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    lines = [line.split() for line in store.read("journal").splitlines()]
    assert {len(line) for line in lines} == {3}
    for who in range(4):
        assert [int(line[1]) for line in lines if int(line[0]) == who] == list(range(50))


# --- what is missing --------------------------------------------------------------------------------


def test_a_missing_object_is_missing_however_it_is_asked_for(store: Store) -> None:
    store.create("a/b", b"")
    for name in ("nothing", "a/nothing"):
        with pytest.raises(ObjectMissing):
            store.read(name)
        with pytest.raises(ObjectMissing), store.open(name):
            pass


@pytest.mark.parametrize("name", ["", "/a", "a/", "a//b", "..", "../a", "a/../b", "./a", "a\0b"])
def test_a_name_that_a_forged_record_could_lead_astray_with_is_refused(store: Store, name: str) -> None:
    for use in (
        lambda: store.create(name, b"x"),
        lambda: store.write(name, [b"x"]),
        lambda: store.append(name, b"x"),
        lambda: store.read(name),
        lambda: store.open(name).__enter__(),
        lambda: store.delete(name),
    ):
        with pytest.raises(CheckpointCorrupt):
            use()
    assert store.list("") == []


# --- list -------------------------------------------------------------------------------------------


def test_a_store_that_nobody_wrote_to_lists_nothing(store: Store) -> None:
    assert store.list("") == []
    assert store.list("run/task-0") == []


def test_a_folder_lists_everything_below_it_in_name_order_with_sizes(store: Store) -> None:
    for name in ("r/b/2", "r/a", "r/b/1", "r/b/10", "s/x"):
        store.create(name, name.encode())
    assert _names(store, "r") == ["r/a", "r/b/1", "r/b/10", "r/b/2"]
    assert _names(store, "r/b") == ["r/b/1", "r/b/10", "r/b/2"]
    assert _names(store, "") == ["r/a", "r/b/1", "r/b/10", "r/b/2", "s/x"]
    assert [stored.bytes for stored in store.list("r")] == [3, 5, 6, 5]


def test_name_order_is_of_whole_names(store: Store) -> None:
    names = ["a/x", "a-b", "a.b", "a0", "B"]
    for name in names:
        store.create(name, b"")
    assert _names(store, "") == sorted(names)


def test_a_folder_is_no_prefix_of_a_longer_name(store: Store) -> None:
    store.create("task-1/a", b"")
    store.create("task-10/a", b"")
    store.create("task-1.json", b"")
    assert _names(store, "task-1") == ["task-1/a"]


def test_all_kinds_of_objects_are_listed(store: Store) -> None:
    store.create("x/created", b"1")
    store.write("x/written", [b"22"])
    store.append("x/appended", b"333")
    assert store.list("x") == [
        StoredObject("x/appended", 3),
        StoredObject("x/created", 1),
        StoredObject("x/written", 2),
    ]


def test_names_may_hold_what_job_names_hold(store: Store) -> None:
    for name in ("my job/run 1", "é/日本", "a.b-c_d=e@f", ".hidden/.x"):
        store.create(name, name.encode())
        assert store.read(name) == name.encode()
        assert name in _names(store, "")


# --- delete -----------------------------------------------------------------------------------------


def test_what_is_deleted_is_gone_and_its_neighbours_stay(store: Store) -> None:
    store.create("d/a", b"1")
    store.create("d/b", b"2")
    store.delete("d/a")
    assert _names(store, "") == ["d/b"]
    with pytest.raises(ObjectMissing):
        store.read("d/a")


def test_deleting_what_is_gone_is_no_error(store: Store) -> None:
    store.delete("never/was")
    store.create("d/a", b"1")
    store.delete("d/a")
    store.delete("d/a")
    assert store.list("") == []


def test_a_name_is_free_again_after_its_deletion(store: Store) -> None:
    store.create("d/a", b"old")
    store.delete("d/a")
    store.create("d/a", b"new")
    assert store.read("d/a") == b"new"


def test_a_sweep_leaves_every_object_and_what_is_being_written(store: Store) -> None:
    store.create("d/a", b"1")
    store.write("d/b", [b"2"])
    assert store.sweep("d") == 0
    assert _names(store, "d") == ["d/a", "d/b"]
