"""Copying parameters and optimizer state while forward and backward run: nothing changes them until the next step.

That is an assumption, and it is checked. The next step of any of the optimizers waits for the copy. What version
counters show (in-place operations), what a sample of each tensor taken at the border shows (`.data` updates, writes
through a NumPy alias, an EMA put in place), and what a comparison of the whole copy with its source shows (whatever
happened while it was copied) makes the copy worthless, and says so. A write through an alias that misses the sample,
between the border and the copy of that tensor, is not seen: whoever updates single rows that way must not copy lazily.
"""

import ctypes
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch

from outlast.frameworks.torch_memory import bytes_of
from outlast.threads import Worker

Tensor = torch.Tensor

_LEAST_BYTES = 256 * 1024  # smaller ones are copied at once: looking after them costs as much
_SAMPLES = 64
_PIECE_BYTES = 16 * 1024 * 1024


class LazyCopy:
    """Copies that overlap with training, one at a time. Holds hooks on the optimizers until `close`."""

    def __init__(self, optimizers: Iterable[torch.optim.Optimizer]) -> None:
        self._optimizers = list(optimizers)
        self._worker = Worker("outlast-lazy-copy")
        self._worker.start()
        self._hooks = [one.register_step_pre_hook(self._before_step) for one in self._optimizers]
        self._good = False
        self._error: BaseException | None = None

    @classmethod
    def of(cls, objects: Iterable[object]) -> "LazyCopy | None":
        """For the optimizers among these; None if there is none."""
        found = [one for one in objects if isinstance(one, torch.optim.Optimizer)]
        return cls(found) if found else None

    def places(self) -> frozenset[int]:
        """The addresses of what may be copied lazily now: contiguous on the CPU, not small, only changed by a step."""
        return frozenset(one.data_ptr() for one in self._held() if _may_wait(one))

    def start(self, values: Sequence[Tensor], copies: Sequence[memoryview], copy: Callable[[], None]) -> None:
        """At a border: calls `copy`, which fills `copies` with `values`, in a thread. The next step waits for it."""
        self.result()
        marks = [_Mark(value) for value in values]
        self._good, self._error = False, None

        def run() -> None:
            try:
                copy()
                self._good = all(map(_is_of_the_border, marks, copies))
            except BaseException as error:  # noqa: BLE001 - raised again where the result is asked for
                self._error = error

        self._worker.begin(run)

    def result(self) -> bool:
        """Waits for the copy; whether it is the state at the border. Raises what the copy raised."""
        self._worker.wait()
        error, self._error = self._error, None
        if error is not None:
            raise error
        return self._good

    def close(self) -> None:
        """Waits, and takes the hooks away."""
        self._worker.wait()
        for hook in self._hooks:
            hook.remove()
        self._hooks.clear()

    def _held(self) -> Iterable[Tensor]:
        for optimizer in self._optimizers:
            for group in optimizer.param_groups:
                yield from map(_own, group["params"])
            for state in optimizer.state.values():
                yield from (_own(one) for one in state.values() if isinstance(one, Tensor))

    def _before_step(self, _optimizer: object, _args: object, _kwargs: object) -> None:
        # An error of the copy is no reason to fail the user's step: `result` tells it.
        self._worker.wait()


class _Mark:
    """What a contiguous tensor was at the border: its version, and a few of its elements."""

    def __init__(self, value: Tensor) -> None:
        self.value = value
        self.version = _version(value)
        self.address = value.data_ptr()
        count = value.numel()
        self.step = max(1, count // _SAMPLES)
        self.sample = value.detach().as_strided((-(-count // self.step),), (self.step,)).clone()

    def fits(self, copy: memoryview) -> bool:
        """Whether the copy has those elements, and the tensor is what it was."""
        if self.version != _version(self.value) or self.address != self.value.data_ptr():
            return False
        copied = torch.frombuffer(copy, dtype=self.value.dtype)[:: self.step].clone()
        return torch.equal(copied.view(torch.uint8), self.sample.view(torch.uint8))  # a NaN is not equal to itself


def _version(value: Tensor) -> Any:
    return None if value.is_inference() else value._version  # noqa: SLF001 - there is no public way to ask


def _is_of_the_border(mark: _Mark, copy: memoryview) -> bool:
    return _same_bytes(copy, bytes_of(mark.value)) and mark.fits(copy)


def _same_bytes(one: memoryview, other: memoryview) -> bool:
    """By memcmp, which is as fast as memory and releases the GIL; memoryviews compare element by element."""
    if one.nbytes != other.nbytes:
        return False
    compare = ctypes.CDLL(None).memcmp
    compare.argtypes = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t)
    first, second = (ctypes.addressof(ctypes.c_ubyte.from_buffer(each)) for each in (one, other))
    starts = range(0, one.nbytes, _PIECE_BYTES)
    return all(compare(first + start, second + start, min(_PIECE_BYTES, one.nbytes - start)) == 0 for start in starts)


def _own(value: Tensor) -> Tensor:
    """The memory of this process, where a tensor is divided among several."""
    to_local = getattr(value.detach(), "to_local", None)
    return value if to_local is None else to_local()


def _may_wait(value: Tensor) -> bool:
    if value.device.type != "cpu" or not value.is_contiguous() or value.is_conj() or value.is_neg():
        return False
    return value.nbytes >= _LEAST_BYTES
