"""One run that saves: the first save and a later one with training paused, then one under a running training loop."""

import time
from pathlib import Path

from benchmarks.machine import PeakMemory, disk_bytes
from benchmarks.savers import Saver
from benchmarks.states import State
from benchmarks.training import Training

_POLL_SECONDS = 0.002
_SETTLE_SECONDS = 0.3
_UNDISTURBED_STEPS = 6


def measure_saves(saver: Saver, state: State, folder: Path, *, step_seconds: float, running: bool) -> dict[str, float]:
    """Figures in seconds, and in units of the state's size for memory and disk."""
    size = state.bytes
    saver.make_ready(state)
    memory = PeakMemory()
    saver.prepare(state, folder)
    figures = {"bytes": float(size)}
    figures["stall_first"], figures["durable_first"] = save_paused(saver, step_seconds)
    figures["disk"] = disk_bytes(saver.checkpoint()) / size
    _next_step(saver, state)
    figures["stall"], figures["durable"] = save_paused(saver, step_seconds)
    figures["memory_save"] = memory.extra_bytes() / size
    if running:
        _next_step(saver, state)
        figures |= _running(saver, step_seconds)
    return figures


def _next_step(saver: Saver, state: State) -> None:
    state.change()
    saver.tidy()
    time.sleep(_SETTLE_SECONDS)


def save_paused(saver: Saver, step_seconds: float) -> tuple[float, float]:
    """(stall, time until durable) of a save while the training thread sleeps through its next step."""
    stall = saver.save()
    step_ends, stalled, moment = time.monotonic() + step_seconds, None, None
    while moment is None or stalled is None:
        time.sleep(_POLL_SECONDS)
        moment = saver.durable_at()
        if stalled is None and time.monotonic() >= step_ends:
            stalled = saver.border()
    return stall.seconds + stalled, moment - stall.begin


def _running(saver: Saver, step_seconds: float) -> dict[str, float]:
    """The same under a training loop, which goes on for a while after the save: what it costs later counts too."""
    training = Training()
    _undisturbed(training, saver, step_seconds)  # warms up
    before = _undisturbed(training, saver, step_seconds)
    borders: list[tuple[float, float]] = []  # how long each held up the training, and when it ended
    stall = saver.save()
    training.train(
        step_seconds,
        until=lambda: bool(borders) and saver.durable_at() is not None,
        border=lambda: borders.append((saver.border(), time.monotonic())),
    )
    _undisturbed(training, saver, step_seconds)
    end = time.monotonic()
    after = _undisturbed(training, saver, step_seconds)
    durable = saver.durable_at()
    assert durable is not None
    undisturbed, (stalled, border_end) = (before + after) / 2, borders[0]
    figures = {
        "stall_running": stall.seconds + stalled,
        "durable_running": durable - stall.begin,
        "slowdown_seconds": 0.0,
        "slowdown_percent": 0.0,
        "training_moved": max(before, after) / min(before, after) - 1,
    }
    if durable - stall.end > _POLL_SECONDS:  # else it was durable when the call returned, and disturbed nothing
        persisted = max(durable, border_end)
        lost = training.lost_seconds(stall.end, persisted, undisturbed=undisturbed) - stalled
        figures["slowdown_percent"] = 100 * lost / (persisted - stall.end)
        figures["slowdown_seconds"] = lost + training.lost_seconds(persisted, end, undisturbed=undisturbed)
    figures["lost"] = figures["stall_running"] + figures["slowdown_seconds"]
    return figures


def _undisturbed(training: Training, saver: Saver, step_seconds: float) -> float:
    """Trains for some steps with no save due; returns the time of one piece."""
    began, seconds = time.monotonic(), _UNDISTURBED_STEPS * step_seconds
    training.train(step_seconds, until=lambda: time.monotonic() >= began + seconds, border=saver.border)
    return training.piece_seconds(began, time.monotonic())
