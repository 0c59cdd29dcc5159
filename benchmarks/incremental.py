"""What an incremental save writes: a tenth of the state changes, as whole arrays and as a region of a large one."""

from pathlib import Path

import torch

from benchmarks.ours import Outlast, listed
from benchmarks.saving import save_paused
from benchmarks.states import State

_WHOLE_SHARE = 0.1
_REGION_BYTES = 4 << 20


def measure_incremental(saver: Outlast, state: State, folder: Path, *, step_seconds: float) -> dict[str, float]:
    """Bytes written over bytes changed, and the seconds of that save."""
    saver.prepare(state, folder)
    save_paused(saver, step_seconds)
    saver.tidy()  # only what was read back is referred to, and the read-back is of the save before
    changed = change_a_tenth(state)
    stall, durable = save_paused(saver, step_seconds)
    newest = listed(saver.checkpoint())[-1]
    return {
        "bytes": float(state.bytes),
        "changed": changed / state.bytes,
        "written_for_changed": newest["bytes_written"] / changed,
        "stall_incremental": stall,
        "durable_incremental": durable,
    }


def change_a_tenth(state: State) -> int:
    """Changes every n-th array until a tenth of the state is new, and a region of the largest; returns the bytes."""
    total = state.bytes
    largest = max(state.tensors.values(), key=lambda tensor: tensor.nbytes)
    changed = _change_region(largest)
    others = [tensor for tensor in state.tensors.values() if tensor is not largest]
    for tensor in (tensor for start in range(10) for tensor in others[start::10]):
        if changed + tensor.nbytes <= _WHOLE_SHARE * total:
            tensor.add_(1.0)
            changed += tensor.nbytes
    return changed


def _change_region(tensor: torch.Tensor) -> int:
    """A region in the middle, up to a quarter of the array, that starts on no round address."""
    flat = tensor.view(-1)
    count = min(_REGION_BYTES // flat.element_size(), max(flat.numel() // 4, 1))
    start = flat.numel() // 3
    flat[start : start + count].add_(1.0)
    return count * flat.element_size()
