"""A state at one moment: a tree of nodes, and leaves of raw bytes that still share the program's memory."""

import itertools
import json
import weakref
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from outlast.ports import ArraySpec, Framework
from outlast.state.scalars import Node

# memoryview copies hold the GIL; pieces of this size keep a signal heard within 0.1 s.
_PIECE_BYTES = 16 * 1024 * 1024


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

    def says_the_same(self, other: "LeafTable") -> bool:
        """Whether both tell the same of the same leaves."""
        return self.names == other.names and self.sizes == other.sizes and self.specs == other.specs

    def with_rest(self, count: int, rest: "LeafTable") -> "LeafTable":
        """The first `count` leaves of this one and then those; the very same table where that changes nothing."""
        if self.names[count:] == rest.names and self.sizes[count:] == rest.sizes and self.specs[count:] == rest.specs:
            return self
        return LeafTable(
            self.names[:count] + rest.names, self.specs[:count] + rest.specs, self.sizes[:count] + rest.sizes
        )


@dataclass(frozen=True, slots=True, eq=False)
class Pile:
    """Leaves that are copied together: arrays of one framework, or memory (None). `leaves` are their indices."""

    framework: Framework | None
    leaves: tuple[int, ...]
    values: Sequence[Any]

    def only(self, wanted: Sequence[bool]) -> "Pile":
        """Those of them that are wanted."""
        leaves = tuple(itertools.compress(self.leaves, wanted))
        return Pile(self.framework, leaves, list(itertools.compress(self.values, wanted)))

    def data(self, position: int) -> memoryview:
        """The bytes of one of them."""
        value = self.values[position]
        return self.framework.buffer(value) if self.framework else memoryview(value)


@dataclass(slots=True)
class _Views:
    """What the frameworks made of one buffer, pile by pile. `leaves`: those of the piles."""

    table: LeafTable
    offsets: tuple[int, ...]
    leaves: list[tuple[int, ...]]
    made: list[Any]

    def serves(self, table: LeafTable, offsets: tuple[int, ...], leaves: list[tuple[int, ...]]) -> bool:
        """Whether these are the views for such a copy."""
        return self.table is table and self.offsets == offsets and self.leaves == leaves


@dataclass(slots=True)
class Images:
    """Typed views on the buffers that snapshots are copied into, kept from one save to the next.

    They are kept as long as the very memoryview object that `copy_into` was given is alive, and no longer, so that
    whoever owns the memory can give it back.
    """

    _views: dict[tuple[int, str], tuple[weakref.ref[memoryview], _Views]] = field(default_factory=dict)

    def views(
        self, table: LeafTable, piles: Sequence[Pile], buffer: memoryview, offsets: Sequence[int], *, share: str
    ) -> list[Any]:
        """The views that `Framework.copy_many` needs, for each pile; `share` tells those of a split snapshot apart."""
        places, leaves = tuple(offsets), [pile.leaves for pile in piles]
        kept = self._views.get((id(buffer), share))
        if kept is not None and kept[0]() is buffer and kept[1].serves(table, places, leaves):
            return kept[1].made
        made = [_views_of(pile, table, memoryview(buffer), places) for pile in piles]
        key, held = (id(buffer), share), self._views
        reference = weakref.ref(buffer, lambda gone: _drop(held, key, gone))
        held[key] = (reference, _Views(table, places, leaves, made))
        return made


def _drop(
    held: dict[tuple[int, str], tuple[weakref.ref[memoryview], _Views]],
    key: tuple[int, str],
    gone: weakref.ref[memoryview],
) -> None:
    # Another buffer may have come to the same id since.
    if key in held and held[key][0] is gone:
        del held[key]


def _views_of(pile: Pile, table: LeafTable, buffer: memoryview, offsets: Sequence[int]) -> Any:
    if pile.framework is None:
        return [buffer[offsets[index] : offsets[index] + table.sizes[index]] for index in pile.leaves]
    specs = [table.specs[index] for index in pile.leaves]
    return pile.framework.views(buffer, specs, [offsets[index] for index in pile.leaves])


@dataclass(frozen=True, eq=False)
class Snapshot:
    """A state at one moment: `tree` as JSON nodes that refer to leaves by index; `table` says what those are.

    Its bytes are the program's own memory: it is good only until the program goes on, and must be let go then.
    """

    tree: Mapping[str, Node]
    table: LeafTable
    piles: Sequence[Pile]
    images: Images = field(default_factory=Images)
    share: str = "all"

    @cached_property
    def bytes(self) -> int:
        """The size of all leaves."""
        return sum(self.table.sizes)

    @cached_property
    def leaves(self) -> tuple[Leaf, ...]:
        """All leaves with their bytes."""
        names, specs = self.table.names, self.table.specs
        return tuple(Leaf(names[index], specs[index], self.data(index)) for index in range(len(names)))

    @cached_property
    def _places(self) -> dict[int, tuple[Pile, int]]:
        return {leaf: (pile, position) for pile in self.piles for position, leaf in enumerate(pile.leaves)}

    def data(self, index: int) -> memoryview:
        """The bytes of a leaf, without a copy where its memory allows."""
        pile, position = self._places[index]
        return pile.data(position)

    def split_lazily(self, framework: str, places: Collection[int]) -> tuple["Snapshot", "Snapshot"]:
        """What must be copied at once, and the arrays of a framework that lie at these places.

        Both have the whole tree and table, and copy only their own share.
        """
        now: list[Pile] = []
        later: list[Pile] = []
        for pile in self.piles:
            if pile.framework is None or pile.framework.name != framework:
                now.append(pile)
                continue
            waits = [place in places for place in pile.framework.places(pile.values)]
            now.append(pile.only([not one for one in waits]))
            later.append(pile.only(waits))
        return (
            replace(self, piles=[pile for pile in now if pile.leaves], share="at once"),
            replace(self, piles=[pile for pile in later if pile.leaves], share="later"),
        )

    def prepare(self, buffer: memoryview, offsets: Sequence[int]) -> list[Any]:
        """Makes the views on a buffer, so that the first copy takes no longer than the later ones."""
        return self.images.views(self.table, self.piles, buffer, offsets, share=self.share)

    def copy_into(self, buffer: memoryview, offsets: Sequence[int]) -> None:
        """Copies every leaf to its offset (by leaf index) in a writable buffer of bytes.

        Fast for a buffer that was prepared, or used before, as the same memoryview object and with the same table and
        offsets: views of it are kept.
        """
        for pile, targets in zip(self.piles, self.prepare(buffer, offsets), strict=True):
            if pile.framework is not None:
                pile.framework.copy_many(targets, pile.values)
            else:
                for target, value in zip(targets, pile.values, strict=True):
                    _copy(target, value)


def _copy(target: memoryview, source: memoryview) -> None:
    for start in range(0, len(source), _PIECE_BYTES):
        target[start : start + _PIECE_BYTES] = source[start : start + _PIECE_BYTES]


def raw_spec(data: memoryview) -> ArraySpec:
    """Bytes that are nothing more."""
    return ArraySpec("raw", "uint8", (len(data),))


def tree_bytes(tree: Mapping[str, Node]) -> bytes:
    """The tree as JSON."""
    return json.dumps(tree, separators=(",", ":"), allow_nan=False).encode()
