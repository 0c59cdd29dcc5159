"""What the worker adds to items that take time, and how long a model waits for its files, beside bare loops."""

import time
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import outlast
from benchmarks.batch.contender import ids_of, payload_of, value_of

_ITEM_SECONDS = 0.05
_LOAD_SECONDS, _MODEL_SECONDS = 0.02, 0.01
_CHUNK = 8


class Busy:
    """Adds up the time in which work is done, from the begin of the first piece to the end of the last."""

    def __init__(self) -> None:
        self._first: float | None = None
        self._last = self.seconds = 0.0

    def work(self, seconds: float) -> None:
        began = time.perf_counter()
        if self._first is None:
            self._first = began
        time.sleep(seconds)
        self._last = time.perf_counter()
        self.seconds += self._last - began

    @property
    def began(self) -> float:
        assert self._first is not None
        return self._first

    @property
    def ended(self) -> float:
        return self._last

    @property
    def overhead_percent(self) -> float:
        """What lay between the pieces, of the time in which work was done."""
        return 100.0 * (self._last - self.began - self.seconds) / self.seconds

    @property
    def idle_percent(self) -> float:
        """Of the time from the first to the last, what lay between the pieces."""
        return 100.0 * (1.0 - self.seconds / (self._last - self.began))


def measure_items(folder: Path, items: int) -> dict[str, float]:
    """Percent on top of items of 50 ms, one by one and in chunks: lease, look-up, store and acknowledgement of each.

    Also the seconds from the call of `run` to the first item, and from the end of the last to the return of `run`.
    """
    alone, called, returned = _work_through(f"sqlite:///{folder}/work.db", items, chunk=1)
    chunked, _, _ = _work_through(f"sqlite:///{folder}/chunks.db", items, chunk=_CHUNK)
    return {
        "item_overhead": alone.overhead_percent,
        f"item_overhead_of_{_CHUNK}": chunked.overhead_percent,
        "worker_start": alone.began - called,
        "worker_end": returned - alone.ended,
    }


def _work_through(url: str, items: int, *, chunk: int) -> tuple[Busy, float, float]:
    """The work that was done, and when `run` was called and returned."""
    busy, queue = Busy(), _published(url, items)

    @outlast.batch(queue, sink=url, chunk=chunk)
    def infer(items):
        for _ in items:
            busy.work(_ITEM_SECONDS)
        return [value_of(item.id) for item in items]

    called = time.perf_counter()
    drained = infer.run()
    returned = time.perf_counter()
    _check(drained.computed, items)
    return busy, called, returned


def measure_loads(folder: Path, items: int, threads: int) -> dict[str, float]:
    """Percent of the time in which the model waits: in a bare loop with as many threads, and in the worker."""
    chunks = [ids_of(items)[start : start + _CHUNK] for start in range(0, items, _CHUNK)]
    bare = _idle_in_bare_loop(chunks, threads)
    url, busy = f"sqlite:///{folder}/work.db", Busy()
    queue = _published(url, items)

    @outlast.batch(queue, sink=url, chunk=_CHUNK, load=lambda item: _load(item.id))
    def infer(items):
        if any(item.loaded != len(item.id) for item in items):
            raise RuntimeError("something else was loaded")
        busy.work(_MODEL_SECONDS * len(items))
        return [value_of(item.id) for item in items]

    drained = infer.run()
    _check(drained.computed, items)
    return {"model_idle": busy.idle_percent, "model_idle_bare": bare, "idle_above_bare": busy.idle_percent - bare}


def _idle_in_bare_loop(chunks: list[list[str]], threads: int) -> float:
    """The next chunk is loaded while the model works on this one; nothing is stored."""
    busy = Busy()
    with ThreadPoolExecutor(threads) as pool:
        for loaded in _prefetched(chunks, lambda names: [pool.submit(_load, name) for name in names]):
            busy.work(_MODEL_SECONDS * len([one.result() for one in loaded]))
    return busy.idle_percent


def _prefetched(
    chunks: list[list[str]], begin: Callable[[list[str]], list["Future[int]"]]
) -> Iterator[list["Future[int]"]]:
    ahead = deque([begin(chunks[0])])
    for following in [*chunks[1:], None]:
        if following is not None:
            ahead.append(begin(following))
        yield ahead.popleft()


def _load(name: str) -> int:
    time.sleep(_LOAD_SECONDS)
    return len(name)


def _published(url: str, items: int) -> "outlast.Queue":
    queue = outlast.Queue(url)
    queue.publish((name, payload_of(name)) for name in ids_of(items))
    return queue


def _check(computed: int, items: int) -> None:
    if computed != items:
        raise RuntimeError(f"{computed} of {items} items were computed")
