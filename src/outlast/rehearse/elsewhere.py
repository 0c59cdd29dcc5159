"""Files outside of the copy that one run of a job left, and a later one read: here they outlive everything.

What a run wrote is known from its held file operations; whether the next one reads it, the kernel says (inotify(7)).
"""

import ctypes
import os
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from outlast.containers.calls import Operation
from outlast.rehearse.stage import Stage
from outlast.rehearse.watch import is_passing

LEAVES_FILES = frozenset({"open", "rename", "link", "unlink", "truncate"})  # the operations that are to be told
_SYSTEM = ("/dev/", "/proc/", "/sys/")
_ACCESS, _CLOSE_READ = 0x1, 0x10  # sys/inotify.h: IN_ACCESS, IN_CLOSE_NOWRITE; a mapped file is only closed
_EVENT = struct.Struct("iIII")  # struct inotify_event, before its name
_BUFFER_BYTES = 1 << 16


class Elsewhere:
    """What the runs or attempts that share it leave outside, and `read` of it.

    A file that a run makes anew before it reads it is its own, and a folder called a cache holds no state.
    """

    def __init__(self) -> None:
        self._inside: tuple[str, ...] = _SYSTEM
        self._written: set[str] = set()
        self._watches: dict[str, int] = {}
        self._inotify: int | None = None
        self.read: set[str] = set()

    def passes(self, operation: Operation) -> bool:
        """Notes what is written outside; everything may happen."""
        path = operation.path
        if path and not path.startswith(self._inside) and not is_passing(path) and not _is_in_a_cache(path):
            if operation.replaces:
                self._forget(path)
            if operation.kind in LEAVES_FILES:
                self._written.add(path)
        return True

    @contextmanager
    def watching(self, stage: Stage) -> Iterator[None]:
        """One run, on a stage: which files it reads that those before it have left."""
        self._inside = (*_SYSTEM, f"{stage.folder.resolve()}/", f"{stage.private.resolve()}/")
        libc = ctypes.CDLL(None, use_errno=True)
        inotify = libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        if inotify < 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number))
        try:
            for path in (file for left in sorted(self._written) for file in _files_at(Path(left))):
                watch = libc.inotify_add_watch(inotify, os.fsencode(path), _ACCESS | _CLOSE_READ)
                if watch >= 0:  # else it is gone
                    self._watches[path] = watch
            names = {watch: path for path, watch in self._watches.items()}
            self._inotify = inotify
            yield
            self.read |= {names[watch] for watch in _events(inotify) if watch in names}
        finally:
            self._inotify = None
            self._watches.clear()
            os.close(inotify)

    def _forget(self, path: str) -> None:
        watch, inotify = self._watches.pop(path, None), self._inotify
        if watch is not None and inotify is not None:
            ctypes.CDLL(None).inotify_rm_watch(inotify, watch)


def _is_in_a_cache(path: str) -> bool:
    return any("cache" in part.lower() for part in Path(path).parent.parts)


def _files_at(path: Path) -> list[str]:
    """The file, or all in a folder that was renamed there; none where nothing is left."""
    return [str(one) for one in (path.rglob("*") if path.is_dir() else [path]) if one.is_file()]


def _events(inotify: int) -> Iterator[int]:
    """The watches of all events so far, but for the notes of those that were taken off."""
    while True:
        try:
            raw = os.read(inotify, _BUFFER_BYTES)
        except BlockingIOError:
            return
        place = 0
        while place < len(raw):
            watch, mask, _, length = _EVENT.unpack_from(raw, place)
            place += _EVENT.size + length
            if mask & (_ACCESS | _CLOSE_READ):
                yield watch
