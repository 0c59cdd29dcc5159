"""A disk that remembers its calls, and the states in which a power cut may leave what they made.

Nothing is durable but what was synced. Of a file, what was written since its last sync may be there, be missing, be cut
short, or be zeros in any sector. Of a folder, each entry made or removed since the folder's last sync may be lost by
itself. (A file's own sync does not make its name durable; real file systems are kinder.)
"""

import random
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from outlast.stores.disk import LocalDisk

SECTOR_BYTES = (512, 4096)
Damage = Literal["there", "missing", "zeros", "cut", "holes"]
DAMAGES: tuple[Damage, ...] = ("there", "missing", "zeros", "cut", "holes")


class Killed(BaseException):
    """The process is gone; whatever its unwinding still asks of the disk has no effect."""


@dataclass
class Call:
    """One call: its path, the number of the file that it concerns, its bytes, and where they go (None: at the end).

    A "mark" is a remark of the test.
    """

    kind: str
    path: str = ""
    file: int = -1
    data: bytes = b""
    offset: int | None = None


class RecordingDisk(LocalDisk):
    """A local disk whose changing calls are kept in `calls`; at call number `killed_at` the process dies."""

    def __init__(self, calls: list[Call] | None = None, killed_at: int | None = None) -> None:
        self.calls = calls if calls is not None else []
        self._killed_at = killed_at
        self._lock = threading.Lock()  # large files are written by threads
        self._handles: dict[int, int] = {}
        self._files = {call.path: call.file for call in self.calls if call.kind in ("create", "link")}

    def _note(self, call: Call) -> None:
        with self._lock:
            if self._killed_at is not None and len(self.calls) >= self._killed_at:
                raise Killed
            self.calls.append(call)

    def mark(self, text: str) -> None:
        self.calls.append(Call("mark", text))

    def make_folder(self, path: str) -> bool:
        if not Path(path).is_dir():
            self._note(Call("mkdir", path))
        return super().make_folder(path)

    def create_file(self, path: str) -> int:
        self._note(Call("create", path, len(self.calls)))
        handle = super().create_file(path)
        self._handles[handle] = self._files[path] = self.calls[-1].file
        return handle

    def open_direct(self, path: str) -> int:
        handle = super().open_direct(path)
        self._handles[handle] = self._files[path]
        return handle

    def open_append(self, path: str) -> int:
        if not Path(path).exists():
            self._note(Call("create", path, len(self.calls)))
            self._files[path] = self.calls[-1].file
        handle = super().open_append(path)
        self._handles[handle] = self._files[path]
        return handle

    def write(self, handle: int, data: memoryview) -> int:
        self._note(Call("write", file=self._handles[handle], data=bytes(data)))
        return super().write(handle, data)

    def write_at(self, handle: int, data: memoryview, offset: int) -> int:
        self._note(Call("write", file=self._handles[handle], data=bytes(data), offset=offset))
        return super().write_at(handle, data, offset)

    def allocate(self, handle: int, offset: int, size: int) -> None:
        """Zeros, as far as anyone can see: room is only ever taken at the end."""
        self._note(Call("write", file=self._handles[handle], data=bytes(size), offset=offset))
        super().allocate(handle, offset, size)

    def sync(self, handle: int) -> None:
        self._note(Call("sync", file=self._handles[handle]))

    def sync_data(self, handle: int) -> None:
        self.sync(handle)

    def link(self, source: str, target: str) -> None:
        self._note(Call("link", target, self._files[source]))
        super().link(source, target)
        self._files[target] = self._files[source]

    def unlink(self, path: str) -> None:
        self._note(Call("unlink", path))
        super().unlink(path)

    def sync_folder(self, path: str) -> None:
        self._note(Call("sync_folder", path))


