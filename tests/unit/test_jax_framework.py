"""What is special about JAX: weak types, typed keys, 64 bits switched off, registered containers."""

from collections import OrderedDict, defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.example_libraries import optimizers

import outlast
from outlast.frameworks.jax import JaxFramework
from outlast.ports import ArraySpec, Unsupported

framework = JaxFramework()


@jax.tree_util.register_dataclass
@dataclass
class Layer:
    weight: jax.Array
    inner: dict[str, object]
    name: str = field(default="", metadata={"static": True})


@dataclass
class Unregistered:
    weight: jax.Array


class Pair:
    def __init__(self, left: object, right: object) -> None:
        self.left, self.right = left, right


class Clash(Pair):
    pass


jax.tree_util.register_pytree_node(Pair, lambda pair: ((pair.left, pair.right), None), lambda _, parts: Pair(*parts))
jax.tree_util.register_pytree_with_keys(
    Clash,
    lambda pair: (((jax.tree_util.GetAttrKey("x"), pair.left), (jax.tree_util.GetAttrKey("x"), pair.right)), None),
    lambda _, parts: Clash(*parts),
)


def back(value: jax.Array, template: object = None) -> jax.Array:
    return framework.make(framework.spec(value), memoryview(bytes(framework.buffer(value))), template)


def test_a_registered_container_is_taken_apart_and_put_together() -> None:
    layer = Layer(jnp.arange(2), {"b": [np.zeros(1), 3], "none": None}, name="first")
    assert framework.owns_tree(layer)
    leaves = framework.tree_leaves(layer)
    assert [name for name, _ in leaves] == [".weight", ".inner['b'][0]", ".inner['b'][1]"]
    template = Layer(jnp.zeros(2), {"b": [np.ones(1), 0], "none": None}, name="second")
    rebuilt = framework.tree_rebuild(template, [leaf for _, leaf in leaves])
    assert type(rebuilt) is Layer
    assert (rebuilt.weight is layer.weight, rebuilt.inner, rebuilt.name) == (True, layer.inner, "second")


def test_a_class_registered_without_keys_has_numbered_leaves() -> None:
    pair = Pair(1, Pair(2, 3))
    assert framework.owns_tree(pair)
    names = [name for name, _ in framework.tree_leaves(pair)]
    assert len(set(names)) == 3
    assert framework.tree_rebuild(pair, [4, 5, 6]).right.right == 6


def test_another_number_of_leaves_is_refused_with_both() -> None:
    with pytest.raises(Unsupported, match=r"Pair has 2 leaves here, but 3"):
        framework.tree_rebuild(Pair(1, 2), [1, 2, 3])


def test_leaves_of_one_name_are_refused() -> None:
    with pytest.raises(Unsupported, match=r"\.x"):
        framework.tree_leaves(Clash(1, 2))


def test_only_registered_containers_are_claimed() -> None:
    claimed = [Unregistered(jnp.zeros(1)), OrderedDict(a=1), defaultdict(list, a=1), jnp.zeros(1), jax.random.key(0)]
    assert not any(framework.owns_tree(value) for value in claimed)
    assert framework.owns_tree(jax.tree_util.Partial(max, 1))
    assert framework.owns_tree(Layer(None, {}))


def test_weak_types_stay_weak_and_others_strong() -> None:
    for value in (jnp.asarray(0.1), jnp.full((2, 3), 7), jnp.asarray(2j), jnp.asarray(float("nan"))):
        assert value.weak_type
        again = back(value)
        assert again.weak_type
        assert (again * jnp.bfloat16(1)).dtype == (value * jnp.bfloat16(1)).dtype
    assert not back(jnp.float32(0.1)).weak_type


def test_a_weak_type_that_no_python_number_has_is_refused() -> None:
    with pytest.raises(Unsupported, match="weakly typed"):
        framework.make(ArraySpec("jax", "int16", (1,), {"weak_type": True}), memoryview(bytes(2)), None)


@pytest.mark.parametrize("word", ["float64", "int64", "uint64", "complex128"])
def test_64_bits_are_refused_where_jax_would_halve_them(word: str) -> None:
    spec = ArraySpec("jax", word, (1,))
    data = memoryview(bytes(np.dtype(word).itemsize))
    with pytest.raises(Unsupported, match="jax_enable_x64"):
        framework.make(spec, data, None)
    with jax.enable_x64(True):
        assert back(framework.make(spec, data, None)).dtype == word


@pytest.mark.parametrize("impl", ["threefry2x32", "rbg", "unsafe_rbg"])
def test_a_key_draws_on_as_it_would_have(impl: str) -> None:
    keys = jax.random.split(jax.random.key(3, impl=impl), 2)
    again = back(keys)
    assert again.dtype == keys.dtype
    assert jax.random.normal(again[1], 3).tolist() == jax.random.normal(keys[1], 3).tolist()


def test_keys_of_an_unknown_algorithm_are_refused() -> None:
    spec = framework.spec(jax.random.key(3))
    for change in ({"impl": "no such"}, {"impl": "rbg"}):
        with pytest.raises(Unsupported, match="keys of"):
            framework.make(ArraySpec("jax", spec.dtype, (), {**spec.extra, **change}), memoryview(bytes(8)), None)


def test_an_array_stays_where_it_was_put() -> None:
    committed = jax.device_put(jnp.zeros(2), jax.devices()[0])
    assert back(committed).committed
    assert not back(jnp.zeros(2)).committed
    mesh = jax.make_mesh((1,), ("x",))
    template = jax.device_put(jnp.zeros(2), jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("x")))
    assert back(jnp.ones(2), template).sharding == template.sharding
    assert not back(committed, jnp.zeros(2)).committed
    with pytest.raises(Unsupported, match="cpu:99"):
        framework.make(ArraySpec("jax", "int8", (1,), {"device": "cpu:99"}), memoryview(b"a"), None)
    with pytest.raises(Unsupported, match="tpu:0"):
        framework.make(ArraySpec("jax", "int8", (1,), {"device": "tpu:0"}), memoryview(b"a"), None)


def test_what_has_no_values_is_refused() -> None:
    with pytest.raises(Unsupported, match="traced"):
        jax.jit(framework.spec)(jnp.zeros(1))
    gone = jnp.zeros(3)
    gone.delete()
    with pytest.raises(Unsupported, match="donated"):
        framework.spec(gone)


def test_jax_arrays_are_never_filled() -> None:
    assert not framework.writable(jnp.zeros(1))
    with pytest.raises(Unsupported):
        framework.fill(jnp.zeros(1), memoryview(bytes(4)))


def test_a_cpu_array_is_not_copied() -> None:
    array = jnp.arange(1000)
    assert framework.buffer(array).obj.__array_interface__["data"][0] == array.unsafe_buffer_pointer()


def test_a_registered_named_tuple_keeps_its_static_parts(tmp_path: Path) -> None:
    """As the state of jax.example_libraries.optimizers, which holds the structure of the parameters."""
    init, update, params_of = optimizers.momentum(0.1, 0.9)

    def state(fill: float) -> dict[str, Any]:
        return {"optimizer": init({"w": jnp.full((3,), fill), "b": jnp.zeros(2)})}

    saved = state(2.0)
    saved["optimizer"] = update(0, {"w": jnp.ones(3), "b": jnp.ones(2)}, saved["optimizer"])
    outlast.Job(tmp_path, state=saved, name="j").save()
    found = outlast.Job(tmp_path, state=state(0.0), name="j").state["optimizer"]
    assert type(found) is type(saved["optimizer"])
    for name, value in params_of(found).items():
        assert jnp.array_equal(value, params_of(saved["optimizer"])[name])
