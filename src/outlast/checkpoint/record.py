"""The commit record: one small object per checkpoint, written last, that lists all a reader needs."""

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from outlast.checkpoint.places import FORMAT
from outlast.checkpoint.sealed import DIGEST, digest, load_sealed, seal
from outlast.errors import CheckpointCorrupt
from outlast.ports import ArraySpec, Store


@dataclass(frozen=True, slots=True)
class Piece:
    """A run of bytes of one leaf: `file` indexes the record's files; `offset` and `bytes` lie within it."""

    file: int
    offset: int
    bytes: int
    digest: str


@dataclass(frozen=True, slots=True)
class LeafRecord:
    """One leaf: what it is, and the pieces that its bytes are made of, in order.

    The pieces may lie in files of several checkpoints, so that what did not change need not be written again.
    """

    name: str
    spec: ArraySpec
    pieces: tuple[Piece, ...]

    @property
    def bytes(self) -> int:
        return sum(piece.bytes for piece in self.pieces)

    def holds(self, data: memoryview) -> bool:
        """Whether the leaf is these bytes."""
        position = 0
        for piece in self.pieces:
            if digest(data[position : position + piece.bytes]) != piece.digest:
                return False
            position += piece.bytes
        return position == len(data)


@dataclass(frozen=True, slots=True)
class DataFile:
    """A data object by its name in the store, and its whole size."""

    name: str
    bytes: int
    rank: int = 0


@dataclass(frozen=True, slots=True)
class CommitRecord:
    """A checkpoint. `step` counts completed steps; `trees` indexes the leaf that holds each rank's tree of state."""

    job: str
    run: str
    task: int
    step: int
    attempt: int
    sequence: int
    claim: str
    saved_at: str
    seconds: float
    total_bytes: int
    written_bytes: int
    files: tuple[DataFile, ...]
    leaves: tuple[LeafRecord, ...]
    trees: tuple[int, ...]
    digests: str = DIGEST
    pinned: bool = False
    metrics: Mapping[str, float] = field(default_factory=dict)

    def to_bytes(self) -> bytes:
        """The record as it is stored."""
        return seal({"format": FORMAT, **asdict(self)})


def load_record(store: Store, name: str) -> CommitRecord:
    """A commit record of a store; raises ObjectMissing, CheckpointCorrupt, StoreUnreachable."""
    fields = load_sealed(store, name)
    try:
        return _parsed(fields)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise CheckpointCorrupt(f"{name} is not a commit record of format {FORMAT}: {error!r}") from error


def _parsed(fields: dict[str, Any]) -> CommitRecord:
    if fields.pop("format") != FORMAT:
        raise ValueError("unknown format")
    files = tuple(DataFile(**one) for one in fields.pop("files"))
    leaves = tuple(_parsed_leaf(one, files) for one in fields.pop("leaves"))
    record = CommitRecord(files=files, leaves=leaves, trees=tuple(fields.pop("trees")), **fields)
    if record.digests != DIGEST:
        raise ValueError(f"its digests are {record.digests}")
    if not record.trees or not all(0 <= index < len(leaves) for index in record.trees):
        raise ValueError("its trees are not among its leaves")
    return record


def _parsed_leaf(fields: dict[str, Any], files: tuple[DataFile, ...]) -> LeafRecord:
    spec = fields["spec"]
    shape = tuple(int(size) for size in spec["shape"])
    pieces = tuple(Piece(**piece) for piece in fields["pieces"])
    if any(size < 0 for size in shape):
        raise ValueError(f"leaf {fields['name']} has a negative size")
    for piece in pieces:
        end = piece.offset + piece.bytes
        if min(piece.file, piece.offset, piece.bytes) < 0 or end > files[piece.file].bytes:
            raise ValueError(f"leaf {fields['name']} lies outside its file")
    leaf = LeafRecord(
        fields["name"],
        ArraySpec(spec["framework"], spec["dtype"], shape, spec["extra"]),
        pieces,
    )
    elements = math.prod(shape)
    if (elements == 0) != (leaf.bytes == 0) or (elements and leaf.bytes % elements):
        raise ValueError(f"leaf {leaf.name} has {leaf.bytes} bytes for shape {list(shape)}")
    return leaf
