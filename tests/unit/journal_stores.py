"""Places for journals that need no server: memory, a folder, one taken for a mounted bucket, a bucket in memory."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from outlast.ports import Bytes, Store
from outlast.stores.directory import DirectoryStore
from outlast.stores.mount import MountStore
from outlast.stores.objects import Absent, BucketStore, Parts, Taken
from outlast.testing import MemoryStore


class MemoryBucket:
    """A bucket's client whose bucket is a dict; counts the objects that were put."""

    delete_batch = 1

    def __init__(self) -> None:
        self.objects: dict[str, bytes] = {}
        self.puts = 0

    def put_new(self, key: str, data: Bytes) -> None:
        if key in self.objects:
            raise Taken(key)
        self.objects[key] = bytes(data)
        self.puts += 1

    def put_parts(self, key: str, parts: Parts) -> None:
        self.put_new(key, b"".join(bytes(part) for part, _ in parts))

    def size(self, key: str) -> int:
        return len(self._whole(key))

    def read_into(self, key: str, offset: int, target: memoryview) -> int:
        data = self._whole(key)[offset : offset + len(target)]
        target[: len(data)] = data
        return len(data)

    def entries(self, prefix: str) -> Iterator[tuple[str, int]]:
        yield from sorted((key, len(data)) for key, data in self.objects.items() if key.startswith(prefix))

    def delete(self, keys: Sequence[str]) -> None:
        for key in keys:
            self.objects.pop(key, None)

    def _whole(self, key: str) -> bytes:
        if key not in self.objects:
            raise Absent(key)
        return self.objects[key]


def _bucket(_folder: Path) -> Store:
    return BucketStore("s3://bucket", "", MemoryBucket())


STORES: dict[str, Callable[[Path], Store]] = {
    "memory": lambda _folder: MemoryStore(),
    "directory": lambda folder: DirectoryStore(str(folder / "directory")),
    "mount": lambda folder: MountStore(str(folder / "mount")),
    "bucket": _bucket,
}
