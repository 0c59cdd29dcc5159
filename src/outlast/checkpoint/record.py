"""The commit record: one small object per checkpoint, written last, that lists all a reader needs."""

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from outlast.checkpoint.places import FORMAT, CommitName, TaskPlace
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
        return _parsed(fields, name)
    except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
        raise CheckpointCorrupt(f"{name} is not a commit record of format {FORMAT}: {error!r}") from error


# Whoever can write to the store can write a record that fits its digest. So nothing in it is believed that could lead
# out of the task's own data, or cost more than the files are large.


def _parsed(fields: dict[str, Any], name: str) -> CommitRecord:
    if fields.pop("format") != FORMAT:
        raise ValueError("unknown format")
    files = tuple(DataFile(**_typed(one, name=str, bytes=int, rank=int)) for one in fields.pop("files"))
    leaves = tuple(_parsed_leaf(one, files) for one in fields.pop("leaves"))
    _typed(fields, claim=str, saved_at=str, total_bytes=int, written_bytes=int, trees=list, pinned=bool, metrics=dict)
    for number in (fields["seconds"], *fields["metrics"].values()):
        if type(number) not in (int, float):
            raise ValueError(f"{number!r} is not a number")
    trees = tuple(_whole(index) for index in fields.pop("trees"))
    record = CommitRecord(files=files, leaves=leaves, trees=trees, **fields)
    if record.digests != DIGEST:
        raise ValueError(f"its digests are {record.digests}")
    if not trees or max(trees) >= len(leaves):
        raise ValueError("its trees are not among its leaves")
    _check_places(record, name)
    return record


def _check_places(record: CommitRecord, name: str) -> None:
    place = TaskPlace(record.job, record.run, record.task)
    own = place.commit(CommitName(_whole(record.step), _whole(record.attempt), _whole(record.sequence)))
    if name != own:
        raise ValueError(f"it is a copy of {own}")
    for file in record.files:
        if place.data_of(file.name) is None:
            raise ValueError(f"{file.name!r} is no data file of this task")
    if sum(leaf.bytes for leaf in record.leaves) > sum(file.bytes for file in record.files):
        raise ValueError("its leaves overlap")


def _whole(number: Any) -> int:
    if type(number) is not int or number < 0:
        raise ValueError(f"{number!r} is not a whole number")
    return number


def _typed(fields: dict[str, Any], **kinds: type) -> dict[str, Any]:
    for name, kind in kinds.items():
        value = fields[name]
        if type(value) is not kind or (kind is int and fields[name] < 0):
            raise ValueError(f"{name} is {value!r}")
    return fields


def _parsed_leaf(fields: dict[str, Any], files: tuple[DataFile, ...]) -> LeafRecord:
    _typed(fields, name=str, spec=dict, pieces=list)
    spec = _typed(fields["spec"], framework=str, dtype=str, shape=list, extra=dict)
    shape = tuple(_whole(size) for size in spec["shape"])
    pieces = tuple(Piece(**_typed(one, file=int, offset=int, bytes=int, digest=str)) for one in fields["pieces"])
    for piece in pieces:
        if piece.offset + piece.bytes > files[piece.file].bytes:
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
