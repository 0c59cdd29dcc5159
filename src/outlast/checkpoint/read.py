"""Reading a checkpoint: in parallel, straight to where the bytes belong, and verified before they are believed."""

import json
import mmap
import threading
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from itertools import accumulate, pairwise
from operator import itemgetter
from typing import Any

import xxhash

from outlast.checkpoint.record import (
    CommitRecord,
    LeafPlace,
    Piece,
    RankImage,
    check_leaves,
    load_record,
    parsed_leaves,
)
from outlast.checkpoint.shards import Shards, Stored, sharded_nodes
from outlast.errors import BadObject, CheckpointCorrupt, ObjectMissing, StoreUnreachable
from outlast.garbage import collector_at_rest
from outlast.ports import ArraySpec, OpenObject, Pace, ScatteringObject, Store, full_speed
from outlast.sharding import Box
from outlast.state.scalars import Node
from outlast.state.sharded import numbers
from outlast.threads import in_parallel, nothing

_PIECES_AT_ONCE = 4
_BLOCK_BYTES = 16 << 20  # leaves below a sixteenth of this share a block of memory
_ALIGNMENT = 64
TURNS = 8  # what a save refers to is read again in so many parts, one after each save


@dataclass(frozen=True, slots=True)
class Refusal:
    """A checkpoint that was passed over; `unreachable` when the storage failed rather than the content."""

    name: str
    reason: str
    unreachable: bool


class OpenCheckpoint:
    """One rank's image of a checkpoint, its files open, its tree and table verified; leaves are verified as they are
    read."""

    def __init__(
        self,
        record: CommitRecord,
        image: RankImage,
        files: Mapping[int, OpenObject],
        *,
        threads: int,
        meanwhile: Callable[[], None],
        others: Callable[[], Iterable["OpenCheckpoint"]] = tuple,
    ) -> None:
        self.record, self.rank = record, image.rank
        self._shards = Shards(lambda: (one.stored for one in (self, *others())), threads=threads)
        self._image = image
        self._reader = _Reader(record, self._image, files, threads=threads, meanwhile=meanwhile)
        with collector_at_rest():
            self.leaves = self._read_table()
            self.tree = self._read_tree()
        self._nodes: dict[int, Node] | None = None  # of divided arrays, by their leaves
        self._verified = False  # whether all of it was read
        self._loaded: dict[int, memoryview] = {}
        self._targets: Mapping[int, memoryview] = {}

    @property
    def specs(self) -> list[ArraySpec]:
        """What each leaf is."""
        return [leaf.spec for leaf in self.leaves]

    def load(self, leaves: Collection[int], targets: Mapping[int, memoryview]) -> None:
        """Reads leaves, verified: those in `targets` straight to there, the others into fresh memory.

        The first call reads, and verifies, everything else as well. Raises CheckpointCorrupt, StoreUnreachable; targets
        may be half overwritten then.
        """
        wanted = [index for index in leaves if index not in targets]
        with collector_at_rest():
            homes = {index: target.cast("B") for index, target in targets.items()}
            homes.update(zip(wanted, _fresh_memory([self.leaves[index].bytes for index in wanted]), strict=True))
        for index, home in homes.items():
            if len(home) != self.leaves[index].bytes:
                raise CheckpointCorrupt(f"leaf {self.leaves[index].name} has another size than its place")
        self._reader.read_all(self.leaves, homes, whole=not self._verified)
        self._verified = True
        self._targets = {**self._targets, **targets}
        self._loaded.update((index, homes[index]) for index in wanted)

    def read_leaf(self, index: int) -> memoryview:
        """The bytes of a leaf, writable, in memory that nobody else has, or in its target if it has gone there."""
        if index in self._targets:
            return self._targets[index]
        return self._loaded.pop(index, None) or self.stored_leaf(index)

    def stored_leaf(self, index: int) -> memoryview:
        """The bytes of a leaf as the store has them, read and verified now."""
        leaf = self.leaves[index]
        return self._reader.read_range(leaf.offset, leaf.bytes)

    @property
    def stored(self) -> Stored:
        """What is read of it for a box of an array that is divided among ranks."""
        return Stored(self.tree, self.leaves, self._part)

    def read_box(self, node: Node, box: Box) -> memoryview:
        """The bytes of a box of an array, from whichever ranks have it, in memory that nobody else has.

        The node is one of this tree: of a divided array, or of one that is here as a whole. Raises CheckpointCorrupt,
        StoreUnreachable.
        """
        return self._shards.read(node, self.stored, box)

    def whole(self, index: int) -> tuple[LeafPlace, Callable[[], memoryview]] | None:
        """A leaf, or the whole array of which it is this rank's part, and what reads its bytes, verified.

        None for any but the first part of an array.
        """
        leaf = self.leaves[index]
        if self._nodes is None:
            nodes = sharded_nodes(self.tree["parts"])
            self._nodes = {one["leaf"]: node for node in nodes for one in node["v"]}
        node = self._nodes.get(index)
        if node is None:
            return leaf, partial(self.stored_leaf, index)
        if node["v"][0]["leaf"] != index:
            return None
        box = Box.of_all(numbers(node["shape"]))
        size = box.elements * self._shards.element_bytes(node, self.stored)
        spec = replace(leaf.spec, shape=box.shape)
        return LeafPlace(leaf.name, spec, 0, size), partial(self.read_box, node, box)

    def _part(self, index: int, start: int, size: int) -> memoryview:
        return self._reader.read_range(self.leaves[index].offset + start, size)

    def _read_table(self) -> tuple[LeafPlace, ...]:
        if self._image.table is not None:
            return self._image.table
        data = bytes(self._reader.read_range(*self._image.leaves))
        try:
            leaves = parsed_leaves(data, self._image)
            check_leaves(leaves, self._image.bytes)
        except (ValueError, TypeError, RecursionError) as error:
            raise CheckpointCorrupt(f"the leaves of step {self.record.step} make no sense: {error}") from error
        return leaves

    def _read_tree(self) -> dict[str, Any]:
        try:
            tree = json.loads(bytes(self._reader.read_range(*self._image.tree)))
        except (ValueError, RecursionError) as error:
            raise CheckpointCorrupt(f"the tree of step {self.record.step} is not readable: {error}") from error
        if not isinstance(tree, dict):
            raise CheckpointCorrupt(f"the tree of step {self.record.step} is not a tree")
        return tree


