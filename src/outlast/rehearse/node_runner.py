"""The first process of a job on several nodes: starts the command once for each, and ends when all of them have.

It stands for the platform's controller, and is started as a file by itself, so that nothing of the user's or of outlast
is loaded: standard library only. A node's processes are known by NODE in their environment. As a container's kernel
does, it kills what the first process of a node leaves behind.
"""

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

NODE = "OUTLAST_REHEARSAL_NODE"  # in the environment of all processes of a node: its number, from 0
_SIGNALS = (signal.SIGTERM, signal.SIGUSR1)  # what a platform ends jobs with
_ADVICE = (0, 137, 143)  # codes that say nothing by themselves, the least first


def main(told: str) -> int:
    """`told` is JSON: "command", and "nodes", the variables of each. Returns the exit code of all together."""
    how = json.loads(told)
    port = str(_free_port())
    alive: dict[int, int] = {}

    def pass_on(number: int, _frame: object) -> None:
        for pid in list(alive):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)

    for number in _SIGNALS:
        signal.signal(number, pass_on)
    for node, variables in enumerate(how["nodes"]):
        found = {name: text.replace("{port}", port) for name, text in variables.items()}
        os.makedirs(found["TMPDIR"], exist_ok=True)  # noqa: PTH103 - less to load
        environment = {**os.environ, **found, NODE: str(node)}
        process = subprocess.Popen(how["command"], env=environment, start_new_session=True)
        alive[process.pid] = node
        process.returncode = 0  # it is waited for below, as orphans are
    codes = []
    while alive:
        pid, status = os.waitpid(-1, 0)
        ended = alive.pop(pid, None)
        if ended is not None:
            code = os.waitstatus_to_exitcode(status)
            codes.append(128 - code if code < 0 else code)
            _kill_rest(ended)
    return _gravest(codes)


def _free_port() -> int:
    with socket.socket() as tried:
        tried.bind(("127.0.0.1", 0))
        return int(tried.getsockname()[1])


def _kill_rest(node: int) -> None:
    """What the first process of a node has left behind."""
    mark = f"{NODE}={node}".encode()
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                if mark in (entry / "environ").read_bytes().split(b"\0"):
                    os.kill(int(entry.name), signal.SIGKILL)


def _gravest(codes: list[int]) -> int:
    """A job on several nodes has ended well when all have; else a node that says why speaks for all."""
    return max(codes, key=lambda code: (code not in _ADVICE, code))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
