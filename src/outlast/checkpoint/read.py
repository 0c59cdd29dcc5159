"""Reading a checkpoint: every byte is verified before anything is believed."""

import json
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import xxhash

from outlast.checkpoint.record import CommitRecord, LeafRecord, Piece, load_record
from outlast.errors import CheckpointCorrupt, ObjectMissing, StoreUnreachable
from outlast.ports import ArraySpec, OpenObject, Store

_CHUNK_BYTES = 8 << 20


def _never() -> None:
    return None


@dataclass(frozen=True, slots=True)
class Refusal:
    """A checkpoint that was passed over; `unreachable` when the storage failed rather than the content."""

    name: str
    reason: str
    unreachable: bool


class OpenCheckpoint:
    """A verified checkpoint, its files open."""

    def __init__(self, record: CommitRecord, files: Sequence[OpenObject]) -> None:
        self.record = record
        self._files = files
        self._parsed: dict[str, Any] = self._tree()

    @property
    def tree(self) -> dict[str, Any]:
        """The tree of the state."""
        return self._parsed

    @property
    def specs(self) -> list[ArraySpec]:
        """What each leaf is."""
        return [leaf.spec for leaf in self.record.leaves]

    def load(self, leaves: Collection[int], targets: Mapping[int, memoryview]) -> None:
        """Reads leaves, verified, those in `targets` straight to there."""
        for index in leaves:
            data = self.read_leaf(index)
            if index in targets:
                targets[index][:] = data

    def read_leaf(self, index: int) -> memoryview:
        """The bytes of a leaf, verified once more as they are read."""
        leaf = self.record.leaves[index]
        data = memoryview(bytearray(leaf.bytes))
        position = 0
        for piece in leaf.pieces:
            part = data[position : position + piece.bytes]
            self._files[piece.file].read_into(piece.offset, part)
            if xxhash.xxh3_128_hexdigest(part) != piece.digest:
                raise CheckpointCorrupt(f"{_where(self.record, piece)}: leaf {leaf.name} does not fit its digest")
            position += piece.bytes
        return data

    def _tree(self) -> dict[str, Any]:
        try:
            tree = json.loads(bytes(self.read_leaf(self.record.trees[0])))
        except (ValueError, RecursionError) as error:
            raise CheckpointCorrupt(f"the tree of step {self.record.step} is not readable: {error}") from error
        if not isinstance(tree, dict):
            raise CheckpointCorrupt(f"the tree of step {self.record.step} is not a tree")
        return tree


@contextmanager
def open_checkpoint(
    store: Store, name: str, *, between_chunks: Callable[[], None] = _never
) -> Iterator[OpenCheckpoint]:
    """A checkpoint by its commit record, all of it verified; `between_chunks` may raise to give up early.

    Raises CheckpointCorrupt, ObjectMissing or StoreUnreachable, each naming the file and what is wrong.
    """
    record = load_record(store, name)
    with _opened(store, record) as files:
        for leaf in record.leaves:
            _verify_leaf(record, leaf, files, between_chunks)
        yield OpenCheckpoint(record, files)


def verify_data(store: Store, record: CommitRecord) -> None:
    """Reads all data of a record back; raises CheckpointCorrupt naming the first leaf that does not fit."""
    with _opened(store, record) as files:
        for leaf in record.leaves:
            _verify_leaf(record, leaf, files, _never)


def refusal(store: Store, name: str) -> Refusal | None:
    """Why a checkpoint does not verify, or None if it does."""
    try:
        verify_data(store, load_record(store, name))
    except (CheckpointCorrupt, ObjectMissing) as error:
        return Refusal(name, str(error), unreachable=False)
    except StoreUnreachable as error:
        return Refusal(name, str(error), unreachable=True)
    return None


@contextmanager
def _opened(store: Store, record: CommitRecord) -> Iterator[list[OpenObject]]:
    with ExitStack() as stack:
        files = []
        for file in record.files:
            opened = stack.enter_context(store.open(file.name))
            if opened.bytes != file.bytes:
                raise CheckpointCorrupt(f"{file.name} has {opened.bytes} bytes instead of {file.bytes}")
            files.append(opened)
        yield files


def _verify_leaf(
    record: CommitRecord, leaf: LeafRecord, files: Sequence[OpenObject], between_chunks: Callable[[], None]
) -> None:
    for piece in leaf.pieces:
        running = xxhash.xxh3_128()
        buffer = memoryview(bytearray(min(piece.bytes, _CHUNK_BYTES)))
        done = 0
        while done < piece.bytes:
            between_chunks()
            part = buffer[: min(piece.bytes - done, _CHUNK_BYTES)]
            files[piece.file].read_into(piece.offset + done, part)
            running.update(part)
            done += len(part)
        if running.hexdigest() != piece.digest:
            raise CheckpointCorrupt(f"{_where(record, piece)}: leaf {leaf.name} does not fit its digest")


def _where(record: CommitRecord, piece: Piece) -> str:
    return record.files[piece.file].name
