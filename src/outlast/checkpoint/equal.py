"""Whether the state of a checkpoint is the same on all its ranks, so that another number of them can go on from it."""

from bisect import bisect_right
from collections.abc import Iterator
from itertools import accumulate
from typing import Any

from outlast.checkpoint.read import OpenCheckpoint, open_image
from outlast.checkpoint.record import CommitRecord, LeafPlace, Piece, RankImage
from outlast.errors import StateMismatch
from outlast.ports import Store

_OF_THE_STATE = "state["  # the names of leaves begin so; others are of random states and loaders, a rank's own


def image_for(record: CommitRecord, rank: int) -> int:
    """The image that a rank goes on from: its own, or the first, where there was no such rank."""
    return rank if rank < len(record.images) else 0


def refuse_other_ranks(store: Store, record: CommitRecord, size: int) -> None:
    """Raises StateMismatch where a checkpoint of another number of ranks cannot be gone on from by `size` of them.

    That takes a state that is equal on all that saved it. Nothing is compared where the numbers are the same.
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
        for image in record.images[1:]:
            with open_image(store, record, image.rank) as other:
                path = _difference(record, first, other, image)
            if path is not None:
                raise StateMismatch(
                    f"{said}: {path} is not the same on rank 0 and on rank {image.rank}, so nobody can know what it "
                    f"would be on others. {advice}"
                )


def _ranks(count: int) -> str:
    return f"{count} ranks" if count > 1 else "1 process"


def _difference(
    record: CommitRecord, first: OpenCheckpoint, other: OpenCheckpoint, other_image: RankImage
) -> str | None:
    """The path of the first thing in the state that differs; None where nothing does."""
    path = _other_node(first.tree["parts"], other.tree["parts"], "state")
    if path is not None:
        return path
    first_image = record.image_of(0)
    ends = [list(accumulate(piece.bytes for piece in image.pieces)) for image in (first_image, other_image)]
    for number, (mine, theirs) in enumerate(zip(first.leaves, other.leaves, strict=False)):
        if not mine.name.startswith(_OF_THE_STATE):
            continue
        if (mine.name, mine.bytes, mine.spec.dtype, mine.spec.shape) != (
            theirs.name,
            theirs.bytes,
            theirs.spec.dtype,
            theirs.spec.shape,
        ):
            return mine.name
        same = _cut(mine, first_image, ends[0]) == _cut(theirs, other_image, ends[1])
        if not same and first.stored_leaf(number) != other.stored_leaf(number):
            return mine.name
    return None


def _cut(leaf: LeafPlace, image: RankImage, ends: list[int]) -> list[tuple[int, str]]:
    """The pieces that a leaf lies in: where each begins from the leaf's first byte, and what it holds."""
    found, number = [], bisect_right(ends, leaf.offset)
    while number < len(ends) and ends[number] - image.pieces[number].bytes < leaf.offset + leaf.bytes:
        piece: Piece = image.pieces[number]
        found.append((ends[number] - piece.bytes - leaf.offset, piece.digest))
        number += 1
    return found


def _other_node(mine: Any, theirs: Any, path: str) -> str | None:
    """Where two trees differ first."""
    if isinstance(mine, dict) and isinstance(theirs, dict):
        if mine.keys() != theirs.keys():
            return path
        pairs: Iterator[tuple[Any, Any, str]] = ((mine[key], theirs[key], f"{path}[{key!r}]") for key in mine)
    elif isinstance(mine, list) and isinstance(theirs, list):
        if len(mine) != len(theirs):
            return path
        pairs = ((one, two, f"{path}[{at}]") for at, (one, two) in enumerate(zip(mine, theirs, strict=True)))
    else:
        return None if type(mine) is type(theirs) and mine == theirs else path
    return next((found for one, two, at in pairs if (found := _other_node(one, two, at)) is not None), None)
