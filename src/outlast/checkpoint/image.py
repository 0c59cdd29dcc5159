"""The image of a checkpoint: one run of bytes, which is a whole safetensors file, cut into pieces.

A checkpoint is its image; the commit record says in which data files the pieces lie. Written at once, the image is
the data file. Where pieces are unchanged since an earlier checkpoint, only the others are written, and the record
names the earlier file for the rest. Put together in order, the pieces are the plain file that `export` writes.

    head | leaves, wide elements first, without gaps | table of leaves (@leaves) | tree of the state (@tree)

What changes in size from save to save, the tree, comes last, so that everything else keeps its place.
"""

import json
import threading
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from outlast.checkpoint.tensors import entry, header, stored_as
from outlast.state.scalars import Node
from outlast.state.snapshot import LeafTable, Snapshot, tree_bytes

LEAVES, TREE = "@leaves", "@tree"
_MIB = 1 << 20
_SMALL_PIECES = 4096  # small leaves are gathered in about so many pieces at most
_WIDEST = 10**15  # the head leaves room for any size of the tree

Range = tuple[int, int]  # first byte, one past the last


@dataclass(frozen=True, slots=True, eq=False)
class ImageLayout:
    """Where everything lies in an image. Offsets count from its first byte; `offsets` is by leaf index."""

    table: LeafTable
    entries: tuple[str, ...]
    head_bytes: int
    order: tuple[int, ...]
    offsets: tuple[int, ...]
    leaves_json: bytes
    leaves_at: int
    tree_at: int
    pieces: tuple[Range, ...]  # up to the tree
    chunk_bytes: int

    def head(self, tree: bytes) -> bytes:
        """The head of the image that ends in this tree."""
        start = self.tree_at - self.head_bytes
        last = entry(TREE, "U8", [len(tree)], start, start + len(tree))
        return header([*self.entries, last], room=self.head_bytes)

    def all_pieces(self, tree: bytes) -> list[Range]:
        """The pieces of the image that ends in this tree, in order, without gaps."""
        return [*self.pieces, *_chunks(self.tree_at, self.tree_at + len(tree), self.chunk_bytes)]


def lay_out(table: LeafTable) -> ImageLayout:
    """The layout of the images of a state. Wide elements come first, so that each tensor is aligned to its element."""
    stored = [stored_as(spec, size) for spec, size in zip(table.specs, table.sizes, strict=True)]
    order = tuple(sorted(range(len(stored)), key=lambda index: -stored[index][1]))
    starts, entries, position = [0] * len(stored), [], 0
    for index in order:
        dtype, _, shape = stored[index]
        starts[index] = position
        entries.append(entry(table.names[index], dtype, shape, position, position + table.sizes[index]))
        position += table.sizes[index]
    leaves = _table_json(table, starts)
    entries.append(entry(LEAVES, "U8", [len(leaves)], position, position + len(leaves)))
    head_bytes = len(header([*entries, entry(TREE, "U8", [_WIDEST], _WIDEST, _WIDEST)]))
    offsets = tuple(head_bytes + start for start in starts)
    leaves_at = head_bytes + position
    tree_at = leaves_at + len(leaves)
    chunk = _MIB if tree_at <= 1024 * _MIB else 2 * _MIB if tree_at <= 4096 * _MIB else 4 * _MIB
    ordered = [(offsets[index], offsets[index] + table.sizes[index]) for index in order if table.sizes[index]]
    pieces = [*_chunks(0, head_bytes, chunk), *_gathered(ordered, chunk), *_chunks(leaves_at, tree_at, chunk)]
    return ImageLayout(
        table=table,
        entries=tuple(entries),
        head_bytes=head_bytes,
        order=order,
        offsets=offsets,
        leaves_json=leaves,
        leaves_at=leaves_at,
        tree_at=tree_at,
        pieces=tuple(pieces),
        chunk_bytes=chunk,
    )


