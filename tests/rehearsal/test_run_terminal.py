"""`outlast run` on a terminal: Ctrl-C and Ctrl-Z are the command's, and the shell gets its terminal back."""

import os
import pty
import re
import shlex
import shutil
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from supervised import OUTLAST, environment, kill_tree, python, wait_until

CTRL_C, CTRL_Z = b"\x03", b"\x1a"
TELLS = """
import os, signal, sys, time
def say(*words):  # print() is not for signal handlers
    os.write(1, (" ".join(map(str, words)) + "\\n").encode())
count = 0
def tell(number, _):
    global count
    count += 1
    say("got", signal.Signals(number).name, "time", count)
    time.sleep(0.3)  # a second Ctrl-C, from a supervisor that hears it too, would show
    say("count", count)
    sys.exit(int(sys.argv[1]))
signal.signal(signal.SIGINT, tell)
say("foreground", os.tcgetpgrp(0) == os.getpgrp(), "own group", os.getpgrp() == os.getpid(), "pid", os.getpid(), "end")
while True:
    time.sleep(0.01)
"""


class OnTerminal:
    """A program whose controlling terminal is ours."""

    def __init__(self, *command: str) -> None:
        self._master, slave = pty.openpty()
        self._process = subprocess.Popen(
            ("setsid", "--ctty", *command),
            stdin=slave,
            stdout=slave,
            stderr=slave,
            env=environment({"PS1": "$ "}),
        )
        self.pid = self._process.pid
        os.close(slave)
        self.shown = ""
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        try:
            while data := os.read(self._master, 4096):
                self.shown += data.decode()
        except OSError:
            pass  # Linux: the last program has closed the terminal

    def press(self, keys: bytes) -> None:
        os.write(self._master, keys)

    def wait_for(self, text: str, times: int = 1) -> None:
        wait_until(lambda: self.shown.count(text) >= times, f"{text!r} is not shown {times} time(s): {self.shown}")

    def foreground(self) -> int:
        """The group that has the terminal."""
        return os.tcgetpgrp(self._master)

    def leave(self) -> int:
        return self._process.wait(20)

    def close(self) -> None:
        if self._process.poll() is None:
            kill_tree(self.pid)
            self._process.wait()


@contextmanager
def on_terminal(*command: str) -> Iterator[OnTerminal]:
    terminal = OnTerminal(*command)
    try:
        yield terminal
    finally:
        terminal.close()


@pytest.mark.parametrize("code", [130, 1])
def test_ctrl_c_reaches_the_command_once(tmp_path, code):
    with on_terminal(*OUTLAST, "--", *python(tmp_path, "j.py", TELLS), str(code)) as terminal:
        terminal.wait_for("foreground True own group True")
        terminal.wait_for("end")
        terminal.press(CTRL_C)
        assert terminal.leave() == code, terminal.shown
        terminal.wait_for("count 1")


def test_a_users_cancel_is_not_retried(tmp_path):
    sleeps = python(tmp_path, "j.py", "import time; print('up', 1 + 1, flush=True); time.sleep(1000)")
    with on_terminal(*OUTLAST, "--retries", "3", "--", *sleeps) as terminal:
        terminal.wait_for("up 2")
        terminal.press(CTRL_C)
        assert terminal.leave() == 130
        terminal.wait_for("KeyboardInterrupt")
        assert terminal.shown.count("up 2") == 1


def test_ctrl_c_in_a_pause_ends_it():
    with on_terminal(*OUTLAST, "--retries", "3", "--", "sh", "-c", "exit 75") as terminal:
        terminal.wait_for("attempt 2 starts in 5.0 s")
        terminal.press(CTRL_C)
        assert terminal.leave() == 130


def test_a_command_can_read_the_terminal_and_so_can_the_next_program():
    script = '"$@"; echo "code $?"; read line; echo "then $line"'
    reads = ("sh", "-c", 'read line; echo "first $line"; exit 5')
    with on_terminal("sh", "-c", script, "sh", *OUTLAST, "--", *reads) as terminal:
        terminal.press(b"one\n")
        terminal.wait_for("first one")
        terminal.wait_for("code 5")
        terminal.press(b"two\n")
        terminal.wait_for("then two")
        assert terminal.leave() == 0


def test_every_attempt_gets_the_terminal(tmp_path):
    tell = python(
        tmp_path, "j.py", "import os; print('has it', os.tcgetpgrp(0) == os.getpgrp(), flush=True); os._exit(143)"
    )
    with on_terminal(*OUTLAST, "--retries", "2", "--", *tell) as terminal:
        assert terminal.leave() == 143
        terminal.wait_for("has it True", times=3)


