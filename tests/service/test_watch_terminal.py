"""`outlast watch` in a real terminal and without one: q and Ctrl-C leave, windows may change, pipes get snapshots."""

import os
import signal
import subprocess
import sys

import pytest
from terminal import Terminal

from outlast import Job, Steps

COMMAND = (sys.executable, "-c", "from outlast.cli.main import main; main()", "watch")


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("store")
    state = {"n": 0}
    for _ in Job(str(folder), state=state, every=Steps(2), name="train").steps(4):
        state["n"] += 1
    return str(folder)


def test_q_leaves_and_the_terminal_is_as_it_was(store: str) -> None:
    with Terminal([*COMMAND, store]) as terminal:
        terminal.wait_for("task 0  finished")
        assert "\x1b[34m  finished" in terminal.said
        terminal.press("xq")
        assert terminal.end() == 0


def test_ctrl_c_leaves_as_well_and_the_window_may_change_before(store: str) -> None:
    with Terminal([*COMMAND, store], columns=200, env={"NO_COLOR": "1"}) as terminal:
        terminal.wait_for("task 0  finished  4 of 4 steps")
        assert "\x1b[34m" not in terminal.said
        terminal.resize(8, 30)
        terminal.wait_for("    4 of 4 steps")  # in a line of its own: the window has become narrow
        os.kill(terminal.process.pid, signal.SIGINT)
        assert terminal.end() == 0


def test_who_ends_it_from_outside_finds_the_terminal_as_it_was(store: str) -> None:
    with Terminal([*COMMAND, store]) as terminal:
        terminal.wait_for("task 0  finished")
        os.kill(terminal.process.pid, signal.SIGTERM)
        assert terminal.end() == 143


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
