"""The storage of one attempt as it fails: each write below the folder waits here until it is decided about."""

import threading
import time
from collections.abc import Callable
from pathlib import Path

from outlast.containers.calls import Answer, CallWatch, Failure, Operation
from outlast.rehearse.sandbox import PRIVATE_FOLDER
from outlast.rehearse.watch import SaveFilter, Write, is_passing
from outlast.rehearse.words import SpoilStorage


class Storage:
    """Lets writes pass until it is told otherwise. `kill` ends the attempt; it runs in the thread that decides.

    What is none of the storage's is for `otherwise` to decide.
    """

    def __init__(self, folder: Path, kill: Callable[[], None], otherwise: Callable[[Operation], Answer]) -> None:
        self.calls = CallWatch(self._decide)
        self._otherwise = otherwise
        self.first_hit_at: float | None = None
        self.fired: Write | None = None
        self._folder, self._kill = folder, kill
        self._fault: SpoilStorage | None = None
        self._saves: SaveFilter | None = None
        self._known: set[str] = set()
        self._writes_left = 0
        self._over = threading.Event()

    def spoil(self, fault: SpoilStorage) -> None:
        """From now on writes fail, or take long."""
        self._fault = fault

    def mend(self) -> None:
        self._fault = None

    def arm(self, write: int, saves: SaveFilter) -> None:
        """Kills before write number `write` (from 1) to files of saves; a file of a store that is there is none."""
        below = self._folder / PRIVATE_FOLDER
        self._known = {str(path) for path in below.rglob("*")} if saves.store_only else set()
        self._writes_left, self._saves = write, saves

    def close(self) -> None:
        """Once the attempt has ended."""
        self._over.set()
        self.calls.close()

    def _decide(self, operation: Operation) -> Answer:
        path = Path(operation.path)
        if operation.kind != "write" or not path.is_relative_to(self._folder) or is_passing(operation.path):
            return self._otherwise(operation)
        inside = path.relative_to(self._folder).as_posix()
        if self._saves is not None and self._is_of_a_save(path, inside, self._saves):
            self._writes_left -= 1
            if self._writes_left == 0:
                self._saves = None
                self.fired = Write(inside, "modified", time.monotonic())
                self._kill()
                return False
        fault = self._fault
        if fault is None:
            return True
        if self.first_hit_at is None:
            self.first_hit_at = time.monotonic()
        self._over.wait(fault.delay_seconds)
        return Failure(fault.error) if fault.error else True

    def _is_of_a_save(self, path: Path, inside: str, saves: SaveFilter) -> bool:
        if inside.startswith(f"{PRIVATE_FOLDER}/"):
            return str(path) not in self._known
        return not saves.store_only and inside not in saves.logs
