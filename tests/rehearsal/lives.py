"""Lives of a victim: one process after the other on the same store, and what must hold after each."""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from outlast.checkpoint.lineage import read_lineage
from outlast.checkpoint.places import TaskPlace
from outlast.checkpoint.record import load_record
from outlast.checkpoint.survey import tasks_in
from outlast.stores.directory import DirectoryStore

SRC = Path(__file__).parents[2] / "src"
VICTIMS = Path(__file__).parent / "victims"
LONGEST_LIFE_SECONDS = 60.0
INTERRUPTED = 143
_RESUMED = re.compile(r"^outlast: resuming from step (\d+) ", re.MULTILINE)
_STARTED = re.compile(r"^outlast: starting at step 0 ", re.MULTILINE)
_SUPERSEDED = "superseded"


def environment(**variables: str) -> dict[str, str]:
    """This process's, without what would lead outlast elsewhere."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("OUTLAST_", "CLOUD_RUN_"))}
    return {**kept, "PYTHONPATH": str(SRC), "PYTHONUNBUFFERED": "1", **variables}


@dataclass(frozen=True)
class Life:
    """How one process went. `start`: the step it resumed from, 0 for the beginning, None if it came to neither."""

    exit_code: int
    start: int | None
    errors: str


@dataclass
class Victim:
    """A script, its store and its trace of completed steps."""

    script: str
    folder: Path
    every: int = 5
    keep: int = 3
    variables: Mapping[str, str] = field(default_factory=dict)

    @property
    def url(self) -> Path:
        return self.folder / "store"

    @property
    def trace(self) -> Path:
        return self.folder / "trace"

    @property
    def result(self) -> str:
        """What the last life that came to its end had as result."""
        return Path(f"{self.trace}.result").read_text().strip()

    def start(self, **more: str) -> "subprocess.Popen[str]":
        """A life, begun."""
        self.folder.mkdir(parents=True, exist_ok=True)
        settings = {
            "VICTIM_URL": str(self.url),
            "VICTIM_TRACE": str(self.trace),
            "VICTIM_EVERY": str(self.every),
            "VICTIM_KEEP": str(self.keep),
        }
        return subprocess.Popen(
            [sys.executable, str(VICTIMS / self.script)],
            env=environment(**{**settings, **self.variables, **more}),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )

    def live(self, by: signal.Signals, after_seconds: float, *, from_its_first_step: bool) -> Life:
        """A life ended by a signal so long after its start or its first step, if it is still there."""
        before = self._trace_bytes()
        process = self.start()
        until = time.monotonic() + LONGEST_LIFE_SECONDS
        while from_its_first_step and process.poll() is None and self._trace_bytes() == before:
            assert time.monotonic() < until
            time.sleep(0.002)
        time.sleep(after_seconds)
        process.send_signal(by)
        return ended(process)

    def _trace_bytes(self) -> int:
        return self.trace.stat().st_size if self.trace.exists() else 0

    def reported(self) -> list[int]:
        """The steps that the lives so far reported as done, in order of time."""
        return [int(line) for line in self.trace.read_bytes().split()] if self.trace.exists() else []


def ended(process: "subprocess.Popen[str]") -> Life:
    """Waits for a life to end."""
    try:
        _, errors = process.communicate(timeout=LONGEST_LIFE_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
        raise
    resumed = _RESUMED.search(errors)
    start = int(resumed[1]) if resumed else 0 if _STARTED.search(errors) else None
    return Life(process.returncode, start, errors)


def only_task(url: Path) -> tuple[DirectoryStore, TaskPlace]:
    """The one task of a store."""
    store = DirectoryStore(str(url))
    [place] = tasks_in(store)
    return store, place


def counted_steps(url: Path) -> list[int]:
    """The steps of the checkpoints that count, newest first; empty where there is no store yet."""
    store = DirectoryStore(str(url))
    return [name.step for place in tasks_in(store) for name in read_lineage(store, place).counted]


def unnamed_data(url: Path) -> set[str]:
    """Data files that no commit record names."""
    store, place = only_task(url)
    named = {
        file.name
        for name in read_lineage(store, place).commits
        for file in load_record(store, place.commit(name)).files
    }
    return {entry.name for entry in store.list(place.data)} - named
