"""Writes seen in the copy: when, to which file, and a trigger for the next one."""

import logging
import re
import threading
import time
import warnings
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

from watchdog.events import (
    FileClosedEvent,
    FileCreatedEvent,
    FileModifiedEvent,
    FileMovedEvent,
    FileSystemEvent,
    FileSystemEventHandler,
)
from watchdog.observers import Observer

from outlast.rehearse.sandbox import PRIVATE_FOLDER

_SAME_BURST_SECONDS = 0.01
_SETTLE_SECONDS = 2.0
_MARK = ".outlast-settled"
_NUMBERED = re.compile(r"[0-9a-f]{8,}|\d+")  # what differs between the names of two saves


@dataclass(frozen=True, slots=True)
class Write:
    """A change to a file of the copy: "created", "modified", "moved" (to this name) or "closed"."""

    path: str
    kind: str
    at: float  # monotonic seconds


@dataclass(frozen=True, slots=True)
class SaveFilter:
    """Which writes are part of a save: those to files that outlive the attempt.

    In the rehearsal's store only new objects are (its journal grows at every event); once a program uses that
    store, nothing else is. `logs` are files that the program keeps open and adds to all along. `from_start`: a
    trigger that is armed within a save waits for the next one, since a kill at the last write of all cuts nothing.
    `only`: how the names of the only files begin that a save writes to; empty where that is not known.
    """

    store_only: bool = False
    logs: frozenset[str] = frozenset()
    from_start: bool = True
    only: tuple[str, ...] = ()

    def accepts(self, write: Write) -> bool:
        if write.kind == "closed" or is_passing(write.path) or write.path in self.logs:
            return False
        if self.only:
            return write.path.startswith(self.only)
        if write.path.startswith(f"{PRIVATE_FOLDER}/"):
            return write.kind in ("created", "moved")
        return not self.store_only


def is_passing(path: str) -> bool:
    """Files that Python makes by itself."""
    return path.endswith(".pyc") or "__pycache__/" in path


def family(name: str) -> str:
    """What the names of one thing have in common when it is written again and again: all but the numbers."""
    return _NUMBERED.sub("#", name)


def find_rotated(writes: Iterable[Write], left: Collection[str]) -> set[str]:
    """Of the files that are left, older ones of those that a program removes in turn, as it does with checkpoints.

    Which of them are left depends on when it saved, and so on when it was interrupted. The newest is not among them.
    """
    families: dict[str, list[str]] = {}
    for name in dict.fromkeys(write.path for write in writes):
        families.setdefault(family(name), []).append(name)
    rotated: set[str] = set()
    for names in families.values():
        kept = [name for name in names if name in left]
        if 0 < len(kept) < len(names) and names[-len(kept) :] == kept:
            rotated.update(kept[:-1])
    return rotated


class WriteWatch(FileSystemEventHandler):
    """Watches a folder while used as a context manager."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._lock = threading.Lock()
        self._writes: list[Write] = []
        self._filter = SaveFilter()
        self._action: Callable[[], None] | None = None
        self._fired: Write | None = None
        self._last: dict[str, Write] = {}
        self._open: set[str] = set()  # written to and not closed since
        self._passed_over: set[str] = set()
        self._settled = threading.Event()
        self._observer = Observer()

    def __enter__(self) -> "WriteWatch":
        kinds: list[type[FileSystemEvent]] = [FileCreatedEvent, FileModifiedEvent, FileMovedEvent, FileClosedEvent]
        # watchdog 7 may see a new folder twice, and says so; as an error that would end its thread.
        warnings.filterwarnings("ignore", "Callback with id", RuntimeWarning)
        self._observer.schedule(self, str(self._folder), recursive=True, event_filter=kinds)
        self._observer.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        log = logging.getLogger("watchdog.observers.inotify")
        log.addFilter(_is_worth_telling)
        try:
            self._observer.stop()
            self._observer.join()
        finally:
            log.removeFilter(_is_worth_telling)

    def arm(self, action: Callable[[], None], which: SaveFilter) -> None:
        """Calls `action` once, from the watching thread, at the next write that `which` accepts."""
        with self._lock:
            self._filter, self._action, self._fired = which, action, None
            self._passed_over = set(self._open) if which.from_start else set()

    def disarm(self) -> Write | None:
        """Takes the trigger back; the write that set it off, if one did."""
        with self._lock:
            self._action = None
            fired, self._fired = self._fired, None
            return fired

    def settle(self) -> None:
        """Waits until what was written so far has been seen: on a busy machine the watching thread is behind."""
        mark = self._folder / _MARK
        mark.touch()
        self._settled.wait(_SETTLE_SECONDS)
        mark.unlink(missing_ok=True)

    def writes_since(self, moment: float) -> list[Write]:
        with self._lock:
            return [write for write in self._writes if write.at >= moment]

    def on_any_event(self, event: FileSystemEvent) -> None:
        name = event.dest_path if isinstance(event, FileMovedEvent) else event.src_path
        path = Path(str(name)).relative_to(self._folder).as_posix()
        if path == _MARK:
            self._settled.set()
            return
        write = Write(path, event.event_type, time.monotonic())
        with self._lock:
            self._record(write)
            if self._action is not None and path not in self._passed_over and self._filter.accepts(write):
                action, self._action, self._fired = self._action, None, write
                action()
            self._note_open(write)

    def _record(self, write: Write) -> None:
        """Keeps the write, but for one of many in a row to one file: a fast writer would fill the memory."""
        last = self._last.get(write.path)
        if last is not None and last.kind == write.kind and write.at - last.at < _SAME_BURST_SECONDS:
            return
        self._last[write.path] = write
        self._writes.append(write)

    def _note_open(self, write: Write) -> None:
        if write.kind == "closed":
            self._open.discard(write.path)
            self._passed_over.discard(write.path)
        elif write.kind != "moved":
            self._open.add(write.path)


def _is_worth_telling(record: logging.LogRecord) -> bool:
    """Not so watchdog's complaint that its own thread looked once more while it was being stopped."""
    return "when the thread is inactive" not in record.getMessage()


def count_saves(writes: Iterable[Write]) -> int:
    """How often a file was written to its end. Mere changes do not count: of many in a row the system may tell one."""
    return sum(write.kind in ("closed", "moved") for write in writes)


def find_logs(writes: Iterable[Write], *, life_seconds: float) -> frozenset[str]:
    """Files that were written again and again over a third of the life without being closed between."""
    by_path: dict[str, list[Write]] = {}
    for write in writes:
        by_path.setdefault(write.path, []).append(write)
    return frozenset(
        path
        for path, ones in by_path.items()
        if sum(one.kind == "modified" for one in ones) >= 3
        and sum(one.kind == "closed" for one in ones) <= 1
        and all(one.kind != "moved" for one in ones)
        and ones[-1].at - ones[0].at > life_seconds / 3
    )
