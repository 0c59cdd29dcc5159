"""Work that releases the interpreter's lock, spread over a few threads, or done in one beside the program."""

import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from weakref import WeakMethod


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


class Worker:
    """Runs one piece of work at a time in a thread of its own, which is there from the start.

    A thread for each piece could not be started any more once the interpreter is on its way out, and to start one
    means to wait for it: it may keep the interpreter's lock for a while first.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._work: Callable[[], None] | None = None
        self._todo, self._idle = threading.Event(), threading.Event()
        self._idle.set()
        self._thread: threading.Thread | None = None
        self._when_idle: WeakMethod[Callable[[], float]] | None = None

    @property
    def busy(self) -> bool:
        """Whether work is under way."""
        return not self._idle.is_set()

    def start(self, when_idle: WeakMethod[Callable[[], float]] | None = None) -> None:
        """Starts the thread; raises RuntimeError where there can be no more threads.

        `when_idle` is called between pieces of work, at the start and then each time that as many seconds have passed
        as it returned. One that raises is not called again.
        """
        if self._thread is None:
            self._when_idle = when_idle
            thread = threading.Thread(target=self._serve, name=self._name, daemon=True)
            thread.start()
            self._thread = thread

    def begin(self, work: Callable[[], None]) -> None:
        """Gives it a piece of work, which must not raise. Start it first, and wait until the one before has ended."""
        assert self._thread is not None
        assert not self.busy
        self._work = work
        self._idle.clear()
        self._todo.set()

    def wait(self, seconds: float | None = None) -> bool:
        """Waits until no work is under way; False if it still is after so many seconds. In a fork there is none."""
        if self._thread is not None and not self._thread.is_alive():
            return True
        return self._idle.wait(seconds)

    def _serve(self) -> None:
        """The thread. Between two pieces of work it leads to nothing of the program's."""
        while True:
            while not self._todo.wait(self._tick()):
                pass
            self._todo.clear()
            work, self._work = self._work, None
            try:
                if work is not None:
                    work()
            finally:
                del work
                self._idle.set()

    def _tick(self) -> float | None:
        """Calls what is to be called now and then; how long to wait until the next time, None for ever."""
        when_idle = self._when_idle() if self._when_idle is not None else None
        if when_idle is None:
            return None
        try:
            return when_idle()
        except BaseException:  # noqa: BLE001 - whatever it is, the thread must be there for the next piece of work
            self._when_idle = None
            return None
