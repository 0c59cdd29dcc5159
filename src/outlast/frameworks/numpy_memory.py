"""NumPy arrays as flat bytes and back: no copy where the memory allows, bit-equal always."""

import math
from typing import Any

import numpy as np

from outlast.frameworks.numpy_dtypes import DType, is_extension
from outlast.ports import Unsupported

Array = np.ndarray[Any, DType]


def bytes_of(value: Array | np.generic) -> memoryview:
    """The bytes of an array in C order; a view of its memory if that is in C order already.

    Of a scalar its very bytes: np.asarray makes up the padding of a long double anew at each call, and widens '<U0'.
    """
    if value.nbytes == 0 or value.dtype.itemsize == 0:
        return memoryview(b"")
    if isinstance(value, np.generic):
        return memoryview(value.tobytes())
    plain = np.asarray(value)
    if not plain.flags.c_contiguous:
        plain = np.ascontiguousarray(_raw(plain))
    return plain.reshape(-1).view(np.uint8).data


def fill_array(array: Array, data: memoryview) -> None:
    """Overwrites a writable array of any strides with bytes in C order."""
    if data.nbytes != array.nbytes:
        raise ValueError(f"{data.nbytes} bytes given for an array of {array.nbytes}")
    if data.nbytes == 0:
        return
    plain = np.asarray(array)
    source = np.frombuffer(data, dtype=np.uint8)
    if plain.flags.c_contiguous:
        plain.reshape(-1).view(np.uint8)[...] = source
    else:
        raw = _raw(plain)
        raw[...] = source.view(raw.dtype).reshape(raw.shape)


def make_array(dtype: DType, shape: tuple[int, ...], data: memoryview) -> Array:
    """A new array with these bytes; raises Unsupported when their number is not the one that the dtype needs."""
    _check_size(dtype, shape, data)
    # Not np.empty, which turns '<U0' into '<U1'.
    array: Array = np.ndarray(shape, dtype)
    fill_array(array, data)
    return array


def wrap_memory(dtype: DType, shape: tuple[int, ...], data: memoryview) -> Array:
    """An array in this very memory; raises Unsupported as `make_array` does."""
    _check_size(dtype, shape, data)
    return np.ndarray(shape, dtype, data)


def _check_size(dtype: DType, shape: tuple[int, ...], data: memoryview) -> None:
    if data.nbytes != math.prod(shape) * dtype.itemsize:
        raise Unsupported(f"{data.nbytes} bytes do not make an array of shape {shape} and dtype {dtype}")


def all_finite(array: Array) -> bool:
    """False when a floating or complex element, also in a field of a structure, is NaN or infinite."""
    if array.size == 0:
        return True
    if array.dtype.names is not None:
        return all(all_finite(array[name]) for name in array.dtype.names)
    if is_extension(array.dtype):
        return array.dtype.name.startswith(("int", "uint")) or bool(np.isfinite(array).all())
    if array.dtype.kind == "c":
        return all_finite(array.real) and all_finite(array.imag)
    if array.dtype.kind != "f":
        return True
    # NaN wins in min and max, which need no second array as isfinite does. NaN may also warn there.
    with np.errstate(invalid="ignore"):
        return bool(np.isfinite(array.min()) and np.isfinite(array.max()))


def _raw(array: Array) -> Array:
    """The same elements as opaque bytes: copied by memcpy, with the padding of structures, whatever they mean."""
    return array.view(np.dtype((np.void, array.dtype.itemsize)))
