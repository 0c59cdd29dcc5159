"""outlast, through its public interface only."""

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import outlast
from benchmarks.savers import Stall
from benchmarks.states import State

OURS = {f"outlast {mode}": mode for mode in ("background", "lazy", "blocking")}
_NAME = "bench"
_READ_BACK_SECONDS = 120.0
_TOUCHING_SECONDS = 2.0  # and given beside the first steps


class Outlast:
    """One job; its events, with their monotonic times, go to a file beside the store."""

    def __init__(self, mode: str) -> None:
        self._mode = mode

    def make_ready(self, state: State) -> None:
        """outlast takes the state as it is. Looked up, so that it is imported."""
        assert outlast.Job

    def bring_back(self, state: State) -> None:
        """It restores into the state itself."""

    def prepare(self, state: State, folder: Path) -> None:
        self._optimizer, self._folder = state.optimizer, folder
        self._events = self.events_file(folder)
        os.environ["OUTLAST_EVENTS_FILE"] = str(self._events)
        self._job = outlast.Job(
            folder / "store", state=state.parts, every="1h", keep=1, name=_NAME, random_state=False, saving=self._mode
        )
        self._loop = iter(self._job.steps(None))
        for _ in range(3):  # the memory of saves is asked for at the first border
            next(self._loop)
        time.sleep(_TOUCHING_SECONDS)
        self._begun = 0.0

    def events_file(self, folder: Path) -> Path:
        return folder / "events.jsonl"

    def save(self) -> Stall:
        self._job.save()
        self._begun = time.monotonic()
        next(self._loop)
        return Stall(self._begun, time.monotonic())

    def durable_at(self) -> float | None:
        for event in self._recorded():
            if event["event"] == "SaveFailed" and event["monotonic"] >= self._begun:
                raise RuntimeError(event["error"])
            if event["event"] == "SaveCommitted" and event["monotonic"] >= self._begun:
                return event["monotonic"]
        return None

    def _recorded(self) -> list[dict[str, Any]]:
        lines = self._events.read_bytes().splitlines(keepends=True)
        return [json.loads(line) for line in lines if line.endswith(b"\n")]

    def border(self) -> float:
        """The optimizer's step comes first: there a lazy snapshot waits for its copy to end."""
        begin = time.monotonic()
        if self._optimizer is not None:
            self._optimizer.step()  # without gradients it only runs its hooks
        stalled = time.monotonic() - begin
        next(self._loop)
        return stalled

    def checkpoint(self) -> Path:
        return self._folder / "store"

    def tidy(self) -> None:
        """keep=1 does it, once the save has been read back."""
        until = time.monotonic() + _READ_BACK_SECONDS
        while time.monotonic() < until:
            events = self._recorded()
            if any(event["event"] == "SaveVerified" and event["monotonic"] >= self._begun for event in events):
                return
            time.sleep(0.01)
        raise RuntimeError(f"the save was not read back within {_READ_BACK_SECONDS} s")

    def restore(self, state: State, folder: Path) -> None:
        self._job = outlast.Job(
            folder / "store", state=state.parts, every="1h", keep=1, name=_NAME, random_state=False, saving=self._mode
        )
        if self._job.resumed_from is None:
            raise RuntimeError("nothing was restored")


def listed(store: Path) -> list[dict[str, Any]]:
    """The rows of `outlast checkpoints list --json`, oldest first."""
    beside = Path(sys.executable).parent / "outlast"
    command = str(beside) if beside.exists() else shutil.which("outlast") or "outlast"
    done = subprocess.run(
        [command, "checkpoints", "list", "--json", "--quick", str(store)], capture_output=True, text=True, check=True
    )
    return sorted(json.loads(done.stdout), key=lambda row: row["step"])
