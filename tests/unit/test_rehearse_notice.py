"""What is said of processes between a notice and the end, where a busy machine sees several things at once."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from outlast.containers import processes
from outlast.rehearse.notice import NoticeWatch

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="pidfds and /proc are Linux's")
TELLS_EXITS = tuple(int(part) for part in os.uname().release.split(".")[:2]) >= (6, 15)


class Busy:
    """A container whose processes have all ended by the time that anybody looks."""

    first_is_pid_1 = True

    def __init__(self, first: int, others: list[int]) -> None:
        self.first_pid, self._others = first, others

    def descendants(self) -> list[int]:
        return self._others

    def wait(self, _: float, also: Iterable[int] = ()) -> tuple[bool, set[int]]:
        return True, set(also)


@contextmanager
def started(*command: str) -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(command) as process:
        while (found := processes.look_at(process.pid)) is None or command[0] not in found.command:
            time.sleep(0.002)
        yield process
        process.kill()


def left_behind(child_ends_by: signal.Signals) -> int:
    """How many are said to be left behind when a child and then the first process end within one look."""
    with (
        started("sleep", "60") as first,
        started("sleep", "61") as child,
        NoticeWatch(Busy(first.pid, [child.pid]), Path("/")) as watch,  # type: ignore[arg-type]
    ):
        child.send_signal(child_ends_by)
        child.wait()
        watch.wait(0)
        return len(watch.view(signalled=True).left_behind)


def test_a_child_that_was_waited_for_is_not_called_left_behind() -> None:
    assert left_behind(signal.SIGKILL) == 1, "as the kernel does with it when the first process is gone"
    assert left_behind(signal.SIGTERM) == (0 if TELLS_EXITS else 1)


def test_a_first_process_that_is_on_its_way_out_is_not_called_deaf() -> None:
    with started("sleep", "60") as first:
        for heard_as, hears in ((None, False), ("sleep 60", True), ("sh -c 'sleep 60'", False)):
            with NoticeWatch(Busy(first.pid, []), Path("/"), heard_as=heard_as) as watch:  # type: ignore[arg-type]
                assert watch.view(signalled=True).first_hears == hears
