"""`outlast run` as a real process, its lines stamped with the moment they arrived."""

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

SRC = Path(__file__).parents[2] / "src"
OUTLAST = (sys.executable, "-c", "from outlast.cli.main import main; main()", "run")
LONGEST_WAIT_SECONDS = 20.0


def environment(env: Mapping[str, str] | None = None) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("OUTLAST_", "PYTHONUNBUFFERED"))}
    return {**kept, "PYTHONPATH": str(SRC), **(env or {})}


class Supervised:
    """A running `outlast run`."""

    def __init__(self, *args: str, env: Mapping[str, str] | None = None, prefix: tuple[str, ...] = ()) -> None:
        self._process = subprocess.Popen(
            [*prefix, *OUTLAST, *args],
            env=environment(env),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        self.pid = self._process.pid
        self.out: list[tuple[float, str]] = []
        self.err: list[tuple[float, str]] = []
        self._readers = [
            threading.Thread(target=self._read, args=pair, daemon=True)
            for pair in ((self._process.stdout, self.out), (self._process.stderr, self.err))
        ]
        for reader in self._readers:
            reader.start()

    def __enter__(self) -> "Supervised":
        return self

    def __exit__(self, *_: object) -> None:
        if self._process.poll() is None:
            kill_tree(self.pid)
            self._process.wait()
        for reader in self._readers:
            reader.join(timeout=1)

    def _read(self, stream, into: list[tuple[float, str]]) -> None:
        with stream:
            for line in stream:
                into.append((time.monotonic(), line.rstrip("\n")))

    def wait_for(self, text: str) -> str:
        """The first line of either stream that holds the text."""
        return self.moment_and_line(text)[1]

    def moment_and_line(self, text: str) -> tuple[float, str]:
        found: list[tuple[float, str]] = []

        def look() -> bool:
            found[:] = [pair for pair in [*self.out, *self.err] if text in pair[1]]
            return bool(found)

        wait_until(look, f"no line holds {text!r}: {self.out} {self.err}")
        return found[0]

    def send(self, number: int, pid: int | None = None) -> float:
        """Sends a signal to the supervisor; the moment of it."""
        sent_at = time.monotonic()
        os.kill(pid or self.pid, number)
        return sent_at

    def leave(self) -> int:
        """Waits for the end; the exit code."""
        code = self._process.wait(LONGEST_WAIT_SECONDS)
        for reader in self._readers:
            reader.join(timeout=5)
            assert not reader.is_alive(), "somebody still holds the supervisor's streams: a process was left behind"
        return code

    def lines(self) -> list[str]:
        return [line for _, line in self.err]


def run_to_the_end(*args: str, env: Mapping[str, str] | None = None) -> tuple[int, list[str], list[str]]:
    """Exit code, lines of standard output, lines of standard error."""
    with Supervised(*args, env=env) as supervised:
        code = supervised.leave()
        return code, [line for _, line in supervised.out], supervised.lines()


def python(tmp_path: Path, name: str, source: str) -> tuple[str, str]:
    """A command that runs this program."""
    script = tmp_path / name
    script.write_text(source)
    return sys.executable, str(script)


def wait_until(condition: Callable[[], bool], otherwise: str) -> None:
    until = time.monotonic() + LONGEST_WAIT_SECONDS
    while not condition():
        assert time.monotonic() < until, otherwise
        time.sleep(0.005)


def is_alive(pid: int) -> bool:
    """Whether a process is there and not merely waiting to be reaped."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


def children(pid: int) -> list[int]:
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parent = (entry / "stat").read_text().rpartition(")")[2].split()[1]
            except (FileNotFoundError, ProcessLookupError):
                continue
            if int(parent) == pid:
                found.append(int(entry.name))
    return found


def kill_tree(pid: int) -> None:
    """For a test that failed half-way."""
    below = children(pid)
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
    for child in below:
        kill_tree(child)


PID_1 = ("unshare", "--pid", "--fork", "--mount-proc", "--kill-child")


def need_pid_namespaces() -> None:
    """Skips on a desk that does not allow them, fails in CI."""
    if shutil.which(PID_1[0]) and subprocess.run([*PID_1, "true"], capture_output=True, check=False).returncode == 0:
        return
    if os.environ.get("CI") == "true":
        pytest.fail("CI must be able to make PID namespaces")
    pytest.skip("no PID namespaces here")
