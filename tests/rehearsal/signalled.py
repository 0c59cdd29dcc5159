"""Small jobs as real processes that get real signals: started, waited for, signalled, and read afterwards."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, TextIO

from supervised import LONGEST_WAIT_SECONDS, SRC, children, kill_tree, wait_until

_OF_PLATFORMS = ("OUTLAST_", "CLOUD_RUN_", "KUBERNETES_", "SLURM_", "WORLD_SIZE", "RANK")

# The beginning of most programs: a state that shows each step, saved at every fifth one.
START = """
import atexit, contextlib, hashlib, os, signal, sys, threading, time
import outlast

state = {"done": []}
job = outlast.Job(state=state, every=outlast.Steps(5))

def say(*words):
    print(*words, flush=True)

def until_it_is_heard():
    while not job.stopping:
        time.sleep(0.001)
"""
# A loop without end that says so at its eighth step.
LOOP = """
for step in job.steps(None):
    state["done"].append(step)
    if step == 7:
        say("begun")
    time.sleep(0.01)
"""


def indented(source: str) -> str:
    return source.replace("\n", "\n    ") + "\n"


@dataclass(frozen=True)
class Left:
    """How a program left. `at` is the moment, on the clock of the events."""

    code: int
    out: str
    err: str
    at: float

    def told(self) -> list[str]:
        """outlast's own lines."""
        return [line for line in self.err.splitlines() if line.startswith("outlast: ")]


class Program:
    """A program, running in `folder`, where its store and its events are."""

    def __init__(
        self,
        source: str,
        folder: Path,
        *,
        env: Mapping[str, str] | None = None,
        prefix: tuple[str, ...] = (),
        name: str = "program.py",
    ) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(source)
        kept = {name: value for name, value in os.environ.items() if not name.startswith(_OF_PLATFORMS)}
        ours = {
            "PYTHONPATH": str(SRC),
            "OUTLAST_URL": str(folder / "store"),
            "OUTLAST_EVENTS_FILE": str(folder / "events"),
        }
        self._process = subprocess.Popen(
            [*prefix, sys.executable, name],
            cwd=folder,
            env={**kept, **ours, **(env or {})},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self._has_prefix = bool(prefix)
        self._out: list[str] = []
        self._err: list[str] = []
        self._readers = [
            threading.Thread(target=_read, args=(stream, into), daemon=True)
            for stream, into in ((self._process.stdout, self._out), (self._process.stderr, self._err))
        ]
        for reader in self._readers:
            reader.start()

    def __enter__(self) -> "Program":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._process.poll() is None:
            kill_tree(self._process.pid)
            self._process.wait()
        for reader in self._readers:
            reader.join(1)

    @property
    def pid(self) -> int:
        """Of the program itself, also when something else started it."""
        return children(self._process.pid)[0] if self._has_prefix else self._process.pid

    def wait_for(self, text: str) -> "Program":
        """Until a line of the program holds the text."""

        def said() -> bool:
            return any(text in line for line in [*self._out, *self._err]) or self._process.poll() is not None

        wait_until(said, f"nothing says {text!r}: {self._out} {self._err}")
        return self

    def wait_for_event(self, kind: str) -> "Program":
        wait_until(lambda: bool(self.events(kind)) or self._process.poll() is not None, f"no event {kind}: {self._err}")
        return self

    def send(self, number: int = signal.SIGTERM) -> float:
        """The moment, on the clock of the events, before the signal was sent."""
        pid, sent_at = self.pid, time.monotonic()
        os.kill(pid, number)
        return sent_at

    def leave(self) -> Left:
        try:
            code = self._process.wait(LONGEST_WAIT_SECONDS)
        except subprocess.TimeoutExpired:
            kill_tree(self._process.pid)
            raise AssertionError(f"it does not leave: {self._out} {self._err}") from None
        at = time.monotonic()
        for reader in self._readers:
            reader.join(5)
            assert not reader.is_alive(), "somebody still holds the program's streams: a process was left behind"
        return Left(code, "".join(self._out), "".join(self._err), at)

    def events(self, kind: str) -> list[dict[str, Any]]:
        return events(self.folder, kind)


def _read(stream: TextIO, into: list[str]) -> None:
    with stream:
        for line in stream:
            into.append(line)


def run(source: str, folder: Path, *, env: Mapping[str, str] | None = None) -> Left:
    """A program from its start to its end."""
    with Program(source, folder, env=env) as program:
        return program.leave()


def events(folder: Path, kind: str) -> list[dict[str, Any]]:
    """The events of a kind of all programs that ran in a folder, in order."""
    path = folder / "events"
    lines = path.read_text().splitlines(keepends=True) if path.exists() else []
    whole = [json.loads(line) for line in lines if line.endswith("\n")]
    return [event for event in whole if event["event"] == kind]


def commits(folder: Path) -> list[int]:
    """The steps of all checkpoints in the folder's store."""
    return sorted(int(path.name[1:13]) for path in (folder / "store").glob("*/*/task-*/commits/*.json"))
