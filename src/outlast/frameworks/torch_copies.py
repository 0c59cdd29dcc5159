"""Thousands of torch tensors at a time: what they are, where they lie, and their bytes into one buffer."""

import ctypes
import weakref
from collections.abc import Callable, Hashable, Sequence
from operator import attrgetter

import torch

from outlast.frameworks.memory import ByIdentity, copy_in_two
from outlast.frameworks.torch_memory import DTYPES
from outlast.ports import ArrayFacts, ArraySpec, Framework, Unsupported

Tensor = torch.Tensor

# From this size on, torch itself copies with several threads (at::internal::GRAIN_SIZE, ATen/Parallel.h, 2.13).
_GRAIN_ELEMENTS = 32768
_PIECE_BYTES = 4 * 1024 * 1024
# Of no other dtype do elements mean the conjugate of what lies in memory.
_COMPLEX = frozenset(dtype for dtype in DTYPES.values() if dtype.is_complex)

_PLAIN = (Tensor, torch.nn.Parameter)

_shape, _dtype, _device = attrgetter("shape"), attrgetter("dtype"), attrgetter("device")
_requires_grad, _grad_fn, _is_cpu = attrgetter("requires_grad"), attrgetter("grad_fn"), attrgetter("is_cpu")


def facts(values: Sequence[Tensor]) -> object:
    """Columns, since a call from C for each value takes a third of what a line of Python does."""
    try:
        dtypes = list(map(_dtype, values))
        return (
            ByIdentity(map(type, values)),
            dtypes,
            list(map(_shape, values)),
            list(map(Tensor.stride, values)),
            list(map(_device, values)),
            list(map(_requires_grad, values)),
            # A graph must not be kept alive: the outcome is what counts.
            [node is not None for node in map(_grad_fn, values)],
            list(map(Tensor.is_neg, values)),
            list(map(Tensor.is_conj, values)) if _COMPLEX.intersection(dtypes) else None,
        )
    except (RuntimeError, TypeError, AttributeError) as why:  # sparse ones have no strides; others are no tensors
        raise Unsupported(f"one of the tensors has no plain layout: {why}") from why


def places(values: Sequence[Tensor]) -> list[int]:
    """The addresses; minus the identity for empty tensors."""
    try:
        found = list(map(Tensor.data_ptr, values))
    except (RuntimeError, TypeError) as why:  # sparse ones have no memory of their own
        raise Unsupported(f"one of the tensors has no memory: {why}") from why
    for index, value in enumerate(values) if not all(map(Tensor.numel, values)) else ():
        if value.numel() == 0:
            found[index] = -id(value)
    return found


class Looker:
    """What each of many tensors is; those that differ only in their address are looked at once.

    The key has all that makes a difference, so that a second one of a kind is as good as looked at (see `facts`).
    """

    def __init__(self, framework: Framework) -> None:
        self._framework = framework
        self._kinds: dict[Hashable, tuple[ArraySpec, bool, int, int | None, int]] = {}
        self._seen_as: dict[Hashable, int] = {}

    def __call__(self, value: Tensor) -> ArrayFacts:
        if type(value) not in _PLAIN or value.layout is not torch.strided or value.is_nested:
            kind = self._look(value)  # `spec` says what is wrong
        else:
            key = (
                type(value), value.dtype, value.shape, value.stride(), value.device, value.requires_grad,
                value.grad_fn is None, value.is_neg(), value.is_conj(),
            )  # fmt: skip
            found = self._kinds.get(key)
            if found is None:
                found = self._kinds[key] = self._look(value)
            kind = found
        spec, writable, nbytes, extent, number = kind
        if nbytes == 0:
            return ArrayFacts(spec, writable, 0, id(value), None)
        place = value.data_ptr()
        return ArrayFacts(spec, writable, nbytes, (place, number), None if extent is None else (place, place + extent))

    def _look(self, value: Tensor) -> tuple[ArraySpec, bool, int, int | None, int]:
        framework = self._framework
        spec, span = framework.spec(value), framework.span(value)
        # A parameter and its data are two kinds, and seen the same way.
        seen_as = (value.dtype, tuple(value.shape), value.stride(), value.device, value.is_conj(), value.is_neg())
        number = self._seen_as.setdefault(seen_as, len(self._seen_as))
        extent = None if span is None else span[1] - span[0]
        return spec, framework.writable(value), framework.nbytes(value), extent, number


