"""The state of NumPy's random generators as plain values and arrays."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from outlast.ports import Unsupported

BitGenerator = np.random.BitGenerator
AnyGenerator = np.random.Generator | np.random.RandomState | np.random.BitGenerator


def state_of(generator: object) -> dict[str, object]:
    """The state of a Generator, RandomState or BitGenerator; raises Unsupported for what has none to give."""
    match generator:
        case np.random.Generator():
            return {"kind": "Generator", **_bits_state(generator.bit_generator)}
        case np.random.RandomState():
            return {"kind": "RandomState", "state": generator.get_state(legacy=False)}
        case np.random.BitGenerator():
            return {"kind": "BitGenerator", **_bits_state(generator)}
        case _:
            raise Unsupported("a SeedSequence cannot be set; save the generator made from it")


def set_state_of(generator: AnyGenerator, saved: Mapping[str, Any]) -> None:
    """Sets a generator to a state from `state_of`, in place; raises Unsupported for one of another kind."""
    standing = state_of(generator)
    if saved["kind"] != standing["kind"]:
        raise Unsupported(f"saved from a {saved['kind']}, but a {standing['kind']} stands here")
    if isinstance(generator, np.random.RandomState):
        _check_algorithm(saved["state"], generator.get_state(legacy=False))
        generator.set_state(saved["state"])
        return
    bits = generator.bit_generator if isinstance(generator, np.random.Generator) else generator
    _check_algorithm(saved["state"], bits.state)
    if saved["seed"] is None or saved["seed"] == _seed_state(bits):
        bits.state = saved["state"]
    else:
        # What pickle calls; there is no other way to set a seed sequence.
        restore: Callable[[object], None] = bits.__setstate__  # type: ignore[attr-defined]  # not in NumPy's stubs
        restore((saved["state"], _make_seed(saved["seed"])))


def global_state() -> object:
    """The state behind np.random.rand and its like."""
    return np.random.get_state(legacy=False)


def set_global_state(saved: dict[str, Any]) -> None:
    """Sets it; raises Unsupported when np.random.set_bit_generator has put another algorithm there."""
    _check_algorithm(saved, np.random.get_state(legacy=False))
    np.random.set_state(saved)


def _check_algorithm(saved: Mapping[str, Any], standing: Any) -> None:
    if saved["bit_generator"] != standing["bit_generator"]:
        raise Unsupported(f"saved from {saved['bit_generator']}, but {standing['bit_generator']} stands here")


def _bits_state(bits: BitGenerator) -> dict[str, object]:
    return {"state": bits.state, "seed": _seed_state(bits)}


def _seed_state(bits: BitGenerator) -> dict[str, object] | None:
    """What `spawn` draws its children from; it is no part of `bits.state`. None where spawn does not work."""
    seed = bits.seed_seq
    if type(seed) is not np.random.SeedSequence:
        return None
    state = seed.state
    return {
        "entropy": _plain(state["entropy"]),
        "spawn_key": _plain(state["spawn_key"]),
        "pool_size": state["pool_size"],
        "children": state["n_children_spawned"],
    }


def _plain(entropy: Any) -> int | list[int] | None:
    if entropy is None:
        return None
    if isinstance(entropy, Sequence | np.ndarray):
        return [int(word) for word in entropy]
    return int(entropy)


def _make_seed(saved: Mapping[str, Any]) -> np.random.SeedSequence:
    return np.random.SeedSequence(
        entropy=saved["entropy"],
        spawn_key=tuple(saved["spawn_key"]),
        pool_size=saved["pool_size"],
        n_children_spawned=saved["children"],
    )
