"""Persisting an image: what an earlier checkpoint holds is referred to, the rest written; the record comes last."""

import secrets
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import xxhash

from outlast.checkpoint.image import Image, Range, size_of
from outlast.checkpoint.others import Shared
from outlast.checkpoint.places import CommitName, TaskPlace
from outlast.checkpoint.record import CommitRecord, DataFile, Piece, RankImage
from outlast.checkpoint.tensors import entry, header
from outlast.clock import Clock, iso_utc
from outlast.ports import Pace, Store, full_speed
from outlast.threads import in_parallel

_PIECES_AT_ONCE = 16
_MOST_AT_ONCE_BYTES = 64 << 20  # so much is hashed before it is written, while what came before is being written
_SAMPLE = 128  # pieces that say whether an earlier checkpoint holds any: one in sixteen is missed once in 4000 saves
# An image is written whole, as a plain file, unless this share of it need not be written at all.
_LEAST_REUSED_SHARE = 1 / 16
# The files that a checkpoint refers to may be this many times as large as the checkpoint itself.
_MOST_SPACE = 2.0


@dataclass(frozen=True, slots=True)
class SaveDetails:
    """What a commit record says beside the data."""

    name: CommitName
    claim: str
    pinned: bool
    metrics: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Effort:
    """How hard to work: the pace of writes and reads, and how many threads hash and verify."""

    pace: Pace = full_speed
    threads: int = 2


FULL_EFFORT = Effort()
Reuse = dict[int, tuple[DataFile, int]]  # by piece: the file that holds it already, and where


def persist(
    store: Store,
    place: TaskPlace,
    image: Image,
    details: SaveDetails,
    *,
    base: CommitRecord | None,
    effort: Effort,
    clock: Clock,
    rank: int = 0,
    shared: Shared | None = None,
    tell: Callable[[Shared], None] | None = None,
) -> CommitRecord:
    """Writes what of an image `base` does not hold, durable; returns the record that would commit it.

    `shared`: what another rank of the same save has, which is not written again. `tell` is called with that before
    anything is written. Raises StoreUnreachable; nothing counts until the record is created.
    """
    began = clock.monotonic_seconds()
    pieces = image.layout.all_pieces(image.tree)
    digests = _Digests(image, pieces, effort)
    if tell is not None or shared:
        digests.take_rest()
    reused = _reusable(digests, base, shared or {})
    objects = _objects(pieces, reused, store.traits.object_bytes)
    plain = not reused and len(objects) == 1
    parts = [_Part(digests, runs, _new_file(place, details.name, rank), plain=plain) for runs in objects]
    if tell is not None:
        files, records = _placed(pieces, digests.found, parts, reused)
        tell(places_of(files, records))
    in_parallel((partial(part.write, store, effort) for part in parts), threads=min(store.traits.parallel, len(parts)))
    files, records = _placed(pieces, digests.found, parts, reused)
    layout, size = image.layout, size_of(image)
    found = RankImage(
        rank=rank,
        data_at=layout.head_bytes,
        leaves=(layout.leaves_at, layout.tree_at - layout.leaves_at),
        tree=(layout.tree_at, size - layout.tree_at),
        pieces=records,
    )
    return CommitRecord(
        job=place.job,
        run=place.run,
        task=place.index,
        step=details.name.step,
        attempt=details.name.attempt,
        sequence=details.name.sequence,
        claim=details.claim,
        saved_at=iso_utc(clock.wall_seconds()),
        seconds=round(clock.monotonic_seconds() - began, 6),
        total_bytes=size,
        written_bytes=sum(part.bytes for part in parts),
        files=files,
        images=(found,),
        pinned=details.pinned,
        metrics=details.metrics,
    )


