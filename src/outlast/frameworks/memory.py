"""What the adapters know about memory whatever the framework: overlap inside one array, copies in pieces."""

import ctypes
import operator
import os
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any

from outlast.threads import in_parallel

# memoryview copies hold the GIL; pieces of this size keep a signal heard within 0.1 s.
PIECE_BYTES = 16 * 1024 * 1024
_ALIGNMENT = 16  # of the largest elements: complex128, long double
# Below this, starting a thread costs more than its half of the copy.
_TWO_THREADS_BYTES = 4 * 1024 * 1024


class ByIdentity:
    """Facts that are equal only where they are the very same objects: NumPy calls dtypes equal that differ."""

    __hash__ = None  # type: ignore[assignment]  # compared, never looked up

    def __init__(self, facts: Iterable[object]) -> None:
        self._facts = list(facts)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ByIdentity) or len(self._facts) != len(other._facts):
            return False
        return all(map(operator.is_, self._facts, other._facts))


def overlaps(shape: Sequence[int], strides: Sequence[int], *, step: int) -> bool:
    """Whether two elements of an array may share memory (expanded, broadcast, sliding windows).

    `step` is the size of one element in the unit of `strides`. Never False for an array that overlaps; may be True
    for some exotic one that does not, which is then made anew rather than filled.
    """
    if 0 in shape:
        return False
    reach = 0
    for stride, size in sorted((abs(stride), size) for stride, size in zip(strides, shape, strict=True) if size > 1):
        if stride < reach + step:
            return True
        reach += stride * (size - 1)
    return False


def can_be_adopted(data: memoryview) -> bool:
    """Whether memory is fit to be that of an array: writable, and aligned for every kind of element."""
    if data.readonly or not data.nbytes:
        return False
    return ctypes.addressof(ctypes.c_ubyte.from_buffer(data)) % _ALIGNMENT == 0


def copy_bytes(target: memoryview, source: memoryview) -> None:
    """Overwrites `target` with `source`, both flat bytes of the same length; raises ValueError if they are not."""
    if target.nbytes != source.nbytes:
        raise ValueError(f"{source.nbytes} bytes given for {target.nbytes}")
    for start in range(0, target.nbytes, PIECE_BYTES):
        target[start : start + PIECE_BYTES] = source[start : start + PIECE_BYTES]


def copy_in_two(
    copy: Callable[[Sequence[Any], Sequence[Any]], None],
    targets: Sequence[Any],
    sources: Sequence[Any],
    sizes: Sequence[int],
) -> None:
    """Calls `copy(targets, sources)` for both halves at a time, by bytes; `copy` should release the GIL.

    One thread reaches about 0.7 of what memory gives to two (2 cores, 1 GiB of warm memory).
    """
    half = split_at_half(sizes) if _cpus() > 1 else len(targets)
    if half in (0, len(targets)) or sum(sizes) < _TWO_THREADS_BYTES:
        copy(targets, sources)
        return
    halves = (partial(copy, targets[half:], sources[half:]), partial(copy, targets[:half], sources[:half]))
    in_parallel(halves, threads=2)


def split_at_half(sizes: Sequence[int]) -> int:
    """The index up to which about half of the bytes lie."""
    total, running = sum(sizes), 0
    for index, size in enumerate(sizes):
        if 2 * running + size >= total:
            return index + (2 * running + size == total)
        running += size
    return len(sizes)


def _cpus() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