class _Reader:
    """Reads the pieces of one image."""

    def __init__(
        self,
        record: CommitRecord,
        image: RankImage,
        files: Mapping[int, OpenObject],
        *,
        threads: int,
        meanwhile: Callable[[], None],
        pace: Pace = full_speed,
    ) -> None:
        self._record, self._image, self._files = record, image, files
        self._threads, self._meanwhile, self._pace = threads, meanwhile, pace
        self._ends = list(accumulate(piece.bytes for piece in image.pieces))
        self._scattering = {
            number: file if isinstance(file, ScatteringObject) else None for number, file in files.items()
        }

    def read_all(self, leaves: Sequence[LeafPlace], homes: Mapping[int, memoryview], *, whole: bool) -> None:
        """Reads and verifies every piece, or those of leaves with a home; what belongs to such a leaf goes there."""
        occupied = []
        for index, home in homes.items():
            _, _, first, size = leaves[index]
            if size:
                occupied.append((first, first + size, home))
        occupied.sort(key=itemgetter(0))
        if any(last > first for (_, last, _), (first, _, _) in pairwise(occupied)):
            raise CheckpointCorrupt(f"leaves of step {self._record.step} overlap")
        starts = [start for start, _, _ in occupied]
        numbers = range(len(self._ends)) if whole else self._under(occupied)
        scratch = threading.local()

        def some(first: int) -> None:
            for number in numbers[first : first + _PIECES_AT_ONCE]:
                memory = _scratch(scratch, self._image.pieces[number].bytes)
                start = self._ends[number] - len(memory)
                parts = _parts(start, memory, occupied, max(bisect_right(starts, start) - 1, 0))
                self._read_parts(number, memory, parts)

        self._run(some, range(0, len(numbers), _PIECES_AT_ONCE))

    def _under(self, occupied: Sequence[tuple[int, int, memoryview]]) -> Sequence[int]:
        """The pieces that some ranges of the image lie in."""
        found: set[int] = set()
        for first, last, _ in occupied:
            found.update(range(bisect_right(self._ends, first), bisect_left(self._ends, last) + 1))
        return sorted(found)

    def verify(self, files: Collection[int], turn: int, but: Collection[Piece] = ()) -> None:
        """Reads and verifies the pieces that lie in some of the files, and of the others those whose turn it is."""
        pieces = enumerate(self._image.pieces)
        turn %= TURNS
        numbers = [number for number, piece in pieces if piece.file in files or number % TURNS == turn]
        if but:
            numbers = [number for number in numbers if self._image.pieces[number] not in but]

        scratch = threading.local()

        def some(first: int) -> None:
            for number in numbers[first : first + _PIECES_AT_ONCE]:
                size = self._image.pieces[number].bytes
                self._pace(size)
                self._read(number, _scratch(scratch, size))

        self._run(some, range(0, len(numbers), _PIECES_AT_ONCE))

    def _run(self, job: Callable[[int], None], firsts: Sequence[int]) -> None:
        threads = min(self._threads, len(firsts))
        in_parallel((partial(job, first) for first in firsts), threads=threads, meanwhile=self._meanwhile)

    def read_range(self, start: int, size: int) -> memoryview:
        """A range of the image, verified."""
        data = memoryview(bytearray(size))
        end = start + size
        number = bisect_right(self._ends, start)
        while size and number < len(self._ends) and self._ends[number] - self._image.pieces[number].bytes < end:
            piece = self._image.pieces[number]
            whole = memoryview(bytearray(piece.bytes))
            self._meanwhile()
            self._read(number, whole)
            at = self._ends[number] - piece.bytes
            low, high = max(start, at), min(end, self._ends[number])
            data[low - start : high - start] = whole[low - at : high - at]
            number += 1
        return data

    def _read_parts(self, number: int, whole: memoryview, parts: list[memoryview]) -> None:
        """Reads and verifies a piece that has its place in several parts; `whole` is memory for all of it."""
        piece = self._image.pieces[number]
        scattering = self._scattering[piece.file]
        if len(parts) < 2:
            self._read(number, parts[0] if parts else whole)
        elif scattering is not None:
            with _about(_where(self._record, piece)):
                scattering.read_into_all(piece.offset, parts)
                digest = xxhash.xxh3_128()
                for part in parts:
                    digest.update(part)
                self._check(piece, digest.hexdigest())
        else:
            self._read(number, whole)
            at = 0
            for part in parts:
                part[:] = whole[at : at + len(part)]
                at += len(part)

    def _read(self, number: int, target: memoryview) -> None:
        piece = self._image.pieces[number]
        with _about(_where(self._record, piece)):
            self._files[piece.file].read_into(piece.offset, target)
            self._check(piece, xxhash.xxh3_128_hexdigest(target))

    def _check(self, piece: Piece, digest: str) -> None:
        if digest != piece.digest:
            raise CheckpointCorrupt(
                f"{_where(self._record, piece)}: bytes {piece.offset} to {piece.offset + piece.bytes} do not fit their "
                "digest"
            )


