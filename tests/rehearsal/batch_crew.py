"""A crew of real worker processes over one queue, killed at random, and what came of it."""

import ctypes
import multiprocessing
import os
import random
import signal
import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import outlast
from outlast.items import CompactableSink
from outlast.registry import open_queue, open_sink
from outlast.worker.publishing import Published

_FORKS = multiprocessing.get_context("forkserver")
# Or each life would import everything again, and die in that.
_FORKS.set_forkserver_preload(
    [
        "rehearsal.batch_crew",
        *(f"outlast.queues.{name}" for name in ("sqlite", "postgres", "pubsub")),
        *(f"outlast.sinks.{name}" for name in ("sqlite", "postgres", "jsonl", "objects", "parquet")),
        "outlast.stores.directory",
    ]
)
LONGEST_SECONDS = 240.0
_MANY_KILLS = 100  # of fewer, half a chunk each is no sure bound: it is what they cost on average


@dataclass(frozen=True)
class Order:
    """What the workers of a crew do. `seconds` is how long an item takes.

    `diary` is where the id of each computed item is written; beside it are .begun and .log, and
    .who, the process of each.
    """

    queue: str
    sink: str
    diary: Path
    chunk: int = 10
    seconds: float = 0.012
    lease: float = 2.0
    version: str | None = "v1"
    form: str = "list"  # or "yield", or "load"
    prefetch: int = 1
    stuck: str | None = None  # the item at which the function hangs
    deadly: str | None = None  # the item that ends its process
    holds_lock: bool = False  # the function holds the interpreter's lock nearly all the time
    locks_up: str | None = None  # the item at which it holds it for good
    item_timeout: float | None = None
    max_deaths: int = 1000
    max_errors: int = 3
    fate: tuple[str, str, int] | None = (
        None  # (verb of the queue or the sink, "before" or "after", at which call): dies
    )
    setup_seconds: float = 0.0
    variables: dict[str, str] = field(default_factory=dict)


