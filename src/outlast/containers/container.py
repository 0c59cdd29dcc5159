"""One attempt's processes, kept as a platform keeps a container: signal the first, kill all.

In a PID namespace where that is allowed (the first process is then PID 1, and the kernel kills the rest when it
ends); elsewhere in a session of its own, with this process adopting orphans so that none gets away.
"""

import contextlib
import ctypes
import json
import math
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import BinaryIO

from outlast.containers import launcher, processes
from outlast.containers.calls import CallWatch, can_watch

_PR_SET_CHILD_SUBREAPER = 36
_START_SECONDS = 10.0
SHARED_MEMORY = Path("/dev/shm")  # noqa: S108 - a container has its own, which goes with it


@cache
def can_isolate() -> bool:
    """Whether a command can be started as PID 1 of a namespace of its own here."""
    reading, writing = os.pipe()
    try:
        tried = subprocess.run(
            _launch(writing, ("true",)),
            pass_fds=(writing,),
            capture_output=True,
            timeout=_START_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return False
    finally:
        os.close(reading)
        os.close(writing)
    return tried.returncode == 0


@cache
def can_hold_calls() -> bool:
    """Whether the file operations of an isolated command can be made to wait here.

    Not on a machine whose calls are not known, nor where the kernel or whoever started this process keeps seccomp's
    listener from us: there is one at most (seccomp(2), EBUSY).
    """
    if not can_watch() or not can_isolate():
        return False
    calls = CallWatch(lambda _: True)
    with Path(os.devnull).open("wb") as nowhere:
        tried = Container(
            ("true",),
            folder=Path("/"),
            environment=os.environ,
            stdout=nowhere,
            stderr=nowhere,
            isolated=True,
            calls=calls,
        )
    with tried:
        tried.wait(_START_SECONDS)
    calls.close()
    return calls.listening


@dataclass(frozen=True, slots=True)
class Mount:
    """A folder (or, but for a view in place, a file) of this machine that the container has at another path as well."""

    source: Path
    target: Path
    read_only: bool = False


@dataclass(frozen=True, slots=True)
class View:
    """What an isolated container sees besides this machine's files. `root`: an empty folder of its own, for that.

    `private`: what it writes elsewhere than to its mounts is lost with it; where this machine cannot do that it may
    not write. `in_place`: the mounts lie over this machine's own files, as the container alone sees them, and every
    other path is the same inside and outside.
    """

    root: Path
    mounts: tuple[Mount, ...]
    private: bool = False
    in_place: bool = False

    def told(self, folder: Path) -> dict[str, object]:
        """For the launcher, as JSON has it; `folder` is where the command starts, as the container sees it."""
        mounts = [(str(one.source), str(one.target), one.read_only) for one in self.mounts]
        how = {"root": str(self.root), "private": self.private, "in_place": self.in_place}
        return {**how, "folder": str(folder), "mounts": mounts}


def _launch(
    status: int,
    command: Sequence[str],
    *,
    view: dict[str, object] | None = None,
    below_init: bool = False,
    calls: CallWatch | None = None,
) -> tuple[str, ...]:
    """The command line of the launcher; see its `main`."""
    how: dict[str, object] = {"status": status, "view": view, "below_init": below_init}
    if calls is not None:
        how |= {"calls": calls.descriptor, "program": calls.program.hex()}
    return (sys.executable, "-I", "-S", launcher.__file__, json.dumps(how), *command)


def _begun(reading: int) -> tuple[int | None, str | None]:
    """Waits until the command has begun, or could not: the namespace's PID 1, and why not, as the launcher says."""
    with os.fdopen(reading, "rb") as status:
        lines = status.read().decode(errors="replace").splitlines()
    root = next((int(line) for line in lines if line.isdigit()), None)
    return root, next((line[1:] for line in lines if line.startswith("!")), None)


class Container:
    """A started command. Use as a context manager: leaving kills whatever is left.

    `view` needs `isolated`; `folder` may then be a path that only the view has. `first_is_pid_1` False starts it below
    an init of its own, as on a machine with a service manager. `calls` is asked about each file operation.
    Both need `isolated`, too, and change nothing without it. `start_error`: why the command could not begin, where the
    launcher of an isolated one found that out; None otherwise.
    """

    def __init__(
        self,
        command: Sequence[str],
        *,
        folder: Path,
        environment: Mapping[str, str],
        stdout: BinaryIO,
        stderr: BinaryIO,
        isolated: bool,
        view: View | None = None,
        first_is_pid_1: bool = True,
        calls: CallWatch | None = None,
    ) -> None:
        if view is not None and not isolated:
            raise ValueError("only an isolated container can see other files than this machine's")
        self.isolated, self.first_is_pid_1 = isolated, isolated and first_is_pid_1
        below_init, calls = isolated and not first_is_pid_1, calls if isolated else None
        if not isolated:
            ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        self._others = set(processes.children(os.getpid()))
        reading, writing = os.pipe()
        try:
            self._outer = subprocess.Popen(
                _launch(writing, command, view=view.told(folder) if view else None, below_init=below_init, calls=calls)
                if isolated
                else command,
                cwd=folder if view is None or view.in_place else None,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=stdout,
                stderr=stderr,
                pass_fds=(writing, *([calls.descriptor] if calls is not None else [])) if isolated else (),
                start_new_session=True,  # Ctrl-C at the terminal is ours; it stops the rehearsal in order
            )
        except (OSError, ValueError):
            os.close(reading)
            raise
        finally:
            os.close(writing)
        if calls is not None:
            calls.listen()  # before the command begins: what it cannot do it would want to write
        root, self.start_error = _begun(reading)
        root = root if isolated else self._outer.pid
        self._root_pid = root
        below = processes.children(root)[:1] if root and below_init else [root]
        self.first_pid = below[0] if below else None
        self.started_at = time.monotonic()
        self._first = open_pidfd(self.first_pid) if self.first_pid else None
        self._init = open_pidfd(root) if root and below_init else None

    def __enter__(self) -> "Container":
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()
        self.close()

    def wait(self, seconds: float, also: Iterable[int] = ()) -> tuple[bool, set[int]]:
        """Waits until the first process, or one of the pidfds in `also`, ends, or the time is over.

        Returns whether the first process has ended, and which of the others have.
        """
        if self._first is None:
            return True, set()
        poll = select.poll()  # unlike select(), with no limit on descriptor numbers
        for handle in (self._first, *also):
            poll.register(handle, select.POLLIN)
        ready = {handle for handle, _ in poll.poll(math.ceil(max(0.0, seconds) * 1000))}
        return self._first in ready, ready - {self._first}

    def descendants(self) -> list[int]:
        """All processes of the attempt but the first."""
        below = processes.descendants(self._root_pid) if self._root_pid else []
        others = [pid for pid in below if pid != self.first_pid]
        return others if self.isolated else [*others, *self._adopted()]

    def terminate_first(self) -> None:
        """SIGTERM to the first process, and to no other."""
        self.signal_first(signal.SIGTERM)

    def signal_first(self, number: int) -> None:
        """A signal to the first process, and to no other."""
        if self._first is not None:
            with contextlib.suppress(ProcessLookupError):  # it ended by itself in this instant
                signal.pidfd_send_signal(self._first, number)

    def signal_all(self, number: int) -> None:
        """A signal to every process, the first one last."""
        for pid in self.descendants():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)
        self.signal_first(number)

    def kill(self) -> None:
        """SIGKILL to everything. May be called from any thread, more than once."""
        if self.isolated:
            self._kill_first()
            return
        deadline = time.monotonic() + _START_SECONDS
        while (left := self._alive()) and time.monotonic() < deadline:
            for pid in left:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            time.sleep(0.002)

    def finish(self) -> int:
        """Kills what the first process left behind; returns its exit code, 128+n for signal n."""
        code = self._outer.wait()
        if not self.isolated:  # in a namespace the kernel has done it already
            self.kill()
        return 128 - code if code < 0 else code

    def close(self) -> None:
        """Gives the handle on the first process back."""
        self._outer.wait()
        for handle in (self._first, self._init):
            if handle is not None:
                os.close(handle)
        self._first = self._init = None

    def _kill_first(self) -> None:
        """The end of a namespace's PID 1 is that of all its processes."""
        if self._init is not None and self.wait(0)[0]:
            return  # the init is about to leave with the command's exit code
        root = self._first if self._init is None else self._init
        if root is not None:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(root, signal.SIGKILL)
        elif self._root_pid is None and self._outer.poll() is None:  # else it has ended, and its code is on the way
            self._outer.kill()

    def _alive(self) -> list[int]:
        pids = [self._outer.pid, *processes.descendants(self._outer.pid), *self._adopted()]
        return [pid for pid in pids if not _has_ended(pid)]

    def _adopted(self) -> list[int]:
        """Orphans that became our children, and theirs; the dead ones are reaped on the way."""
        found = []
        for pid in set(processes.children(os.getpid())) - self._others - {self._outer.pid}:
            if _has_ended(pid):
                with contextlib.suppress(ChildProcessError):
                    os.waitpid(pid, os.WNOHANG)
                continue
            found += [pid, *processes.descendants(pid)]
        return found


def _has_ended(pid: int) -> bool:
    found = processes.look_at(pid)
    return found is None or found.ended


def open_pidfd(pid: int) -> int | None:
    """A handle that becomes readable when the process ends; None when it is gone already."""
    try:
        return os.pidfd_open(pid)
    except ProcessLookupError:
        return None
