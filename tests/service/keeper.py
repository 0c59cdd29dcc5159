"""Keeps one server of the tests alive for as long as a process lives: `keeper.py PID UNMOUNT COMMAND…`.

The servers are shared by all workers of a test run, and none of these lives to the end for sure. So each server has a
keeper, which watches the process of the whole run and ends the server with it, however that ended. UNMOUNT is the
folder of a mount, or "".
"""

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
import time

_PR_SET_PDEATHSIG = 1
_PATIENCE_SECONDS = 3.0


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


def keep(watched: int, mounted_at: str, command: list[str]) -> None:
    """Runs the command until it ends or the watched process is gone."""
    with subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        preexec_fn=_die_with_the_keeper,  # noqa: PLW1509  the keeper has no threads
    ) as server:
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(_end(server, mounted_at)))
        while _is_there(watched) and server.poll() is None:
            time.sleep(0.25)
        _end(server, mounted_at)


if __name__ == "__main__":
    keep(int(sys.argv[1]), sys.argv[2], sys.argv[3:])
