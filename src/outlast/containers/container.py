"""One attempt's processes, kept as a platform keeps a container: signal the first, kill all.

In a PID namespace where that is allowed (the first process is then PID 1, and the kernel kills the rest when it
ends); elsewhere in a session of its own, with this process adopting orphans so that none gets away.
"""

import contextlib
import ctypes
import math
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import BinaryIO

from outlast.containers import launcher, processes
from outlast.containers.calls import CallWatch, filter_program

_PR_SET_CHILD_SUBREAPER = 36
_START_SECONDS = 10.0


@cache
def can_isolate() -> bool:
    """Whether a command can be started as PID 1 of a namespace of its own here."""
    reading, writing = os.pipe()
    try:
        tried = subprocess.run(
            _launch(writing, ("true",), None), pass_fds=(writing,), capture_output=True, timeout=_START_SECONDS, check=False
        )
    except subprocess.TimeoutExpired:
        return False
    finally:
        os.close(reading)
        os.close(writing)
    return tried.returncode == 0


def _launch(status: int, command: Sequence[str], calls: CallWatch | None) -> tuple[str, ...]:
    how = f"{status}:{calls.descriptor}:{filter_program().hex()}" if calls is not None else str(status)
    return (sys.executable, "-I", "-S", launcher.__file__, how, *command)


class Container:
    """A started command. Use as a context manager: leaving kills whatever is left."""

    def __init__(
        self,
        command: Sequence[str],
        *,
        folder: Path,
        environment: Mapping[str, str],
        stdout: BinaryIO,
        stderr: BinaryIO,
        isolated: bool,
        calls: CallWatch | None = None,
    ) -> None:
        """`calls` is asked about each file operation, where processes are isolated."""
        self.isolated = isolated
        calls = calls if isolated else None
        if not isolated:
            ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        self._others = set(processes.children(os.getpid()))
        reading, writing = os.pipe()
        try:
            self._outer = subprocess.Popen(
                _launch(writing, command, calls) if isolated else command,
                cwd=folder,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=stdout,
                stderr=stderr,
                pass_fds=(writing, *([calls.descriptor] if calls is not None else [])) if isolated else (),
                start_new_session=True,  # Ctrl-C at the terminal is ours; it stops the rehearsal in order
            )
        finally:
            os.close(writing)
        if calls is not None:
            calls.listen()
        with os.fdopen(reading, "rb") as status:
            told = status.read()  # returns when the command has begun, or could not
        self.first_pid = (int(told) if told else None) if isolated else self._outer.pid
        self.started_at = time.monotonic()
        self._first = open_pidfd(self.first_pid) if self.first_pid else None

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
        below = processes.descendants(self.first_pid) if self.first_pid else []
        return below if self.isolated else [*below, *self._adopted()]

    def terminate_first(self) -> None:
        """SIGTERM to the first process, and to no other."""
        if self._first is not None:
            with contextlib.suppress(ProcessLookupError):  # it ended by itself in this instant
                signal.pidfd_send_signal(self._first, signal.SIGTERM)

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
        if self._first is not None:
            os.close(self._first)
            self._first = None

    def _kill_first(self) -> None:
        if self._first is not None:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._first, signal.SIGKILL)
        elif self._outer.poll() is None:
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
