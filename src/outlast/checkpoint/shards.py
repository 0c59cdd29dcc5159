"""Reading any box of an array that is divided among the images of a checkpoint's ranks."""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from outlast.checkpoint.record import LeafPlace
from outlast.errors import CheckpointCorrupt
from outlast.sharding import Box, covers
from outlast.state.scalars import Node
from outlast.state.sharded import Saved
from outlast.threads import in_parallel, nothing

_BLOCK_BYTES = 16 << 20  # so much of a leaf is in memory at once, and what its pieces have beyond it

ReadPart = Callable[[int, int, int], memoryview]  # the bytes of a leaf: leaf, first byte, how many


@dataclass(frozen=True, slots=True)
class Stored:
    """One image: its tree, its leaves, and what reads a part of one of those, verified."""

    tree: dict[str, Any]
    leaves: Sequence[LeafPlace]
    read: ReadPart


@dataclass(frozen=True, slots=True)
class _Source:
    image: Stored
    leaf: int
    saved: Saved
    box: Box

    @property
    def bytes(self) -> int:
        return self.image.leaves[self.leaf].bytes


class Shards:
    """The divided arrays of all images, found when first asked for. `images`: this process's own comes first."""

    def __init__(self, images: Callable[[], Iterable[Stored]], *, threads: int) -> None:
        self._images, self._threads = images, threads
        self._found: dict[str, list[_Source]] | None = None

    def read(self, node: Node, own: Stored, wanted: Box) -> memoryview:
        """The bytes of a box, in fresh memory: of the array of this node, which stands in the own image's tree.

        Raises CheckpointCorrupt where the images do not hold all of it, or not the same array; StoreUnreachable.
        """
        saved = Saved.of(node, lambda leaf: own.leaves[leaf].spec)
        if node["$"] == "array":
            sources = [_Source(own, node["leaf"], saved, saved.boxes[0])]
            name = own.leaves[node["leaf"]].name
        else:
            name = str(node["name"])
            sources = self._sources(name, saved)
        return _filled(name, sources, wanted, self._threads)

    def element_bytes(self, node: Node, own: Stored) -> int:
        """The size of an element of a divided array; 1 where it has none."""
        saved = Saved.of(node, lambda leaf: own.leaves[leaf].spec)
        sources = self._sources(str(node["name"]), saved)
        return max((source.bytes // source.box.elements for source in sources), default=1)

    def _sources(self, name: str, asked: Saved) -> list[_Source]:
        """One for each box, of the first image that has it."""
        if self._found is None:
            self._found = _index(self._images())
        found: dict[Box, _Source] = {}
        for source in self._found.get(name, ()):
            said = source.saved
            if (said.framework, said.dtype, said.shape) != (asked.framework, asked.dtype, asked.shape):
                raise CheckpointCorrupt(f"{name} is {asked.dtype}{list(asked.shape)} on one rank and not on another")
            if source.box.elements:
                found.setdefault(source.box, source)
        return list(found.values())


def sharded_nodes(node: Node) -> Iterator[dict[str, Any]]:
    """The nodes of divided arrays in a tree."""
    if isinstance(node, dict):
        if node.get("$") == "sharded":
            yield node
        else:
            for inner in node.values():
                yield from sharded_nodes(inner)
    elif isinstance(node, list):
        for inner in node:
            yield from sharded_nodes(inner)


def _index(images: Iterable[Stored]) -> dict[str, list[_Source]]:
    found: dict[str, list[_Source]] = {}
    for image in images:
        try:
            for node in sharded_nodes(image.tree["parts"]):
                saved = Saved.of(node, lambda leaf, leaves=image.leaves: leaves[leaf].spec)  # type: ignore[misc]  # the default has no type
                found.setdefault(str(node["name"]), []).extend(
                    _Source(image, leaf, saved, box) for leaf, box in zip(saved.leaves, saved.boxes, strict=True)
                )
        except (KeyError, TypeError, ValueError, IndexError, AttributeError, RecursionError) as error:
            raise CheckpointCorrupt(f"the tree of a rank makes no sense: {error!r}") from error
    return found


def _filled(name: str, sources: Sequence[_Source], wanted: Box, threads: int) -> memoryview:
    shares = [(source, common) for source in sources if (common := source.box.overlap(wanted)) is not None]
    if not covers(wanted.shape, [common.within(wanted) for _, common in shares]):
        raise CheckpointCorrupt(f"{name}: the ranks do not hold all of {list(wanted.shape)} from {list(wanted.at)} on")
    widths = {source.bytes / source.box.elements for source, _ in shares}
    if len(widths) > 1 or not all(width.is_integer() for width in widths):
        raise CheckpointCorrupt(f"{name}: the ranks hold elements of different sizes")
    width = int(widths.pop()) if widths else 1
    memory = memoryview(bytearray(wanted.elements * width))
    tasks = [task for source, common in shares for task in _tasks(source, common, wanted, width, memory)]
    in_parallel(tasks, threads=min(threads, len(tasks)) or 1, meanwhile=nothing)
    return memory


def _tasks(source: _Source, common: Box, wanted: Box, width: int, memory: memoryview) -> Iterator[Callable[[], None]]:
    """What copies the common part, a block at a time."""
    block: list[tuple[int, int, int]] = []
    for run in _runs(source.box, wanted, common, width):
        if block and run[0] + run[2] - block[0][0] > _BLOCK_BYTES:
            yield partial(_copy, source, block, memory)
            block = []
        block.append(run)
    if block:
        yield partial(_copy, source, block, memory)


def _copy(source: _Source, runs: Sequence[tuple[int, int, int]], memory: memoryview) -> None:
    first, last = runs[0][0], runs[-1][0] + runs[-1][2]
    data = source.image.read(source.leaf, first, last - first)
    for start, target, size in runs:
        memory[target : target + size] = data[start - first : start - first + size]


def _runs(source: Box, target: Box, common: Box, width: int) -> Iterator[tuple[int, int, int]]:
    """(first byte in the source, in the target, bytes) of what lies together in both, in order; none is large."""
    split = len(common.shape)  # the dimensions from here on are whole in both
    while split and common.shape[split - 1] == source.shape[split - 1] == target.shape[split - 1]:
        split -= 1
    inner = math.prod(common.shape[split:]) * width
    if split == 0:
        yield from _cut(0, 0, inner)
        return
    outer, rows = common.shape[: split - 1], common.shape[split - 1]
    steps = [_steps(box.shape, width) for box in (source, target)]
    for number in range(math.prod(outer)):
        place, rest = [0] * len(outer), number
        for dimension in reversed(range(len(outer))):
            rest, place[dimension] = divmod(rest, outer[dimension])
        place.append(0)
        starts = [
            sum((at + first - own) * step for at, first, own, step in zip(place, common.at, box.at, each, strict=False))
            for box, each in zip((source, target), steps, strict=True)
        ]
        yield from _cut(starts[0], starts[1], rows * inner)


def _steps(shape: Sequence[int], width: int) -> list[int]:
    """How many bytes lie between neighbours in each dimension."""
    steps = [width]
    for size in reversed(shape[1:]):
        steps.append(steps[-1] * size)
    return steps[::-1]


def _cut(source: int, target: int, size: int) -> Iterator[tuple[int, int, int]]:
    for at in range(0, size, _BLOCK_BYTES):
        yield source + at, target + at, min(_BLOCK_BYTES, size - at)
