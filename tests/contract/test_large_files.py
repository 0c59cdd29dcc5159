"""Large files of the directory store: in blocks, by threads, on disks that refuse, fail or take little at a time."""

import errno
import gc
import mmap
import os
import random
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from one_attempt import QuickDisk
from outlast.errors import StoreUnreachable
from outlast.ports import StoredObject
from outlast.stores.blocks import ALIGNED_BYTES, Cutter, LargeFiles
from outlast.stores.directory import DirectoryStore

# Everything is large, in small blocks.
TINY = LargeFiles(from_bytes=1, block_bytes=8192, run_bytes=8192, allocate_from_bytes=40_000, rolling_bytes=32_768)
CALLS = ("make_folder", "create_file", "open_direct", "allocate", "write_at", "sync", "sync_data", "close")
FOLDER_CALLS = ("unlink", "sync_folder")


def image(size: int, *, seed: int = 0) -> memoryview:
    """Memory that begins on a page, as a checkpoint's image does."""
    memory = memoryview(mmap.mmap(-1, size))
    memory[:] = random.Random(seed).randbytes(size)
    return memory


def threads_left() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name == "outlast-write"]


def files_below(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def open_handles() -> set[tuple[str, str]]:
    """Each with what it is open on; without that of the look itself."""
    folder, found = Path("/proc/self/fd"), set[tuple[str, str]]()
    for handle in folder.iterdir() if folder.is_dir() else ():
        with suppress(FileNotFoundError):
            found.add((handle.name, str(handle.readlink())))
    return {one for one in found if not one[1].endswith(f"/{os.getpid()}/fd")}


@pytest.fixture(autouse=True)
def _nothing_is_left_open_or_running() -> Iterator[None]:
    for thread in threading.enumerate():
        if thread.name == "outlast-learn":  # of a job in an earlier test
            thread.join(30)
    gc.collect()  # what an earlier test left open is closed now, and not meanwhile
    before = open_handles()
    yield
    assert threads_left() == []
    assert open_handles() - before == set()  # an earlier test's may be closed meanwhile


# --- cutting ------------------------------------------------------------------------------------------


def sizes(chance: random.Random) -> list[int]:
    return [chance.choice([0, 1, 100, 4095, 4096, 5000, 8192, 20_000, 70_000]) for _ in range(chance.randrange(12))]


@pytest.mark.parametrize("seed", range(60))
def test_blocks_are_the_buffers_in_order_and_aligned_but_for_the_last(seed: int) -> None:
    chance = random.Random(seed)
    whole = image(600_000, seed=seed)
    cutter = Cutter(TINY, lambda: memoryview(bytearray(TINY.block_bytes)))
    blocks, expected = [], b""
    for size in sizes(chance):
        start = chance.choice([0, 4096, 7, 4096 * 3 + 16])
        buffer = whole[start : start + size]
        data = chance.choice([buffer, buffer.toreadonly(), memoryview(bytes(buffer))])
        blocks += list(cutter.add(data))
        expected += bytes(buffer)
        assert cutter.offset == len(expected)
    blocks += list(cutter.rest())
    assert b"".join(bytes(block.data) for block in blocks) == expected
    offset = 0
    for block in blocks:
        assert block.offset == offset
        assert block.offset % ALIGNED_BYTES == 0
        assert 0 < len(block.data) <= TINY.block_bytes
        offset += len(block.data)
    assert all(len(block.data) % ALIGNED_BYTES == 0 for block in blocks[:-1])


def test_aligned_memory_is_written_without_a_copy_also_behind_a_small_head() -> None:
    whole = image(100_000)
    cutter = Cutter(TINY, lambda: memoryview(bytearray(TINY.block_bytes)))
    blocks = [*cutter.add(whole[:4000]), *cutter.add(whole[4000:]), *cutter.rest()]
    copied = sum(len(block.data) for block in blocks if block.memory is not None)
    assert copied == ALIGNED_BYTES + 100_000 % ALIGNED_BYTES


# --- writing ------------------------------------------------------------------------------------------


def many(seed: int = 0) -> list[memoryview]:
    """Buffers of all kinds: aligned, odd, small, large."""
    whole = image(200_000, seed=seed)
    return [whole[:300], whole[300:4096], whole[4096:90_112], whole[90_112:90_113], whole[90_113:]]


def joined(buffers: list[memoryview]) -> bytes:
    return b"".join(buffers)


@pytest.mark.parametrize("size", [16 << 20, (16 << 20) + 1, (40 << 20) + 4095])
def test_a_large_file_is_whole_whatever_its_tail(size: int, tmp_path: Path) -> None:
    store, data = DirectoryStore(str(tmp_path)), image(size)
    assert store.write("data/large", [data]) == size
    assert (tmp_path / "data/large").read_bytes() == bytes(data)


def test_twenty_thousand_small_buffers_are_taken_one_by_one(tmp_path: Path) -> None:
    under_way: set[int] = set()
    most = 0

    class Part(bytearray):
        def __del__(self) -> None:
            under_way.discard(id(self))

    def parts() -> Iterator[bytearray]:
        nonlocal most
        for number in range(20_000):
            part = Part(number.to_bytes(4, "big") * 500)
            under_way.add(id(part))
            most = max(most, len(under_way))
            yield part

    assert DirectoryStore(str(tmp_path)).write("data/many", parts()) == 40_000_000
    read = (tmp_path / "data/many").read_bytes()
    assert read == b"".join(number.to_bytes(4, "big") * 500 for number in range(20_000))
    assert most <= (16 << 20) // 2000 + 2  # those that decide whether it is large, and no more


class DoorDisk(QuickDisk):
    """Calls `door` with the name and the arguments of each call that changes the disk; it may raise, or return."""

    def __init__(self, door: Callable[[str, Callable[..., Any], tuple[Any, ...]], Any]) -> None:
        for name in (*CALLS, *FOLDER_CALLS):
            call = getattr(self, name)
            setattr(self, name, lambda *args, name=name, call=call: door(name, call, args))


def refuse_direct(name: str, call: Callable[..., Any], args: tuple[Any, ...]) -> Any:
    if name == "open_direct":
        raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))
    return call(*args)


