"""Torch tensors as flat bytes and back, without NumPy, which torch does not need."""

import ctypes
import math
from collections.abc import Sequence
from contextlib import AbstractContextManager

import torch

from outlast.frameworks.memory import copy_bytes, overlaps

# Every dtype whose elements are whole bytes that mean something by themselves. Quantized dtypes need a scale, and of
# the others (float4_e2m1fn_x2, int4, bits8) torch says neither how they print nor how they compare.
_NAMES = (
    *("bool", "uint8", "uint16", "uint32", "uint64", "int8", "int16", "int32", "int64"),
    *("float16", "bfloat16", "float32", "float64", "complex32", "complex64", "complex128"),
    *("float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz", "float8_e8m0fnu"),
)
# Old versions of torch lack the last ones.
DTYPES: dict[str, torch.dtype] = {name: getattr(torch, name) for name in _NAMES if hasattr(torch, name)}
_WITHOUT_MINMAX = frozenset(dtype for name, dtype in DTYPES.items() if name.startswith("float8"))
_PIECE_ELEMENTS = 16 * 1024 * 1024


def is_own_memory(tensor: torch.Tensor) -> bool:
    """Whether each element has memory of its own (not so in expanded tensors and sliding windows)."""
    return not overlaps(tensor.shape, tensor.stride(), step=1)


def is_dense(shape: Sequence[int], strides: Sequence[int]) -> bool:
    """Whether the elements fill one block of memory, each once, in whatever order of dimensions."""
    expected = 1
    for stride, size in sorted((stride, size) for stride, size in zip(strides, shape, strict=True) if size != 1):
        if stride != expected:
            return False
        expected *= size
    return True


def bytes_of(tensor: torch.Tensor) -> memoryview:
    """The bytes of a tensor in C order: a view of its memory if it is on the CPU and contiguous, else a copy."""
    if tensor.is_cpu and tensor.is_contiguous() and not (tensor.is_conj() or tensor.is_neg()):
        return window(tensor)
    plain = tensor.detach().resolve_conj().resolve_neg()
    return window(plain.cpu().contiguous())


def fill_tensor(tensor: torch.Tensor, data: memoryview) -> None:
    """Overwrites a tensor with bytes in C order, in place; also a leaf that requires grad."""
    if tensor.numel() == 0 and data.nbytes == 0:
        return
    target = tensor.detach()
    plain = not (target.is_conj() or target.is_neg())
    if plain and target.device.type == "cpu" and target.is_contiguous():
        copy_bytes(window(target), data)
        note_write(tensor)
        return
    staged = torch.empty(target.shape, dtype=target.dtype, device="cpu")  # whatever the default device is
    copy_bytes(window(staged), data)
    guard: AbstractContextManager[object] = torch.inference_mode() if tensor.is_inference() else torch.no_grad()
    with guard:
        tensor.copy_(staged)


def note_write(tensor: torch.Tensor) -> None:
    """Tells autograd that the memory of a tensor was overwritten."""
    if not tensor.is_inference():  # those have no version
        torch.autograd.graph.increment_version(tensor)


def all_finite(tensor: torch.Tensor) -> bool:
    """False when a floating or complex element is NaN or infinite; waits for the device."""
    if tensor.numel() == 0 or not (tensor.is_floating_point() or tensor.is_complex()):
        return True
    plain = tensor.detach()
    if plain.is_complex():
        plain = torch.view_as_real(plain.resolve_conj())
    if plain.dtype in _WITHOUT_MINMAX:
        flat = plain.reshape(-1)
        starts = range(0, flat.numel(), _PIECE_ELEMENTS)
        return all(bool(flat[start : start + _PIECE_ELEMENTS].float().isfinite().all()) for start in starts)
    # NaN wins in min and max, which need no second tensor as isfinite does.
    low, high = torch.aminmax(plain)
    return math.isfinite(low.item()) and math.isfinite(high.item())


def window(tensor: torch.Tensor) -> memoryview:
    """The memory of a contiguous CPU tensor, writable. The view keeps the memory alive."""
    nbytes = tensor.nbytes
    if nbytes == 0:
        return memoryview(bytearray())
    memory = (ctypes.c_ubyte * nbytes).from_address(tensor.data_ptr())
    # The storage and not the tensor, which may get another one.
    memory.storage = tensor.untyped_storage()  # type: ignore[attr-defined]  # any attribute lives as long as its owner
    return memoryview(memory).cast("B")
