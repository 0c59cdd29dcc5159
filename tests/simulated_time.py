"""Time that only passes when every thread waits: real code, threads and all, in simulated seconds, the same each time.

One thread runs at a time. It goes on until it waits; then whoever is to go on next does, and the clock jumps to that
moment. `World.threading` stands for the module of that name in whatever is to live in the world.
"""

import heapq
import threading
from collections import deque
from collections.abc import Callable, Iterable
from itertools import count
from types import SimpleNamespace, TracebackType
from typing import Any

_LEAST_SECONDS = 1e-6  # whoever waits lets some time pass, or a wait for less than a float can show would have no end


class Gone(BaseException):
    """The process has ended: raised in each of its threads where it waits."""


class World:
    """A process in simulated time, and its clock. Begins in the thread that makes it; `close` ends what is left."""

    def __init__(self, *, began: float = 1000.0) -> None:
        self.now = began
        self.ended_by: str | None = None
        self._order = count()
        self._due: list[tuple[float, int, _Task, int]] = []
        self._main = self._running = _Task(self, None)
        self._tasks: list[_Task] = []
        self.threading = SimpleNamespace(
            Thread=self._thread,
            Event=lambda: _Event(self),
            Lock=lambda: _Lock(self),
            Condition=lambda: _Condition(self),
            TIMEOUT_MAX=threading.TIMEOUT_MAX,
        )

    # --- the clock ------------------------------------------------------------------------------------

    def wall_seconds(self) -> float:
        return 1_700_000_000.0 + self.now

    def monotonic_seconds(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        """Time passes for the calling thread. Raises Gone when the process ends meanwhile."""
        self.wait(self.now + max(seconds, _LEAST_SECONDS))

    # --- the end --------------------------------------------------------------------------------------

    def end(self, by: str) -> None:
        """The process ends here and now, in all threads; raises Gone."""
        self.ended_by = self.ended_by or by
        raise Gone

    def close(self) -> None:
        """Ends what still waits; for the thread that made the world."""
        self.ended_by = self.ended_by or "close"
        for task in self._tasks:
            if not task.over:
                self._hand_over(task)
        for task in self._tasks:
            task.join()

    # --- whose turn it is -----------------------------------------------------------------------------

    def wait(self, until: float | None) -> None:
        """The calling thread waits until that moment, None for ever, or until it is woken."""
        if self.ended_by is not None:
            raise Gone
        if until is not None:
            self.wake(self._running, until)
        self._hand_over(self._next())
        if self.ended_by is not None:
            raise Gone

    def wake(self, task: "_Task", at: float | None = None) -> None:
        """Lets a thread go on at a moment, now if none is given; unless it has gone on by then."""
        heapq.heappush(self._due, (self.now if at is None else at, next(self._order), task, task.turn))

    @property
    def running(self) -> "_Task":
        return self._running

    def _next(self) -> "_Task":
        while self._due:
            at, _, task, turn = heapq.heappop(self._due)
            if not task.over and task.turn == turn:
                self.now = max(self.now, at)
                return task
        raise AssertionError("every thread waits for ever")

    def _hand_over(self, task: "_Task") -> None:
        """Returns when it is the calling thread's turn again."""
        here = self._running
        task.turn += 1
        if task is not here:
            self._running = task
            task.go_on()
            here.pause()

    def leave(self, task: "_Task") -> None:
        """A thread has come to its end, and the next one goes on."""
        task.over = True
        after = self._main if self.ended_by is not None else self._next()
        after.turn += 1
        self._running = after
        after.go_on()

    def _thread(
        self, *, target: Callable[..., object], args: Iterable[Any] = (), name: str = "", daemon: bool = True
    ) -> "_Task":
        task = _Task(self, lambda: target(*args))
        self._tasks.append(task)
        return task


class _Task:
    """A thread of a world; without work it is the one that made the world."""

    def __init__(self, world: World, work: Callable[[], object] | None) -> None:
        self.turn, self.over = 0, False
        self._world, self._work = world, work
        self._baton = threading.Lock()
        self._baton.acquire()
        self._real: threading.Thread | None = None

    def start(self) -> None:
        self._world.wake(self)

    def is_alive(self) -> bool:
        return not self.over

    def go_on(self) -> None:
        if self._work is not None and self._real is None:
            self._real = threading.Thread(target=self._live, daemon=True)
            self._real.start()
        else:
            self._baton.release()

    def pause(self) -> None:
        self._baton.acquire()

    def join(self) -> None:
        if self._real is not None:
            self._real.join()

    def _live(self) -> None:
        try:
            if self._work is not None and self._world.ended_by is None:
                self._work()
        except Gone:
            pass
        finally:
            self._world.leave(self)


class _Event:
    def __init__(self, world: World) -> None:
        self._world, self._is_set = world, False
        self._waiting: list[_Task] = []

    def is_set(self) -> bool:
        return self._is_set

    def set(self) -> None:
        self._is_set = True
        for task in self._waiting:
            self._world.wake(task)

    def clear(self) -> None:
        self._is_set = False

    def wait(self, timeout: float | None = None) -> bool:
        if not self._is_set:
            task = self._world.running
            self._waiting.append(task)
            try:
                if timeout is None:
                    self._world.wait(None)
                else:
                    self._world.sleep(timeout)
            finally:
                self._waiting.remove(task)
        return self._is_set


class _Lock:
    """Reentrant, so that it can be a condition's. When the process has ended nobody waits for it any more."""

    def __init__(self, world: World) -> None:
        self._world, self._owner, self._depth = world, None, 0
        self._waiting: deque[_Task] = deque()

    def __enter__(self) -> None:
        task = self._world.running
        while self._owner not in (None, task) and self._world.ended_by is None:
            self._waiting.append(task)
            self._world.wait(None)
        self._owner: _Task | None = task
        self._depth += 1

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._depth -= 1
        if self._depth == 0:
            self._owner = None
            if self._waiting:
                self._world.wake(self._waiting.popleft())


class _Condition(_Lock):
    def __init__(self, world: World) -> None:
        super().__init__(world)
        self._changed = _Event(world)

    def wait(self, timeout: float | None = None) -> None:
        self._changed.clear()
        self.__exit__(None, None, None)
        try:
            self._changed.wait(timeout)
        finally:
            self.__enter__()

    def notify_all(self) -> None:
        self._changed.set()
