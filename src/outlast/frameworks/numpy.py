"""NumPy arrays, array scalars and random generators as bytes and plain values, and back."""

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import Any, Final, cast

import numpy as np

from outlast.frameworks import numpy_copies, numpy_random
from outlast.frameworks.memory import can_be_adopted, overlaps
from outlast.frameworks.numpy_dtypes import DType, describe_dtype, load_dtype
from outlast.frameworks.numpy_memory import Array, all_finite, bytes_of, fill_array, make_array, wrap_memory
from outlast.ports import ArrayFacts, ArraySpec, Unsupported

GENERATORS = (np.random.Generator, np.random.RandomState, np.random.BitGenerator, np.random.SeedSequence)


class NumpyFramework:
    """Meets ports.Framework. A memory map counts as the array that it shows; other subclasses are refused."""

    name: Final = "numpy"
    sharder: Final = None

    def owns(self, value: object) -> bool:
        """Arrays and array scalars, those of ml_dtypes among them."""
        return isinstance(value, np.ndarray | np.generic)

    def spec(self, value: Array | np.generic) -> ArraySpec:
        """`extra` has `scalar` for a scalar, and `fields` for a structured dtype."""
        word, fields = describe_dtype(value.dtype)
        extra: dict[str, object] = {} if fields is None else {"fields": fields}
        plain_types: tuple[type, ...] = (np.ndarray, np.memmap)
        if isinstance(value, np.generic):
            plain_types, extra["scalar"] = (value.dtype.type,), True
        if type(value) not in plain_types:
            raise Unsupported(f"{type(value).__qualname__} is a subclass that may hold more than its array")
        return ArraySpec(self.name, word, value.shape, extra)

    def looker(self) -> Callable[[Array | np.generic], ArrayFacts]:
        """Arrays are alike that differ only in their address."""
        return numpy_copies.Looker(self)

    def buffer(self, value: Array | np.generic) -> memoryview:
        """A view of the memory for arrays in C order, else a copy."""
        return bytes_of(value)

    def nbytes(self, value: Array | np.generic) -> int:
        """Of the elements, however they lie."""
        return value.nbytes

    def is_finite(self, value: Array | np.generic) -> bool:
        """NaT counts as finite: it is no number gone wrong."""
        return all_finite(np.asarray(value))

    def writable(self, value: Array | np.generic) -> bool:
        """Not for scalars, read-only arrays, and arrays whose elements share memory (broadcast ones)."""
        if not isinstance(value, np.ndarray) or not value.flags.writeable:
            return False
        return not overlaps(value.shape, value.strides, step=value.itemsize)

    def fill(self, target: Array, data: memoryview) -> None:
        """In place, whatever the strides."""
        fill_array(target, data)

    def make(self, spec: ArraySpec, data: memoryview, template: object) -> Array | np.generic:
        """A new array in C order, or a scalar of the saved type."""
        dtype = load_dtype(spec.dtype, spec.extra.get("fields"))
        if spec.extra.get("scalar"):
            return _make_scalar(dtype, data)
        return make_array(dtype, spec.shape, data)

    def adopt(self, spec: ArraySpec, data: memoryview, template: object) -> Array | np.generic:
        """Keeps the memory, but for scalars."""
        if spec.extra.get("scalar") or not can_be_adopted(data):
            return self.make(spec, data, template)
        return wrap_memory(load_dtype(spec.dtype, spec.extra.get("fields")), spec.shape, data)

    def state_arrays(self, value: object) -> Mapping[str, Array] | None:
        """None: NumPy has no such objects."""
        return None

    def kept_arrays(self, value: object) -> Mapping[str, Array]:
        """None: NumPy has no such objects."""
        return {}

    def target(self, value: Array) -> memoryview | None:
        """Of arrays in C order."""
        if not value.flags.c_contiguous or not value.flags.writeable or not value.nbytes:
            return None
        return bytes_of(value)

    def filled(self, value: Array) -> None:
        """Nobody needs to hear of it."""

    def facts(self, values: Sequence[Array | np.generic]) -> object:
        """Types, dtypes, shapes, strides and flags."""
        return numpy_copies.facts(values)

    def places(self, values: Sequence[Array | np.generic]) -> list[int]:
        """Scalars and empty arrays go by identity."""
        return numpy_copies.places(values)

    def views(self, buffer: memoryview, specs: Sequence[ArraySpec], offsets: Sequence[int]) -> numpy_copies.Views:
        """Arrays in the buffer's memory."""
        return numpy_copies.Views(buffer, specs, offsets)

    def copy_many(self, views: numpy_copies.Views, values: Sequence[Array | np.generic]) -> None:
        """With two threads."""
        views.fill(values)

    def lazy_copy(self, objects: Iterable[object]) -> None:
        """None: NumPy has no optimizers."""

    def alias_key(self, value: Array | np.generic) -> Hashable:
        """By address and layout; scalars and empty arrays, whose address says nothing, by identity."""
        if isinstance(value, np.generic) or value.nbytes == 0:
            return (self.name, id(value))
        address = value.__array_interface__["data"][0]
        return (self.name, address, value.dtype, value.shape, value.strides)

    def span(self, value: Array | np.generic) -> tuple[int, int] | None:
        """By the address of its first element and its strides."""
        if isinstance(value, np.generic) or value.nbytes == 0:
            return None
        low = high = value.__array_interface__["data"][0]
        for size, stride in zip(value.shape, value.strides, strict=True):
            low, high = low + min(0, (size - 1) * stride), high + max(0, (size - 1) * stride)
        return low, high + value.itemsize

    def owns_generator(self, value: object) -> bool:
        """SeedSequence is among them only to be refused with a reason."""
        return isinstance(value, GENERATORS)

    def generator_state(self, generator: object) -> object:
        """With the state of its seed sequence, from which `spawn` draws."""
        return numpy_random.state_of(generator)

    def set_generator_state(self, generator: Any, state: Any) -> None:
        """In place; raises Unsupported, with both names, for another kind or bit generator."""
        numpy_random.set_state_of(generator, state)

    def random_state(self) -> object:
        """That of the functions of np.random."""
        return numpy_random.global_state()

    def set_random_state(self, state: Any) -> None:
        """Raises Unsupported when another bit generator stands there."""
        numpy_random.set_global_state(state)

    def owns_tree(self, value: object) -> bool:
        """None."""
        return False

    def tree_leaves(self, value: object) -> list[tuple[str, Any]]:
        """Never asked for."""
        raise Unsupported(f"{type(value).__qualname__} is no container of NumPy")

    def tree_rebuild(self, template: object, leaves: list[Any]) -> object:
        """Never asked for."""
        raise Unsupported(f"{type(template).__qualname__} is no container of NumPy")

    def loader_generators(self, loader: object) -> list[Any]:
        """None."""
        return []

    def skip_batches(self, loader: object, iterator: object, count: int) -> int:
        """None."""
        return 0


def _make_scalar(dtype: DType, data: memoryview) -> np.generic:
    # Taken out of an array, text and bytes would lose the zeros at their end.
    if dtype.kind == "S":
        return np.bytes_(data.tobytes())
    if dtype.kind == "U":
        return np.str_(data.tobytes().decode("utf-32-be" if dtype.str[0] == ">" else "utf-32-le", "surrogatepass"))
    return cast(np.generic, make_array(dtype, (), data)[()])
