"""B14 for arrays: bits, dtypes, places, aliases; never a cast, nor a save that cannot be put back."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
import torch
from test_b14_fidelity import load, save

import outlast
from outlast.frameworks.numpy import NumpyFramework

SCALARS = [np.dtype(code).type(1) for code in "?bBhHiIlLqQefdgFDG"]
ARRAYS: dict[str, np.ndarray] = {
    "nan with a payload": np.array([0x7FF8DEADBEEF0001, 0xFFF0000000000001], "u8").view("f8"),
    "negative zero": np.array([-0.0, 0.0], "f4"),
    "half": np.array([1.5, np.inf], "f2"),
    "bfloat16": np.array([1.5, -0.0], ml_dtypes.bfloat16),
    "float8": np.array([1.5, -0.0], ml_dtypes.float8_e4m3fn),
    "complex": np.array([complex(-0.0, np.nan)], "c8"),
    "bool": np.array([[True], [False]]),
    "big endian": np.array([1, 2], ">i4"),
    "dates": np.array(["2026-11-29", "NaT"], "M8[ns]"),
    "text": np.array(["ä", "bcd"]),
    "bytes": np.array([b"a", b"bc\0"]),
    "records": np.array([(1, 2.5)], [("a", "i4"), ("b", "f8")]),
    "empty": np.zeros((0, 3), "i2"),
    "no dimensions": np.array(7.5),
    "transposed": np.arange(6.0).reshape(2, 3).T,
    "strided": np.arange(10)[::3],
}


def bits(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        raw = value.detach().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()
        return type(value), value.dtype, tuple(value.shape), raw
    if value.dtype.char in "gG":  # these have padding, which is nobody's
        return type(value), value.dtype, np.shape(value), repr(value)
    return type(value), value.dtype, np.shape(value), value.tobytes()


@pytest.mark.parametrize("value", SCALARS, ids=lambda value: type(value).__name__)
def test_a_numpy_scalar_comes_back_as_what_it_is(value: Any, store: Path) -> None:
    save(store, {"v": [value]})
    back = load(store, {"v": []})["v"][0]
    assert (type(back), bits(back)) == (type(value), bits(value))


@pytest.mark.parametrize("value", SCALARS, ids=lambda value: type(value).__name__)
def test_a_scalar_has_the_same_bytes_at_each_look(value: Any) -> None:
    """np.asarray fills the padding of a long double with what lies on the stack: no digest would fit."""
    expected = value.tobytes() if value.dtype.itemsize else b""
    assert bytes(NumpyFramework().buffer(value)) == expected


@pytest.mark.parametrize("name", ARRAYS)
@pytest.mark.parametrize("place", ["in place", "None", "read-only"])
def test_an_array_comes_back_in_bits_and_can_be_written(name: str, place: str, store: Path) -> None:
    value = ARRAYS[name]
    save(store, {"v": {"k": value.copy()}})
    mine = None if place == "None" else np.zeros_like(value)
    if place == "read-only":
        assert mine is not None
        mine.flags.writeable = False
    back = load(store, {"v": {"k": mine}})["v"]["k"]
    assert bits(back) == bits(value)
    assert back.flags.writeable
    assert (back is mine) == (place == "in place")


def test_an_array_of_objects_is_refused_at_once(store: Path) -> None:
    with pytest.raises(outlast.StateUnsupported, match=r"state\['v'\]\[0\]"):
        outlast.Job(store, state={"v": [np.array([{}, None], object)]}, name="j")


OTHERS: dict[str, tuple[Any, Any]] = {
    "shape": (np.zeros(3), np.zeros(4)),
    "dtype": (np.zeros(3, "f8"), np.zeros(3, "f4")),
    "byte order": (np.zeros(3, "<i4"), np.zeros(3, ">i4")),
    "dimensions": (np.zeros((2, 3)), np.zeros(6)),
    "tensor shape": (torch.zeros(3), torch.zeros(4)),
    "tensor dtype": (torch.zeros(3), torch.zeros(3, dtype=torch.bfloat16)),
    "tensor for array": (np.zeros(3, "f4"), torch.zeros(3)),
    "array for number": (1.0, np.zeros(())),
    "number for array": (np.zeros(()), 1.0),
}


@pytest.mark.parametrize("kind", OTHERS)
def test_another_shape_or_dtype_is_an_error_by_path_and_touches_nothing(kind: str, store: Path) -> None:
    saved, standing = OTHERS[kind]
    save(store, {"first": [1], "v": {"k": [saved]}})
    first = [7]
    if kind == "number for array":
        assert isinstance(load(store, {"first": first, "v": {"k": [standing]}})["v"]["k"][0], np.ndarray)
        return
    with pytest.raises(outlast.StateMismatch, match=r"state\['v'\]\['k'\]\[0\]") as caught:
        load(store, {"first": first, "v": {"k": [standing]}})
    assert (caught.value.code, first) == (78, [7])


CHANGES: dict[str, Callable[[dict[str, Any]], Any]] = {
    "another shape": lambda state: state.update(k=np.zeros(5)),
    "another dtype": lambda state: state.update(k=np.zeros(3, "f4")),
    "gone": lambda state: state.pop("k"),
    "None now": lambda state: state.update(k=None),
    "a model that is gone": lambda state: state.pop("model"),
    "another model": lambda state: state.update(model=torch.nn.Bilinear(1, 1, 1)),
    "a generator that is gone": lambda state: state.update(rng=None),
    "a generator that came": lambda state: state.update(other=np.random.default_rng(1)),
    "a model that came": lambda state: state.update(other=torch.nn.Linear(1, 1)),
}


@pytest.mark.parametrize("kind", CHANGES)
def test_what_could_not_be_put_back_is_refused_at_the_save(kind: str, store: Path) -> None:
    def fresh() -> dict[str, Any]:
        return {"v": {"k": np.ones(3), "model": torch.nn.Linear(2, 2), "rng": np.random.default_rng(4)}}

    state = fresh()
    job = outlast.Job(store, state=state, name="j")
    job.save()
    CHANGES[kind](state["v"])
    with pytest.raises(outlast.StateUnsupported, match=r"state\['v'\]\['(k|model|rng|other)'\]"):
        job.save()
    assert load(store, fresh())["v"]["k"].tolist() == [1, 1, 1]


def test_a_growing_list_of_arrays_may_be_saved_and_comes_back(store: Path) -> None:
    state: dict[str, Any] = {"v": [np.zeros(2)]}
    job = outlast.Job(store, state=state, name="j")
    state["v"].append(np.ones(3))
    job.save()
    back = load(store, {"v": [np.full(2, 9.0)]})["v"]
    assert [one.tolist() for one in back] == [[0, 0], [1, 1, 1]]
    assert back[1].flags.writeable


def test_tied_tensors_and_views_stay_one_memory(store: Path) -> None:
    def make() -> tuple[Any, dict[str, Any]]:
        model: Any = torch.nn.ModuleDict({name: torch.nn.Linear(3, 3, bias=False) for name in "ab"})
        model["b"].weight = model["a"].weight
        array = np.zeros(3)
        return model, {"model": model, "weight": model["a"].weight.detach(), "x": array, "y": [array]}

    model, state = make()
    with torch.no_grad():
        model["a"].weight.fill_(2)
    state["x"][:] = 5
    save(store, state)
    again, fresh = make()
    back = load(store, fresh)
    assert again["a"].weight is again["b"].weight
    assert again["a"].weight.data_ptr() == back["weight"].data_ptr()
    assert again["a"].weight.flatten().tolist() == [2] * 9
    assert back["x"] is back["y"][0]
    assert back["x"].tolist() == [5, 5, 5]


def test_aliases_that_the_program_does_not_share_are_an_error(store: Path) -> None:
    array = np.ones(3)
    save(store, {"x": array, "y": array})
    with pytest.raises(outlast.StateMismatch, match="one object in the checkpoint"):
        load(store, {"x": np.zeros(3), "y": np.zeros(3)})


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float64", "complex64", "int64", "bool", "float8_e4m3fn"])
def test_a_tensor_comes_back_in_bits_and_in_place(dtype: str, store: Path) -> None:
    value = torch.tensor([0.0, 1.5, -0.0, 2.0]).to(getattr(torch, dtype))
    save(store, {"v": value})
    mine = torch.zeros_like(value)
    load(store, {"v": mine})
    assert bits(mine) == bits(value)


def test_generators_models_and_optimizers_of_the_user_are_restored_in_place(store: Path) -> None:
    def make() -> dict[str, Any]:
        model: Any = torch.nn.Linear(2, 1)
        optimizer = torch.optim.Adam(model.parameters())
        return {"model": model, "optimizer": optimizer, "np": np.random.default_rng(1), "torch": torch.Generator()}

    state = make()
    state["model"](torch.ones(1, 2)).sum().backward()
    state["optimizer"].step()
    state["np"].random(5)
    torch.rand(5, generator=state["torch"])
    save(store, state)
    mine = make()
    kept = dict(mine)
    load(store, mine)
    assert all(mine[name] is kept[name] for name in kept)
    assert torch.equal(mine["model"].weight, state["model"].weight)
    assert mine["optimizer"].state_dict()["state"][0]["step"] == 1
    assert mine["np"].random() == state["np"].random()
    assert torch.equal(torch.rand(3, generator=mine["torch"]), torch.rand(3, generator=state["torch"]))
