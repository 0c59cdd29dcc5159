"""Whether the state of a checkpoint is the same on all its ranks, so that another number of them can go on from it."""

from bisect import bisect_right
from itertools import accumulate
from typing import Any

from outlast.checkpoint.read import OpenCheckpoint, open_image
from outlast.checkpoint.record import CommitRecord, LeafPlace, Piece, RankImage
from outlast.checkpoint.shards import sharded_nodes
from outlast.errors import CheckpointCorrupt, StateMismatch
from outlast.ports import Store
from outlast.sharding import Box, covers
from outlast.state.sharded import Saved

_OF_THE_WHOLE = ("framework", "name", "dtype", "shape")  # what all ranks say alike of an array that they share


def image_for(record: CommitRecord, rank: int) -> int:
    """The image that a rank goes on from: its own, or the first, where there was no such rank."""
    return rank if rank < len(record.images) else 0


def refuse_other_ranks(store: Store, record: CommitRecord, size: int) -> None:
    """Raises StateMismatch where a checkpoint of another number of ranks cannot be gone on from by `size` of them.

    That takes a state that is equal on all that saved it, but for arrays that were divided among them: of those they
    must hold all. Nothing is compared where the numbers are the same. Raises CheckpointCorrupt for what makes no sense.
    """
    there = len(record.images)
    if there == size:
        return
    said = f"the checkpoint of step {record.step} is of {_ranks(there)}, and this is a job of {_ranks(size)}"
    advice = f'Nothing was done. Start {_ranks(there)} again, or begin a new run: resume="none"'
    with open_image(store, record, 0) as first:
        if first.tree["loop"]["batch"]:
            raise StateMismatch(
                f"{said}: it was saved in the middle of an epoch, whose samples were divided among {there}; the rest "
                f"cannot be divided anew without losing or repeating some. {advice}"
            )
        divided = _Divided()
        divided.note(first)
        for image in record.images[1:]:
            with open_image(store, record, image.rank) as other:
                path = _Comparison(record, first, other, image).difference()
                divided.note(other)
            if path is not None:
                raise StateMismatch(
                    f"{said}: {path} is not the same on rank 0 and on rank {image.rank}, so nobody can know what it "
                    f"would be on others. {advice}"
                )
    divided.check()


def _ranks(count: int) -> str:
    return f"{count} ranks" if count > 1 else "1 process"


class _Divided:
    """The boxes of divided arrays that the ranks hold, by the array's name."""

    def __init__(self) -> None:
        self._boxes: dict[str, tuple[tuple[int, ...], list[Box]]] = {}
        self._good: set[tuple[object, ...]] = set()  # most arrays are divided alike

    def note(self, opened: OpenCheckpoint) -> None:
        """Those of one rank."""
        try:
            for node in sharded_nodes(opened.tree["parts"]):
                saved = Saved.of(node, lambda leaf: opened.leaves[leaf].spec)
                self._boxes.setdefault(str(node["name"]), (saved.shape, []))[1].extend(saved.boxes)
        except (KeyError, TypeError, ValueError, IndexError) as error:
            raise CheckpointCorrupt(f"the tree of rank {opened.rank} makes no sense: {error!r}") from error

    def check(self) -> None:
        """Raises CheckpointCorrupt for an array that nobody can put together."""
        for name, (shape, boxes) in self._boxes.items():
            if (shape, *boxes) in self._good:
                continue
            if not covers(shape, boxes):
                raise CheckpointCorrupt(f"{name}: the parts that the ranks hold do not make up {list(shape)}")
            self._good.add((shape, *boxes))


class _Comparison:
    """Of one rank's state with that of the first."""

    def __init__(
        self, record: CommitRecord, first: OpenCheckpoint, other: OpenCheckpoint, other_image: RankImage
    ) -> None:
        self._first, self._other = first, other
        self._images = (record.image_of(0), other_image)
        self._ends = [list(accumulate(piece.bytes for piece in image.pieces)) for image in self._images]

    def difference(self) -> str | None:
        """The path of the first thing in the state that differs; None where nothing does."""
        return self._node(self._first.tree["parts"], self._other.tree["parts"], "state")

    def _node(self, mine: Any, theirs: Any, path: str) -> str | None:
        if isinstance(mine, dict) and isinstance(theirs, dict):
            if mine.keys() != theirs.keys():
                return path
            if mine.get("$") == "sharded" == theirs.get("$"):
                return None if self._same_array(mine, theirs) else path
            pairs = [(mine[key], theirs[key], f"{path}[{key!r}]") for key in mine if key != "leaf" or "$" not in mine]
            if "leaf" in mine and "$" in mine and not self._same_leaf(mine["leaf"], theirs["leaf"]):
                return self._first.leaves[mine["leaf"]].name
        elif isinstance(mine, list) and isinstance(theirs, list):
            if len(mine) != len(theirs):
                return path
            pairs = [(one, two, f"{path}[{at}]") for at, (one, two) in enumerate(zip(mine, theirs, strict=True))]
        else:
            return None if type(mine) is type(theirs) and mine == theirs else path
        return next((found for one, two, at in pairs if (found := self._node(one, two, at)) is not None), None)

    def _same_array(self, mine: dict[str, Any], theirs: dict[str, Any]) -> bool:
        """Whether both hold parts of one array; the same part must be the same on both."""
        if any(mine[key] != theirs[key] for key in _OF_THE_WHOLE):
            return False
        if mine["boxes"] != theirs["boxes"]:
            return True
        return all(self._same_leaf(one["leaf"], two["leaf"]) for one, two in zip(mine["v"], theirs["v"], strict=True))

    def _same_leaf(self, mine: int, theirs: int) -> bool:
        one, two = self._first.leaves[mine], self._other.leaves[theirs]
        if (one.name, one.bytes, one.spec.dtype, one.spec.shape) != (
            two.name,
            two.bytes,
            two.spec.dtype,
            two.spec.shape,
        ):
            return False
        cuts = [_cut(*each) for each in zip((one, two), self._images, self._ends, strict=True)]
        return cuts[0] == cuts[1] or self._first.stored_leaf(mine) == self._other.stored_leaf(theirs)


def _cut(leaf: LeafPlace, image: RankImage, ends: list[int]) -> list[tuple[int, str]]:
    """The pieces that a leaf lies in: where each begins from the leaf's first byte, and what it holds."""
    found, number = [], bisect_right(ends, leaf.offset)
    while number < len(ends) and ends[number] - image.pieces[number].bytes < leaf.offset + leaf.bytes:
        piece: Piece = image.pieces[number]
        found.append((ends[number] - piece.bytes - leaf.offset, piece.digest))
        number += 1
    return found