def work(order: Order) -> None:
    """One worker's life, in a process of its own."""
    os.environ.update(order.variables)
    log = os.open(order.diary.with_suffix(".log"), os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(log, 1)
    os.dup2(log, 2)
    diary = os.open(order.diary, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    who = os.open(order.diary.with_suffix(".who"), os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    begun = os.open(order.diary.with_suffix(".begun"), os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def prepare() -> str:
        if order.setup_seconds:
            os.write(begun, b"setup\n")
            time.sleep(order.setup_seconds)
        return "model"

    queue, sink = open_queue(order.queue), open_sink(order.sink)
    fated = Fated.at(order.fate) if order.fate is not None else None
    declare = outlast.batch(
        queue if fated is None else fated.over(queue),
        sink=sink if fated is None else fated.over(sink),
        chunk=order.chunk,
        version=order.version,
        lease=order.lease,
        max_deaths=order.max_deaths,
        max_errors=order.max_errors,
        item_timeout=order.item_timeout,
        setup=prepare,
        prefetch=order.prefetch,
        load=(lambda item: item.id) if order.form == "load" else None,
    )

    def one(item: object) -> str:
        os.write(begun, f"{item.id}\n".encode())
        if item.id == order.deadly:
            os.abort()
        if item.id == order.locks_up:
            lock_up()
        _pass(3600 if item.id == order.stuck else order.seconds, holds_lock=order.holds_lock)
        os.write(who, f"{os.getpid()}\n".encode())
        os.write(diary, f"{item.id}\n".encode())
        if order.form == "load":
            assert item.loaded == item.id
        return right_value(item.id)

    def listed(items: list, model: str) -> list:
        return [one(item) for item in items]

    def yielded(items: list, model: str):
        for item in items:
            yield item.id, one(item)

    declare(yielded if order.form == "yield" else listed).run()


class Fated:
    """Kills its process at one call of a queue or a sink, all others of which go through."""

    def __init__(self, behind: object, fate: list) -> None:
        self._behind, self._fate = behind, fate

    @classmethod
    def at(cls, fate: tuple[str, str, int]) -> "Fated":
        return cls(None, list(fate))

    def over(self, behind: object) -> "Fated":
        return Fated(behind, self._fate)

    def __getattr__(self, name: str) -> object:
        found = getattr(self._behind, name)
        if name != self._fate[0]:
            return found

        def fated(*arguments: object, **named: object) -> object:
            self._fate[2] -= 1
            if self._fate[2] == 0 and self._fate[1] == "before":
                os.kill(os.getpid(), signal.SIGKILL)
            answer = found(*arguments, **named)
            if self._fate[2] == 0:
                os.kill(os.getpid(), signal.SIGKILL)
            return answer

        return fated


def _pass(seconds: float, *, holds_lock: bool) -> None:
    if not holds_lock:
        time.sleep(seconds)
        return
    libc = ctypes.PyDLL(None)  # whose calls keep the interpreter's lock
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        libc.usleep(int(min(0.9, until - time.monotonic()) * 1e6) + 1)


def lock_up() -> None:
    """Waits for ever for a mutex, which no signal interrupts, and keeps the interpreter's lock."""
    mutex = ctypes.create_string_buffer(256)  # all zeros is PTHREAD_MUTEX_INITIALIZER
    library = ctypes.PyDLL(None)
    library.pthread_mutex_lock(mutex)
    library.pthread_mutex_lock(mutex)


def right_value(name: str) -> str:
    return f"{name}-é"


def publish(order: Order, count: int) -> Published:
    return outlast.Queue(order.queue).publish((f"item-{number:05d}", {"n": number}) for number in range(count))


def started(order: Order) -> "multiprocessing.process.BaseProcess":
    process = _FORKS.Process(target=work, args=(order,), daemon=False)
    process.start()
    return process


@dataclass
class Toll:
    """What a crew was put through, and came out with. `computed` counts how often each item was."""

    kills: int
    computed: Counter
    seconds: float

    @property
    def recomputed(self) -> int:
        return sum(self.computed.values()) - len(self.computed)


def survive(order: Order, *, workers: int, kills: int, seed: int, pause: tuple[float, float] = (0.02, 0.25)) -> Toll:
    """Keeps so many workers alive until nothing is left, and kills one of them, at random, again and again."""
    moments, began, done = random.Random(seed), time.monotonic(), 0
    crew = [started(order) for _ in range(workers)]
    try:
        while done < kills and time.monotonic() - began < LONGEST_SECONDS:
            time.sleep(moments.uniform(*pause))
            place = moments.randrange(workers)
            if crew[place].exitcode is None:
                os.kill(crew[place].pid or 0, signal.SIGKILL)
                crew[place].join()
                done += crew[place].exitcode == -signal.SIGKILL
            crew[place] = started(order)
            if open_queue(order.queue).stats().ready == 0:
                break
        for worker in crew:
            worker.join(LONGEST_SECONDS)
        codes = [worker.exitcode for worker in crew]
        assert codes == [0] * workers, f"{codes}: {order.diary.with_suffix('.log').read_text()[-3000:]}"
    finally:
        for worker in crew:
            worker.kill()
            worker.join()
    return Toll(done, Counter(order.diary.read_text().split()), time.monotonic() - began)


def check(order: Order, count: int, toll: Toll | None = None) -> None:
    """Nothing lost, nothing doubled, nothing wrong."""
    stats = outlast.Queue(order.queue).stats()
    assert (stats.ready, stats.leased, stats.done, stats.dead) == (0, 0, count, 0)
    sink = open_sink(order.sink)
    sink.prepare()
    if isinstance(sink, CompactableSink):
        sink.compact()
    results = list(sink.results())
    assert Counter(one.id for one in results) == Counter(f"item-{number:05d}" for number in range(count))
    assert all(one.value == '"' + right_value(one.id).replace("é", "\\u00e9") + '"' for one in results)
    if toll is not None:
        assert len(toll.computed) == count
        spare = 2 * order.chunk if toll.kills < _MANY_KILLS else 0
        assert toll.recomputed <= toll.kills * order.chunk / 2 + spare, toll.recomputed
        print(
            f"\n{toll.kills} kills, {count} items, {toll.recomputed} recomputed, {toll.seconds:.0f} s", file=sys.stderr
        )