def _table_json(table: LeafTable, starts: Sequence[int]) -> bytes:
    """Offsets in it count from the first byte of data, whose own place depends on the head's size."""
    rows = [
        [name, spec.framework, spec.dtype, list(spec.shape), dict(spec.extra), start, size]
        for name, spec, start, size in zip(table.names, table.specs, starts, table.sizes, strict=True)
    ]
    return json.dumps(rows, separators=(",", ":"), allow_nan=False).encode()


def _chunks(start: int, end: int, size: int) -> list[Range]:
    return [(at, min(at + size, end)) for at in range(start, end, size)]


def _gathered(leaves: list[Range], chunk: int) -> Iterator[Range]:
    """Pieces of leaves in order: large ones are cut, small neighbours gathered; borders are borders of leaves."""
    total = leaves[-1][1] - leaves[0][0] if leaves else 0
    enough = min(max(total // _SMALL_PIECES, 4096), chunk // 4)
    begun: int | None = None
    for start, end in leaves:
        if end - start >= enough:
            if begun is not None:
                yield begun, start
            begun = None
            yield from _chunks(start, end, chunk)
            continue
        begun = start if begun is None else begun
        if end - begun >= enough:
            yield begun, end
            begun = None
    if begun is not None:
        yield begun, leaves[-1][1]


class Image(Protocol):
    """The bytes of an image, wherever they are."""

    @property
    def layout(self) -> ImageLayout: ...

    @property
    def tree(self) -> bytes:
        """The tree as it is stored."""
        ...

    def views(self, start: int, end: int) -> Iterator[memoryview]:
        """The bytes of a range, in order; valid until the next view is asked for."""
        ...


def size_of(image: Image) -> int:
    """The bytes of a whole image."""
    return image.layout.tree_at + len(image.tree)


class LiveImage:
    """An image that is never put together: its leaves are the program's own memory, which must stand still."""

    def __init__(self, layout: ImageLayout, snapshot: Snapshot) -> None:
        self.layout, self._snapshot = layout, snapshot
        self.tree = tree_bytes(snapshot.tree)
        self._head = layout.head(self.tree)
        self._starts = [layout.offsets[index] for index in layout.order]
        self._kept = threading.local()

    def _data(self, index: int) -> memoryview:
        """A leaf's bytes. Where they take a copy, each thread makes one for all pieces that follow one another."""
        kept: tuple[int, memoryview] | None = getattr(self._kept, "leaf", None)
        if kept is None or kept[0] != index:
            kept = self._kept.leaf = (index, self._snapshot.data(index))
        return kept[1]

    def views(self, start: int, end: int) -> Iterator[memoryview]:
        layout = self.layout
        parts = ((0, self._head), (layout.leaves_at, layout.leaves_json), (layout.tree_at, self.tree))
        yield from _within(*parts[0], start, end)
        if self._starts:
            first = max(bisect_right(self._starts, start) - 1, 0)
            for number in range(first, len(self._starts)):
                if self._starts[number] >= end:
                    break
                index = layout.order[number]
                if self._starts[number] + layout.table.sizes[index] > start:
                    yield from _within(self._starts[number], self._data(index), start, end)
        yield from _within(*parts[1], start, end)
        yield from _within(*parts[2], start, end)


class CopiedImage:
    """An image in a buffer of its own, so that the program may go on. `memory` ends where the tree begins."""

    def __init__(self, layout: ImageLayout, memory: memoryview, tree: Mapping[str, Node]) -> None:
        self.layout, self.tree, self._memory = layout, tree_bytes(tree), memory
        memory[: layout.head_bytes] = layout.head(self.tree)
        memory[layout.leaves_at : layout.tree_at] = layout.leaves_json

    def views(self, start: int, end: int) -> Iterator[memoryview]:
        if start < self.layout.tree_at:
            yield self._memory[start : min(end, self.layout.tree_at)]
        yield from _within(self.layout.tree_at, self.tree, start, end)


def _within(at: int, data: bytes | memoryview, start: int, end: int) -> Iterator[memoryview]:
    """What of some bytes that lie at `at` is in a range."""
    low, high = max(start - at, 0), min(end - at, len(data))
    if low < high:
        yield memoryview(data)[low:high]
