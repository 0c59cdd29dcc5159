"""The loop that frameworks drive: where its borders are, what a resume gives the framework, when it is finished."""

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import outlast

BATCHES = 7


class Shuffled:
    """A loader whose order, and whose batches, are drawn from the global generator."""

    def __iter__(self) -> Iterator[float]:
        order = random.sample(range(BATCHES), BATCHES)
        for one in order:
            yield one + random.random()


class Stopped(Exception):
    """In the midst of a step."""


def train(folder: Path, *, window: int = 1, epochs: int = 3, die_at: int | None = None, **settings: Any) -> list[Any]:
    """A framework's loop in short; what it has seen is in its state."""
    random.seed(3)
    seen: list[Any] = []
    job = outlast.Job(folder, state={"seen": seen}, name="driven", every="0s", **settings)
    loop = job.driven(epochs, unit="epochs")
    random.seed(4)  # whatever a framework draws when it starts
    first, loader = loop.epoch, Shuffled()
    done = loop.batches_done if loop.resuming is not None else 0
    for epoch in range(first, epochs):
        batches = loop.batches(loader, epoch=lambda now=epoch: now, begins_a_step=lambda number: number % window == 0)
        for number in range(done, BATCHES):
            if job.finished:
                return seen
            seen.append((epoch, number, next(batches), random.random()))
            if len(seen) == die_at:
                raise Stopped
        done = 0
    loop.finish()
    return seen


@pytest.mark.parametrize("window", [1, 3])
@pytest.mark.parametrize("die_at", [1, 2, 3, 6, 7, 8, 14, 15, 20, 21])
def test_a_resumed_loop_sees_the_same_batches_and_numbers(store: Path, window: int, die_at: int) -> None:
    whole = train(store / "whole", window=window)
    assert len(whole) == 3 * BATCHES
    with pytest.raises(Stopped):
        train(store / "cut", window=window, die_at=die_at)
    assert train(store / "cut", window=window) == whole


def test_a_save_is_never_inside_a_window(store: Path) -> None:
    with pytest.raises(Stopped):
        train(store, window=3, die_at=6)
    state: dict[str, Any] = {"seen": []}
    job = outlast.Job(store, state=state, name="driven")
    assert (job.resumed_from, len(state["seen"])) == (1, 3)


def test_a_finished_run_gives_no_batch_and_a_larger_total_goes_on(store: Path) -> None:
    once = train(store, epochs=2)
    assert train(store, epochs=2) == once
    more = train(store, epochs=3)
    assert more[: len(once)] == once
    assert len(more) == 3 * BATCHES


def test_a_job_has_one_loop(store: Path) -> None:
    job = outlast.Job(store, state={"n": 0}, name="driven")
    job.driven(3)
    with pytest.raises(outlast.LoopMisused):
        job.steps(3)
