"""The keeper: a small process that renews its worker's leases, and ends them when the worker dies.

Run by worker/keeper.py as a program. It has its own interpreter, so no code of the worker, however long it holds that
one's lock, keeps it from renewing. It renews for a worker that runs; for one that is stopped (SIGSTOP) it does not. One
whose item is over its time limit, and whose own threads cannot run, it kills.
"""

import os
import select
import signal
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from functools import cache, partial
from pathlib import Path

from outlast.errors import ExitingError
from outlast.items import Queue
from outlast.registry import open_queue
from outlast.worker.leases import LOOKS_PER_LEASE, LeaseTable

_LONGEST_PAUSE_SECONDS = 1.0  # a fork of the worker may hold the pipe open, so its death is looked for, too
_TABLE_TRIES = 50


def keep(url: str, handle: int, seconds: float, worker: int) -> None:
    """Renews until the worker is gone; `seconds` is what a lease is renewed to."""
    table = LeaseTable(handle)
    queue = cache(partial(open_queue, url))  # opened when first needed, and then the same one
    every = seconds / LOOKS_PER_LEASE
    next_look = time.monotonic() + every
    while _lives(worker, min(next_look - time.monotonic(), _LONGEST_PAUSE_SECONDS)):
        _enforce_the_limit(table, worker)
        if time.monotonic() < next_look:
            continue
        next_look = time.monotonic() + every
        if not _is_stopped(worker):
            _renew(queue, table, seconds)
    for renewal in _held(table):  # it died with these
        with suppress(ExitingError):  # then it runs out
            queue().expire(renewal)


def _renew(queue: Callable[[], Queue], table: LeaseTable, seconds: float) -> None:
    for renewal in _held(table):
        try:
            lost = not queue().extend(renewal, seconds)
        except ExitingError as error:
            _say("trouble", str(error))
            continue
        if lost:
            _say("lost", renewal)


def _held(table: LeaseTable) -> list[str]:
    return _read(table)[0]


def _read(table: LeaseTable) -> tuple[list[str], float | None]:
    for _ in range(_TABLE_TRIES):
        found = table.read()
        if found is not None:
            return found
        time.sleep(0.001)
    return [], None  # the worker died while it wrote: that lease ends by itself


def _enforce_the_limit(table: LeaseTable, worker: int) -> None:
    """Kills a worker whose item is long over its time and whose own threads could not end it."""
    limit = _read(table)[1]
    if limit is not None and time.monotonic() > limit and os.getppid() == worker:
        _say("trouble", "the item took too long and could not be ended: its process is killed")
        os.kill(worker, signal.SIGKILL)


def _lives(worker: int, seconds: float) -> bool:
    """Waits, and says whether the worker is still there: its end of standard input closes when it goes."""
    readable, _, _ = select.select([0], [], [], max(0.0, seconds))
    if readable and not os.read(0, 1024):
        return False
    return os.getppid() == worker


def _is_stopped(worker: int) -> bool:
    """Whether a process is stopped by a signal (state T of proc(5)); where nobody tells, it is not."""
    try:
        said = Path(f"/proc/{worker}/stat").read_bytes()
    except OSError:
        return False
    return said[said.rindex(b")") + 2 : said.rindex(b")") + 3] in (b"T", b"t")


def _say(kind: str, what: str) -> None:
    with suppress(OSError):  # nobody listens any more
        os.write(1, f"{kind} {' '.join(what.split())}\n".encode())


def main() -> None:
    """The program: the URL is the first line of standard input, since others may read arguments.

    Signals for the worker are blocked here from the start (worker/keeper.py).
    """
    url = b""
    while not url.endswith(b"\n"):
        more = os.read(0, 1)
        if not more:
            return
        url += more
    handle, seconds, worker = sys.argv[1:4]
    # Who reads the worker's standard error until its end is not to wait for a keeper whose database does not answer.
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 2)
    try:
        keep(url.decode().rstrip("\n"), int(handle), float(seconds), int(worker))
    except Exception as error:
        _say("trouble", f"{type(error).__name__}: {error}")
        raise
