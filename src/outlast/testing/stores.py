"""A store in memory, for tests."""

import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from outlast.errors import CheckpointCorrupt, ObjectExists, ObjectMissing
from outlast.ports import Bytes, OpenObject, Pace, StoredObject, StoreTraits, full_speed


class MemoryStore:
    """A store that lives as long as the object, and keeps the promises of `outlast.ports.Store`.

    Safe to use from several threads. Stricter than a bucket in one way: `write` refuses a name that is taken,
    since a data object is written once.
    """

    def __init__(self, url: str = "memory://test") -> None:
        self._url = url
        self._objects: dict[str, bytes] = {}
        self._lock = threading.Lock()

    @property
    def url(self) -> str:
        return self._url

    @property
    def traits(self) -> StoreTraits:
        return StoreTraits(local=True)

    def create(self, name: str, data: bytes) -> None:
        with self._lock:
            self._add(name, bytes(data))

    def write(self, name: str, buffers: Iterable[Bytes], *, pace: Pace = full_speed) -> int:
        parts = []
        for part in buffers:
            pace(memoryview(part).nbytes)
            parts.append(part)
        data = b"".join(parts)
        with self._lock:
            self._add(name, data)
        return len(data)

    def append(self, name: str, data: bytes) -> None:
        _check(name)
        with self._lock:
            self._objects[name] = self._objects.get(name, b"") + data

    def read(self, name: str) -> bytes:
        _check(name)
        with self._lock:
            if name not in self._objects:
                raise ObjectMissing(f"{name} is not in {self._url}")
            return self._objects[name]

    @contextmanager
    def open(self, name: str) -> Iterator[OpenObject]:
        yield _OpenBytes(name, self.read(name))

    def list(self, prefix: str) -> list[StoredObject]:
        if prefix:
            _check(prefix)
        below = f"{prefix}/" if prefix else ""
        with self._lock:
            found = [StoredObject(name, len(data)) for name, data in self._objects.items() if name.startswith(below)]
        return sorted(found, key=lambda stored: stored.name)

    def delete(self, name: str) -> None:
        _check(name)
        with self._lock:
            self._objects.pop(name, None)

    def settle(self, prefix: str) -> None:  # nothing is more durable than the object
        _check(prefix)

    def sweep(self, prefix: str) -> int:  # nothing dies inside a `create` here
        _check(prefix)
        return 0

    def _add(self, name: str, data: bytes) -> None:
        _check(name)
        if name in self._objects:
            raise ObjectExists(f"{name} is already in {self._url}")
        self._objects[name] = data


class _OpenBytes:
    def __init__(self, name: str, data: bytes) -> None:
        self._name = name
        self._data = data

    @property
    def bytes(self) -> int:
        return len(self._data)

    def read_into(self, offset: int, target: memoryview) -> None:
        end = offset + target.nbytes
        if end > len(self._data):
            raise CheckpointCorrupt(
                f"{self._name} ends at byte {len(self._data)}; bytes {offset} to {end} were asked for"
            )
        target.cast("B")[:] = self._data[offset:end]


def _check(name: str) -> None:
    if any(part in ("", ".", "..") or "\0" in part for part in name.split("/")):
        raise CheckpointCorrupt(f"{name!r} is not a name inside a store")
