"""COUNTER on a disk that takes its time for each data file, with saves beside the steps."""

import os
import random
import sys
import time
from pathlib import Path

from counter import from_environment

from outlast.stores import directory
from outlast.stores.disk import LocalDisk


class SlowDisk(LocalDisk):
    """A disk on which the sync of a data file takes VICTIM_DELAY seconds, more or less by VICTIM_DELAY_SPREAD."""

    def __init__(self) -> None:
        self._data: set[int] = set()

    def create_file(self, path: str) -> int:
        handle = super().create_file(path)
        if "/data/" in path:
            self._data.add(handle)
        return handle

    def sync(self, handle: int) -> None:
        if handle in self._data:
            self._data.discard(handle)
            spread = float(os.environ.get("VICTIM_DELAY_SPREAD", "0"))
            time.sleep(float(os.environ["VICTIM_DELAY"]) * random.lognormvariate(0.0, spread))
        super().sync(handle)


if __name__ == "__main__":
    directory.LocalDisk = SlowDisk  # type: ignore[misc]  # the machine's own is too quick
    acc = from_environment().run()[1]
    sys.stdout.write(f"{acc}\n")
    Path(os.environ["VICTIM_TRACE"] + ".result").write_text(f"{acc}\n")
