"""What happens between a notice and the end: which processes could hear it, and which were left behind."""

import os
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from outlast.containers import processes
from outlast.containers.calls import CallWatch, Operation
from outlast.containers.container import Container, open_pidfd
from outlast.containers.processes import Process
from outlast.rehearse.elsewhere import LEAVES_FILES, Elsewhere

_MOST_WATCHED = 256  # each takes a descriptor of ours
_LEAVING_SECONDS = 5.0  # the kernel ends the rest of a namespace before its first process is gone


@dataclass(frozen=True, slots=True)
class LeftBehind:
    """A process that still ran when the first one had left. `writes` are files it held open for writing."""

    command: str
    writes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class NoticeView:
    """What was seen while a notice was pending.

    `first_hears`: the first process handled SIGTERM. `hearing_child` is the command of another that would have.
    `signalled`: there was a signal, and not only the platform's own announcement.
    """

    first_command: str
    first_hears: bool
    first_was_pid_1: bool
    hearing_child: str | None
    left_behind: tuple[LeftBehind, ...] = ()
    signalled: bool = True


@dataclass(slots=True)
class _Seen:
    process: Process
    handle: int
    writes: tuple[str, ...] = field(default=())


class Parting:
    """The moment at which the first process leaves by itself: the kernel holds it until it is known who is left behind.

    In a namespace everybody ends with it, so that afterwards nobody can tell who had ended before. `elsewhere` is told
    of files that are left outside of the copy.
    """

    def __init__(self, elsewhere: Elsewhere | None = None) -> None:
        kinds = frozenset({"exit"}) if elsewhere is None else LEAVES_FILES | {"exit"}
        self.calls = CallWatch(self.passes, kinds=kinds)
        self._elsewhere = elsewhere
        self.left_behind: tuple[LeftBehind, ...] | None = None
        self._watched: tuple[Container, Path] | None = None

    def watch(self, container: Container, folder: Path) -> None:
        """From now on it is looked who is left behind."""
        self._watched = container, folder

    def passes(self, operation: Operation) -> bool:
        """Looks at the end of the first process; everything may happen."""
        if self._elsewhere is not None:
            self._elsewhere.passes(operation)
        if self._watched is not None and operation.kind == "exit":
            container, folder = self._watched
            if container.first_pid is not None and processes.has_thread(container.first_pid, operation.pid):
                found = (one for pid in container.descendants() if (one := _at_work(pid)) is not None)
                self.left_behind = tuple(LeftBehind(one.command, _writes(one, folder)) for one in found)
        return True


def _at_work(pid: int) -> Process | None:
    """A process, unless it has ended, is about to, or is none of the program's."""
    found = processes.look_at(pid)
    return None if found is None or found.ended or found.leaving or found.harmless else found


def _writes(process: Process, folder: Path) -> tuple[str, ...]:
    return tuple(processes.files_written_by(process.pid, below=folder))


class NoticeWatch:
    """Looks at an attempt's processes again and again. Leaving the context gives its handles back."""

    def __init__(self, container: Container, folder: Path, parting: Parting) -> None:
        self._container, self._folder, self._parting = container, folder, parting
        parting.watch(container, folder)
        first = processes.look_at(container.first_pid) if container.first_pid else None
        self._first_command = first.command if first else "?"
        self._first_hears = first is not None and first.hears_sigterm
        self._hearing_child: str | None = None
        self._seen: dict[int, _Seen] = {}
        self._left_by_itself = False
        self.look()

    def __enter__(self) -> "NoticeWatch":
        return self

    def __exit__(self, *_: object) -> None:
        for seen in self._seen.values():
            os.close(seen.handle)

    def wait(self, seconds: float) -> bool:
        """Waits for the end of the first process; looks again meanwhile. Returns whether it has ended.

        A child that ends while the first is leaving was killed with it; one that ends before ended by itself.
        """
        by_handle = {seen.handle: pid for pid, seen in self._seen.items()}
        self._left_by_itself, ended = self._container.wait(seconds, by_handle)
        if self._left_by_itself:
            if not self._container.isolated:  # nobody was killed with it
                self._forget(by_handle[handle] for handle in ended)
                self.look()
            return True
        if ended and self._container.isolated and self._first_is_leaving():
            self._left_by_itself, _ = self._container.wait(_LEAVING_SECONDS)
            return self._left_by_itself
        self._forget(by_handle[handle] for handle in ended)
        self.look()
        return False

    def _forget(self, pids: Iterable[int]) -> None:
        for pid in pids:
            os.close(self._seen.pop(pid).handle)

    def _first_is_leaving(self) -> bool:
        first = processes.look_at(self._container.first_pid) if self._container.first_pid else None
        return first is None or first.leaving

    def look(self) -> None:
        """Looks at all processes of the attempt now."""
        first = processes.look_at(self._container.first_pid) if self._container.first_pid else None
        self._first_hears = self._first_hears or (first is not None and first.hears_sigterm)
        for pid in self._container.descendants():
            process = _at_work(pid)
            if process is None:
                continue
            if process.hears_sigterm and self._hearing_child is None:
                self._hearing_child = process.command
            self._remember(process)

    def _remember(self, process: Process) -> None:
        seen = self._seen.get(process.pid)
        if seen is None:
            handle = open_pidfd(process.pid) if len(self._seen) < _MOST_WATCHED else None
            if handle is None:
                return
            seen = self._seen[process.pid] = _Seen(process, handle)
        seen.process, seen.writes = process, _writes(process, self._folder)

    def view(self, *, signalled: bool) -> NoticeView:
        """What has been seen; processes count as left behind only when the first one left by itself."""
        behind = self._parting.left_behind
        if behind is None:  # a signal ended it, or the kernel holds nothing here
            behind = tuple(LeftBehind(seen.process.command, seen.writes) for seen in self._seen.values())
        return NoticeView(
            first_command=self._first_command,
            first_hears=self._first_hears,
            first_was_pid_1=self._container.first_is_pid_1,
            hearing_child=self._hearing_child,
            left_behind=behind if self._left_by_itself else (),
            signalled=signalled,
        )
