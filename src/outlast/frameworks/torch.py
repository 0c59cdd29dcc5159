"""Torch tensors, parameters and random generators as bytes and plain values, and back."""

import math
import sys
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import Any, Final

import torch

from outlast.frameworks import torch_copies, torch_loaders, torch_modules, torch_optimizers
from outlast.frameworks.memory import can_be_adopted
from outlast.frameworks.torch_lazy import LazyCopy
from outlast.frameworks.torch_memory import (
    DTYPES,
    all_finite,
    bytes_of,
    fill_tensor,
    is_dense,
    is_own_memory,
    note_write,
    window,
)
from outlast.ports import ArrayFacts, ArraySpec, Unsupported
from outlast.sharding import Sharder

Tensor = torch.Tensor


class TorchFramework:
    """Meets ports.Framework, for tensors and parameters on one device with their values in memory."""

    name: Final = "torch"

    def __init__(self) -> None:
        self._sharder: Sharder | None = None

    @property
    def sharder(self) -> Sharder | None:
        """Of DTensors, once the program has imported what makes them."""
        if self._sharder is None and "torch.distributed.tensor" in sys.modules:
            from outlast.frameworks.torch_sharded import TorchSharder  # noqa: PLC0415 - most programs have no DTensors

            self._sharder = TorchSharder()
        return self._sharder

    def owns(self, value: object) -> bool:
        """Tensors of every kind, also those that `spec` refuses."""
        return isinstance(value, Tensor)

    def spec(self, value: Tensor) -> ArraySpec:
        """`extra`: `device`; where true, `parameter` and `requires_grad`; `stride` of such as channels_last."""
        _refuse_kind(value)
        word = str(value.dtype).removeprefix("torch.")
        if word not in DTYPES:
            raise Unsupported(f"the elements of dtype {word} cannot be told from their bytes alone")
        if value.grad_fn is not None:
            raise Unsupported("it hangs on an autograd graph, which would be lost; keep value.detach() instead")
        extra: dict[str, object] = {"device": str(value.device)}
        if isinstance(value, torch.nn.Parameter):
            extra["parameter"] = True
        if value.requires_grad:
            extra["requires_grad"] = True
        if not value.is_contiguous() and is_dense(value.shape, value.stride()):
            extra["stride"] = list(value.stride())
        return ArraySpec(self.name, word, tuple(value.shape), extra)

    def looker(self) -> Callable[[Tensor], ArrayFacts]:
        """Tensors are alike that differ only in their address."""
        return torch_copies.Looker(self)

    def buffer(self, value: Tensor) -> memoryview:
        """A view of the memory for contiguous CPU tensors, else a copy."""
        return bytes_of(value)

    def nbytes(self, value: Tensor) -> int:
        """Of the elements, however they lie."""
        return value.numel() * value.element_size()

    def is_finite(self, value: Tensor) -> bool:
        """Takes one pass and no memory, but for float8."""
        return all_finite(value)

    def writable(self, value: Tensor) -> bool:
        """Not where elements share memory (expanded tensors)."""
        return value.layout is torch.strided and is_own_memory(value)

    def fill(self, target: Tensor, data: memoryview) -> None:
        """In place, whatever the strides and the device; also a leaf that requires grad."""
        fill_tensor(target, data)

    def make(self, spec: ArraySpec, data: memoryview, template: object) -> Tensor:
        """On the template's device if there is one, else on the saved one; Unsupported where that is missing."""
        device = template.device if isinstance(template, Tensor) else _device(spec.extra["device"])
        made = _make_empty(spec, data.nbytes, device)
        fill_tensor(made, data)
        return _as_saved(made, spec)

    def adopt(self, spec: ArraySpec, data: memoryview, template: object) -> Tensor:
        """Keeps the memory on the CPU, but for such as channels_last."""
        device = template.device if isinstance(template, Tensor) else _device(spec.extra["device"])
        if device.type != "cpu" or "stride" in spec.extra or not can_be_adopted(data):
            return self.make(spec, data, template)
        dtype = _dtype_for(spec, data.nbytes)
        return _as_saved(torch.frombuffer(data, dtype=dtype).view(spec.shape), spec)

    def state_arrays(self, value: object) -> Mapping[str, Tensor] | None:
        """Of modules without hooks or methods of their own for their state."""
        return torch_modules.state_arrays(value)

    def kept_arrays(self, value: object) -> Mapping[str, Tensor]:
        """Moments and steps of torch's optimizers."""
        return torch_optimizers.kept_arrays(value)

    def target(self, value: Tensor) -> memoryview | None:
        """Of contiguous CPU tensors."""
        if not value.is_cpu or value.numel() == 0 or not value.is_contiguous() or value.is_conj() or value.is_neg():
            return None
        return window(value)

    def filled(self, value: Tensor) -> None:
        """Autograd must hear of it."""
        note_write(value)

    def facts(self, values: Sequence[Tensor]) -> object:
        """Quantized, nested, sparse, meta tensors and other layouts show in dtype, strides or device."""
        return torch_copies.facts(values)

    def places(self, values: Sequence[Tensor]) -> list[int]:
        """Empty tensors go by identity."""
        return torch_copies.places(values)

    def views(self, buffer: memoryview, specs: Sequence[ArraySpec], offsets: Sequence[int]) -> torch_copies.Views:
        """Tensors in the buffer's memory."""
        return torch_copies.Views(buffer, specs, offsets)

    def copy_many(self, views: torch_copies.Views, values: Sequence[Tensor]) -> None:
        """With all threads of torch for large ones, and two for many small ones."""
        views.fill(values)

    def lazy_copy(self, objects: Iterable[object]) -> LazyCopy | None:
        """Parameters and moments of torch's optimizers."""
        return LazyCopy.of(objects)

    def alias_key(self, value: Tensor) -> Hashable:
        """By address, layout and device; empty tensors, whose address says nothing, by identity."""
        if value.numel() == 0:
            return (self.name, id(value))
        seen_as = (value.dtype, tuple(value.shape), value.stride(), value.is_conj(), value.is_neg())
        return (self.name, str(value.device), value.data_ptr(), *seen_as)

    def span(self, value: Tensor) -> tuple[int, int] | None:
        """By the address of its first element and its strides; addresses of another device are apart anyway."""
        if value.numel() == 0 or value.device.type != "cpu":
            return None
        steps = sum((size - 1) * stride for size, stride in zip(value.shape, value.stride(), strict=True))
        return value.data_ptr(), value.data_ptr() + (steps + 1) * value.element_size()

    def owns_generator(self, value: object) -> bool:
        """torch.Generator, on any device."""
        return isinstance(value, torch.Generator)

    def generator_state(self, generator: torch.Generator) -> object:
        """The kind of device goes with it: their algorithms differ."""
        return {"device": generator.device.type, "state": generator.get_state()}

    def set_generator_state(self, generator: torch.Generator, state: Any) -> None:
        """In place; raises Unsupported for a state of another kind of device."""
        if state["device"] != generator.device.type:
            raise Unsupported(f"saved from a generator on {state['device']}, but this one is on {generator.device}")
        generator.set_state(state["state"])

    def random_state(self) -> object:
        """The CPU's generator and, once CUDA is in use, that of every CUDA device; it never starts CUDA itself."""
        in_use = torch.cuda.is_initialized()  # type: ignore[no-untyped-call]  # torch leaves it without types
        cuda = torch.cuda.get_rng_state_all() if in_use else []
        return {"cpu": torch.get_rng_state(), "cuda": cuda}

    def set_random_state(self, state: Any) -> None:
        """Raises Unsupported when it was saved with another number of CUDA devices than there is."""
        saved = len(state["cuda"])
        if saved and saved != torch.cuda.device_count():
            raise Unsupported(f"saved with {saved} CUDA devices, but there are {torch.cuda.device_count()}")
        torch.set_rng_state(state["cpu"])
        if saved:
            torch.cuda.set_rng_state_all(state["cuda"])

    def owns_tree(self, value: object) -> bool:
        """None."""
        return False

    def tree_leaves(self, value: object) -> list[tuple[str, Any]]:
        """Never asked for."""
        raise Unsupported(f"{type(value).__qualname__} is no container of torch")

    def tree_rebuild(self, template: object, leaves: list[Any]) -> object:
        """Never asked for."""
        raise Unsupported(f"{type(template).__qualname__} is no container of torch")

    def loader_generators(self, loader: object) -> list[torch.Generator]:
        """Those of a DataLoader and its samplers."""
        return torch_loaders.generators_of(loader)

    def skip_batches(self, loader: object, iterator: object, count: int) -> int:
        """Where a DataLoader has a map-style dataset, no workers and one of torch's own samplers."""
        return torch_loaders.skip(loader, iterator, count)


