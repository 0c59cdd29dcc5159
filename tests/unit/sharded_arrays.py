"""What a test of sharded JAX arrays runs in a process of its own: how many devices there are is set before."""

import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

import outlast
from outlast.frameworks.jax import JaxFramework
from outlast.ports import Unsupported

framework = JaxFramework()
VALUES = np.arange(64, dtype=np.float32).reshape(8, 8)


def laid_out(value: object, shape: tuple[int, ...], *split_by: str | tuple[str, ...] | None) -> jax.Array:
    """The values on a mesh of the first devices, of that shape, whose axes are called a, b."""
    mesh = Mesh(np.array(jax.devices()[: np.prod(shape)]).reshape(shape), ("a", "b")[: len(shape)])
    made: jax.Array = jax.device_put(value, NamedSharding(mesh, PartitionSpec(*split_by)))
    return made


SAMPLES = {
    "rows": (VALUES, (4,), "a"),
    "columns": (VALUES, (2,), None, "a"),
    "both": (VALUES, (2, 2), "b", "a"),
    "two axes on one dimension": (VALUES, (2, 2), ("b", "a")),
    "replicated": (VALUES, (4,)),
    "bfloat16": (jnp.asarray(VALUES, dtype=jnp.bfloat16), (4,), "a"),
    "keys": (jax.random.split(jax.random.key(3), 8), (4,), "a"),
}


def is_same(one: jax.Array, other: jax.Array) -> bool:
    if jnp.issubdtype(one.dtype, jax.dtypes.prng_key):
        one, other = jax.random.key_data(one), jax.random.key_data(other)
    return one.dtype == other.dtype and np.array_equal(np.asarray(one), np.asarray(other))


def back_without_an_array_there() -> None:
    for name, sample in SAMPLES.items():
        value = laid_out(*sample)
        made = framework.make(framework.spec(value), memoryview(bytes(framework.buffer(value))), None)
        assert is_same(made, value), name
        assert made.sharding.is_equivalent_to(value.sharding, value.ndim), name


def back_to_another_mesh() -> None:
    for name, sample in SAMPLES.items():
        value, spec = laid_out(*sample), framework.spec(laid_out(*sample))
        for template in (laid_out(sample[0], (2, 2), "a"), jax.device_put(sample[0], jax.devices()[3])):
            made = framework.adopt(spec, memoryview(bytearray(framework.buffer(value))), template)
            assert is_same(made, value), name
            assert made.sharding == template.sharding, name


def what_cannot_be_made_again() -> None:
    value = laid_out(VALUES, (4,), "a")
    spec = framework.spec(value)
    data = memoryview(bytes(framework.buffer(value)))
    for extra in ({**spec.extra, "mesh_devices": ["cpu:99"] * 4}, {"devices": 4}):
        try:
            framework.make(type(spec)(spec.framework, spec.dtype, spec.shape, extra), data, None)
        except Unsupported as why:
            print(why)


def train(folder: str, mesh: tuple[int, ...], until: int, *split_by: str) -> None:
    state = {"w": laid_out(jnp.ones((8, 8)), mesh, *split_by), "m": None}
    job = outlast.Job(folder, state={"params": state}, every="0s")
    step = jax.jit(lambda w, number: w * 1.01 + number)
    for number in job.steps(6):
        if number == until:
            return
        state["w"] = step(state["w"], float(number))
        state["m"] = state["w"] * 2
    np.save(Path(folder, "result.npy"), np.asarray(state["w"]))
    print(*(list(state[name].sharding.mesh.shape.values()) for name in ("w", "m")))


if __name__ == "__main__":
    assert jax.device_count() == 4
    name, *rest = sys.argv[1:]
    if name == "train":
        folder, shape, until, *split = rest
        train(folder, tuple(map(int, shape.split("x"))), int(until), *split)
    else:
        globals()[name]()
