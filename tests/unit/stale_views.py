"""A bucket as the processes of several machines see it: what another one did shows some seconds late in listings."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from outlast.ports import Bytes, Pace, StoredObject, full_speed
from outlast.testing import FakeClock, MemoryStore


@dataclass
class Change:
    at: float
    by: int
    name: str
    size: int | None  # None: it was deleted


@dataclass
class SharedBucket:
    """The truth, and how it came about."""

    clock: FakeClock = field(default_factory=FakeClock)
    truth: MemoryStore = field(default_factory=MemoryStore)
    changes: list[Change] = field(default_factory=list)
    machines: int = 0

    def seen_by_a_machine(self, *, late_seconds: float) -> "StaleView":
        self.machines += 1
        return StaleView(self, self.machines, late_seconds)


class StaleView(MemoryStore):
    """The bucket on one machine. Its own changes show at once; reading and create-only are the bucket's own."""

    def __init__(self, bucket: SharedBucket, number: int, late_seconds: float) -> None:
        super().__init__("memory://shared")
        self._bucket, self._number, self.late_seconds = bucket, number, late_seconds
        self.open, self.read = bucket.truth.open, bucket.truth.read  # type: ignore[method-assign]  # the truth's own

    def _note(self, name: str, size: int | None) -> None:
        self._bucket.changes.append(Change(self._bucket.clock.monotonic_seconds(), self._number, name, size))

    def create(self, name: str, data: bytes) -> None:
        self._bucket.truth.create(name, data)
        self._note(name, len(data))

    def write(self, name: str, buffers: Iterable[Bytes], *, pace: Pace = full_speed) -> int:
        written = self._bucket.truth.write(name, buffers, pace=pace)
        self._note(name, written)
        return written

    def append(self, name: str, data: bytes) -> None:
        self._bucket.truth.append(name, data)
        self._note(name, len(self._bucket.truth.read(name)))

    def delete(self, name: str) -> None:
        self._bucket.truth.delete(name)
        self._note(name, None)

    def list(self, prefix: str) -> list[StoredObject]:
        seen: dict[str, int] = {}
        until = self._bucket.clock.monotonic_seconds() - self.late_seconds
        for change in self._bucket.changes:
            if change.by == self._number or change.at <= until:
                if change.size is None:
                    seen.pop(change.name, None)
                else:
                    seen[change.name] = change.size
        return [StoredObject(name, seen[name]) for name in sorted(seen) if name.startswith(f"{prefix}/") or not prefix]
