"""Work over a few threads: all of it is done, or the first error comes out and nothing begins after it."""

import gc
import threading
import weakref
from functools import partial
from weakref import WeakMethod

import pytest

from outlast.threads import Worker, in_parallel


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_every_job_is_done_once(threads: int) -> None:
    done: list[int] = []
    in_parallel((partial(done.append, number) for number in range(100)), threads=threads)
    assert sorted(done) == list(range(100))


@pytest.mark.parametrize("threads", [1, 3])
def test_an_error_comes_out_and_no_job_begins_after_it(threads: int) -> None:
    begun: list[int] = []

    def job(number: int) -> None:
        begun.append(number)
        if number == 5:
            raise ValueError("five")

    with pytest.raises(ValueError, match="five"):
        in_parallel((partial(job, number) for number in range(10_000)), threads=threads)
    assert len(begun) < 10_000


def test_what_is_called_meanwhile_runs_in_the_callers_thread_and_may_end_it() -> None:
    calls: list[str] = []

    def meanwhile() -> None:
        calls.append(threading.current_thread().name)
        if len(calls) == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        in_parallel((partial(threading.Event().wait, 0.001) for _ in range(1000)), threads=2, meanwhile=meanwhile)
    assert set(calls) == {threading.current_thread().name}


def test_where_no_thread_can_be_started_the_caller_does_all_the_work(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_self: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    done: list[int] = []
    in_parallel((partial(done.append, number) for number in range(10)), threads=4)
    assert done == list(range(10))


# --- a worker that has nothing to do ------------------------------------------------------------------


class Idle:
    """Counts its calls; raises at the second one if told so."""

    def __init__(self, *, raises: bool = False) -> None:
        self.calls, self.raises = 0, raises
        self.called = threading.Event()

    def look(self) -> float:
        self.calls += 1
        if self.calls >= 3:
            self.called.set()
        if self.raises and self.calls == 2:
            self.called.set()
            raise ValueError("two")
        return 0.001


def test_an_idle_worker_calls_now_and_then_and_still_works() -> None:
    worker, idle, done = Worker("test"), Idle(), threading.Event()
    worker.start(WeakMethod(idle.look))
    assert idle.called.wait(10)
    worker.begin(done.set)
    assert done.wait(10)
    assert worker.wait(10)


def test_what_it_calls_is_held_weakly_and_may_raise() -> None:
    worker, idle, done = Worker("test"), Idle(raises=True), threading.Event()
    worker.start(WeakMethod(idle.look))
    assert idle.called.wait(10)
    worker.begin(done.set)
    assert done.wait(10)
    assert idle.calls == 2
    gone = weakref.ref(idle)
    del idle
    gc.collect()
    assert gone() is None
