"""Journals where nothing can be appended: numbered segments in a folder beside the name, shown as one object.

`journal/a0.jsonl` is kept as `journal/a0.jsonl.segments~/<when>-<who>`, one new object per append, so that no name
is ever written twice: two appenders never collide, and no bucket's limit of writes per name is met. The names sort
by time, and strictly so for each appender. Adapters show the folder as one object and refuse such names to users.
"""

import secrets
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor

from outlast.errors import CheckpointCorrupt
from outlast.ports import StoredObject

_MARK = ".segments~"
_READERS = 8  # a segment is small, so reading many is a matter of round trips

ReadSegment = Callable[[str, memoryview], None]


def checked_parts(name: str, url: str) -> list[str]:
    """A name's parts; raises CheckpointCorrupt for one that leads out of the store or that no bucket can hold."""
    parts = name.split("/")
    if any(part in ("", ".", "..") or part.endswith(_MARK) for part in parts):
        raise CheckpointCorrupt(f"{name!r} is not a name inside {url}")
    if any(letter < " " or letter in "\x7f\\" for letter in name):
        raise CheckpointCorrupt(f"{name!r} has a character that not every bucket can hold")
    return parts


def folder_of(name: str) -> str:
    """Where the segments of a journal lie."""
    return name + _MARK


class SegmentNames:
    """New names for one appender (a store object), in order for each journal, from any thread."""

    def __init__(self) -> None:
        self._who = secrets.token_hex(6)
        self._last = 0
        self._lock = threading.Lock()

    def next(self, journal: str) -> str:
        """The name of the next segment."""
        with self._lock:
            self._last = max(self._last + 1, time.time_ns())  # a clock that goes back must not turn the order round
            return f"{folder_of(journal)}/{self._last:020}-{self._who}"


def joined(entries: Iterable[StoredObject]) -> list[StoredObject]:
    """A listing as users see it: each journal once, with the sum of its segments' sizes, in name order."""
    bytes_of: dict[str, int] = {}
    for entry in entries:
        name = _owner(entry.name)
        bytes_of[name] = bytes_of.get(name, 0) + entry.bytes
    return [StoredObject(name, bytes_of[name]) for name in sorted(bytes_of)]


def _owner(name: str) -> str:
    folder, _, _ = name.rpartition("/")
    return folder.removesuffix(_MARK) if folder.endswith(_MARK) else name


class JoinedSegments:
    """The segments of a journal as one object, as a ports.OpenObject. `read` fills a buffer with a whole segment."""

    def __init__(self, name: str, segments: Iterable[StoredObject], read: ReadSegment) -> None:
        self._name, self._read = name, read
        self._segments = sorted(segments, key=lambda entry: entry.name)
        self.bytes = sum(entry.bytes for entry in self._segments)

    def read_into(self, offset: int, target: memoryview) -> None:
        if offset + len(target) > self.bytes:
            raise CheckpointCorrupt(f"{self._name} ends at {self.bytes} bytes, before its content does")
        wanted: list[tuple[int, StoredObject]] = []
        start = 0
        for entry in self._segments:
            if start < offset + len(target) and start + entry.bytes > offset:
                wanted.append((start, entry))
            start += entry.bytes
        for start, whole in self._wholes(wanted):
            first, last = max(start, offset), min(start + len(whole), offset + len(target))
            target[first - offset : last - offset] = whole[first - start : last - start]

    def _wholes(self, wanted: list[tuple[int, StoredObject]]) -> Iterator[tuple[int, memoryview]]:
        if len(wanted) < 2:
            yield from map(self._whole, wanted)
            return
        with ThreadPoolExecutor(min(_READERS, len(wanted))) as pool:
            yield from pool.map(self._whole, wanted)

    def _whole(self, segment: tuple[int, StoredObject]) -> tuple[int, memoryview]:
        start, entry = segment
        whole = memoryview(bytearray(entry.bytes))
        self._read(entry.name, whole)
        return start, whole
