"""JAX arrays that span processes: the boxes that the devices of this one hold, and making such an array of them."""

from collections.abc import Mapping, Sequence
from typing import Any

import jax
from jax.sharding import NamedSharding

from outlast.frameworks.jax_arrays import is_key, refuse_gone
from outlast.ports import Unsupported
from outlast.sharding import Box, Sharding


class JaxSharder:
    """Meets sharding.Sharder. What several devices of a process hold alike is one box of it."""

    def sharding(self, value: jax.Array) -> Sharding | None:
        """Of arrays that devices of other processes hold a part of; they need a NamedSharding."""
        refuse_gone(value)
        if value.is_fully_addressable:
            return None
        if is_key(value):
            raise Unsupported("its keys lie on devices of other processes; keep them on this one, or their numbers")
        if value.weak_type:
            raise Unsupported("it is weakly typed and spans processes; give it a dtype with .astype")
        return _sharding(value.sharding, value.shape, value.dtype.name)

    def arrays(self, value: jax.Array) -> list[jax.Array]:
        """One of each box, on one device."""
        found = {_box(shard.index, value.shape): shard.data for shard in reversed(value.addressable_shards)}
        return [found[box] for box in _boxes(value.sharding, value.shape)]

    def make(self, sharding: Sharding, arrays: Sequence[jax.Array]) -> jax.Array:
        """On the devices that the program's own array has."""
        by_box = dict(zip(sharding.boxes, arrays, strict=True))
        places = sharding.held.addressable_devices_indices_map(sharding.shape)
        on_devices = [jax.device_put(by_box[_box(index, sharding.shape)], device) for device, index in places.items()]
        made: jax.Array = jax.make_array_from_single_device_arrays(sharding.shape, sharding.held, on_devices)
        return made

    def like(self, known: Sharding, shape: Sequence[int], dtype: str) -> Sharding:
        """By the same axes of the same mesh."""
        return _sharding(known.held, tuple(shape), dtype)

    def expected(self, value: object) -> Mapping[str, Sharding]:
        """Nothing makes arrays later: values of JAX stand in the state from the start."""
        return {}

    def written_class(self, value: object) -> type:
        """Its own."""
        return type(value)


def _sharding(held: Any, shape: tuple[int, ...], dtype: str) -> Sharding:
    if not isinstance(held, NamedSharding):
        raise Unsupported(
            f"it spans processes by a {type(held).__name__}; put an array that has a NamedSharding into the state"
        )
    boxes = tuple(_boxes(held, shape))
    if not boxes:
        raise Unsupported("none of its parts lies on a device of this process; leave it out of this process's state")
    layout = {
        "axes": [[name, size] for name, size in held.mesh.shape.items()],
        "placements": [list(axes) if isinstance(axes, tuple) else axes for axes in held.spec],
    }
    return Sharding(shape, dtype, boxes, layout, held=held)


def _boxes(held: Any, shape: tuple[int, ...]) -> list[Box]:
    places = held.addressable_devices_indices_map(shape)
    return sorted({_box(index, shape) for index in places.values()})


def _box(index: tuple[slice, ...], shape: tuple[int, ...]) -> Box:
    ends = [part.indices(size)[:2] for part, size in zip(index, shape, strict=True)]
    return Box(tuple(first for first, _ in ends), tuple(end - first for first, end in ends))