class _Digests:
    """The digests of an image's pieces, each taken once; "" in `found` where it was not yet."""

    def __init__(self, image: Image, pieces: Sequence[Range], effort: Effort) -> None:
        self.pieces, self.found = pieces, [""] * len(pieces)
        self._image, self._effort = image, effort

    def take_sample(self, number: int) -> Sequence[int]:
        """Of some pieces, evenly spread, others for each `number`; returns which."""
        step = -(-len(self.pieces) // _SAMPLE)
        sample = range((step // 2 + number) % step, len(self.pieces), step)
        self._take(sample)
        return sample

    def take_rest(self) -> None:
        """Of all others."""
        self._take([number for number, digest in enumerate(self.found) if not digest])

    def _take(self, numbers: Sequence[int]) -> None:
        def some(first: int) -> None:
            self._effort.pace(0)  # whoever waits for the save sees that it moves
            for number in numbers[first : first + _PIECES_AT_ONCE]:
                for _ in self.passing(*self.pieces[number]):
                    pass

        firsts = range(0, len(numbers), _PIECES_AT_ONCE)
        in_parallel((partial(some, first) for first in firsts), threads=self._effort.threads)

    def passing(self, start: int, end: int) -> Iterator[memoryview]:
        """The bytes of a run of pieces, in order; digests that are missing are taken as the bytes pass."""
        at, number, running = start, bisect_left(self.pieces, (start, start)), xxhash.xxh3_128()
        for view in _bounded(self._image.views(start, end)):
            rest = view
            while rest:
                part = rest[: self.pieces[number][1] - at]
                if not self.found[number]:
                    running.update(part)
                at, rest = at + len(part), rest[len(part) :]
                if at == self.pieces[number][1]:
                    self.found[number] = self.found[number] or running.hexdigest()
                    number, running = number + 1, xxhash.xxh3_128()
            yield view


def _bounded(views: Iterator[memoryview]) -> Iterator[memoryview]:
    for view in views:
        for start in range(0, len(view), _MOST_AT_ONCE_BYTES):
            yield view[start : start + _MOST_AT_ONCE_BYTES]


# --- what need not be written -----------------------------------------------------------------------


def _reusable(digests: _Digests, base: CommitRecord | None, shared: Shared) -> Reuse:
    """Where another rank of this save has pieces, and where an earlier checkpoint holds others."""
    held = _held_by(digests, base)
    if not shared:
        return held
    free = {key: list(places) for key, places in shared.items()}
    found: Reuse = {}
    for number, (piece, digest) in enumerate(zip(digests.pieces, digests.found, strict=True)):
        places = free.get((digest, _size(piece)))
        if places:
            found[number] = places.pop(0)
    taken = set(found.values())  # each place once, as below
    return {**{number: place for number, place in held.items() if place not in taken}, **found}


def places_of(files: Sequence[DataFile], pieces: Sequence[Piece]) -> Shared:
    """Where some pieces lie, by what they hold."""
    places: dict[tuple[str, int], list[tuple[DataFile, int]]] = defaultdict(list)
    for piece in pieces:
        places[piece.digest, piece.bytes].append((files[piece.file], piece.offset))
    return places


def _held_by(digests: _Digests, base: CommitRecord | None) -> Reuse:
    """Where an earlier checkpoint holds pieces of this one. Where it has next to none, few digests are taken for it."""
    if base is None:
        return {}
    pieces = digests.pieces
    # Of several ranks' images, those that are equal share their places.
    known = places_of(base.files, list(dict.fromkeys(piece for image in base.images for piece in image.pieces)))
    if not any(
        (digests.found[number], _size(pieces[number])) in known for number in digests.take_sample(base.sequence)
    ):
        return {}
    digests.take_rest()
    reused: Reuse = {}
    for number, ((start, end), digest) in enumerate(zip(pieces, digests.found, strict=True)):
        places = known.get((digest, end - start))
        if places:
            reused[number] = places.pop(0)  # each place once, so that no record is larger than its files
    _bound_space(pieces, reused)
    total = pieces[-1][1]
    return reused if _bytes_of(pieces, reused) >= total * _LEAST_REUSED_SHARE else {}


def _bound_space(pieces: Sequence[Range], reused: Reuse) -> None:
    """Gives up the files of which least is needed until those that stay do not take too much room."""
    total = pieces[-1][1]
    while reused:
        live: dict[DataFile, int] = defaultdict(int)
        for number, (file, _) in reused.items():
            live[file] += _size(pieces[number])
        room = sum(file.bytes for file in live) + total - sum(live.values())
        if room <= _MOST_SPACE * total:
            return
        worst = min(live, key=lambda file: live[file] / file.bytes)
        for number in [number for number, (file, _) in reused.items() if file == worst]:
            del reused[number]


def _size(piece: Range) -> int:
    return piece[1] - piece[0]


def _bytes_of(pieces: Sequence[Range], numbers: Reuse) -> int:
    return sum(_size(pieces[number]) for number in numbers)


# --- what is written --------------------------------------------------------------------------------


def _objects(pieces: Sequence[Range], reused: Reuse, object_bytes: int | None) -> list[list[Range]]:
    """The runs of the image that each new data object holds."""
    objects: list[list[Range]] = []
    room = 0
    for number, (start, end) in enumerate(pieces):
        if number in reused:
            continue
        size = end - start
        if not objects or size > room:
            objects.append([])
            room = object_bytes or pieces[-1][1]
        room -= size
        runs = objects[-1]
        if runs and runs[-1][1] == start:
            runs[-1] = (runs[-1][0], end)
        else:
            runs.append((start, end))
    return objects


class _Part:
    """One new data object: the whole image, or runs of it behind a head that names them."""

    def __init__(self, digests: _Digests, runs: Sequence[Range], name: str, *, plain: bool) -> None:
        self.name, self.runs, self._digests = name, runs, digests
        self._starts: list[int] = []
        position, entries = 0, []
        for start, end in runs:
            entries.append(entry(f"image[{start}:{end}]", "U8", [end - start], position, position + end - start))
            self._starts.append(position)
            position += end - start
        self._head = b"" if plain else header(entries)
        self.bytes = len(self._head) + position

    def offsets(self) -> Iterator[tuple[int, int, int]]:
        """(start, end, where it is in the object) of each run."""
        for (start, end), at in zip(self.runs, self._starts, strict=True):
            yield start, end, len(self._head) + at

    def write(self, store: Store, effort: Effort) -> None:
        store.write(self.name, self._buffers(), pace=effort.pace)

    def _buffers(self) -> Iterator[memoryview]:
        if self._head:
            yield memoryview(self._head)
        for start, end in self.runs:
            yield from self._digests.passing(start, end)


def _placed(
    pieces: Sequence[Range], digests: Sequence[str], parts: Sequence[_Part], reused: Reuse
) -> tuple[tuple[DataFile, ...], tuple[Piece, ...]]:
    """The files of a record, new ones first, and the pieces in them."""
    files = {DataFile(part.name, part.bytes): number for number, part in enumerate(parts)}
    placed = []
    fresh = _fresh_places(pieces, parts, reused)
    for number, ((start, end), digest) in enumerate(zip(pieces, digests, strict=True)):
        if number in reused:
            file, offset = reused[number]
            index = files.setdefault(file, len(files))
        else:
            index, offset = next(fresh)
        placed.append(Piece(index, offset, end - start, digest))
    return tuple(files), tuple(placed)


def _fresh_places(pieces: Sequence[Range], parts: Sequence[_Part], reused: Reuse) -> Iterator[tuple[int, int]]:
    """Part and offset of each piece that is not reused, in order."""
    runs = ((part, run) for part in range(len(parts)) for run in parts[part].offsets())
    part, (first, end, at) = 0, (0, 0, 0)
    for number, (start, _) in enumerate(pieces):
        if number in reused:
            continue
        while start >= end:
            part, (first, end, at) = next(runs)
        yield part, at + start - first


def _new_file(place: TaskPlace, name: CommitName, rank: int) -> str:
    return place.data_file(name, rank=rank, token=secrets.token_hex(6))
