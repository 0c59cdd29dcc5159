"""Buffers cut into blocks that can be written past the page cache: pieces of the caller's memory, or staged copies."""

import ctypes
import mmap
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass

# What O_DIRECT asks of offset, length and memory: a page covers sectors of 512 and of 4096 bytes.
ALIGNED_BYTES = 4096
_WORTH_A_BLOCK_BYTES = 1 << 20  # a shorter run goes through the staging memory: few calls rather than no copy


@dataclass(frozen=True, slots=True)
class LargeFiles:
    """How large files are written.

    From `from_bytes` on in blocks by `threads` threads: of `block_bytes` what is staged, of `run_bytes` what is written
    from the caller's memory. At most `blocks` of them are under way, which also bounds the staging memory. Measured
    with 1 to 4 threads and blocks of 1 to 32 MiB: two threads keep a disk busy while one of them waits for the
    interpreter, and from 4 MiB on the size of a block does not matter, unless other threads keep the interpreter (a
    write of 1 GiB then took 1.8 times as long in blocks of 8 MiB, 1.2 times in those of 16).

    Room for a buffer of `allocate_from_bytes` is taken before it is written: in few pieces, and a disk that has no room
    for it says so first. Where the page cache cannot be passed, the disk is waited for after each
    `rolling_bytes`, so that the last sync has little left.
    """

    from_bytes: int = 16 << 20
    block_bytes: int = 8 << 20
    run_bytes: int = 16 << 20
    threads: int = 2
    blocks: int = 4
    allocate_from_bytes: int = 64 << 20
    rolling_bytes: int = 64 << 20

    def __post_init__(self) -> None:
        if self.block_bytes % ALIGNED_BYTES or self.run_bytes % ALIGNED_BYTES or min(self.threads, self.blocks) < 1:
            raise ValueError(
                f"{self}: blocks and runs are multiples of {ALIGNED_BYTES} bytes, and there is one at least"
            )


@dataclass(frozen=True, slots=True)
class Block:
    """A piece of a file. `memory` is the staging memory that it lies in, if it lies in such."""

    offset: int
    data: memoryview
    memory: memoryview | None = None


class Staging:
    """Aligned memory of one size, kept for the next save: touching fresh memory takes longer than filling it."""

    def __init__(self, block_bytes: int, keep: int) -> None:
        self._block_bytes, self._keep = block_bytes, keep
        self._free: list[memoryview] = []

    def take(self) -> memoryview:
        try:
            return self._free.pop()  # one step, as a lock might be held for ever in a forked child
        except IndexError:
            pass
        # Private: a child forked meanwhile that saves, too, must not fill our blocks. In huge pages, of which the disk
        # takes a block in few pieces: a third faster than from pages of 4 KiB.
        memory = mmap.mmap(-1, self._block_bytes, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        if hasattr(mmap, "MADV_HUGEPAGE"):
            with suppress(OSError):
                memory.madvise(mmap.MADV_HUGEPAGE)
        memory[:: mmap.PAGESIZE] = bytes(len(range(0, self._block_bytes, mmap.PAGESIZE)))
        return memoryview(memory)

    def give_back(self, memory: memoryview) -> None:
        if len(self._free) < self._keep:
            self._free.append(memory)


class Cutter:
    """Cuts buffers, added one by one, into blocks whose offsets, and lengths but the last, are aligned.

    Runs of memory that is aligned as the file is are blocks by themselves, without a copy, if the memory can be
    written to (the address of other memory is not to be had); all else is copied into memory from `take`.
    """

    def __init__(self, plan: LargeFiles, take: Callable[[], memoryview]) -> None:
        self._block_bytes, self._run_bytes, self._take = plan.block_bytes, plan.run_bytes, take
        self._offset = 0  # where the block that is being filled begins
        self._memory: memoryview | None = None
        self._filled = 0

    @property
    def offset(self) -> int:
        """How much was added."""
        return self._offset + self._filled

    def add(self, data: memoryview) -> Iterator[Block]:
        lead = -self._filled % ALIGNED_BYTES
        if len(data) - lead >= min(_WORTH_A_BLOCK_BYTES, self._block_bytes) and _is_aligned(data[lead:]):
            yield from self._stage(data[:lead])
            yield from self.rest()
            whole = (len(data) - lead) // ALIGNED_BYTES * ALIGNED_BYTES
            for start in range(lead, lead + whole, self._run_bytes):
                block = Block(self._offset, data[start : min(start + self._run_bytes, lead + whole)])
                self._offset += len(block.data)
                yield block
            data = data[lead + whole :]
        yield from self._stage(data)

    def rest(self) -> Iterator[Block]:
        """The block that is being filled, as it is."""
        if self._memory is not None:
            block = Block(self._offset, self._memory[: self._filled], self._memory)
            self._offset, self._memory, self._filled = self.offset, None, 0
            yield block

    def _stage(self, data: memoryview) -> Iterator[Block]:
        while data:
            if self._memory is None:
                self._memory = self._take()
            part = data[: self._block_bytes - self._filled]
            self._memory[self._filled : self._filled + len(part)] = part
            self._filled += len(part)
            data = data[len(part) :]
            if self._filled == self._block_bytes:
                yield from self.rest()


def _is_aligned(memory: memoryview) -> bool:
    return not memory.readonly and ctypes.addressof(ctypes.c_char.from_buffer(memory)) % ALIGNED_BYTES == 0