def test_in_a_pipeline_the_terminal_stays_where_it_is(tmp_path):
    """Another program of our group reads it: standard input is a pipe, and Ctrl-C comes by way of the supervisor."""
    script = 'sleep 1000 | "$@" < /dev/null'
    with on_terminal(
        "sh",
        "-c",
        script,
        "sh",
        *OUTLAST,
        "--",
        *python(tmp_path, "j.py", "import time; print('ready'); time.sleep(1000)"),
    ) as terminal:
        terminal.wait_for("ready")
        terminal.press(CTRL_C)
        terminal.leave()
        assert "attempt" not in terminal.shown


@pytest.mark.skipif(not shutil.which("bash"), reason="needs a shell with job control")
@pytest.mark.parametrize("by_way_of_bg", [False, True], ids=["fg", "bg-fg"])
def test_ctrl_z_stops_the_whole_job_and_the_shell_brings_it_back(tmp_path, by_way_of_bg):
    with on_terminal("bash", "--norc", "--noprofile", "-i") as terminal:
        pid = in_bash(terminal, *python(tmp_path, "j.py", TELLS), "42")
        terminal.press(CTRL_Z)
        terminal.wait_for("Stopped")
        assert state(pid) == "T"
        terminal.press(b"echo shell $((1 + 1))\n")
        terminal.wait_for("shell 2")
        if by_way_of_bg:
            terminal.press(b"bg\n")
            wait_until(lambda: state(pid) != "T", "the command does not go on in the background")
            terminal.press(b"fg\n")
            # bash tells nobody that the job has the terminal now; Ctrl-C comes by way of the supervisor.
            wait_until(lambda: terminal.foreground() != terminal.pid, "the job is not in the foreground again")
        else:
            terminal.press(b"fg\n")
            wait_until(lambda: terminal.foreground() == pid, "the command is not in the foreground again")
        terminal.press(CTRL_C)
        terminal.wait_for("got SIGINT time 1")
        terminal.press(b"echo code $?\n")
        terminal.wait_for("code 42")
        terminal.press(b"exit\n")
        terminal.leave()


# Not a shell script: dash starts programs by vfork, and hangs when Ctrl-Z comes in the middle of it.
READS_LATER = """
import os, pathlib, sys, time
print("pid", os.getpid(), "end", flush=True)
while not pathlib.Path(sys.argv[1]).exists():
    time.sleep(0.01)
print("got", input(), 1 + 1, flush=True)
"""


def in_bash(terminal: OnTerminal, *command: str, background: bool = False) -> int:
    """Starts a command that says "pid N end" under outlast from an interactive bash; its pid."""
    line = shlex.join([*OUTLAST, "--", *command])
    terminal.press(f"{line}{' &' if background else ''}\n".encode())
    wait_until(lambda: re.search(r"pid (\d+) end", terminal.shown) is not None, terminal.shown)
    found = re.search(r"pid (\d+) end", terminal.shown)
    assert found
    return int(found[1])


@pytest.mark.skipif(not shutil.which("bash"), reason="needs a shell with job control")
def test_a_command_that_reads_in_the_background_stops_and_may_read_after_fg():
    with on_terminal("bash", "--norc", "--noprofile", "-i") as terminal:
        pid = in_bash(terminal, "sh", "-c", "echo pid $$ end; read x; echo got $x $((1+1))", background=True)
        wait_until(lambda: state(pid) == "T", "it was not stopped for reading")
        terminal.press(b"\n")  # bash tells at its next prompt
        terminal.wait_for("Stopped")
        terminal.press(b"fg\n")
        wait_until(lambda: terminal.foreground() == pid, "the command is not in the foreground")
        terminal.press(b"words\n")
        terminal.wait_for("got words 2")
        terminal.press(b"exit\n")
        terminal.leave()


@pytest.mark.skipif(not shutil.which("bash"), reason="needs a shell with job control")
def test_a_command_that_ran_on_in_the_background_may_read_after_fg(tmp_path):
    go = tmp_path / "go"
    with on_terminal("bash", "--norc", "--noprofile", "-i") as terminal:
        pid = in_bash(terminal, *python(tmp_path, "j.py", READS_LATER), str(go))
        terminal.press(CTRL_Z)
        terminal.wait_for("Stopped")
        terminal.press(b"bg\n")
        wait_until(lambda: state(pid) != "T", "the command does not go on in the background")
        terminal.press(b"fg\n")
        wait_until(lambda: terminal.foreground() != terminal.pid, "the job is not in the foreground again")
        go.touch()
        terminal.press(b"words\n")
        terminal.wait_for("got words 2")
        terminal.press(b"exit\n")
        terminal.leave()


def test_after_a_command_that_cannot_be_started_the_terminal_is_free():
    script = '"$@"; echo "code $?"; read line; echo "then $line"'
    with on_terminal("sh", "-c", script, "sh", *OUTLAST, "--", "no-such-command") as terminal:
        terminal.wait_for("code 127")
        terminal.press(b"two\n")
        terminal.wait_for("then two")
        assert terminal.leave() == 0


def state(pid: int) -> str:
    """T when it is stopped."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
