"""Checkpoints in a bucket: what every object store has in common, above a small door to each one's client."""

import random
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import chain
from typing import Protocol

from outlast.errors import (
    CheckpointCorrupt,
    ObjectExists,
    ObjectMissing,
    SettingsError,
    StoreUnreachable,
)
from outlast.ports import Bytes, OpenObject, Pace, StoredObject, StoreTraits, full_speed, read_whole
from outlast.stores.segments import JoinedSegments, SegmentNames, checked_parts, folder_of, joined

# Data above this goes up in parts of this size, each retried by itself; ranges are read in pieces of it. A multiple
# of 256 KiB, as Cloud Storage wants it, above the 5 MiB that S3 wants, and small enough for REQUEST_SECONDS.
PART_BYTES = 16 << 20
# An answer that takes longer is none. A dead endpoint is given up within the sum of the two.
REQUEST_SECONDS = 30.0
RETRY_SECONDS = 20.0
CONNECT_SECONDS = 5.0
_TRAITS = StoreTraits(object_bytes=64 << 20, parallel=4)


class Absent(Exception):
    """The object is not there."""


class Taken(Exception):
    """The object is there already."""


class Refused(Exception):
    """No retry will help: no such bucket, no permission, credentials that are not accepted. The text says which."""


class Unanswered(Exception):
    """The service did not answer, or not in time, or with an error of its own, however often it was asked."""


@dataclass(slots=True)
class Patience:
    """How long one request is repeated: growing pauses, and an end."""

    until: float = field(default_factory=lambda: time.monotonic() + RETRY_SECONDS)
    pause_seconds: float = 0.2

    def wait(self) -> bool:
        """False when it is at its end."""
        pause = self.pause_seconds * random.uniform(0.5, 1.0)  # noqa: S311  spreads retries, hides nothing
        if time.monotonic() + pause > self.until:
            return False
        time.sleep(pause)
        self.pause_seconds = min(self.pause_seconds * 2, 4.0)
        return True


Parts = Iterator[tuple[memoryview, bool]]


class Bucket(Protocol):
    """A bucket's client. Keys are whole; methods raise the four errors above, after retries of their own."""

    delete_batch: int  # how many objects one request removes

    def put_new(self, key: str, data: Bytes) -> None:
        """Makes an object in one request, unless there is one; raises Taken."""
        ...

    def put_parts(self, key: str, parts: Parts) -> None:
        """Makes an object from (part, whether it is the last), all but the last of PART_BYTES.

        An exception from `parts` goes through, and nothing of the object is left.
        """
        ...

    def size(self, key: str) -> int:
        """An object's size in bytes; raises Absent."""
        ...

    def read_into(self, key: str, offset: int, target: memoryview) -> int:
        """Fills `target`, at most PART_BYTES; returns fewer bytes where the object ends. Raises Absent."""
        ...

    def entries(self, prefix: str) -> Iterator[tuple[str, int]]:
        """(key, size in bytes) of all objects whose keys begin with `prefix`, which is '' or ends in '/'."""
        ...

    def delete(self, keys: Sequence[str]) -> None:
        """Removes objects; no error for those that are gone."""
        ...


