"""Saves beside the training: what fails is told and made up for, what is under way is waited for or left, as promised.

The jobs run in this process, on a store in memory whose writes, reads and commits can be held up or made to fail.
"""

import itertools
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import outlast
from outlast.checkpoint.places import TaskPlace
from outlast.checkpoint.read import open_checkpoint
from outlast.checkpoint.record import load_record
from outlast.clock import SystemClock
from outlast.errors import SaveFailed as SaveFailedError
from outlast.errors import StoreUnreachable
from outlast.events import SaveCommitted, SaveFailed, SavePostponed, SaveTakenBack, SaveVerified, from_lines
from outlast.frameworks.numpy import NumpyFramework
from outlast.notices import make_notice
from outlast.ports import Bytes, OpenObject, Pace, full_speed
from outlast.testing import MemoryStore

PLACE = TaskPlace("saves", "run-1", 0)


class Gated(MemoryStore):
    """A store in memory; a closed gate holds writes of data up, and faults can be planted."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = threading.Event()
        self.gate.set()
        self.read_gate = threading.Event()
        self.read_gate.set()
        self.write_error: Exception | None = None
        self.garbled = False
        self.reads = 0

    def write(self, name: str, buffers: Iterable[Bytes], *, pace: Pace = full_speed) -> int:
        assert self.gate.wait(30)
        if self.write_error is not None:
            raise self.write_error
        data = b"".join(buffers)
        if self.garbled:
            data = data[:-1] + bytes([data[-1] ^ 1])
        return super().write(name, [data], pace=pace)

    @contextmanager
    def open(self, name: str) -> Iterator[OpenObject]:
        if "/data/" in name:
            self.reads += 1
            assert self.read_gate.wait(30)
        with super().open(name) as opened:
            yield opened


class Case:
    """A job of one array with saves beside the steps."""

    def __init__(self, store: Gated, **settings: Any) -> None:
        self.store = store
        self.array = np.zeros(3_000_000, np.uint8)
        options: dict[str, Any] = {"every": "1h", "saving": "background", "random_state": False, **settings}
        self.job = outlast.Job("memory", state={"a": self.array}, name="saves", **options)
        self.loop = self.job.steps(1000)
        self.step = next(self.loop)

    def go(self, steps: int = 1, *, save: bool = False, pin: bool = False) -> None:
        for _ in range(steps):
            self.array += 1
            if save:
                self.job.save(pin=pin)
            self.step = next(self.loop)

    def landed(self) -> None:
        """Waits until nothing is under way."""
        assert self.job._session.saves._saver.wait(30)

    def events(self, kind: Any) -> list[Any]:
        lines = self.store.read(PLACE.journal(self.job.attempt))
        return [one.event for one in from_lines(lines) if isinstance(one.event, kind)]

    def kept(self) -> list[Any]:
        return [load_record(self.store, entry.name) for entry in self.store.list(PLACE.commits)]


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> Iterator[Gated]:
    made = Gated()
    monkeypatch.setattr("outlast.session.open_store", lambda _url: made)
    yield made
    made.gate.set()


def test_steps_go_on_while_a_save_is_held_up_and_each_checkpoint_is_of_its_border(store: Gated) -> None:
    case = Case(store)
    case.go(2)
    store.gate.clear()
    case.go(save=True)
    case.go(50)
    assert case.events(SaveCommitted) == []
    store.gate.set()
    case.landed()
    [record] = case.kept()
    assert record.step == 3
    with outlast_open(store, record) as opened:
        assert set(opened.stored_leaf(0)) == {3}


def outlast_open(store: Gated, record: Any) -> Any:
    return open_checkpoint(store, PLACE.commit(record.name))


def test_a_save_that_is_due_meanwhile_is_postponed_and_reported_once(
    store: Gated, capsys: pytest.CaptureFixture[str]
) -> None:
    case = Case(store, every="10ms")
    store.gate.clear()
    until = threading.Event()
    for _ in range(20):
        case.go()
        until.wait(0.005)
    [postponed] = case.events(SavePostponed)
    assert postponed.running < postponed.step
    assert capsys.readouterr().err.count("waits: that of step") == 1
    store.gate.set()
    case.landed()
    case.go()
    case.landed()
    assert len(case.events(SaveCommitted)) == 2, "the postponed one follows"


def test_a_failed_save_is_told_at_once_made_up_for_and_costs_no_older_checkpoint(
    store: Gated, capsys: pytest.CaptureFixture[str]
) -> None:
    case = Case(store)
    case.go(save=True)
    case.landed()
    store.write_error = StoreUnreachable("the disk is full")
    case.job.log(loss=0.5)
    case.go(save=True, pin=True)
    case.landed()
    assert "the save at step 2 failed: the disk is full. Last good checkpoint: step 1" in capsys.readouterr().err
    assert [record.step for record in case.kept()] == [1]
    store.write_error = None
    case.go(2)
    case.landed()
    case.go()
    newest = case.kept()[-1]
    assert newest.step in (3, 4)
    assert (newest.pinned, newest.metrics) == (True, {"loss": 0.5}), "what was asked for is not forgotten"
    assert [event.step for event in case.events(SaveFailed)] == [2]


def test_after_a_failure_that_was_made_up_for_saves_go_on_at_their_own_times(store: Gated) -> None:
    case = Case(store, every=outlast.Steps(10))
    store.write_error = StoreUnreachable("away")
    case.go(10)
    case.landed()
    store.write_error = None
    for _ in range(20):
        case.go()
        case.landed()
    assert [event.step for event in case.events(SaveCommitted)] == [11, 20, 30]


def test_what_cannot_be_read_back_is_taken_back_and_the_one_before_stands(
    store: Gated, capsys: pytest.CaptureFixture[str]
) -> None:
    case = Case(store, keep=1)
    case.go(save=True)
    case.landed()
    case.go()
    store.garbled = True
    case.go(save=True)
    case.landed()
    store.garbled = False
    [taken] = case.events(SaveTakenBack)
    assert taken.step == 3
    assert [record.step for record in case.kept()] == [1]
    assert "the save at step 3 failed" in capsys.readouterr().err
    assert case.job._session.saves.saved_mark[0] == 1
    case.go(2)
    case.landed()
    case.go()
    assert case.kept()[-1].step > 3
    assert len(case.events(SaveVerified)) == 2


def test_a_run_whose_only_checkpoint_was_taken_back_can_be_started_again(store: Gated) -> None:
    case = Case(store)
    store.garbled = True
    case.go(save=True)
    case.landed()
    store.garbled = False
    assert Case(store).job.resumed_from is None


def test_with_a_risk_limit_a_job_whose_saves_fail_leaves_with_75(store: Gated) -> None:
    case = Case(store, risk_limit="50ms")
    store.write_error = StoreUnreachable("away")
    case.go(save=True)
    case.landed()
    threading.Event().wait(0.06)
    with pytest.raises(outlast.SaveFailed, match="risk_limit") as raised:
        case.go(2)
    assert raised.value.code == 75


def test_with_a_risk_limit_a_job_whose_save_does_not_end_leaves_too(store: Gated) -> None:
    case = Case(store, risk_limit="50ms")
    store.gate.clear()
    case.go(save=True)
    threading.Event().wait(0.06)
    with pytest.raises(outlast.SaveFailed, match="risk_limit"):
        case.go(2)


def test_without_memory_for_a_copy_saves_are_written_at_once_and_that_is_said_once(
    store: Gated, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("outlast.copies.free_memory_bytes", lambda: 1_000_000)
    case = Case(store)
    for _ in range(3):
        case.go(save=True)
        assert case.kept()[-1].step == case.step
    assert capsys.readouterr().err.count("saves are written at once") == 1


class SlowMemory:
    """The machine gives memory in so many parts, each when it is told to, but for the first."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.given, self.more = 0, threading.Event()
        monkeypatch.setattr("outlast.checkpoint.buffer._TOUCHED_AT_ONCE", 1 << 16)
        monkeypatch.setattr("outlast.checkpoint.buffer._touch", self.give)

    def give(self, memory: memoryview) -> None:
        assert self.more.wait(30)
        self.given += len(memory)


