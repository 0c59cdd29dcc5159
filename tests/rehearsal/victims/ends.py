"""A job with a save under way beside its steps that comes to an end, of the kind that VICTIM_END names, in step 11.

VICTIM_SLOW: "write" or "read", what takes its time on the disk, so that the save of step 10 is being written or read
back at that moment.
"""

import multiprocessing
import os
import signal
import sys
import threading
import time
from collections.abc import Callable

import outlast
from outlast.stores import directory
from outlast.stores.disk import LocalDisk

SECONDS = 0.4
SLOW = os.environ["VICTIM_SLOW"]


class SlowDisk(LocalDisk):
    """A disk that is slow with data files."""

    def __init__(self) -> None:
        self._data: set[int] = set()

    def create_file(self, path: str) -> int:
        handle = super().create_file(path)
        if SLOW == "write" and "/data/" in path:
            self._data.add(handle)
        return handle

    def sync(self, handle: int) -> None:
        if handle in self._data:
            self._data.discard(handle)
            time.sleep(SECONDS)
        super().sync(handle)

    def read_at(self, handle: int, target: memoryview, offset: int) -> int:
        time.sleep(SECONDS / 2 if SLOW == "read" and len(target) > 100_000 else 0)
        return super().read_at(handle, target, offset)


def stay_a_while() -> None:
    threading.Thread(target=time.sleep, args=(2 * SECONDS,)).start()
    sys.exit(3)


def raise_an_error() -> None:
    raise ValueError("the user's")


def fork_a_child() -> None:
    child = os.fork()
    if child == 0:
        for use in (job.save, job.check):
            try:
                use()
            except outlast.LoopMisused:
                continue
            os._exit(9)
        sys.exit(0)
    assert os.waitpid(child, 0)[1] == 0


def use_a_pool() -> None:
    with multiprocessing.get_context("fork").Pool(2) as pool:
        assert pool.map(abs, [-1, 2]) == [1, 2]


ENDS: dict[str, Callable[[], None]] = {
    "exit": lambda: sys.exit(3),
    "error": raise_an_error,
    "dead": lambda: os._exit(7),
    "keyboard": lambda: os.kill(os.getpid(), signal.SIGINT),
    "term": lambda: os.kill(os.getpid(), signal.SIGTERM),
    "thread": stay_a_while,
    "fork": fork_a_child,
    "pool": use_a_pool,
    "none": lambda: None,
}

directory.LocalDisk = SlowDisk  # type: ignore[misc]  # the machine's own is too quick
blob = bytearray(2 << 20)
job = outlast.Job(
    os.environ["VICTIM_URL"], state={"blob": blob}, name="ends", every=outlast.Steps(5), saving="background"
)
for step in job.steps(20):
    blob[:] = bytes([step + 1]) * len(blob)
    if step == 10:
        while SLOW == "read" and job._session.saves.saved_mark[0] < 10:
            time.sleep(0.001)
        assert job._session.saves._saver.busy
        ENDS[os.environ["VICTIM_END"]]()
        time.sleep(0.05)
