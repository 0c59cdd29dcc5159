"""`outlast watch` in a real terminal and without one: q and Ctrl-C leave, windows may change, pipes get snapshots."""

import fcntl
import os
import pty
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from typing import Self

import pytest

from outlast import Job, Steps

COMMAND = (sys.executable, "-c", "from outlast.cli.main import main; main()", "watch")
LEFT = b"\x1b[?1049l"  # the terminal's own screen is back


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("store")
    state = {"n": 0}
    for _ in Job(str(folder), state=state, every=Steps(2), name="train").steps(4):
        state["n"] += 1
    return str(folder)


class Terminal:
    """A terminal with the command in it."""

    def __init__(self, store: str, *, lines: int = 24, columns: int = 100, **env: str) -> None:
        self._own, theirs = pty.openpty()
        self.resize(lines, columns)
        self.before = termios.tcgetattr(theirs)
        self._theirs, self.said = theirs, b""
        self.process = subprocess.Popen(
            [*COMMAND, store], stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True,
            env={**os.environ, "TERM": "xterm-256color", **env},
        )  # fmt: skip

    def resize(self, lines: int, columns: int) -> None:
        fcntl.ioctl(self._own, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))

    def read_until(self, wanted: bytes) -> None:
        until = time.monotonic() + 30
        while wanted not in self.said:
            assert time.monotonic() < until, self.said[-2000:]
            if select.select([self._own], [], [], 0.1)[0]:
                self.said += os.read(self._own, 65536)

    def press(self, keys: bytes) -> None:
        os.write(self._own, keys)

    def end(self) -> int:
        """Its exit code; the terminal has to be as it was."""
        self.read_until(LEFT)
        code = self.process.wait(20)
        assert termios.tcgetattr(self._theirs) == self.before
        return code

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self._own)
        os.close(self._theirs)


def test_q_leaves_and_the_terminal_is_as_it_was(store: str) -> None:
    with Terminal(store) as terminal:
        terminal.read_until(b"\x1b[34m  finished")
        terminal.press(b"xq")
        assert terminal.end() == 0


def test_ctrl_c_leaves_as_well_and_the_window_may_change_before(store: str) -> None:
    with Terminal(store, columns=200, NO_COLOR="1") as terminal:
        terminal.read_until(b"task 0  finished  4 of 4 steps")
        assert b"\x1b[34m" not in terminal.said
        terminal.resize(8, 30)
        terminal.read_until(b"    4 of 4 steps")  # in a line of its own: the window has become narrow
        os.kill(terminal.process.pid, signal.SIGINT)
        assert terminal.end() == 0


def test_without_a_terminal_a_snapshot_is_printed_at_each_interval(store: str) -> None:
    process = subprocess.Popen(
        [*COMMAND, store, "--interval", "0.2s"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        lines: list[str] = []
        while sum(line.startswith("---") for line in lines) < 3:
            lines.append(process.stdout.readline())
            assert lines[-1], lines
    finally:
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=20)
    assert process.returncode == 130
    assert errors == ""
    assert sum("train / run-1 / task 0  finished" in line for line in lines) >= 2
    assert not any("\x1b" in line for line in lines)
