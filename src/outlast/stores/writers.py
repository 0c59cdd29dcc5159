"""Writes one large file: blocks past the page cache in a few threads, and what cannot go that way through it."""

import errno
import threading
from collections.abc import Iterable
from queue import SimpleQueue
from types import TracebackType

from outlast.ports import Bytes, Pace
from outlast.stores.blocks import ALIGNED_BYTES, Block, Cutter, LargeFiles, Staging
from outlast.stores.disk import Disk

# "This file system does not do that", from tmpfs, overlay, FUSE and NFS; EBADF: see LocalDisk.allocate.
_REFUSALS = (errno.EINVAL, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EBADF)


def write_large(
    disk: Disk, path: str, handle: int, buffers: Iterable[Bytes], pace: Pace, *, plan: LargeFiles, staging: Staging
) -> int:
    """Writes buffers to a new file that is open as `handle`, not yet synced; returns the bytes.

    No thread writes any more when this returns or raises; what the first failing thread raised, this raises.
    """
    direct = _open_direct(disk, path)
    try:
        with BlockWriters(disk, handle, direct, plan=plan, staging=staging) as writers:
            cutter = Cutter(plan, writers.take_memory)
            for buffer in buffers:
                data = memoryview(buffer).cast("B")
                if len(data) >= plan.allocate_from_bytes:
                    _allocate(disk, handle, cutter.offset, len(data))
                for block in cutter.add(data):
                    writers.put(block, pace)
            for block in cutter.rest():
                writers.put(block, pace)
            writers.finish()
            return cutter.offset
    finally:
        if direct is not None:
            disk.close(direct)


def _open_direct(disk: Disk, path: str) -> int | None:
    try:
        return disk.open_direct(path)
    except OSError as error:
        if error.errno not in _REFUSALS:
            raise
        return None


def _allocate(disk: Disk, handle: int, offset: int, size: int) -> None:
    try:
        disk.allocate(handle, offset, size)
    except OSError as error:
        if error.errno not in _REFUSALS:
            raise


class BlockWriters:
    """A few threads that write the blocks of one file. All methods are for the thread that made it.

    `handle` goes through the page cache, `direct` past it (None where that is refused).
    """

    def __init__(self, disk: Disk, handle: int, direct: int | None, *, plan: LargeFiles, staging: Staging) -> None:
        self._disk, self._handle, self._direct = disk, handle, direct
        self._plan, self._staging = plan, staging
        self._memories = 0  # staging blocks that are out
        self._under_way = 0
        self._todo: SimpleQueue[Block | None] = SimpleQueue()
        self._done: SimpleQueue[Block | BaseException] = SimpleQueue()
        self._threads: list[threading.Thread] = []
        self._stopping = False

    def __enter__(self) -> "BlockWriters":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end()

    def take_memory(self) -> memoryview:
        """Staging memory; waits for a block to be written if all of it is in use."""
        while self._memories >= self._plan.blocks:
            self._take_back()
        self._memories += 1
        return self._staging.take()

    def put(self, block: Block, pace: Pace) -> None:
        """Hands a block to the threads, waiting as long as too many are under way; raises what went wrong in one."""
        while self._under_way >= self._plan.blocks or self._stopping:
            self._take_back()
        pace(len(block.data))
        if len(self._threads) < self._plan.threads:
            self._start_thread()
        self._under_way += 1
        self._todo.put(block)
        if not self._threads:
            self._todo.put(None)
            self._work()

    def finish(self) -> None:
        """Waits until all is written; raises what went wrong."""
        while self._under_way:
            self._take_back()

    def _take_back(self) -> None:
        done = self._done.get()
        if isinstance(done, BaseException):
            try:
                raise done
            finally:
                del done  # this frame and the error would keep each other, and with them the caller's memory
        self._under_way -= 1
        if done.memory is not None:
            self._memories -= 1
            self._staging.give_back(done.memory)

    def _start_thread(self) -> None:
        # A daemon: the caller may be one, and must not keep a process that ends waiting for its blocks.
        thread = threading.Thread(target=self._work, name="outlast-write", daemon=True)
        self._threads.append(thread)  # before it starts: an interrupt in between must find it
        try:
            thread.start()
        except RuntimeError:  # no more threads, or an interpreter on its way out: fewer will do, even none
            self._threads.remove(thread)

    def _end(self) -> None:
        """Ends the threads, whatever interrupts: a handle that is closed, and its number reused, under a thread that
        still writes would be another file's damage.
        """
        interrupt = None
        ended = False
        while not ended:
            try:
                self._stopping = True
                for _ in self._threads:
                    self._todo.put(None)
                for thread in self._threads:
                    if thread.is_alive():
                        thread.join()
                ended = True
            except BaseException as error:  # noqa: BLE001  raised below, when no thread writes any more
                interrupt = error
        if interrupt is not None:
            raise interrupt

    def _work(self) -> None:
        unsynced = 0
        while (block := self._todo.get()) is not None:
            if self._stopping:
                continue
            try:
                self._write(block)
                unsynced += len(block.data)
                if self._direct is None and unsynced >= self._plan.rolling_bytes // self._plan.threads:
                    self._disk.sync_data(self._handle)
                    unsynced = 0
            except BaseException as error:  # noqa: BLE001  raised in the thread that waits for this
                self._done.put(error)
                self._stopping = True
            else:
                self._done.put(block)

    def _write(self, block: Block) -> None:
        done = self._write_direct(block, self._direct) if self._direct is not None else 0
        while done < len(block.data):
            done += _moved(self._disk.write_at(self._handle, block.data[done:], block.offset + done))

    def _write_direct(self, block: Block, direct: int) -> int:
        """How much of a block went past the page cache: an odd tail does not, nor what an odd short write left."""
        whole, done = len(block.data) // ALIGNED_BYTES * ALIGNED_BYTES, 0
        while done < whole and done % ALIGNED_BYTES == 0:
            try:
                done += _moved(self._disk.write_at(direct, block.data[done:whole], block.offset + done))
            except OSError as error:
                if error.errno != errno.EINVAL:
                    raise
                self._direct = None  # opened so, but not written so; if it meant more, the page cache's way will tell
                break
        return done


def _moved(bytes_moved: int) -> int:
    if bytes_moved <= 0:
        raise OSError(errno.EIO, "the disk takes no more bytes")
    return bytes_moved
