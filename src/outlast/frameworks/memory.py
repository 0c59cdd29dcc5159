"""What the adapters know about memory whatever the framework: overlap inside one array, copies in pieces."""

from collections.abc import Sequence

# memoryview copies hold the GIL; pieces of this size keep a signal heard within 0.1 s.
PIECE_BYTES = 16 * 1024 * 1024


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


def copy_bytes(target: memoryview, source: memoryview) -> None:
    """Overwrites `target` with `source`, both flat bytes of the same length; raises ValueError if they are not."""
    if target.nbytes != source.nbytes:
        raise ValueError(f"{source.nbytes} bytes given for {target.nbytes}")
    for start in range(0, target.nbytes, PIECE_BYTES):
        target[start : start + PIECE_BYTES] = source[start : start + PIECE_BYTES]
