"""The cost of a step when no save is due, beside a bare loop."""

import time
from collections.abc import Iterator
from pathlib import Path

import outlast

_STEPS = 100_000


def measure_steps(folder: Path) -> dict[str, float]:
    """Seconds for one step of each loop."""
    job = outlast.Job(folder / "steps", state={"x": 0}, every="1h", name="bench")
    return {"step_bare": _seconds(iter(range(_STEPS + 1))), "step": _seconds(iter(job.steps(_STEPS + 1)))}


def _seconds(loop: Iterator[int]) -> float:
    next(loop)
    began = time.perf_counter()
    for _ in range(_STEPS):
        next(loop)
    return (time.perf_counter() - began) / _STEPS
