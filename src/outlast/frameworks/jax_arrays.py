"""What a JAX array is apart from its bytes (place, weak type, kind of key), and making it again."""

from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec, SingleDeviceSharding

from outlast.frameworks.numpy_dtypes import load_dtype
from outlast.frameworks.numpy_memory import bytes_of, make_array, wrap_memory
from outlast.ports import ArraySpec, Unsupported

Facts = Mapping[str, Any]

# The Python numbers whose arrays are weakly typed: what `x * 2.0` takes from the other side. By dtype, with and
# without x64.
WEAK_ZEROS: dict[str, int | float | complex] = {
    "int32": 0,
    "int64": 0,
    "float32": 0.0,
    "float64": 0.0,
    "complex64": 0j,
    "complex128": 0j,
}


def is_key(value: jax.Array) -> bool:
    """Whether this is an array of typed keys, as jax.random.key makes them."""
    return jnp.issubdtype(value.dtype, jax.dtypes.prng_key)


def refuse_gone(value: jax.Array) -> None:
    """Raises Unsupported for an array that has no values."""
    if isinstance(value, jax.core.Tracer):
        raise Unsupported("it is traced: it has no values outside the function that JAX transforms")
    if value.is_deleted():
        raise Unsupported("it was deleted, or donated to a computation; keep what that returned")


def refuse_unreadable(value: jax.Array) -> None:
    """Raises Unsupported for an array whose values are not here, or not all."""
    refuse_gone(value)
    if not value.is_fully_addressable:
        raise Unsupported("parts of it lie on devices of other processes, and only whole arrays are saved")


def key_facts(value: jax.Array) -> tuple[str, tuple[int, ...]]:
    """The name of the keys' algorithm and the shape of one key's numbers."""
    impl = jax.random.key_impl(value)
    if not isinstance(impl, str):
        raise Unsupported(f"keys of {impl} cannot be made again by name")
    return impl, jax.random.key_data(value).shape[value.ndim :]


def place_facts(value: jax.Array) -> dict[str, Any]:
    """Nothing for an array that follows the default device; else its device, and its memory if not the usual.

    Of an array on several devices: how a NamedSharding lays it out, and nothing of another sharding, which can only be
    restored to where an array stands.
    """
    if not _is_committed(value):
        return {}
    sharding: Any = value.sharding
    device: Any = next(iter(sharding.device_set))
    facts: dict[str, Any] = {"device": _word(device)}
    if len(sharding.device_set) > 1:
        facts = {"devices": len(sharding.device_set), **_layout(sharding)}
    kind = sharding.memory_kind
    return facts if kind in (None, device.default_memory().kind) else facts | {"memory_kind": kind}


def _layout(sharding: Any) -> dict[str, Any]:
    """The mesh of a NamedSharding (axes with their sizes, devices in order), and what each dimension is split by."""
    if not isinstance(sharding, NamedSharding):
        return {}
    mesh: Any = sharding.mesh
    return {
        "mesh": [[name, size] for name, size in mesh.shape.items()],
        "mesh_devices": [_word(device) for device in mesh.devices.flat],
        "split_by": [list(axes) if isinstance(axes, tuple) else axes for axes in sharding.spec],
    }


def _word(device: Any) -> str:
    return f"{device.platform}:{device.id}"


def check_weak(word: str) -> None:
    """Raises Unsupported for a weakly typed dtype that no Python number has."""
    if word not in WEAK_ZEROS:
        raise Unsupported(f"a weakly typed {word} cannot be made again; give it a dtype with .astype")


def make(spec: ArraySpec, data: memoryview, template: object, *, keep: bool = False) -> jax.Array:
    """A new array; raises Unsupported where it would be another one (x64 off, device missing).

    `keep`: nobody else has the memory of `data`, so that it may become the array's.
    """
    impl = spec.extra.get("impl")
    if impl is None:
        return _make_exactly(spec.dtype, spec.shape, data, spec.extra, template, keep=keep)
    shape = (*spec.shape, *spec.extra["key_shape"])
    numbers = _make_exactly("uint32", shape, data, spec.extra, template, keep=keep)
    try:
        keys: jax.Array = jax.random.wrap_key_data(numbers, impl=impl)
    except (TypeError, ValueError) as why:
        raise Unsupported(f"keys of {impl!r} cannot be made here: {why}") from why
    if str(keys.dtype) != spec.dtype:
        raise Unsupported(f"keys of {impl!r} are {keys.dtype} here, but {spec.dtype} was saved")
    return keys


def _make_exactly(
    word: str, shape: tuple[int, ...], data: memoryview, extra: Facts, template: object, *, keep: bool
) -> jax.Array:
    # Memory that nobody else holds: on the CPU, JAX may go on using what it is given.
    host = (wrap_memory if keep else make_array)(load_dtype(word), shape, data)
    made: jax.Array = jax.device_put(host, _place(extra, template))
    if made.dtype.name != word:
        raise Unsupported(f"JAX makes {made.dtype.name} of {word} here; was jax_enable_x64 on when it was saved?")
    return _weakened(made, data) if extra.get("weak_type") else made


def _weakened(made: jax.Array, data: memoryview) -> jax.Array:
    """The same values, weakly typed: JAX makes such arrays of Python numbers only, so one of those is filled."""
    word = made.dtype.name
    check_weak(word)
    weak: jax.Array = jnp.broadcast_to(jnp.asarray(WEAK_ZEROS[word]), made.shape).at[...].set(made)
    if not weak.weak_type or weak.dtype.name != word or bytes_of(jax.device_get(weak)) != data:
        raise Unsupported(f"a weakly typed {word} cannot be made again exactly; give it a dtype with .astype")
    return weak


def _place(extra: Facts, template: object) -> Any:
    """A sharding or device to commit to, or None for the default device."""
    if isinstance(template, jax.Array) and not isinstance(template, jax.core.Tracer):
        return template.sharding if _is_committed(template) else None
    kind = {"memory_kind": extra["memory_kind"]} if "memory_kind" in extra else {}
    if "devices" in extra:
        return _sharding(extra, kind)
    if "device" not in extra:
        return None
    device = _find_device(extra["device"])
    return SingleDeviceSharding(device, **kind) if kind else device


def _sharding(extra: Facts, kind: Mapping[str, Any]) -> Any:
    """The sharding that was saved, on the same devices."""
    if "mesh" not in extra:
        raise Unsupported(
            f"it lay on {extra['devices']} devices, not by a NamedSharding; put an array with the sharding that it "
            "shall have into the state"
        )
    devices = np.array([_find_device(word) for word in extra["mesh_devices"]])
    mesh = Mesh(devices.reshape([size for _, size in extra["mesh"]]), [name for name, _ in extra["mesh"]])
    split_by = [tuple(axes) if isinstance(axes, list) else axes for axes in extra["split_by"]]
    layout: Any = PartitionSpec  # which has no types
    return NamedSharding(mesh, layout(*split_by), **kind)


def _find_device(word: str) -> Any:
    platform, _, number = word.partition(":")
    try:
        return next(device for device in jax.local_devices(backend=platform) if str(device.id) == number)
    except (RuntimeError, StopIteration) as why:
        raise Unsupported(
            f"it was saved from device {word!r}, which is not here; put an array that lies elsewhere into the state"
        ) from why


def _is_committed(value: jax.Array) -> bool:
    # Old versions have it under the second name only.
    return bool(getattr(value, "committed", getattr(value, "_committed", True)))
