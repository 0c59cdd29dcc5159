"""A state at one moment: a tree of nodes, and leaves of raw bytes that still share the program's memory."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from outlast.ports import ArraySpec
from outlast.state.scalars import Node


@dataclass(frozen=True, slots=True)
class Leaf:
    """Raw bytes with what they are; `data` may share memory with the program until the snapshot is persisted."""

    name: str
    spec: ArraySpec
    data: memoryview


@dataclass(frozen=True, slots=True, eq=False)
class LeafTable:
    """What the leaves of a snapshot are, by leaf index. Sizes in bytes.

    A snapshot has the very table of the one before when nothing about it changed, so that what was worked out from
    it (a file's layout, its header) can be kept.
    """

    names: tuple[str, ...]
    specs: tuple[ArraySpec, ...]
    sizes: tuple[int, ...]


@dataclass(frozen=True)
class Snapshot:
    """A state at one moment: `tree` as JSON nodes that refer to `leaves` by index."""

    tree: Mapping[str, Node]
    leaves: tuple[Leaf, ...]

    @property
    def bytes(self) -> int:
        """The size of all leaves."""
        return sum(len(leaf.data) for leaf in self.leaves)

    @cached_property
    def table(self) -> LeafTable:
        """What the leaves are."""
        return LeafTable(
            tuple(leaf.name for leaf in self.leaves),
            tuple(leaf.spec for leaf in self.leaves),
            tuple(len(leaf.data) for leaf in self.leaves),
        )

    def data(self, index: int) -> memoryview:
        """The bytes of a leaf, without a copy where its memory allows."""
        return self.leaves[index].data

    def copy_into(self, buffer: memoryview, offsets: Sequence[int]) -> None:
        """Copies every leaf to its offset (by leaf index) in a writable buffer of bytes."""
        for leaf, offset in zip(self.leaves, offsets, strict=True):
            buffer[offset : offset + len(leaf.data)] = leaf.data


def raw_spec(data: memoryview) -> ArraySpec:
    """Bytes that are nothing more."""
    return ArraySpec("raw", "uint8", (len(data),))


def tree_bytes(tree: Mapping[str, Node]) -> bytes:
    """The tree as JSON."""
    return json.dumps(tree, separators=(",", ":"), allow_nan=False).encode()
