"""Starts small programs as processes of their own, waits for their marks, signals them, and reads their journals."""

import os
import signal
import subprocess
import sys
import textwrap
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import outlast
from outlast.events import Recorded, from_lines

SOURCE = str(Path(outlast.__file__).parents[1])  # the same one, wherever the program runs
PLATFORM_VARIABLES = ("OUTLAST_", "CLOUD_RUN_", "KUBERNETES_", "SLURM_", "WORLD_SIZE", "RANK")


@dataclass
class Ended:
    code: int
    out: str
    err: str
    seconds: float  # from the last signal, or the start, to the end


class Running:
    """A program, running. `prefix`: what starts it, say unshare."""

    def __init__(self, program: str, folder: Path, *, env: dict[str, str] | None = None, prefix: tuple[str, ...] = ()):
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        script = folder / "program.py"
        script.write_text(textwrap.dedent(program))
        clean = {name: value for name, value in os.environ.items() if not name.startswith(PLATFORM_VARIABLES)}
        self._out, self._err = (folder / "out").open("w"), (folder / "err").open("w")
        self.process = subprocess.Popen(
            [*prefix, sys.executable, str(script)],
            cwd=folder,
            env={**clean, "PYTHONPATH": SOURCE, "OUTLAST_URL": str(folder / "store"), **(env or {})},
            stdout=self._out,
            stderr=self._err,
        )
        self.since = time.monotonic()

    def wait_for(self, mark: str, seconds: float = 30) -> "Running":
        """Until the program has printed `mark`."""
        until = time.monotonic() + seconds
        while mark not in (self.folder / "out").read_text():
            if time.monotonic() > until or self.process.poll() is not None:
                self.process.kill()
                raise AssertionError(f"no {mark!r}, code {self.process.wait()}: {self.text()}")
            time.sleep(0.005)
        return self

    def signal(self, number: int = signal.SIGTERM) -> "Running":
        self.process.send_signal(number)
        self.since = time.monotonic()
        return self

    def ended(self, seconds: float = 30) -> Ended:
        try:
            code = self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise AssertionError(f"still running after {seconds} s: {self.text()}") from None
        took = time.monotonic() - self.since
        self._out.close()
        self._err.close()
        return Ended(code, (self.folder / "out").read_text(), (self.folder / "err").read_text(), took)

    def text(self) -> str:
        return (self.folder / "out").read_text() + (self.folder / "err").read_text()


def run(program: str, folder: Path, *, env: dict[str, str] | None = None, seconds: float = 60) -> Ended:
    """A program from its start to its end."""
    return Running(program, folder, env=env).ended(seconds)


def events(folder: Path, kind: Any) -> list[Any]:
    """The events of a kind in all journals of a program's store, in order of attempts."""
    found: list[Recorded] = []
    for path in sorted((folder / "store").glob("*/*/task-0/journal/*.jsonl")):
        found += from_lines(path.read_bytes())
    return [one for one in found if isinstance(one.event, kind)]


def commits(folder: Path) -> list[str]:
    """The names of all commit records of a program's store."""
    return sorted(path.name for path in (folder / "store").glob("*/*/task-*/commits/*.json"))
