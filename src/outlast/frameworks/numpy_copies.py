"""Thousands of NumPy arrays at a time: what they are, where they lie, and their bytes into one buffer."""

import math
from collections import deque
from collections.abc import Hashable, Sequence
from operator import attrgetter, itemgetter

import numpy as np

from outlast.frameworks.memory import ByIdentity, copy_bytes, copy_in_two
from outlast.frameworks.numpy_dtypes import DType, is_extension, load_dtype
from outlast.frameworks.numpy_memory import Array, bytes_of
from outlast.ports import ArrayFacts, ArraySpec, Framework, Unsupported

_PIECE_BYTES = 4 * 1024 * 1024  # what one thread does at a time of a large array
_dtype, _shape, _strides, _flags = (attrgetter(name) for name in ("dtype", "shape", "strides", "flags.num"))
_nbytes, _interface = attrgetter("nbytes"), attrgetter("__array_interface__")


def facts(values: Sequence[Array | np.generic]) -> object:
    """Columns, since a call from C for each value takes a third of what a line of Python does."""
    try:
        return (
            ByIdentity(map(type, values)),
            ByIdentity(map(_dtype, values)),
            list(map(_shape, values)),
            list(map(_strides, values)),
            list(map(_flags, values)),
        )
    except AttributeError as why:
        raise Unsupported(f"one of the values is no array: {why}") from why


def places(values: Sequence[Array | np.generic]) -> list[int]:
    """The addresses; minus the identity for scalars and empty arrays."""
    found: list[int] = list(map(itemgetter(0), map(itemgetter("data"), map(_interface, values))))
    scalars = any(issubclass(kind, np.generic) for kind in set(map(type, values)))
    for index, value in enumerate(values) if scalars or not all(map(_nbytes, values)) else ():
        if not value.nbytes or isinstance(value, np.generic):
            found[index] = -id(value)
    return found


class Looker:
    """What each of many arrays is; those that differ only in their address are looked at once.

    NumPy calls dtypes equal that differ, so they go by identity, and are kept meanwhile.
    """

    def __init__(self, framework: Framework) -> None:
        self._framework = framework
        self._kinds: dict[Hashable, tuple[ArraySpec, bool, int, tuple[int, int] | None, object]] = {}

    def __call__(self, value: Array | np.generic) -> ArrayFacts:
        if not isinstance(value, np.ndarray):
            return ArrayFacts(self._framework.spec(value), False, value.nbytes, id(value), None)
        dtype, shape, strides = value.dtype, value.shape, value.strides
        key = (type(value), id(dtype), shape, strides, value.flags.num)
        kind = self._kinds.get(key)
        if kind is None:
            kind = self._kinds[key] = self._look(value)
        spec, writable, nbytes, reach, _ = kind
        if reach is None:
            return ArrayFacts(spec, writable, nbytes, id(value), None)
        place: int = value.__array_interface__["data"][0]
        return ArrayFacts(spec, writable, nbytes, (place, dtype, shape, strides), (place + reach[0], place + reach[1]))

    def _look(self, value: Array) -> tuple[ArraySpec, bool, int, tuple[int, int] | None, object]:
        framework = self._framework
        span, place = framework.span(value), value.__array_interface__["data"][0]
        reach = None if span is None else (span[0] - place, span[1] - place)
        return framework.spec(value), framework.writable(value), value.nbytes, reach, value.dtype


class Views:
    """Arrays in the memory of one buffer, in C order."""

    def __init__(self, buffer: memoryview, specs: Sequence[ArraySpec], offsets: Sequence[int]) -> None:
        self._plain: list[int] = []
        self._odd: dict[int, memoryview] = {}
        self._large: dict[int, Array] = {}
        self._targets: list[Array] = []
        dtypes: dict[str, DType] = {}
        for index, (spec, offset) in enumerate(zip(specs, offsets, strict=True)):
            if spec.dtype not in dtypes or "fields" in spec.extra:
                dtypes[spec.dtype] = load_dtype(spec.dtype, spec.extra.get("fields"))
            dtype = dtypes[spec.dtype]
            nbytes = math.prod(spec.shape) * dtype.itemsize
            if not _is_plain(dtype) or spec.extra.get("scalar"):
                self._odd[index] = buffer[offset : offset + nbytes] if nbytes else memoryview(bytearray())
            elif nbytes > _PIECE_BYTES:
                self._large[index] = np.ndarray(nbytes, np.uint8, buffer, offset)
            elif nbytes:
                self._plain.append(index)
                self._targets.append(np.ndarray(spec.shape, dtype, buffer, offset))
        self._count = len(specs)
        self._sizes = [target.nbytes for target in self._targets]

    def fill(self, values: Sequence[Array | np.generic]) -> None:
        """Copies the values in."""
        for index, slot in self._odd.items():
            copy_bytes(slot, bytes_of(values[index]))
        sources = values if len(self._plain) == self._count else [values[index] for index in self._plain]
        if not self._large:
            copy_in_two(_copy, self._targets, sources, self._sizes)
            return
        pieces, parts = list(self._targets), list(sources)
        for index, target in self._large.items():
            source = np.frombuffer(bytes_of(values[index]), np.uint8)
            for start in range(0, target.nbytes, _PIECE_BYTES):
                pieces.append(target[start : start + _PIECE_BYTES])
                parts.append(source[start : start + _PIECE_BYTES])
        copy_in_two(_copy, pieces, parts, [piece.nbytes for piece in pieces])


def _is_plain(dtype: DType) -> bool:
    """Whether NumPy copies all bits of such elements as they are: no padding, no meaning of its own."""
    return dtype.kind in "biufcmM" and dtype.char not in "gG" and not is_extension(dtype)


def _copy(targets: Sequence[Array], sources: Sequence[Array]) -> None:
    deque(map(np.copyto, targets, sources), maxlen=0)
