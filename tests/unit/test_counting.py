"""X05: a program that counts by itself, say to gather gradients over several batches, counts on after a resume."""

from pathlib import Path

import pytest

import outlast

BATCHES, EPOCHS, WINDOW = 7, 3, 3


class Stopped(Exception):
    """The process ends in the middle of a step."""


def run(store: Path, *, ends_at: int | None) -> list[tuple[int, int, int, int]]:
    """(epoch, index, step, sum) at each end of a window; every step is saved."""
    state = {"gathered": [0], "updates": []}
    job = outlast.Job(store, state=state, name="counting", every="0s", saving="blocking")
    try:
        for epoch in job.epochs(EPOCHS):
            for index, value in enumerate(job.batches(range(epoch * 100, epoch * 100 + BATCHES)), job.batch):
                if job.step == ends_at:
                    raise Stopped
                state["gathered"][0] += value
                if (index + 1) % WINDOW == 0:
                    state["updates"].append((epoch, index, job.step, state["gathered"][0]))
                    state["gathered"][0] = 0
    except Stopped:
        pass
    assert job.step == (EPOCHS * BATCHES if ends_at is None else ends_at)
    return [tuple(one) for one in state["updates"]]


@pytest.mark.parametrize("ends_at", [0, 1, 5, 7, 12, 20])
def test_x05_a_window_over_batches_is_whole_after_a_resume_at_any_step(ends_at: int, tmp_path: Path) -> None:
    whole = run(tmp_path / "whole", ends_at=None)
    run(tmp_path / "resumed", ends_at=ends_at)
    assert run(tmp_path / "resumed", ends_at=None) == whole


def test_the_counters_begin_at_zero_and_end_at_all(tmp_path: Path) -> None:
    job = outlast.Job(tmp_path, state={"n": [0]}, name="counting")
    assert (job.step, job.batch) == (0, 0)
    seen = []
    for _ in job.epochs(2):
        assert job.batch == 0
        for _ in job.batches("ab"):
            seen.append((job.step, job.batch))
    assert seen == [(0, 0), (1, 1), (2, 0), (3, 1)]
    assert job.step == 4
