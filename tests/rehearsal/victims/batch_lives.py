"""A worker that is broken in the way that the first argument names: QUEUE and SINK are the other two.

It writes a line to `begun` when it is where it is to be hit.
"""

import os
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import outlast
from outlast.registry import open_sink

how, queue, sink = sys.argv[1:4]
options: dict = {"chunk": 4, "lease": "20s", "version": "v1"}


def mark(what: str = "here") -> None:
    with Path("begun").open("a") as file:
        file.write(f"{what}\n")


def values(items: list) -> list[str]:
    return ["parent"] * len(items)


def slow(items: list) -> list[str]:
    mark()
    time.sleep(60)
    return values(items)


def leaves_by_handler(items: list) -> list[str]:
    return slow(items)


def forked_child_exits(items: list) -> list[str]:
    child = os.fork()
    if child == 0:
        sys.exit(0)
    os.waitpid(child, 0)
    time.sleep(1.5)  # the lease, which the child must not have dropped
    return values(items)


def forked_child_returns(items: list) -> list[str]:
    child = os.fork()
    if child == 0:
        return ["child"] * len(items)
    os.waitpid(child, 0)
    return values(items)


def stuck_at_the_third(items: list) -> Iterator[tuple[str, str]]:
    for number, item in enumerate(items):
        if number == 2:
            mark()
            time.sleep(60)
        yield item.id, "parent"


under_outlast_run = stuck_at_the_third


def load_hangs(items: list) -> list[str]:
    return values(items)


def hang(item: object) -> None:
    mark()
    time.sleep(60)


class Slow:
    """A sink one of whose verbs takes its time."""

    def __init__(self, verb: str, seconds: float = 60) -> None:
        self._behind, self._verb, self._seconds = open_sink(sink), verb, seconds

    def __getattr__(self, name: str) -> object:
        if name == self._verb:
            mark()
            time.sleep(self._seconds)
        return getattr(self._behind, name)


def lookup_hangs(items: list) -> list[str]:
    return values(items)


def store_hangs(items: list) -> list[str]:
    return values(items)


def much_is_known(items: list) -> list[str]:
    return values(items)


def deletes_the_queue(items: list) -> list[str]:
    for file in Path(queue.partition("///")[2]).parent.glob("queue.db*"):
        file.unlink()
    return values(items)


if how == "leaves_by_handler":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
if how == "load_hangs":
    options["load"] = hang
if how == "forked_child_exits":
    options["lease"] = "1s"
slow_sinks = {"lookup_hangs": ("known",), "store_hangs": ("store",), "much_is_known": ("known", 0.05)}
place: object = Slow(*slow_sinks[how]) if how in slow_sinks else sink
if how == "error_in_a_loop":
    with outlast.Worker(queue, sink=sink, **options) as worker:
        for chunk in worker:
            for _ in chunk:
                mark()
                while worker.board.notice is None:
                    time.sleep(0.01)
                raise ValueError("in the middle")
else:
    outlast.batch(queue, sink=place, **options)(globals()[how]).run()
