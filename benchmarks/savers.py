"""What the runs ask of whoever saves: begin a save at a border, and say when it was durable."""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from benchmarks.machine import sync_tree
from benchmarks.states import State


@dataclass(frozen=True, slots=True)
class Stall:
    """Moments of the monotonic clock between which a save held up the training thread."""

    begin: float
    end: float

    @property
    def seconds(self) -> float:
        return self.end - self.begin


class Saver(Protocol):
    """Saves and restores one state in one folder."""

    def make_ready(self, state: State) -> None:
        """Imports, and the state in the form that this saver takes; neither timed nor counted as memory."""

    def prepare(self, state: State, folder: Path) -> None:
        """What a program does before its first step; not timed, but its memory counts."""

    def save(self) -> Stall:
        """Begins a save, called at a border between two steps."""

    def durable_at(self) -> float | None:
        """When the last save was durable, on the monotonic clock; None while it is not. Raises if it failed."""

    def border(self) -> float:
        """A border where no save begins; returns for how long it held up the training."""

    def checkpoint(self) -> Path:
        """The folder or file that the last save made."""

    def tidy(self) -> None:
        """Between two saves: removes the earlier one."""

    def restore(self, state: State, folder: Path) -> None:
        """Brings back what `prepare` and `save` left in the folder, into a state that exists."""

    def bring_back(self, state: State) -> None:
        """Untimed, after `restore`: what came back as new arrays goes into the state, to be checked."""


class Waiting:
    """Waits in a thread, without using the processor, until a save is durable."""

    def __init__(self, wait: Callable[[], object], path: Path) -> None:
        self._moment: float | None = None
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, args=(wait, path), daemon=True)
        self._thread.start()

    def _run(self, wait: Callable[[], object], path: Path) -> None:
        try:
            wait()
            sync_tree(path)
            self._moment = time.monotonic()
        except BaseException as error:  # noqa: BLE001  handed to the training thread, which raises it
            self._error = error

    def moment(self) -> float | None:
        if self._error is not None:
            raise self._error
        return self._moment