class Views:
    """Tensors in the memory of one buffer, in C order.

    CUDA tensors are copied without waiting for each other; the buffer's pages are locked for that, where the driver
    allows it, until the views are gone. Unmeasured: no device was at hand.
    """

    def __init__(self, buffer: memoryview, specs: Sequence[ArraySpec], offsets: Sequence[int]) -> None:
        self._all = [_view(buffer, spec, offset) for spec, offset in zip(specs, offsets, strict=True)]
        self._here = [index for index, spec in enumerate(specs) if spec.extra["device"] == "cpu"]
        self._elsewhere = [index for index, spec in enumerate(specs) if spec.extra["device"] != "cpu"]
        self._large = [index for index in self._here if self._all[index].numel() >= _GRAIN_ELEMENTS]
        self._small = [index for index in self._here if self._all[index].numel() < _GRAIN_ELEMENTS]
        self._targets = [self._all[index] for index in self._small]
        self._sizes = [target.nbytes for target in self._targets]
        if any(spec.extra["device"].startswith("cuda") for spec in specs):
            self._lock_pages(buffer)

    def fill(self, values: Sequence[Tensor]) -> None:
        """Copies the values in."""
        with torch.no_grad():
            for index in self._elsewhere:
                self._all[index].copy_(values[index], non_blocking=True)
        self._fill_large(values)
        sources = values if len(self._small) == len(values) else [values[index] for index in self._small]
        copy_in_two(_copy, self._targets, sources, self._sizes)
        for device in {values[index].device for index in self._elsewhere if values[index].is_cuda}:
            torch.cuda.synchronize(device)

    def _fill_large(self, values: Sequence[Tensor]) -> None:
        pieces: list[tuple[int, int, int]] = []
        for index in self._large:
            target, value = self._all[index], values[index]
            if not value.is_contiguous() or value.is_conj() or value.is_neg():
                _copy([target], [value])
                continue
            to, start, nbytes = target.data_ptr(), value.data_ptr(), target.nbytes
            for done in range(0, nbytes, _PIECE_BYTES):
                pieces.append((to + done, start + done, min(_PIECE_BYTES, nbytes - done)))
        sizes = [nbytes for _, _, nbytes in pieces]
        copy_in_two(_move, pieces, sizes, sizes)

    def _lock_pages(self, buffer: memoryview) -> None:
        address = torch.frombuffer(buffer, dtype=torch.uint8).data_ptr()
        runtime = torch.cuda.cudart()  # type: ignore[no-untyped-call]  # torch leaves it without types
        if int(runtime.cudaHostRegister(address, buffer.nbytes, 0)) == 0:  # else the copies are only slower
            release: Callable[[int], object] = runtime.cudaHostUnregister
            # Called while the views, and so the memory, are still there; at exit the driver does it.
            weakref.finalize(self, release, address).atexit = False


def _view(buffer: memoryview, spec: ArraySpec, offset: int) -> Tensor:
    dtype, count = DTYPES[spec.dtype], 1
    for size in spec.shape:
        count *= size
    if count == 0:  # frombuffer refuses those
        return torch.empty(spec.shape, dtype=dtype, device="cpu")
    return torch.frombuffer(buffer, dtype=dtype, count=count, offset=offset).view(spec.shape)


def _copy(targets: Sequence[Tensor], sources: Sequence[Tensor]) -> None:
    with torch.no_grad():  # of each thread
        if targets:
            torch._foreach_copy_(list(targets), list(sources))


def _move(pieces: Sequence[tuple[int, int, int]], _sizes: Sequence[int]) -> None:
    # Releases the GIL. torch would copy large tensors with its own threads, which wait for each other by spinning:
    # where cores are taken by loaders or other jobs that takes three times as long (measured, 2 cores, load 7).
    for to, start, nbytes in pieces:
        ctypes.memmove(to, start, nbytes)