@pytest.mark.parametrize("most", [1, 4095, 4096, 5000, 8192])
def test_short_writes_lose_nothing(most: int, tmp_path: Path) -> None:
    def door(name: str, call: Callable[..., Any], args: tuple[Any, ...]) -> Any:
        return call(args[0], args[1][:most], args[2]) if name == "write_at" else call(*args)

    buffers = many() if most > 1 else [image(9000)]
    DirectoryStore(str(tmp_path), disk=DoorDisk(door), large=TINY).write("data/a", buffers)
    assert (tmp_path / "data/a").read_bytes() == joined(buffers)


@pytest.mark.parametrize("most", [1 << 20, 1_000_000])
def test_a_disk_that_takes_a_megabyte_at_a_time_gets_all(most: int, tmp_path: Path) -> None:
    def door(name: str, call: Callable[..., Any], args: tuple[Any, ...]) -> Any:
        return call(args[0], args[1][:most], args[2]) if name == "write_at" else call(*args)

    buffers = [image(20 << 20), memoryview(b"odd" * 1000), image(17_000_001, seed=1)]
    DirectoryStore(str(tmp_path), disk=DoorDisk(door)).write("data/a", buffers)
    assert (tmp_path / "data/a").read_bytes() == joined(buffers)


def test_a_disk_that_takes_no_byte_is_an_error_and_no_endless_loop(tmp_path: Path) -> None:
    disk = DoorDisk(lambda name, call, args: 0 if name == "write_at" else call(*args))
    with pytest.raises(StoreUnreachable, match="takes no more bytes"):
        DirectoryStore(str(tmp_path), disk=disk, large=TINY).write("data/new", many())
    assert files_below(tmp_path) == {}


@pytest.mark.parametrize("error", [errno.EINVAL, errno.EOPNOTSUPP])
@pytest.mark.parametrize("refused", ["open_direct", "allocate"])
def test_a_file_system_that_refuses_a_short_cut_gets_all_without_it(refused: str, error: int, tmp_path: Path) -> None:
    def door(name: str, call: Callable[..., Any], args: tuple[Any, ...]) -> Any:
        if name == refused:
            raise OSError(error, os.strerror(error))
        return call(*args)

    DirectoryStore(str(tmp_path), disk=DoorDisk(door), large=TINY).write("data/a", many())
    assert (tmp_path / "data/a").read_bytes() == joined(many())


@pytest.mark.parametrize("good", [0, 1, 7])
def test_a_file_system_that_refuses_direct_writes_only_when_written_to_gets_all(good: int, tmp_path: Path) -> None:
    direct: list[int] = []
    written: list[int] = []

    def door(name: str, call: Callable[..., Any], args: tuple[Any, ...]) -> Any:
        if name == "write_at" and args[0] in direct:
            written.append(args[2])
            if len(written) > good:
                raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))
        result = call(*args) if name != "open_direct" else os.open(args[0], os.O_WRONLY)
        direct.extend([result] if name == "open_direct" else [])
        return result

    DirectoryStore(str(tmp_path), disk=DoorDisk(door), large=TINY).write("data/a", many())
    assert (tmp_path / "data/a").read_bytes() == joined(many())
    assert good < len(written) <= good + TINY.threads  # asked no more once it refused