def test_the_memory_of_saves_is_got_beside_the_first_steps(store: Gated, monkeypatch: pytest.MonkeyPatch) -> None:
    memory = SlowMemory(monkeypatch)
    case = Case(store)
    case.go(10)
    assert memory.given == 0
    memory.more.set()
    case.go(save=True)
    assert memory.given >= case.array.nbytes
    case.job._session.saves.wait()
    assert [record.step for record in case.kept()] == [11]


def test_nobody_waits_for_memory_at_a_notice_or_at_the_end(store: Gated, monkeypatch: pytest.MonkeyPatch) -> None:
    memory = SlowMemory(monkeypatch)
    case = Case(store)
    case.go(3)
    case.job._session.saves.hear_notice()
    memory.more.set()
    case.job.finish()
    assert memory.given <= 1 << 16
    assert case.kept()[-1].step == 4


def test_an_allocation_that_fails_is_no_reason_to_stop(
    store: Gated, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(12, "Cannot allocate memory")

    monkeypatch.setattr("outlast.checkpoint.buffer.ImageBuffer.reserve", refuse)
    case = Case(store)
    case.go(save=True)
    assert [record.step for record in case.kept()] == [1]
    assert "Cannot allocate memory" in capsys.readouterr().err


def test_a_save_asked_for_outside_a_step_is_durable_and_read_back_when_it_returns(store: Gated) -> None:
    array = np.zeros(3_000_000, np.uint8)
    job = outlast.Job("memory", state={"a": array}, name="saves", saving="blocking", random_state=False)
    before = store.reads
    job.save()
    assert [entry.name for entry in store.list(PLACE.commits)] != []
    assert store.reads > before


def test_at_the_end_of_the_process_a_save_under_way_is_waited_for(store: Gated) -> None:
    case = Case(store)
    store.gate.clear()
    case.go(save=True)
    threading.Timer(0.1, store.gate.set).start()
    case.job._session.saves.settle_at_exit()
    assert [record.step for record in case.kept()] == [1]


def test_a_notice_leaves_what_is_being_read_back_and_waits_for_what_is_being_written(store: Gated) -> None:
    case = Case(store)
    store.gate.clear()
    case.go(save=True)
    flight = case.job._session.saves._flight
    assert flight is not None
    case.job._session.saves.hear_notice()
    store.gate.set()
    case.landed()
    assert [event.step for event in case.events(SaveCommitted)] == [1]
    assert case.events(SaveVerified) == []
    assert flight.error is None


def test_at_a_notice_a_read_back_that_hangs_does_not_keep_the_last_state_from_being_saved(
    store: Gated, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = Case(store)
    store.read_gate.clear()
    case.go(save=True)
    until = time.monotonic() + 30
    while not case.kept() and time.monotonic() < until:
        time.sleep(0.01)
    case.go(2)
    board = case.job._session.board
    monkeypatch.setattr(board, "notice", make_notice("SIGTERM", "a test", 3.0, SystemClock()))
    monkeypatch.setattr(board, "hold", lambda: board.notice)
    with pytest.raises(outlast.Interrupted):
        case.go()
    assert [event.step for event in case.events(SaveCommitted)] == [1, 4]
    store.read_gate.set()
    hung = next(thread for thread in threading.enumerate() if thread.name == "outlast-saver")
    assert hung.is_alive()
    assert case.events(SaveFailed) == []
    assert [record.step for record in case.kept()] == [1, 4]


def test_a_long_notice_is_not_slept_through_behind_a_read_back_that_hangs(
    store: Gated, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A job that saves at every step waits for the save before; under a notice it waits as long as there is time."""
    case = Case(store, every=outlast.Steps(1))
    case.go()
    case.landed()
    store.read_gate.clear()
    case.go()
    until = time.monotonic() + 30
    while len(case.kept()) < 2 and time.monotonic() < until:
        time.sleep(0.01)
    board = case.job._session.board
    monkeypatch.setattr(board, "notice", make_notice("a source", "a test", 61.0, SystemClock(), kind="advance"))
    monkeypatch.setattr(board, "hold", lambda: board.notice)
    case.go(50)
    board.notice = make_notice("SIGTERM", "a test", 10.0, SystemClock())
    with pytest.raises(outlast.Interrupted):
        case.go()
    store.read_gate.set()
    assert case.kept()[-1].step == case.job._session.completed_steps == 53


def test_x17_a_process_that_was_frozen_at_its_exit_gives_no_save_up(
    store: Gated, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Half an hour has passed between two looks, in which nothing could have moved."""
    case = Case(store)
    store.gate.clear()
    case.go(save=True)
    saves, looks = case.job._session.saves, itertools.count()

    class Thawed(SystemClock):
        def monotonic_seconds(self) -> float:
            return super().monotonic_seconds() + (1800.0 if next(looks) > 1 else 0.0)

    monkeypatch.setattr(saves, "_clock", Thawed())
    threading.Timer(0.5, store.gate.set).start()
    saves.settle_at_exit()
    assert next(looks) > 2
    assert "is given up" not in capsys.readouterr().err
    assert [record.step for record in case.kept()] == [1]


def test_a_run_is_not_marked_finished_by_an_older_checkpoint_when_the_last_save_fails(store: Gated) -> None:
    case = Case(store)
    case.go(save=True)
    case.landed()
    store.gate.clear()
    case.go(save=True)
    store.write_error = StoreUnreachable("full")
    threading.Timer(0.1, store.gate.set).start()
    with pytest.raises(SaveFailedError):
        case.job.finish()
    store.write_error = None
    case.job.finish()
    assert case.kept()[-1].step == 3


def test_a_blocking_save_at_the_first_border_is_no_trouble_for_the_second(store: Gated) -> None:
    store.read_gate.clear()
    case = Case(store, saving="blocking")
    case.go(save=True)
    case.go(3)
    store.read_gate.set()
    case.landed()
    assert [event.step for event in case.events(SaveVerified)] == [1]


def test_a_larger_state_than_at_the_first_save_is_copied_whole(store: Gated) -> None:
    parts: dict[str, Any] = {"a": np.zeros(2_000_000, np.uint8), "more": []}
    job = outlast.Job("memory", state=parts, name="saves", saving="background", random_state=False, every="0s")
    for step in job.steps(6):
        parts["a"] += 1
        parts["more"].append(bytes([step]) * 1_000_000)
    record = load_record(store, store.list(PLACE.commits)[-1].name)
    with outlast_open(store, record) as opened:
        assert [len(leaf) for leaf in map(opened.stored_leaf, range(len(opened.leaves)))] == [2_000_000] + [
            1_000_000
        ] * 6


def test_a_large_transposed_array_is_saved_right_and_is_not_copied_for_each_piece(store: Gated, tmp_path: Path) -> None:
    array = np.arange(4_000_000, dtype=np.float64).reshape(2000, 2000).T
    job = outlast.Job("memory", state={"a": array}, name="saves", saving="blocking", random_state=False)
    made = 0
    real = NumpyFramework.buffer

    def counted(self: Any, value: Any) -> memoryview:
        nonlocal made
        made += 1
        return real(self, value)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(NumpyFramework, "buffer", counted)
        job.save()
    assert made <= 6
    record = load_record(store, store.list(PLACE.commits)[-1].name)
    with outlast_open(store, record) as opened:
        assert bytes(opened.stored_leaf(0)) == np.ascontiguousarray(array).tobytes()
