"""Arrays that are divided among processes: which boxes of one are here, and what knows how to make one of them."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

Layout = Mapping[str, Any]


class Box(NamedTuple):
    """A part of an array: its first element and its size in each dimension."""

    at: tuple[int, ...]
    shape: tuple[int, ...]

    @classmethod
    def of_all(cls, shape: Sequence[int]) -> "Box":
        """The whole array of that shape."""
        return cls((0,) * len(shape), tuple(shape))

    @property
    def elements(self) -> int:
        """How many lie in it."""
        return math.prod(self.shape)

    def lies_in(self, shape: Sequence[int]) -> bool:
        """Whether it is a part of an array of that shape."""
        if not len(self.at) == len(self.shape) == len(shape):
            return False
        return all(at + size <= whole for at, size, whole in zip(self.at, self.shape, shape, strict=True))

    def within(self, other: "Box") -> "Box":
        """The same box, counted from the first element of one that it lies in."""
        return Box(tuple(at - first for at, first in zip(self.at, other.at, strict=True)), self.shape)

    def overlap(self, other: "Box") -> "Box | None":
        """What both have of one array; None for nothing."""
        at = tuple(map(max, self.at, other.at))
        ends = (
            min(one + size, two + other_size)
            for one, size, two, other_size in zip(self.at, self.shape, other.at, other.shape, strict=True)
        )
        shape = tuple(end - first for end, first in zip(ends, at, strict=True))
        return Box(at, shape) if all(size > 0 for size in shape) else None


@dataclass(frozen=True, slots=True)
class Sharding:
    """How an array is divided, and what of it this process holds.

    `shape` and `dtype` are those of the whole. `boxes`: one for each array of this process, in order; one may be empty.
    `layout` tells people and programs how the whole is divided, in JSON values. `extra` is that of the specs of this
    process's arrays; `held` what the framework makes such an array with, None for one that is here as a whole.
    """

    shape: tuple[int, ...]
    dtype: str
    boxes: tuple[Box, ...]
    layout: Layout = field(default_factory=dict)
    extra: Mapping[str, Any] = field(default_factory=dict, compare=False)
    held: Any = field(default=None, compare=False)

    @classmethod
    def whole(cls, shape: Sequence[int], dtype: str, extra: Mapping[str, Any]) -> "Sharding":
        """Of an array that is not divided."""
        return cls(tuple(shape), dtype, (Box.of_all(shape),), extra=extra)


class Sharder(Protocol):
    """What knows a framework's arrays that are divided among processes. It asks no other process for anything."""

    def sharding(self, value: Any) -> Sharding | None:
        """How an array of the framework is divided; None for one that is here as a whole.

        Raises ports.Unsupported for one whose values cannot be told from what the processes hold.
        """
        ...

    def arrays(self, value: Any) -> list[Any]:
        """This process's arrays, one for each box: they are the memory of the value."""
        ...

    def make(self, sharding: Sharding, arrays: Sequence[Any]) -> Any:
        """A divided array of these arrays of this process."""
        ...

    def like(self, known: Sharding, shape: Sequence[int], dtype: str) -> Sharding:
        """How an array of another shape is divided on the same processes, in the same way."""
        ...

    def expected(self, value: object) -> Mapping[str, Sharding]:
        """How the arrays will be divided that an object makes later, as an optimizer does with its moments.

        By the beginning of their key path below its state_dict. It holds for those of the same shape only.
        """
        ...

    def written_class(self, value: object) -> type:
        """The class that the program gave an object, where the framework has put another one in its place."""
        ...


def same_way(one: Layout, other: Layout) -> bool:
    """Whether two layouts divide alike, be it among another number of processes."""
    return one.get("placements") == other.get("placements") and _names(one) == _names(other)


def _names(layout: Layout) -> list[Any]:
    return [name for name, _ in layout.get("axes", ())]


def covers(shape: Sequence[int], boxes: Iterable[Box]) -> bool:
    """Whether boxes make up the whole array; the same one may be there several times, and no two others overlap."""
    found = sorted({box for box in boxes if box.elements})
    if not all(box.lies_in(shape) for box in found):
        return False
    if sum(box.elements for box in found) != math.prod(shape):
        return False
    return not any(
        one.overlap(other) for number, one in enumerate(found) for other in _may_meet(found[number + 1 :], one)
    )


def _may_meet(following: Sequence[Box], box: Box) -> Iterable[Box]:
    """Of boxes in the order of their first elements, those that begin before one ends in the first dimension."""
    end = box.at[0] + box.shape[0] if box.at else 1
    for other in following:
        if other.at and other.at[0] >= end:
            return
        yield other
