"""JAX arrays, random keys and registered containers as bytes and named leaves, and back."""

from collections import Counter, OrderedDict, defaultdict
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from operator import is_
from typing import Any, Final

import jax
import numpy as np

from outlast.frameworks import jax_arrays
from outlast.frameworks.jax_sharded import JaxSharder
from outlast.frameworks.memory import can_be_adopted, copy_bytes
from outlast.frameworks.numpy_memory import all_finite, bytes_of
from outlast.ports import ArrayFacts, ArraySpec, Unsupported

# JAX has these registered, but the engine takes them apart itself.
PLAIN_CONTAINERS = (dict, list, tuple, type(None), OrderedDict, defaultdict)


class JaxFramework:
    """Meets ports.Framework. Arrays cannot change, so all are made anew.

    An array on several devices is written as one, so that it can be restored to any other mesh: while it is saved, main
    memory holds it once more.
    """

    name: Final = "jax"
    sharder: Final = JaxSharder()

    def owns(self, value: object) -> bool:
        """Arrays and typed keys; what jax.numpy calls a scalar type makes arrays, too."""
        return isinstance(value, jax.Array)

    def spec(self, value: jax.Array) -> ArraySpec:
        """`extra`: `weak_type`, `device` where committed to one; `impl` and `key_shape` for typed keys."""
        jax_arrays.refuse_unreadable(value)
        if jax_arrays.is_key(value):
            impl, key_shape = jax_arrays.key_facts(value)
            extra = jax_arrays.place_facts(jax.random.key_data(value)) | {"impl": impl, "key_shape": list(key_shape)}
            return ArraySpec(self.name, str(value.dtype), value.shape, extra)
        extra = jax_arrays.place_facts(value)
        if value.weak_type:
            jax_arrays.check_weak(value.dtype.name)
            extra["weak_type"] = True
        return ArraySpec(self.name, value.dtype.name, value.shape, extra)

    def looker(self) -> Callable[[jax.Array], ArrayFacts]:
        """Asks for each fact."""
        return lambda value: ArrayFacts(self.spec(value), False, self.nbytes(value), self.alias_key(value), None)

    def buffer(self, value: jax.Array) -> memoryview:
        """A view of the memory on the CPU; from elsewhere, or several devices, the copy that JAX makes and keeps."""
        return bytes_of(_on_host(value))

    def nbytes(self, value: jax.Array) -> int:
        """As NumPy counts: four-bit numbers take a byte each."""
        numbers = jax.random.key_data(value) if jax_arrays.is_key(value) else value
        return numbers.size * numbers.dtype.itemsize

    def is_finite(self, value: jax.Array) -> bool:
        """Looks at the copy that `buffer` needs anyway: on the device, each shape would be compiled for."""
        return jax_arrays.is_key(value) or all_finite(np.asarray(value))

    def writable(self, value: jax.Array) -> bool:
        """Never."""
        return False

    def fill(self, target: jax.Array, data: memoryview) -> None:
        """Never asked for."""
        raise Unsupported("a JAX array cannot be changed in place")

    def make(self, spec: ArraySpec, data: memoryview, template: object) -> jax.Array:
        """Where the template is if there is one, else on the saved device; Unsupported where that is missing."""
        return jax_arrays.make(spec, data, template)

    def adopt(self, spec: ArraySpec, data: memoryview, template: object) -> jax.Array:
        """On the CPU, JAX may keep the memory; from elsewhere it copies, and lets go of it."""
        return jax_arrays.make(spec, data, template, keep=can_be_adopted(data))

    def state_arrays(self, value: object) -> Mapping[str, jax.Array] | None:
        """None: JAX has no such objects."""
        return None

    def kept_arrays(self, value: object) -> Mapping[str, jax.Array]:
        """None: JAX has no such objects."""
        return {}

    def target(self, value: jax.Array) -> memoryview | None:
        """None: nobody can change it."""
        return None

    def filled(self, value: jax.Array) -> None:
        """Never asked for."""
        raise Unsupported("a JAX array cannot be changed in place")

    def facts(self, values: Sequence[jax.Array]) -> object:
        """The specs: they also see what was deleted or donated since."""
        return [self.spec(value) for value in values]

    def places(self, values: Sequence[jax.Array]) -> list[int]:
        """All go by identity."""
        return [-id(value) for value in values]

    def views(self, buffer: memoryview, specs: Sequence[ArraySpec], offsets: Sequence[int]) -> list[memoryview]:
        """What is left of the buffer from each offset on: an array knows its own size."""
        return [buffer[offset:] for offset in offsets]

    def copy_many(self, views: list[memoryview], values: Sequence[jax.Array]) -> None:
        """All arrays are on their way from the device (unmeasured: none was at hand) before the first is waited for."""
        for value in values:
            (jax.random.key_data(value) if jax_arrays.is_key(value) else value).copy_to_host_async()
        for view, value in zip(views, values, strict=True):
            data = self.buffer(value)
            copy_bytes(view[: data.nbytes], data)

    def lazy_copy(self, objects: Iterable[object]) -> None:
        """None: JAX has no optimizers."""

    def alias_key(self, value: jax.Array) -> Hashable:
        """By identity: JAX does not show where an array is, and no write can tell two views apart."""
        return (self.name, id(value))

    def span(self, value: jax.Array) -> tuple[int, int] | None:
        """None: nobody can change it."""
        return None

    def owns_generator(self, value: object) -> bool:
        """None: JAX has keys, which are arrays."""
        return False

    def generator_state(self, generator: object) -> object:
        """Never asked for."""
        raise Unsupported(f"{type(generator).__qualname__} is no generator of JAX")

    def set_generator_state(self, generator: object, state: object) -> None:
        """Never asked for."""
        raise Unsupported(f"{type(generator).__qualname__} is no generator of JAX")

    def random_state(self) -> object:
        """None: every draw takes its key."""
        return None

    def set_random_state(self, state: object) -> None:
        """Nothing to set; raises Unsupported for a state that must be another framework's."""
        if state is not None:
            raise Unsupported("JAX has no global random state")

    def owns_tree(self, value: object) -> bool:
        """Registered pytree nodes but dicts, lists, tuples and None; of named tuples those with a way of their own."""
        if type(value) in PLAIN_CONTAINERS:
            return False
        if isinstance(value, tuple) and hasattr(value, "_fields"):
            return not _is_its_fields(value)
        return not jax.tree_util.all_leaves([value])

    def tree_leaves(self, value: object) -> list[tuple[str, Any]]:
        """All the way down, named as JAX names them ('.params['w']')."""
        paths, _ = jax.tree_util.tree_flatten_with_path(value)
        named = [(jax.tree_util.keystr(path), leaf) for path, leaf in paths]
        twice = [name for name, times in Counter(name for name, _ in named).items() if times > 1]
        if twice:
            raise Unsupported(f"its registration with JAX names two leaves {twice[0]!r}")
        return named

    def tree_rebuild(self, template: object, leaves: list[Any]) -> object:
        """Everything but the leaves, static fields among it, is the template's."""
        structure: Any = jax.tree_util.tree_structure(template)
        if structure.num_leaves != len(leaves):
            raise Unsupported(
                f"{type(template).__qualname__} has {structure.num_leaves} leaves here, but {len(leaves)} were saved"
            )
        return jax.tree_util.tree_unflatten(structure, leaves)

    def loader_generators(self, loader: object) -> list[Any]:
        """None: JAX has no loaders."""
        return []

    def skip_batches(self, loader: object, iterator: object, count: int) -> int:
        """None: JAX has no loaders."""
        return 0


def _is_its_fields(value: tuple[Any, ...]) -> bool:
    """Whether JAX takes a named tuple apart into what it holds: one that is registered may have static parts."""
    taken: Any = jax.tree_util.default_registry.flatten_one_level(value)
    return len(taken[0]) == len(value) and all(map(is_, taken[0], value))


def _on_host(value: jax.Array) -> np.ndarray[Any, np.dtype[Any]]:
    return np.asarray(jax.random.key_data(value) if jax_arrays.is_key(value) else value)