def _refuse_kind(value: Tensor) -> None:
    kinds = {"quantized": value.is_quantized, "nested": value.is_nested, "a meta tensor": value.is_meta}
    for kind, found in kinds.items():
        if found:
            raise Unsupported(f"it is {kind}, and there is no telling its values from one block of bytes")
    if type(value) not in (Tensor, torch.nn.Parameter):
        raise Unsupported(f"{type(value).__qualname__} is a subclass that may hold more than its tensor")
    if value.layout is not torch.strided:
        raise Unsupported(f"its layout is {value.layout}; only dense (strided) tensors can be restored")


def _as_saved(made: Tensor, spec: ArraySpec) -> Tensor:
    requires_grad = bool(spec.extra.get("requires_grad"))
    if spec.extra.get("parameter"):
        return torch.nn.Parameter(made, requires_grad=requires_grad)
    return made.requires_grad_(requires_grad)


def _dtype_for(spec: ArraySpec, nbytes: int) -> torch.dtype:
    dtype = DTYPES.get(spec.dtype)
    if dtype is None:
        raise Unsupported(f"dtype {spec.dtype!r} is not known to torch {torch.__version__}")
    if nbytes != math.prod(spec.shape) * dtype.itemsize:
        raise Unsupported(f"{nbytes} bytes do not make a tensor of shape {spec.shape} and dtype {spec.dtype}")
    return dtype


def _make_empty(spec: ArraySpec, nbytes: int, device: torch.device) -> Tensor:
    dtype = _dtype_for(spec, nbytes)
    strides = spec.extra.get("stride")
    if strides is None:
        return torch.empty(spec.shape, dtype=dtype, device=device)
    if not is_dense(spec.shape, strides):
        raise Unsupported(f"strides {strides} do not fit shape {spec.shape}")
    return torch.empty_strided(spec.shape, strides, dtype=dtype, device=device)


def _device(word: str) -> torch.device:
    try:
        device = torch.device(word)
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError, NotImplementedError) as why:
        raise Unsupported(f"it was saved from device {word!r}, which is not here: {why}") from why
    if device.type == "meta":
        raise Unsupported("device 'meta' keeps no values")
    return device