@contextmanager
def _about(file: str) -> Iterator[None]:
    """What goes wrong within is that data file's fault."""
    try:
        yield
    except BadObject as error:
        error.file = file
        raise


def _scratch(own: threading.local, size: int) -> memoryview:
    """Memory for one piece, of this thread, used again for the next."""
    memory: bytearray = getattr(own, "memory", bytearray())
    if len(memory) < size:
        memory = own.memory = bytearray(size)
    return memoryview(memory)[:size]


def _parts(
    start: int, whole: memoryview, occupied: Sequence[tuple[int, int, memoryview]], position: int
) -> list[memoryview]:
    """Where the bytes of a piece go, in order: to the homes of the leaves, into `whole` where there is none.

    `occupied`: first byte, one past the last, and home of each leaf; `position`: of one before the piece's second.
    """
    at, end = start, start + len(whole)
    parts = []
    for number in range(position, len(occupied)):
        first, last, home = occupied[number]
        if first >= end:
            break
        if last <= start:
            continue
        if first > at:
            parts.append(whole[at - start : first - start])
        parts.append(home if start <= first and last <= end else home[max(start - first, 0) : end - first])
        at = last
    if at < end:
        parts.append(whole[at - start :])
    return parts


def _fresh_memory(sizes: Sequence[int]) -> Iterator[memoryview]:
    """Writable memory of so many bytes each. Small ones share blocks; a large one is given back by itself."""
    block, used = memoryview(b""), 0
    for size in sizes:
        if size * 16 >= _BLOCK_BYTES:
            yield _mapped(size)
            continue
        if used + size > len(block):
            block, used = _mapped(min(_BLOCK_BYTES, max(sum(sizes), 1) + _ALIGNMENT * len(sizes))), 0
        yield block[used : used + size]
        used += size + -size % _ALIGNMENT