@dataclass
class _File:
    durable: bytes = b""
    written: bytearray = field(default_factory=bytearray)
    start: int = 0  # from here on it may differ from what is durable

    def write(self, data: bytes, offset: int | None) -> None:
        offset = len(self.written) if offset is None else offset
        self.written.extend(bytes(max(0, offset - len(self.written))))
        self.written[offset : offset + len(data)] = data
        self.start = min(self.start, offset)

    def sync(self) -> None:
        self.durable, self.start = bytes(self.written), len(self.written)

    def damaged(self, damage: Damage, chance: random.Random) -> bytes:
        sector = chance.choice(SECTOR_BYTES)
        old, left = self.durable.ljust(len(self.written), b"\0"), bytearray(self.written)
        if damage == "missing":
            return self.durable
        if damage == "zeros":
            return old
        if damage == "cut":
            end = self.start + chance.randrange((len(left) - self.start) // sector + 1) * sector
            del left[max(end, len(self.durable)) :]
        elif damage == "holes":
            for start in range(self.start, len(left), sector):
                if chance.random() < 0.5:
                    left[start : start + sector] = old[start : start + sector]
        return bytes(left)


@dataclass
class _Cut:
    """What is durable when the power goes, and what is not."""

    files: dict[int, _File] = field(default_factory=dict)
    names: dict[str, int | None] = field(default_factory=dict)  # None is a folder
    pending: list[tuple[str, int | None, bool]] = field(default_factory=list)  # path, file, whether it was added

    def apply(self, call: Call) -> None:
        if call.kind == "mkdir":
            self.pending.append((call.path, None, True))
        elif call.kind in ("create", "link"):
            self.files.setdefault(call.file, _File())
            self.pending.append((call.path, call.file, True))
        elif call.kind == "unlink":
            self.pending.append((call.path, None, False))
        elif call.kind == "write":
            self.files[call.file].write(call.data, call.offset)
        elif call.kind == "sync":
            self.files[call.file].sync()
        elif call.kind == "sync_folder":
            mine = [one for one in self.pending if str(Path(one[0]).parent) == call.path]
            self.pending = [one for one in self.pending if one not in mine]
            _apply(self.names, mine)

    def state(self, kept: set[int], damage: Damage, chance: random.Random) -> dict[str, bytes | None]:
        """Each name with its content, None for a folder, if these of the pending changes of names are kept."""
        names = dict(self.names)
        _apply(names, [change for number, change in enumerate(self.pending) if number in kept])
        contents = {file: self.files[file].damaged(damage, chance) for file in set(names.values()) if file is not None}
        return {path: None if file is None else contents[file] for path, file in names.items()}


def _apply(names: dict[str, int | None], changes: list[tuple[str, int | None, bool]]) -> None:
    for path, file, added in changes:
        if added:
            names[path] = file
        else:
            names.pop(path, None)


def states(calls: list[Call], at: int, *, seed: int, few: bool = False) -> Iterator[dict[str, bytes | None]]:
    """Legal states when the power goes before call `at`. `few`: without those that differ in one name only."""
    cut = _Cut()
    for call in calls[:at]:
        cut.apply(call)
    chance = random.Random(seed * 100_003 + at)
    everything = set(range(len(cut.pending)))
    for damage in ("there", "zeros") if few else (*DAMAGES, "cut", "cut", "holes", "holes"):
        yield cut.state(set(), damage, chance)
        yield cut.state(everything, damage, chance)
    for number in () if few else everything:
        for damage in ("there", "holes"):
            yield cut.state(everything - {number}, damage, chance)
            yield cut.state({number}, damage, chance)
    for _ in range(2 if few else 12):
        kept = {number for number in everything if chance.random() < 0.5}
        yield cut.state(kept, chance.choice(DAMAGES), chance)


def lay_out(state: dict[str, bytes | None], root: str, target: Path) -> None:
    """Makes a state real: what lay below `root` lies below `target`; what hangs on a lost folder is lost with it."""
    target.mkdir()
    for path, content in sorted(state.items()):
        if path == root or not path.startswith(f"{root}/"):
            continue
        here = target / path[len(root) + 1 :]
        if not here.parent.is_dir() or (state.get(root, 0) is not None):
            continue
        if content is None:
            here.mkdir()
        else:
            here.write_bytes(content)


def fingerprint(state: dict[str, bytes | None]) -> Any:
    """Equal for equal states."""
    return frozenset(state.items())
