"""Work that releases the interpreter's lock, spread over a few threads."""

import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress


def nothing() -> None:
    """Does nothing."""


def in_parallel(jobs: Iterable[Callable[[], None]], *, threads: int, meanwhile: Callable[[], None] = nothing) -> None:
    """Runs jobs in so many threads, the caller's among them; returns when all are done.

    The first error is raised, and so is one of `meanwhile`, which the caller's thread calls before each of its jobs;
    no job begins after it. Where no thread can be started any more (the interpreter is on its way out), the caller's
    does all the work.
    """
    work = _Work(iter(jobs))
    helpers = [threading.Thread(target=work.run, name="outlast-parallel", daemon=True) for _ in range(threads - 1)]
    started = []
    for helper in helpers:
        with suppress(RuntimeError):
            helper.start()
            started.append(helper)
    work.run(meanwhile)
    for helper in started:
        helper.join()
    if work.error is not None:
        raise work.error


class _Work:
    def __init__(self, jobs: Iterator[Callable[[], None]]) -> None:
        self._jobs, self._lock = jobs, threading.Lock()
        self.error: BaseException | None = None

    def run(self, meanwhile: Callable[[], None] = nothing) -> None:
        try:
            while self.error is None:
                meanwhile()
                with self._lock:
                    job = next(self._jobs, None)
                if job is None:
                    return
                job()
        except BaseException as error:  # noqa: BLE001 - raised again in the caller's thread
            with self._lock:
                self.error = self.error or error