class BucketStore:
    """A prefix of a bucket, as a ports.Store.

    An object appears whole or not at all, and is durable once its request is answered. What a death leaves of an
    upload in parts is invisible, and the service's to remove (docs/howto/object-stores.md).
    """

    def __init__(self, url: str, prefix: str, bucket: Bucket) -> None:
        self._url, self._bucket = url, bucket
        self._root = f"{prefix}/" if prefix else ""
        self._segments = SegmentNames()
        self._has_worked = False  # the url is right, then, and what goes wrong later a retry may mend

    @property
    def url(self) -> str:
        return self._url

    @property
    def traits(self) -> StoreTraits:
        return _TRAITS

    def create(self, name: str, data: bytes) -> None:
        self._put_new(self._key(name), name, data)

    def write(self, name: str, buffers: Iterable[Bytes], *, pace: Pace = full_speed) -> int:
        key, parts = self._key(name), parts_of(buffers, PART_BYTES)
        first, second = next(parts, memoryview(b"")), next(parts, None)
        if second is None:
            pace(len(first))
            self._put_new(key, name, first)
            return len(first)
        paced = _Paced(chain([first, second], parts), pace)
        with self._answering("write", name):
            self._bucket.put_parts(key, paced.parts())
        return paced.bytes

    def append(self, name: str, data: bytes) -> None:
        self._key(name)
        segment = self._segments.next(name)
        self._put_new(self._root + segment, segment, data)

    def read(self, name: str) -> bytes:
        with self.open(name) as opened:
            return read_whole(opened)

    @contextmanager
    def open(self, name: str) -> Iterator[OpenObject]:
        key = self._key(name)
        with self._answering("read", name):
            try:
                opened: OpenObject = _OpenKey(self, key, name, self._bucket.size(key))
            except Absent as error:
                segments = self._entries(folder_of(name))  # which fails if there is no such bucket
                if not segments:
                    raise ObjectMissing(f"{name} is not in {self.url}") from error
                opened = JoinedSegments(name, segments, self._read_segment)
        yield opened

    def delete(self, name: str) -> None:
        key = self._key(name)
        with self._answering("delete", name):
            segments = [self._root + entry.name for entry in self._entries(folder_of(name))]
            self._bucket.delete([key, *segments])

    @property
    def delete_batch(self) -> int:
        return self._bucket.delete_batch

    def delete_all(self, names: Sequence[str]) -> None:
        keys = [self._key(name) for name in names]
        if keys:
            with self._answering("delete", names[0] if len(names) == 1 else f"{names[0]} and {len(names) - 1} more"):
                self._bucket.delete(keys)

    def settle(self, prefix: str) -> None:
        """Nothing to do: what a bucket lists is durable."""
        self._key(prefix)

    def sweep(self, prefix: str) -> int:
        """Nothing to do: a death inside `create` leaves no object."""
        self._key(prefix)
        return 0

    def read_range(self, key: str, name: str, offset: int, target: memoryview) -> None:
        """Fills a buffer from an object; raises CheckpointCorrupt when it ends before."""
        done = 0
        while done < len(target):
            piece = target[done : done + PART_BYTES]
            with self._answering("read", name):
                try:
                    moved = self._bucket.read_into(key, offset + done, piece)
                except Absent as error:
                    raise ObjectMissing(f"{name} is not in {self.url} any more") from error
            done += moved
            if moved < len(piece):
                raise CheckpointCorrupt(f"{name} ends at {offset + done} bytes, before its content does")

    def _read_segment(self, name: str, target: memoryview) -> None:
        self.read_range(self._root + name, name, 0, target)

    def _put_new(self, key: str, name: str, data: Bytes) -> None:
        """Makes an object; one that is there with the very content is ours, from a request whose answer was lost."""
        with self._answering("write", name):
            try:
                self._bucket.put_new(key, data)
            except Taken:
                if not self._holds(key, memoryview(data)):
                    raise

    def _holds(self, key: str, data: memoryview) -> bool:
        try:
            if self._bucket.size(key) != len(data):
                return False
            found = memoryview(bytearray(len(data)))
            return self._bucket.read_into(key, 0, found) == len(data) and found == data
        except Absent:
            return False

    def _entries(self, folder: str) -> list[StoredObject]:
        prefix = self._root + (f"{folder}/" if folder else "")
        return [
            StoredObject(key.removeprefix(self._root), size)
            for key, size in self._bucket.entries(prefix)
            if not key.endswith("/")  # what consoles and mounts make to show an empty folder
        ]

    def _key(self, name: str) -> str:
        checked_parts(name, self.url)
        return self._root + name

    @contextmanager
    def _answering(self, verb: str, name: str) -> Iterator[None]:
        try:
            yield
        except Refused as error:
            if not self._has_worked:
                raise SettingsError(f"url={self.url!r} cannot hold checkpoints: {error}; nothing was saved") from error
            raise StoreUnreachable(f"cannot {verb} {name} in {self.url}: {error}") from error
        except (Unanswered, Absent) as error:  # absent: an upload that the service forgot, a container on its way out
            raise StoreUnreachable(f"cannot {verb} {name} in {self.url}: {error}") from error
        except Taken as error:
            raise ObjectExists(f"{name} is already in {self.url}") from error
        self._has_worked = True

    # The last, since its name hides the type for all that stands below.
    def list(self, prefix: str) -> list[StoredObject]:
        if prefix:
            self._key(prefix)
        with self._answering("list", prefix or "."):
            return joined(self._entries(prefix))


class _OpenKey:
    """An object open for ranged reads, as a ports.OpenObject."""

    def __init__(self, store: BucketStore, key: str, name: str, size: int) -> None:
        self._store, self._key, self._name = store, key, name
        self.bytes = size

    def read_into(self, offset: int, target: memoryview) -> None:
        if offset + len(target) > self.bytes:
            raise CheckpointCorrupt(f"{self._name} ends at {self.bytes} bytes, before its content does")
        self._store.read_range(self._key, self._name, offset, target)


class _Paced:
    """Parts, each announced to the pace just before it is handed out."""

    def __init__(self, parts: Iterator[memoryview], pace: Pace) -> None:
        self._parts, self._pace = parts, pace
        self.bytes = 0

    def parts(self) -> Parts:
        """(part, whether it is the last)."""
        part = next(self._parts)
        for after in self._parts:
            yield self._announced(part), False
            part = after
        yield self._announced(part), True

    def _announced(self, part: memoryview) -> memoryview:
        self._pace(len(part))
        self.bytes += len(part)
        return part


def parts_of(buffers: Iterable[Bytes], part_bytes: int) -> Iterator[memoryview]:
    """Buffers as parts of one size, but for the last. Only a part across the border of two buffers is copied."""
    gathered = bytearray()
    for buffer in buffers:
        view = memoryview(buffer).cast("B")
        while len(gathered) + len(view) >= part_bytes:
            take = part_bytes - len(gathered)
            if gathered:
                gathered += view[:take]
                yield memoryview(gathered)
                gathered = bytearray()
            else:
                yield view[:take]
            view = view[take:]
        gathered += view
    if gathered:
        yield memoryview(gathered)


def bucket_and_prefix(scheme: str, rest: str, *, bucket: str = "bucket") -> tuple[str, str]:
    """The two halves of a URL after its scheme; raises SettingsError where there is no bucket."""
    name, _, prefix = rest.partition("/")
    if not name or any(letter in name for letter in "?#@: \\"):
        raise SettingsError(f"url={f'{scheme}://{rest}'!r} names no {bucket}; it is {scheme}://{bucket.upper()}/FOLDER")
    prefix = prefix.strip("/")
    try:
        if prefix:
            checked_parts(prefix, f"{scheme}://{name}")
    except CheckpointCorrupt as error:
        raise SettingsError(f"url={f'{scheme}://{rest}'!r}: {error}") from error
    return name, prefix
