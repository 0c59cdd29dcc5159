"""Keeps one server of the tests alive for as long as a process lives: `keeper.py PID FOLDER UNMOUNT COMMAND…`.

The servers are shared by all workers of a test run, and none of these lives to the end for sure. So each server has a
keeper, which watches the process of the whole run and ends the server with it, however that ended. FOLDER is the
run's own, emptied at its end, with all that is in its folders named `*.state`; UNMOUNT is the folder of a mount, or "".

A mount's server that hangs takes everybody with it who asked it for something: such a process cannot even be killed.
So the keeper of a mount looks whether somebody waits for an answer without a pause, and ends the server then, which
ends the wait with an error.
"""

import contextlib
import ctypes
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_PATIENCE_SECONDS = 3.0
_HUNG_SECONDS = 30.0
_LOOK_SECONDS = 0.25


def _die_with_the_keeper() -> None:
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def _is_there(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def _end(server: "subprocess.Popen[bytes]", mounted_at: str) -> None:
    if mounted_at:
        with contextlib.suppress(OSError):
            subprocess.run(["fusermount3", "-uz", mounted_at], check=False, capture_output=True)
    server.terminate()
    try:
        server.wait(_PATIENCE_SECONDS)
    except subprocess.TimeoutExpired:
        server.kill()
        server.wait()


def _children() -> list[int]:
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            state, parent = stat.read_bytes().rpartition(b")")[2].split()[:2]
            if int(parent) == os.getpid() and state != b"Z":
                found.append(int(stat.parent.name))
    return found


def _reap_orphans(server: int) -> None:
    """Slurm takes a process for alive until somebody has asked for its end."""
    with contextlib.suppress(ChildProcessError):
        while ended := os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT):
            if ended.si_pid == server:
                return
            os.waitpid(ended.si_pid, os.WNOHANG)


def _end_what_it_started() -> None:
    """Slurm's jobs outlive the daemon that started them; whoever has lost its parent is ours."""
    until = time.monotonic() + _PATIENCE_SECONDS
    while (left := _children()) and time.monotonic() < until:
        for pid in left:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.01)


def _waiting() -> Iterator[tuple[str, str]]:
    """(thread, how often it has paused) of all threads that wait for the server of some mount."""
    for task in Path("/proc").glob("[0-9]*/task/[0-9]*"):
        with contextlib.suppress(OSError):
            if (task / "wchan").read_text() == "request_wait_answer":
                [pauses] = (line for line in (task / "status").read_text().splitlines() if line.startswith("voluntary"))
                yield task.name, pauses


class _Watch:
    """Whether some thread has been waiting for one and the same answer for too long."""

    def __init__(self) -> None:
        self._since: dict[tuple[str, str], float] = {}
        self._next_look = 0.0

    def sees_a_hang(self) -> bool:
        now = time.monotonic()
        if now < self._next_look:
            return False
        self._next_look = now + _HUNG_SECONDS / 10
        self._since = {wait: self._since.get(wait, now) for wait in _waiting()}
        return any(now - since > _HUNG_SECONDS for since in self._since.values())


def keep(watched: int, mounted_at: str, command: list[str]) -> None:
    """Runs the command until it ends, hangs, or the watched process is gone; all that it started ends with it."""
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    with subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        preexec_fn=_die_with_the_keeper,  # noqa: PLW1509  the keeper has no threads
    ) as server:
        watch = _Watch()
        while _is_there(watched) and server.poll() is None:
            _reap_orphans(server.pid)
            if mounted_at and watch.sees_a_hang():
                sys.stderr.write("keeper: the mount hangs; its server is ended\n")
                server.kill()
            time.sleep(_LOOK_SECONDS)
        _end(server, mounted_at)
    _end_what_it_started()


def tidy(folder: str) -> None:
    """Removes what a run left in its folder; nothing below a mount is touched."""
    for state in Path(folder).glob("*.state"):
        shutil.rmtree(state, ignore_errors=True)
    with contextlib.suppress(OSError):
        for entry in list(os.scandir(folder)):
            with contextlib.suppress(OSError):
                (os.rmdir if entry.is_dir(follow_symlinks=False) else os.unlink)(entry.path)
        Path(folder).rmdir()


if __name__ == "__main__":
    watched = int(sys.argv[1])
    keep(watched, sys.argv[3], sys.argv[4:])
    if not _is_there(watched):
        tidy(sys.argv[2])