def test_without_direct_writes_the_disk_is_waited_for_on_the_way(tmp_path: Path) -> None:
    calls: list[str] = []

    def door(name: str, call: Callable[..., Any], args: tuple[Any, ...]) -> Any:
        calls.append(name)
        return refuse_direct(name, call, args)

    DirectoryStore(str(tmp_path), disk=DoorDisk(door), large=TINY).write("data/a", [image(400_000)])
    assert 400_000 // TINY.rolling_bytes - 1 <= calls.count("sync_data") <= 400_000 // TINY.rolling_bytes * 2
    assert calls.index("sync") > max(number for number, name in enumerate(calls) if name == "write_at")


def test_a_process_that_gets_no_thread_writes_all_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_self: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    DirectoryStore(str(tmp_path), large=TINY).write("data/a", many())
    assert (tmp_path / "data/a").read_bytes() == joined(many())


def test_staging_memory_is_bounded_and_used_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[int] = []
    real = mmap.mmap

    def counted(handle: int, size: int, **settings: Any) -> mmap.mmap:
        made.append(size)
        return real(handle, size, **settings)

    parts = [memoryview(random.Random(number).randbytes(3000)) for number in range(400)]
    store = DirectoryStore(str(tmp_path), large=TINY)
    monkeypatch.setattr(mmap, "mmap", counted)
    for number in range(5):
        store.write(f"data/{number}", parts)
    assert made == [TINY.block_bytes] * TINY.blocks
    assert {bytes(data) for data in files_below(tmp_path).values()} == {joined(parts)}


def test_several_threads_write_large_files_of_their_own(tmp_path: Path) -> None:
    store = DirectoryStore(str(tmp_path), large=TINY)
    threads = [threading.Thread(target=store.write, args=(f"data/{number}", many(number))) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert files_below(tmp_path) == {f"data/{number}": joined(many(number)) for number in range(6)}


@pytest.mark.parametrize("sizes", [{"block_bytes": 5000}, {"run_bytes": 100}, {"threads": 0}, {"blocks": 0}])
def test_blocks_that_no_disk_would_take_are_refused(sizes: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="multiples of 4096"):
        LargeFiles(**sizes)


def test_a_system_without_these_calls_has_large_files_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """MacOS has none of them."""
    for name in ("O_DIRECT", "posix_fallocate", "posix_fadvise", "fdatasync"):
        monkeypatch.delattr(os, name, raising=False)
    store = DirectoryStore(str(tmp_path), large=TINY)
    store.write("data/a", many())
    assert store.read("data/a") == joined(many())


# --- failing ------------------------------------------------------------------------------------------


class FailingCall:
    """A door that fails call number `at`; `met` says which that was."""

    def __init__(self, at: int, error: int, *, direct: bool) -> None:
        self.number, self.met = 0, ""
        self._at, self._error, self._direct = at, error, direct
        self._lock = threading.Lock()

    def __call__(self, name: str, call: Callable[..., Any], args: tuple[Any, ...]) -> Any:
        with self._lock:
            self.number += 1
            mine = self.number == self._at
        if not mine:
            # This disk's own answer does not matter here: what is called must not depend on it.
            if name == "open_direct" and self._direct:
                return os.open(args[0], os.O_WRONLY)
            return refuse_direct(name, call, args)
        self.met = name
        if name == "close":  # the kernel has let go of it all the same
            call(*args)
        raise OSError(self._error, os.strerror(self._error))


@pytest.mark.parametrize("direct", [True, False])
@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EIO, errno.EFBIG, errno.EDQUOT])
def test_an_error_at_any_call_is_told_and_leaves_nothing(error: int, direct: bool, tmp_path: Path) -> None:
    met = set()
    for at in range(1, 1000):
        root = tmp_path / str(at)
        DirectoryStore(str(root), disk=QuickDisk()).write("other/good", [b"good"])
        door = FailingCall(at, error, direct=direct)
        # One thread, so that call number `at` is the same one in each life.
        store = DirectoryStore(str(root), disk=DoorDisk(door), large=replace(TINY, threads=1))
        try:
            store.write("data/a", many())
        except StoreUnreachable as failure:
            assert os.strerror(error) in str(failure)  # noqa: PT017  the call that fails for good is not known before
        if not door.met:
            break
        met.add(door.met)
        assert threads_left() == []
        left = files_below(root)
        assert left.pop("other/good") == b"good"
        # The last sync of the folder comes when the file is whole; a file that nobody can remove stays.
        assert left in ({}, {"data/a": joined(many())}) if door.met == "sync_folder" else left == {}, door.met
    assert door.number < at
    assert met >= {"create_file", "open_direct", "allocate", "write_at", "sync", "close", "sync_folder"}
    assert ("sync_data" in met) != direct


