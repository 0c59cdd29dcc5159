"""The commit record: one small object per checkpoint, written last, that lists all a reader needs."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, NamedTuple

from outlast.checkpoint.places import FORMAT, CommitName, TaskPlace
from outlast.checkpoint.sealed import DIGEST, load_sealed, seal
from outlast.errors import CheckpointCorrupt
from outlast.ports import ArraySpec, Store

Range = tuple[int, int]  # first byte, number of bytes


@dataclass(frozen=True, slots=True)
class Piece:
    """A run of an image's bytes: `file` indexes the record's files; `offset` and `bytes` lie within it."""

    file: int
    offset: int
    bytes: int
    digest: str


class LeafPlace(NamedTuple):
    """One leaf: what it is, and where its bytes lie in the image."""

    name: str
    spec: ArraySpec
    offset: int
    bytes: int


@dataclass(frozen=True, slots=True)
class RankImage:
    """The image of one rank, put together from pieces of data files in order; see image.py.

    `data_at` is where the first leaf begins; `leaves` and `tree` are where the table and the tree lie. Checkpoints of
    format 1 have their table in the record: then it is `table`.
    """

    rank: int
    data_at: int
    leaves: Range
    tree: Range
    pieces: tuple[Piece, ...]
    table: tuple[LeafPlace, ...] | None = None

    @property
    def bytes(self) -> int:
        """The size of the image."""
        return sum(piece.bytes for piece in self.pieces)


@dataclass(frozen=True, slots=True)
class DataFile:
    """A data object by its name in the store, and its whole size. It may be that of an earlier checkpoint."""

    name: str
    bytes: int


@dataclass(frozen=True, slots=True)
class RankPart:
    """What one rank adds to a checkpoint: its image, in files of its own and such as are there already."""

    image: RankImage
    files: tuple[DataFile, ...]
    written_bytes: int


@dataclass(frozen=True, slots=True)
class CommitRecord:
    """A checkpoint. `step` counts completed steps; there is an image for each rank.

    `total_bytes` is the size of all images, `written_bytes` what this save wrote of data.
    """

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
    images: tuple[RankImage, ...]
    digests: str = DIGEST
    pinned: bool = False
    metrics: Mapping[str, float] = field(default_factory=dict)

    @property
    def name(self) -> CommitName:
        """Its name."""
        return CommitName(self.step, self.attempt, self.sequence)

    def image_of(self, rank: int) -> RankImage:
        """The image of a rank; raises CheckpointCorrupt where there is none."""
        found = next((image for image in self.images if image.rank == rank), None)
        if found is None:
            raise CheckpointCorrupt(f"{self.name.text} has no image of rank {rank}; it has {len(self.images)}")
        return found

    def of_rank(self, rank: int) -> "CommitRecord":
        """The same with nothing but what one rank needs of it."""
        image = self.image_of(rank)
        numbers = sorted({piece.file for piece in image.pieces})
        places = {number: place for place, number in enumerate(numbers)}
        pieces = tuple(replace(piece, file=places[piece.file]) for piece in image.pieces)
        files = tuple(self.files[number] for number in numbers)
        return replace(self, files=files, images=(replace(image, pieces=pieces),))

    def joined_by(self, parts: Sequence["RankPart"]) -> "CommitRecord":
        """The record of this rank's image and those of others."""
        files = {file: number for number, file in enumerate(self.files)}
        images = list(self.images)
        for part in parts:
            places = [files.setdefault(file, len(files)) for file in part.files]
            pieces = tuple(replace(piece, file=places[piece.file]) for piece in part.image.pieces)
            images.append(replace(part.image, pieces=pieces))
        return replace(
            self,
            files=tuple(files),
            images=tuple(sorted(images, key=lambda image: image.rank)),
            total_bytes=sum(image.bytes for image in images),
            written_bytes=self.written_bytes + sum(part.written_bytes for part in parts),
        )

    def to_bytes(self) -> bytes:
        """The record as it is stored."""
        images = [image_fields(image) for image in self.images]
        fields = {name: getattr(self, name) for name in self.__slots__ if name not in ("files", "images")}
        return seal({"format": FORMAT, **fields, "files": [asdict(file) for file in self.files], "images": images})


def image_fields(image: RankImage) -> dict[str, Any]:
    """An image as it stands in a record."""
    return {
        "rank": image.rank,
        "data_at": image.data_at,
        "leaves": image.leaves,
        "tree": image.tree,
        "pieces": [[piece.file, piece.offset, piece.bytes, piece.digest] for piece in image.pieces],
    }


def load_record(store: Store, name: str) -> CommitRecord:
    """A commit record of a store; raises ObjectMissing, CheckpointCorrupt, StoreUnreachable."""
    fields = load_sealed(store, name)
    try:
        found = fields.pop("format")
        if found == 1:
            return checked(_of_format_1(fields), name)
        if found != FORMAT:
            raise ValueError(f"unknown format {found!r}")
        return checked(_parsed(fields), name)
    except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
        raise CheckpointCorrupt(f"{name} is not a commit record of format {FORMAT} or older: {error!r}") from error


# Whoever can write to the store can write a record that fits its digest. So nothing in it is believed that could lead
# out of the task's own data, or cost more than the files are large.


def _parsed(fields: dict[str, Any]) -> CommitRecord:
    files = tuple(DataFile(**_typed(one, name=str, bytes=int)) for one in fields.pop("files"))
    images = tuple(parsed_image(one) for one in fields.pop("images"))
    return CommitRecord(files=files, images=images, **fields)


