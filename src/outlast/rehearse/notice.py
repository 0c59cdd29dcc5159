"""What happens between a notice and the end: which processes could hear it, and which were left behind."""

import contextlib
import os
from dataclasses import dataclass, field
from pathlib import Path

from outlast.containers import processes
from outlast.containers.calls import Operation
from outlast.containers.container import Container, open_pidfd
from outlast.containers.processes import Process

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


class LastLook:
    """What still runs when the first process asks to leave; the kernel holds it until `passes` returns.

    Afterwards nobody can tell a process that ended just before from one that was killed with the first: a shell that
    waits for its child is gone within a millisecond of it.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._container: Container | None = None
        self.left_behind: tuple[LeftBehind, ...] | None = None  # None: it did not ask, or nobody was asked

    def begin(self, container: Container) -> None:
        """From now on, at the ends of this container's processes."""
        self._container = container

    def passes(self, operation: Operation) -> bool:
        """Always; to be asked before each operation, of which only the end of the first process means something."""
        container, is_an_end = self._container, operation.kind in ("exit", "failure")
        if container is not None and is_an_end and processes.process_of(operation.pid) == container.first_pid:
            self.look(container)
        return True

    def look(self, container: Container) -> None:
        """Looks now: when the first process asks to leave or, where its end kills nothing, has left."""
        alive = (processes.look_at(pid) for pid in container.descendants())
        self.left_behind = tuple(
            LeftBehind(one.command, tuple(processes.files_written_by(one.pid, below=self._folder)))
            for one in alive
            if one is not None and not one.ended and not one.harmless
        )


class NoticeWatch:
    """Looks at an attempt's processes again and again. Leaving the context gives its handles back.

    `last` knows better what was left behind, where it saw the first process leave.
    """

    def __init__(self, container: Container, folder: Path, last: LastLook) -> None:
        self._container, self._folder, self._last = container, folder, last
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
            if not self._container.isolated:
                self._last.look(self._container)
            return True
        if ended and self._container.isolated and self._first_is_leaving():
            self._left_by_itself, _ = self._container.wait(_LEAVING_SECONDS)
            return self._left_by_itself
        for handle in ended:
            del self._seen[by_handle[handle]]
            os.close(handle)
        self.look()
        return False

    def _first_is_leaving(self) -> bool:
        first = processes.look_at(self._container.first_pid) if self._container.first_pid else None
        return first is None or first.leaving

    def look(self) -> None:
        """Looks at all processes of the attempt now."""
        first = processes.look_at(self._container.first_pid) if self._container.first_pid else None
        self._first_hears = self._first_hears or (first is not None and first.hears_sigterm)
        for pid in self._container.descendants():
            process = processes.look_at(pid)
            if process is None or process.ended or process.harmless:
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
        seen.process = process
        with contextlib.suppress(OSError):  # it ended while we looked
            seen.writes = tuple(processes.files_written_by(process.pid, below=self._folder))

    def view(self, *, signalled: bool) -> NoticeView:
        """What has been seen; processes count as left behind only when the first one left by itself."""
        behind = self._last.left_behind
        if behind is None:
            behind = tuple(LeftBehind(seen.process.command, seen.writes) for seen in self._seen.values())
        return NoticeView(
            first_command=self._first_command,
            first_hears=self._first_hears,
            first_was_pid_1=self._container.first_is_pid_1,
            hearing_child=self._hearing_child,
            left_behind=behind if self._left_by_itself else (),
            signalled=signalled,
        )