def test_the_first_error_is_the_one_that_is_told_and_ends_the_other_threads(tmp_path: Path) -> None:
    started = threading.Barrier(2)
    writes: list[int] = []

    def door(name: str, call: Callable[..., Any], args: tuple[Any, ...]) -> Any:
        if name != "write_at":
            return call(*args)
        writes.append(args[2])
        if len(writes) <= 2:
            started.wait(30)
        if args[2] == 0:
            raise OSError(errno.ENOSPC, "first")
        time.sleep(0.05)
        raise OSError(errno.EIO, "second")

    with pytest.raises(StoreUnreachable, match="first"):
        DirectoryStore(str(tmp_path), disk=DoorDisk(door), large=TINY).write("data/a", [image(400_000)])
    assert len(writes) == 2
    assert files_below(tmp_path) == {}


@pytest.mark.parametrize("after", [0, 1, 5, 20])
def test_a_write_that_is_given_up_leaves_nothing_and_the_reason_goes_through(after: int, tmp_path: Path) -> None:
    class GivenUp(BaseException):
        pass

    told: list[int] = []

    def pace(size: int) -> None:
        told.append(size)
        if len(told) > after:
            raise GivenUp

    store = DirectoryStore(str(tmp_path), large=TINY)
    with pytest.raises(GivenUp):
        store.write("data/a", many(), pace=pace)
    assert files_below(tmp_path) == {}
    told.clear()
    assert store.write("data/a", many(), pace=told.append) == sum(told) == 200_000
    assert store.list("") == [StoredObject("data/a", 200_000)]


def test_a_source_that_fails_on_the_way_leaves_nothing(tmp_path: Path) -> None:
    def parts() -> Iterator[memoryview]:
        yield from many()
        raise KeyError("gone")

    with pytest.raises(KeyError, match="gone"):
        DirectoryStore(str(tmp_path), large=TINY).write("data/a", parts())
    assert files_below(tmp_path) == {}


def test_no_handle_is_closed_while_a_thread_still_writes_to_it(tmp_path: Path) -> None:
    """Its number would be the next file's, which would get the rest of the block."""
    order: list[str] = []
    begun = threading.Event()

    def door(name: str, call: Callable[..., Any], args: tuple[Any, ...]) -> Any:
        if name == "write_at":
            begun.set()
            time.sleep(0.1)
        result = call(*args)
        order.append(name)
        return result

    def pace(_size: int) -> None:
        if begun.is_set():
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        DirectoryStore(str(tmp_path), disk=DoorDisk(door), large=TINY).write("data/a", [image(400_000)], pace=pace)
    assert "write_at" in order
    assert "write_at" not in order[order.index("close") :]


def test_an_interrupt_while_threads_are_ended_waits_for_them_and_goes_through(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, interrupts = threading.Thread.join, [KeyboardInterrupt("second"), KeyboardInterrupt("first")]

    def join(self: threading.Thread, timeout: float | None = None) -> None:
        if interrupts:
            raise interrupts.pop()
        real(self, timeout)

    def door(name: str, call: Callable[..., Any], args: tuple[Any, ...]) -> Any:
        assert name != "close" or threads_left() == []
        return call(*args)

    monkeypatch.setattr(threading.Thread, "join", join)
    with pytest.raises(KeyboardInterrupt, match="second"):
        DirectoryStore(str(tmp_path), disk=DoorDisk(door), large=TINY).write("data/a", [image(400_000)])
    assert files_below(tmp_path) == {}


@pytest.mark.parametrize("at", [0, 12])
def test_the_memory_is_the_callers_again_however_a_write_ends(at: int, tmp_path: Path) -> None:
    """A streamed save's buffers are as large as the memory that is left; and an exported mmap cannot be closed."""
    door = FailingCall(at, errno.EIO, direct=True)
    store = DirectoryStore(str(tmp_path), disk=DoorDisk(door), large=TINY)
    memory = mmap.mmap(-1, 400_000)
    gc.disable()
    try:
        with memoryview(memory) as view:
            try:
                store.write("data/a", [view])
            except StoreUnreachable:
                assert door.met == "write_at"
        memory.close()
    finally:
        gc.enable()


def test_a_disk_without_the_room_says_so_before_a_byte_is_written(tmp_path: Path) -> None:
    calls: list[str] = []

    def door(name: str, call: Callable[..., Any], args: tuple[Any, ...]) -> Any:
        calls.append(name)
        if name == "allocate":
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return call(*args)

    with pytest.raises(StoreUnreachable, match="No space left"):
        DirectoryStore(str(tmp_path), disk=DoorDisk(door), large=TINY).write("data/a", [image(400_000)])
    assert "write_at" not in calls
    assert files_below(tmp_path) == {}