def parsed_image(fields: dict[str, Any]) -> RankImage:
    """An image out of JSON; raises ValueError or the like for one that makes no sense."""
    pieces = tuple(
        Piece(_whole(file), _whole(at), _whole(size), _text(word)) for file, at, size, word in fields["pieces"]
    )
    return RankImage(
        _whole(fields["rank"]), _whole(fields["data_at"]), _range(fields["leaves"]), _range(fields["tree"]), pieces
    )


def _of_format_1(fields: dict[str, Any]) -> CommitRecord:
    """Format 1 listed each leaf with its own pieces; in order they make up an image as well."""
    files = tuple(DataFile(one["name"], _whole(one["bytes"])) for one in fields.pop("files"))
    pieces: list[Piece] = []
    table: list[LeafPlace] = []
    position = 0
    for leaf in fields.pop("leaves"):
        own = [Piece(**_typed(one, file=int, offset=int, bytes=int, digest=str)) for one in leaf["pieces"]]
        size = sum(piece.bytes for piece in own)
        table.append(LeafPlace(_text(leaf["name"]), parsed_spec(**leaf["spec"]), position, size))
        pieces += own
        position += size
    [tree] = fields.pop("trees")
    at = table[_whole(tree)]
    image = RankImage(0, 0, (0, 0), (at.offset, at.bytes), tuple(pieces), tuple(table))
    return CommitRecord(files=files, images=(image,), **fields)


def parsed_leaves(data: bytes, image: RankImage) -> tuple[LeafPlace, ...]:
    """The table of leaves as it lies in an image; raises ValueError or the like for one that makes no sense."""
    known: dict[tuple[str, str, str], ArraySpec] = {}
    leaves = []
    for name, framework, dtype, shape, extra, start, size in json.loads(data):
        about = (framework, dtype, f"{shape} {extra}")  # by text, for True is equal to 1, and 1.0
        spec = known.get(about)
        if spec is None:
            spec = known[about] = parsed_spec(framework, dtype, shape, extra)
        leaves.append(LeafPlace(_text(name), spec, image.data_at + _whole(start), _whole(size)))
    return tuple(leaves)


def check_leaves(leaves: tuple[LeafPlace, ...], image_bytes: int) -> None:
    """Raises ValueError for leaves that lie outside the image, overlap, or do not fit their shape."""
    for name, spec, offset, nbytes in leaves:
        elements = 1
        for size in spec.shape:
            elements *= size
        if offset + nbytes > image_bytes:
            raise ValueError(f"leaf {name} lies outside the checkpoint")
        if (elements == 0) != (nbytes == 0) or (elements and nbytes % elements):
            raise ValueError(f"leaf {name} has {nbytes} bytes for shape {list(spec.shape)}")
    if sum(leaf.bytes for leaf in leaves) > image_bytes:
        raise ValueError("its leaves overlap")


def parsed_spec(framework: Any, dtype: Any, shape: Any, extra: Any) -> ArraySpec:
    """A spec out of JSON."""
    if type(shape) is not list or type(extra) is not dict:
        raise ValueError(f"{shape!r}, {extra!r} are no shape and extra")
    return ArraySpec(_text(framework), _text(dtype), tuple(_whole(size) for size in shape), extra)


def checked(record: CommitRecord, name: str) -> CommitRecord:
    """The record, if a reader would take it by this name; raises ValueError, IndexError or the like if not."""
    fields = {name: getattr(record, name) for name in record.__slots__}
    _typed(fields, claim=str, saved_at=str, total_bytes=int, written_bytes=int, pinned=bool, metrics=dict)
    for number in (record.seconds, *record.metrics.values()):
        if type(number) not in (int, float):
            raise ValueError(f"{number!r} is not a number")
    if record.digests != DIGEST:
        raise ValueError(f"its digests are {record.digests}")
    place = TaskPlace(record.job, record.run, record.task)
    own = place.commit(CommitName(_whole(record.step), _whole(record.attempt), _whole(record.sequence)))
    if name != own:
        raise ValueError(f"it is a copy of {own}")
    for file in record.files:
        if place.data_of(file.name) is None:
            raise ValueError(f"{file.name!r} is no data file of this task")
    if len({file.name for file in record.files}) < len(record.files):
        raise ValueError("it names a file twice")
    if not record.images:
        raise ValueError("it has no image")
    if sorted(image.rank for image in record.images) != list(range(len(record.images))):
        raise ValueError("its images are not those of all ranks")
    # Ranks may share what is equal; each reads its own image.
    if max(image.bytes for image in record.images) > sum(file.bytes for file in record.files):
        raise ValueError("its pieces overlap")
    for image in record.images:
        _check_image(image, record.files)
    return record


def _check_image(image: RankImage, files: tuple[DataFile, ...]) -> None:
    for piece in image.pieces:
        if piece.offset + piece.bytes > files[piece.file].bytes:
            raise ValueError(f"a piece lies outside {files[piece.file].name}")
    whole = image.bytes
    for start, size in (image.leaves, image.tree):
        if start + size > whole:
            raise ValueError("its table or tree lies outside the image")
    if image.table is not None:
        check_leaves(image.table, whole)


def _whole(number: Any) -> int:
    if type(number) is not int or number < 0:
        raise ValueError(f"{number!r} is not a whole number")
    return number


def _text(value: Any) -> str:
    if type(value) is not str:
        raise ValueError(f"{value!r} is not text")
    return value


def _range(value: Any) -> Range:
    start, size = value
    return _whole(start), _whole(size)


def _typed(fields: dict[str, Any], **kinds: type) -> dict[str, Any]:
    for name, kind in kinds.items():
        value = fields[name]
        if type(value) is not kind or (kind is int and fields[name] < 0):
            raise ValueError(f"{name} is {value!r}")
    return fields