def _mapped(size: int) -> memoryview:
    """Not a bytearray: that is filled with zeros at once, by one thread that holds the interpreter's lock."""
    # Private: it becomes the program's own, and a forked child that writes to it must not change the parent's.
    memory = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    if hasattr(mmap, "MADV_HUGEPAGE"):
        with suppress(OSError):
            memory.madvise(mmap.MADV_HUGEPAGE)
    return memoryview(memory)


@contextmanager
def open_checkpoint(
    store: Store, name: str, *, rank: int = 0, between_chunks: Callable[[], None] = nothing
) -> Iterator[OpenCheckpoint]:
    """A rank's checkpoint by its commit record; `between_chunks` is called while it is read, and may raise to give up.

    Raises CheckpointCorrupt, ObjectMissing or StoreUnreachable, each naming the file and what is wrong.
    """
    with open_image(store, load_record(store, name), rank, between_chunks=between_chunks) as opened:
        yield opened


@contextmanager
def open_image(
    store: Store, record: CommitRecord, rank: int, *, between_chunks: Callable[[], None] = nothing
) -> Iterator[OpenCheckpoint]:
    """The same by a record that was read. The images of other ranks are opened when they are needed."""
    image = record.image_of(rank)
    with ExitStack() as stack:

        def others() -> Iterator[OpenCheckpoint]:
            for one in record.images:
                if one.rank != rank:
                    yield stack.enter_context(open_image(store, record, one.rank, between_chunks=between_chunks))

        files = stack.enter_context(_opened(store, record, image))
        threads = store.traits.parallel
        yield OpenCheckpoint(record, image, files, threads=threads, meanwhile=between_chunks, others=others)


def verify_data(
    store: Store,
    record: CommitRecord,
    *,
    files: Collection[str] | None = None,
    rank: int | None = None,
    turn: int = 0,
    pace: Pace = full_speed,
    threads: int = 1,
) -> None:
    """Reads the data of a record back; raises CheckpointCorrupt, ObjectMissing for what is bad or gone.

    All of it, or what lies in `files` and an eighth of the rest, whose turn it is; every file's size is looked at. With
    a rank, only what belongs to its image.
    """
    chosen = {number for number, file in enumerate(record.files) if files is None or file.name in files}
    read = set[Piece]()  # what is equal on several ranks is stored once, and read once
    for image in record.images:
        if rank not in (None, image.rank):
            continue
        with _opened(store, record, image) as opened:
            reader = _Reader(record, image, opened, threads=threads, meanwhile=nothing, pace=pace)
            reader.verify(chosen, turn, read)
        if len(record.images) > 1:
            read.update(image.pieces)


def refusal(store: Store, name: str) -> Refusal | None:
    """Why a checkpoint does not verify, or None if it does."""
    try:
        record = load_record(store, name)
        for image in record.images:  # each has a table and a tree of its own
            with open_image(store, record, image.rank) as opened:
                if image.rank == 0:
                    opened.load((), {})
        if len(record.images) > 1:
            verify_data(store, record)
    except (CheckpointCorrupt, ObjectMissing) as error:
        return Refusal(name, str(error), unreachable=False)
    except StoreUnreachable as error:
        return Refusal(name, str(error), unreachable=True)
    return None


@contextmanager
def _opened(store: Store, record: CommitRecord, image: RankImage) -> Iterator[dict[int, OpenObject]]:
    """The files of a record that an image lies in, by number."""
    found: dict[int, OpenObject] = {}
    with ExitStack() as stack:

        def open_one(number: int) -> None:
            file = record.files[number]
            with _about(file.name):
                opened = stack.enter_context(store.open(file.name))
                if opened.bytes != file.bytes:
                    raise CheckpointCorrupt(f"{file.name} has {opened.bytes} bytes instead of {file.bytes}")
            found[number] = opened

        # Of a checkpoint of one process all of them: one that nothing lies in has to be there as well.
        single = len(record.images) == 1
        numbers = range(len(record.files)) if single else sorted({piece.file for piece in image.pieces})
        in_parallel((partial(open_one, number) for number in numbers), threads=min(store.traits.parallel, len(numbers)))
        yield found


def _where(record: CommitRecord, piece: Piece) -> str:
    return record.files[piece.file].name
