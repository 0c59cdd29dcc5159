"""The limits of the machine: copying the state in memory, writing and reading a file of its size."""

import mmap
import os
import statistics
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np

from benchmarks.machine import drop_cache
from benchmarks.states import State, make_state

_BLOCK = 8 << 20
_ALIGNMENT = 4096
_COPIES = 3


def measure_limits(kind: str, scale: float, folder: Path) -> dict[str, float]:
    """Seconds of each limit, for a state of this kind and size."""
    state = make_state(kind, scale)
    state.fill()
    return limits_of(state, folder)


def limits_of(state: State, folder: Path, *, meanwhile: Callable[[], object] = lambda: None) -> dict[str, float]:
    """The same for a state that is there; `meanwhile` is called before each, so that processes can do it at once."""
    buffer = mmap.mmap(-1, -(-state.bytes // _ALIGNMENT) * _ALIGNMENT)  # anonymous memory starts on a page
    meanwhile()
    figures = _copies(state, np.frombuffer(buffer, np.uint8))
    path = folder / "raw"
    with memoryview(buffer) as view:
        meanwhile()
        figures["write"] = _write(path, view, fresh=True)
        meanwhile()
        figures["overwrite"] = _write(path, view, fresh=False)
        figures["cold_share_in_cache"] = drop_cache(path)
        meanwhile()
        figures["read_cold"] = _read(path, view)
        meanwhile()
        figures["read_warm"] = _read(path, view)
    figures["bytes"] = state.bytes
    path.unlink()
    return figures


# --- memory -----------------------------------------------------------------------------------------


def _copies(state: State, buffer: np.ndarray) -> dict[str, float]:
    pairs, position = [], 0
    for tensor in state.tensors.values():
        source = tensor.numpy().reshape(-1).view(np.uint8)
        pairs.append((buffer[position : position + source.nbytes], source))
        position += source.nbytes
    _copy(pairs)  # touches the buffer
    with ThreadPoolExecutor(2) as threads:
        halves = _halves(pairs)
        return {
            "copy_1": _median_seconds(lambda: _copy(pairs)),
            "copy_2": _median_seconds(lambda: list(threads.map(_copy, halves))),
        }


def _copy(pairs: Sequence[tuple[np.ndarray, np.ndarray]]) -> None:
    for target, source in pairs:
        np.copyto(target, source)


def _halves(pairs: Sequence[tuple[np.ndarray, np.ndarray]]) -> tuple[list, list]:
    """The pairs in two lists of about as many bytes each."""
    first, second, total = [], [], sum(source.nbytes for _, source in pairs)
    reached = 0
    for pair in pairs:
        (first if reached < total / 2 else second).append(pair)
        reached += pair[1].nbytes
    return first, second


def _median_seconds(work: Callable[[], object]) -> float:
    seconds = []
    for _ in range(_COPIES):
        began = time.perf_counter()
        work()
        seconds.append(time.perf_counter() - began)
    return statistics.median(seconds)


# --- the disk ---------------------------------------------------------------------------------------


def _write(path: Path, data: memoryview, *, fresh: bool) -> float:
    """O_DIRECT, two threads, then fsync: of a new file, or over the blocks of an old one."""
    began = time.perf_counter()
    handle = os.open(path, os.O_WRONLY | os.O_DIRECT | (os.O_CREAT | os.O_EXCL if fresh else 0))
    try:
        _in_two_threads(lambda start, block: os.pwrite(handle, block, start), data)
        os.fsync(handle)
    finally:
        os.close(handle)
    return time.perf_counter() - began


def _read(path: Path, target: memoryview) -> float:
    began = time.perf_counter()
    handle = os.open(path, os.O_RDONLY)
    try:
        _in_two_threads(lambda start, block: os.preadv(handle, [block], start), target)
    finally:
        os.close(handle)
    return time.perf_counter() - began


def _in_two_threads(move: Callable[[int, memoryview], int], data: memoryview) -> None:
    def one(start: int) -> None:
        block = data[start : start + _BLOCK]
        moved = move(start, block)
        if moved != len(block):
            raise OSError(f"{moved} of {len(block)} bytes at {start}")

    with ThreadPoolExecutor(2) as threads:
        list(threads.map(one, range(0, len(data), _BLOCK)))
