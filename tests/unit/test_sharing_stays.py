"""B14: what shares an object or memory in the state goes on sharing after a resume, or the save is refused."""

import random
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
import torch

import outlast

Change = Any


def steps(folder: Path, state: dict[str, Any], total: int, change: Change = lambda state, step: None) -> outlast.Job:
    job = outlast.Job(folder, state=state, every=outlast.Steps(1), name="sharing")
    for step in job.steps(total):
        change(job.state, step)
    return job


def twice(make: Any) -> dict[str, Any]:
    value = make()
    return {"a": value, "b": {"inner": value}}


@pytest.mark.parametrize(
    "make",
    [
        lambda: torch.nn.Linear(2, 2),
        lambda: random.Random(1),
        lambda: np.random.default_rng(1),
        torch.Generator,
        lambda: np.zeros(3),
        lambda: torch.zeros(3),
        lambda: [1],
        lambda: {"k": 1},
    ],
    ids=["module", "Random", "numpy generator", "torch generator", "array", "tensor", "list", "dict"],
)
def test_one_object_under_two_names_is_saved_and_stays_one(tmp_path: Path, make: Any) -> None:
    steps(tmp_path, twice(make), 2)
    state = twice(make)
    job = steps(tmp_path, state, 3)
    assert job.resumed_from == 2
    assert state["a"] is state["b"]["inner"]


@pytest.mark.parametrize(
    ("make", "copy"),
    [
        (lambda: np.zeros(3), lambda value: value.copy()),
        (lambda: torch.zeros(3), lambda value: value.clone()),
        (lambda: [1], list),
        (lambda: {"k": 1}, dict),
        (lambda: {1}, set),
    ],
    ids=["array", "tensor", "list", "dict", "set"],
)
def test_one_object_that_became_two_is_refused_at_the_save(tmp_path: Path, make: Any, copy: Any) -> None:
    value = make()
    with pytest.raises(outlast.StateUnsupported, match="were one object at the start"):
        steps(tmp_path, {"w": value, "best": value}, 3, lambda state, step: state.update(best=copy(state["w"])))


def test_two_arrays_that_became_one_are_refused_at_the_save(tmp_path: Path) -> None:
    state = {"cur": np.zeros(3), "best": np.zeros(3)}
    with pytest.raises(outlast.StateUnsupported, match="have become one object"):
        steps(tmp_path, state, 3, lambda state, step: state.update(best=state["cur"]))


def test_a_view_made_during_the_run_is_refused_at_the_save(tmp_path: Path) -> None:
    state = {"buf": np.zeros(6), "win": None}
    with pytest.raises(outlast.StateUnsupported, match="share memory now"):
        steps(tmp_path, state, 3, lambda state, step: state.update(win=state["buf"][2:4]))


def test_a_view_that_became_a_copy_is_refused_at_the_save(tmp_path: Path) -> None:
    whole = torch.zeros(6)
    with pytest.raises(outlast.StateUnsupported, match="do not share memory now"):
        steps(tmp_path, {"buf": whole, "win": whole[2:4]}, 3, lambda state, _: state.update(win=state["win"].clone()))


def test_a_view_from_the_start_is_restored_in_place(tmp_path: Path) -> None:
    def state() -> dict[str, Any]:
        whole = np.zeros(6)
        return {"buf": whole, "win": whole[2:4]}

    def change(state: dict[str, Any], step: int) -> None:
        state["buf"] += 1

    steps(tmp_path, state(), 2, change)
    resumed = steps(tmp_path, state(), 4, change).state
    assert resumed["win"].tolist() == [4, 4]
    resumed["buf"][:] = 9
    assert resumed["win"].tolist() == [9, 9]


def test_a_read_only_view_of_a_writable_array_is_refused_at_once(tmp_path: Path) -> None:
    whole = np.zeros(6)
    view = whole[1:3]
    view.flags.writeable = False
    with pytest.raises(outlast.StateUnsupported, match="read-only"):
        steps(tmp_path, {"buf": whole, "win": view}, 1)


def test_weights_tied_in_the_program_are_not_filled_from_two(tmp_path: Path) -> None:
    def model(*, tied: bool) -> torch.nn.Module:
        made = torch.nn.ModuleDict({"a": torch.nn.Linear(2, 2), "b": torch.nn.Linear(2, 2)})
        if tied:
            made["b"].weight = made["a"].weight
        return made

    steps(tmp_path, {"model": model(tied=False)}, 2)
    with pytest.raises(outlast.StateMismatch, match="one object in the program"):
        steps(tmp_path, {"model": model(tied=True)}, 3)


def test_values_that_nobody_can_change_may_come_to_share_and_part(tmp_path: Path) -> None:
    ones = jnp.ones(2)

    def change(state: dict[str, Any], step: int) -> None:
        state["best"] = state["w"] if step % 2 else state["w"] + 1

    assert steps(tmp_path, {"w": ones, "best": ones}, 4, change).state["best"].tolist() == [1, 1]
    assert steps(tmp_path, {"w": ones, "best": ones}, 5, change).resumed_from == 4
