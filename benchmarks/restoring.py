"""One run that restores: into a state whose memory exists and is touched, with the files in the page cache or not."""

import time
from pathlib import Path

from benchmarks.machine import PeakMemory, drop_cache, warm_cache
from benchmarks.savers import Saver
from benchmarks.states import State


def measure_restore(
    saver: Saver, state: State, folder: Path, *, warm: bool, changes: int, full_bytes: int
) -> dict[str, float]:
    """Figures in seconds, and in units of the full state's size for memory; raises if it is not what was saved."""
    state.spoil()
    saver.make_ready(state)
    figures = {"bytes": float(full_bytes)}
    if warm:
        warm_cache(folder)
    else:
        figures["cold_share_in_cache"] = drop_cache(folder)
    memory = PeakMemory()
    began = time.monotonic()
    saver.restore(state, folder)
    figures["restore_warm" if warm else "restore_cold"] = time.monotonic() - began
    if not warm:  # once for each round
        figures["memory_restore"] = memory.extra_bytes() / full_bytes
    saver.bring_back(state)
    if wrong := state.wrong(changes):
        raise ValueError(f"not restored as saved: {', '.join(wrong[:3])}")
    return figures
