"""What happens between a notice and the end: which processes could hear it, and which were left behind."""

import contextlib
import os
from dataclasses import dataclass, field
from pathlib import Path

from outlast.containers import processes
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


class NoticeWatch:
    """Looks at an attempt's processes again and again. Leaving the context gives its handles back.

    `heard_as` is the command of the first process when it was seen to handle SIGTERM before; None if it was not. On its
    way out it may handle nothing any more, as Python does not.
    """

    def __init__(self, container: Container, folder: Path, *, heard_as: str | None = None) -> None:
        self._container, self._folder = container, folder
        first = processes.look_at(container.first_pid) if container.first_pid else None
        self._first_command = first.command if first else "?"
        self._first_hears = first is not None and (first.hears_sigterm or first.command == heard_as)
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
            return True
        if ended and self._first_is_leaving():
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
        """What has been seen; processes count as left behind only if the first one left by itself, and they did not."""
        behind = [
            LeftBehind(seen.process.command, seen.writes)
            for seen in self._seen.values()
            if not processes.ended_by_itself(seen.handle)
        ]
        return NoticeView(
            first_command=self._first_command,
            first_hears=self._first_hears,
            first_was_pid_1=self._container.first_is_pid_1,
            hearing_child=self._hearing_child,
            left_behind=tuple(behind) if self._left_by_itself else (),
            signalled=signalled,
        )
