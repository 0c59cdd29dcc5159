"""What becomes of the tasks of an emulated Cloud Run execution: retries, timeouts, parallelism, cancellation."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from outlast.emulate.cloud_run.execution_state import AttemptEnd, ExecutionState

_BEGIN = datetime(2026, 11, 30, tzinfo=UTC)


def _run(state: ExecutionState, ends: list[AttemptEnd]) -> None:
    """Runs a single task to its end; `ends` holds what each attempt does."""
    for number, end in enumerate(ends):
        started = state.start_next(_BEGIN + timedelta(seconds=number))
        assert [task.attempt for task in started] == [number]
        state.attempt_ended(0, end, _BEGIN + timedelta(seconds=number + 1))
    assert state.start_next(_BEGIN) == []


@pytest.mark.parametrize(
    ("retries", "ends", "state", "code", "exit_code"),
    [
        (3, [AttemptEnd(0)], "Succeeded", 0, None),
        (0, [AttemptEnd(1)], "Failed", 10, 1),
        (2, [AttemptEnd(1), AttemptEnd(143, "maintenance"), AttemptEnd(0)], "Succeeded", 0, None),
        (2, [AttemptEnd(1), AttemptEnd(2), AttemptEnd(3)], "Failed", 10, 3),
        # Leaving with 0 is success, whatever was left to do: here work is lost.
        (3, [AttemptEnd(0, "maintenance")], "Succeeded", 0, None),
        # But not after the timeout.
        (1, [AttemptEnd(0, "timeout"), AttemptEnd(0, "timeout")], "Failed", 4, None),
        (1, [AttemptEnd(137, "timeout", killed=True), AttemptEnd(0)], "Succeeded", 0, None),
        (1, [AttemptEnd(137, "crash", killed=True), AttemptEnd(137, "crash", killed=True)], "Failed", 10, 137),
    ],
)
def test_a_task_is_tried_again_until_it_succeeds_or_its_retries_are_used_up(
    retries: int, ends: list[AttemptEnd], state: str, code: int, exit_code: int | None
) -> None:
    execution = ExecutionState(1, 1, retries)
    _run(execution, ends)
    task = execution.tasks[0]
    assert (task.state, task.attempt) == (state, len(ends) - 1)
    assert task.last is not None
    assert (task.last.code, task.last.exit_code) == (code, exit_code)
    assert execution.over
    assert execution.succeeded == (state == "Succeeded")
    assert execution.completed_at == _BEGIN + timedelta(seconds=len(ends))
    assert execution.retried == (len(ends) > 1)


def test_no_more_tasks_run_at_a_time_than_the_parallelism() -> None:
    execution = ExecutionState(5, 2, 1)
    assert [task.index for task in execution.start_next(_BEGIN)] == [0, 1]
    execution.attempt_ended(1, AttemptEnd(0), _BEGIN)
    assert [task.index for task in execution.start_next(_BEGIN)] == [2]
    execution.attempt_ended(0, AttemptEnd(1), _BEGIN)
    assert [(task.index, task.attempt) for task in execution.start_next(_BEGIN)] == [(0, 1)]
    assert execution.count("Running") == 2


def test_the_others_go_on_when_a_task_has_failed_and_the_execution_fails_at_their_end() -> None:
    execution = ExecutionState(2, 2, 0)
    execution.start_next(_BEGIN)
    execution.attempt_ended(0, AttemptEnd(5), _BEGIN)
    assert not execution.over
    execution.attempt_ended(1, AttemptEnd(0), _BEGIN)
    assert execution.over
    assert not execution.succeeded
    assert execution.first_failed is execution.tasks[0]


def test_after_a_cancellation_nothing_starts_and_nothing_counts_as_succeeded() -> None:
    execution = ExecutionState(3, 2, 3)
    execution.start_next(_BEGIN)
    execution.cancel(_BEGIN)
    assert execution.tasks[2].state == "Cancelled"
    assert not execution.over
    execution.attempt_ended(0, AttemptEnd(143, "cancelled"), _BEGIN)
    execution.attempt_ended(1, AttemptEnd(0, "cancelled"), _BEGIN)
    assert execution.over
    assert not execution.succeeded
    assert execution.count("Cancelled") == 3
    assert execution.start_next(_BEGIN) == []


_ENDS = st.builds(
    AttemptEnd, st.sampled_from([0, 0, 1, 143]), st.sampled_from([None, None, "timeout", "maintenance", "crash"])
)


@settings(max_examples=150, deadline=None)
@given(st.data(), st.integers(1, 5), st.integers(1, 5), st.integers(0, 3))
def test_whatever_happens_every_task_ends_within_its_retries(
    data: st.DataObject, tasks: int, parallelism: int, retries: int
) -> None:
    execution, running = ExecutionState(tasks, parallelism, retries), set()
    while not execution.over:
        running |= {task.index for task in execution.start_next(_BEGIN)}
        assert running, "nothing runs, and the execution is not over"
        assert len(running) <= parallelism
        assert execution.count("Running") == len(running)
        index = data.draw(st.sampled_from(sorted(running)))
        running.discard(index)
        end = data.draw(_ENDS)
        execution.attempt_ended(index, end, _BEGIN)
        task = execution.tasks[index]
        assert task.attempt <= retries
        if task.state == "Succeeded":
            assert end.exit_code == 0
            assert end.cause != "timeout"
        if task.state == "Failed":
            assert task.attempt == retries
    assert sum(execution.count(state) for state in ("Succeeded", "Failed", "Cancelled")) == tasks
