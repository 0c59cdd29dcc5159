"""The command's processes: started in their own group, reaped when orphaned, none of them left behind."""

import contextlib
import ctypes
import os
import signal
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import NoReturn, Self

from outlast.supervise.decisions import EXIT_NOT_EXECUTABLE
from outlast.supervise.hearing import HEARD, PASSED_ON

_PR_SET_CHILD_SUBREAPER = 36  # linux/prctl.h
_RESCAN_SECONDS = 0.001
_PROC = Path("/proc")


class CommandProcesses:
    """A context in which this process is the parent of every orphan that the command leaves (Linux).

    Elsewhere only the command's own process group is found.
    """

    def __init__(self) -> None:
        self._strangers: frozenset[int] = frozenset()
        self._command_pid = 0
        self._reaped: list[tuple[int, int]] = []
        self._has_children = False

    def __enter__(self) -> Self:
        _be_subreaper(True)
        # An entry script may start a sidecar and then exec us: such children are not the command's.
        self._strangers = frozenset(process.pid for process in _children(os.getpid()))
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        _be_subreaper(False)

    def start(self, command: Sequence[str], env: Mapping[str, str], in_child: Callable[[], None]) -> int:
        """See doors.Processes."""
        # A fork of our own, not posix_spawn: the terminal has to change hands before the command's first instruction.
        reading, writing = os.pipe()  # closed by a successful exec; otherwise it brings the error number
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        try:
            pid = os.fork()
            if pid == 0:
                _become(command, env, mask - set(PASSED_ON), in_child, writing)
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
            os.close(writing)
        with os.fdopen(reading, "rb") as pipe:
            error_number = pipe.read()
        if error_number:
            os.waitpid(pid, 0)
            raise OSError(int(error_number), os.strerror(int(error_number)))
        self._command_pid = pid
        return pid

    def send(self, pid: int, signal_number: int) -> None:
        """See doors.Processes."""
        # Gone, which reap() reports; or another user's by now (setuid), which only root may signal.
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal_number)

    def catches(self, pid: int, signal_number: int) -> bool:
        """See doors.Processes."""
        if not sys.platform.startswith("linux"):
            return True
        try:
            status = (_PROC / str(pid) / "status").read_text()
        except (FileNotFoundError, ProcessLookupError):
            return False
        except PermissionError:
            return True
        caught = next((line.split()[1] for line in status.splitlines() if line.startswith("SigCgt:")), None)
        return caught is None or bool(int(caught, 16) >> (signal_number - 1) & 1)

    def reap(self) -> list[tuple[int, int]]:
        """See doors.Processes."""
        self._collect()
        reaped, self._reaped = self._reaped, []
        return reaped

    def orphans(self) -> list[int]:
        """See doors.Processes."""
        return [process.pid for process in _children(os.getpid()) if self._is_leftover(process)]

    def kill_all(self, group: int, within_seconds: float) -> list[int]:
        """See doors.Processes."""
        until = time.monotonic() + within_seconds
        killed: set[int] = set()
        while True:
            alive = self._descendants()
            killed.update(alive)
            if not killed:
                _kill_group(group)  # where there is no /proc, the group is all that we know of
            for pid in alive:
                self.send(pid, signal.SIGKILL)
            self._collect()
            # A process in the middle of a disk or driver call dies later.
            if not self._anything_left() or time.monotonic() >= until:
                return sorted(killed - {self._command_pid})
            time.sleep(_RESCAN_SECONDS)

    def _collect(self) -> None:
        self._has_children = True
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG | os.WUNTRACED)
            except ChildProcessError:
                self._has_children = False
                return
            if pid == 0:
                return
            self._reaped.append((pid, status))
            self._strangers -= {pid}  # the kernel may give the number away again

    def _anything_left(self) -> bool:
        # A scan of /proc can miss a process that forks and ends while we look; the kernel's own count cannot: whoever
        # loses its parent becomes our child in the same moment. Strangers are in that count, too.
        return self._has_children and (not self._strangers or bool(self._descendants()))

    def _descendants(self) -> list[int]:
        below: dict[int, list[_Process]] = {}
        for process in _living_processes():
            below.setdefault(process.parent, []).append(process)
        found: list[int] = []
        to_visit = [process for process in below.get(os.getpid(), []) if process.pid not in self._strangers]
        while to_visit:
            process = to_visit.pop()
            found.append(process.pid)
            to_visit += below.get(process.pid, [])
        return found

    def _is_leftover(self, process: "_Process") -> bool:
        return process.pid not in self._strangers and process.pid != self._command_pid


def _become(
    command: Sequence[str],
    env: Mapping[str, str],
    mask: Iterable[int],
    in_child: Callable[[], None],
    report_to: int,
) -> NoReturn:
    """In the new process: turns into the command, or reports the error's number and ends."""
    try:
        os.setpgid(0, 0)
        in_child()
        signal.set_wakeup_fd(-1)  # the pipe is our parent's
        for number in HEARD:
            if signal.getsignal(number) is not signal.SIG_IGN:
                signal.signal(number, signal.SIG_DFL)
        for number in (signal.SIGPIPE, signal.SIGXFSZ):  # ignored by Python, not by whoever started us
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        os.execvpe(command[0], list(command), env)  # noqa: S606 - no shell is the point
    except OSError as error:
        os.write(report_to, str(error.errno).encode())
    finally:
        os._exit(EXIT_NOT_EXECUTABLE)  # never back into the supervisor's own code


@dataclass(frozen=True, slots=True)
class _Process:
    pid: int
    parent: int


def _children(parent: int) -> list[_Process]:
    return [process for process in _living_processes() if process.parent == parent]


def _living_processes() -> list[_Process]:
    if not sys.platform.startswith("linux"):
        return []
    found = []
    for entry in _PROC.iterdir():
        if not entry.name.isdigit():
            continue
        try:
            stat = (entry / "stat").read_bytes()
        except (FileNotFoundError, ProcessLookupError):
            continue  # it ended while we looked
        # pid (name) state parent …; the name may hold blanks and brackets
        state, parent = stat.rpartition(b")")[2].split()[:2]
        if state not in (b"Z", b"X"):
            found.append(_Process(int(entry.name), int(parent)))
    return found


def _kill_group(group: int) -> None:
    # Empty, or (macOS) only zombies.
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, signal.SIGKILL)


def _be_subreaper(on: bool) -> None:
    if not sys.platform.startswith("linux"):
        return
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_CHILD_SUBREAPER, ctypes.c_ulong(on), 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_CHILD_SUBREAPER)")
