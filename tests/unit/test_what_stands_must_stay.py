"""What stands in the program at the start must fit the checkpoint, and stay: nothing is cast, nothing is guessed."""

from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
import torch

import outlast


def run(folder: Path, state: dict[str, Any], steps: int = 2, change: Any = None) -> outlast.Job:
    job = outlast.Job(folder, state=state, every=outlast.Steps(1), name="stands")
    for _ in job.steps(steps):
        if change is not None:
            change(job.state)
    return job


def frozen(value: np.ndarray) -> np.ndarray:
    value.flags.writeable = False
    return value


@pytest.mark.parametrize(
    ("saved", "standing"),
    [
        (jnp.ones(3), jnp.zeros((5, 2), "int32")),
        (jnp.ones(3), jnp.zeros(3, "int32")),
        (frozen(np.ones(3)), frozen(np.zeros(4))),
        (frozen(np.ones(3)), frozen(np.zeros(3, np.int8))),
        (np.ones(3), np.zeros(3, np.float32)),
        (torch.ones(3), torch.zeros(3, dtype=torch.float64)),
    ],
    ids=["jax shape", "jax dtype", "read-only shape", "read-only dtype", "numpy dtype", "torch dtype"],
)
def test_an_array_of_another_shape_or_dtype_is_an_error_that_names_it(
    tmp_path: Path, saved: Any, standing: Any
) -> None:
    run(tmp_path, {"x": saved})
    with pytest.raises(outlast.StateMismatch, match=r"state\['x'\]"):
        run(tmp_path, {"x": standing}, 3)


@pytest.mark.parametrize("change", [torch.nn.Module.double, torch.nn.Module.half])
def test_a_model_of_another_dtype_is_not_cast(tmp_path: Path, change: Any) -> None:
    run(tmp_path, {"model": torch.nn.Linear(2, 2)})
    with pytest.raises(outlast.StateMismatch, match="nothing is cast"):
        run(tmp_path, {"model": change(torch.nn.Linear(2, 2))}, 3)


def test_an_assigned_array_that_changed_its_shape_is_refused_at_the_save(tmp_path: Path) -> None:
    with pytest.raises(outlast.StateUnsupported, match="start with None"):
        run(tmp_path, {"x": jnp.ones(3)}, change=lambda state: state.update(x=jnp.ones(4)))


def test_an_array_scalar_is_a_number_and_assigned(tmp_path: Path) -> None:
    run(tmp_path, {"x": np.float32(0)}, change=lambda state: state.update(x=np.float64(2.5)))
    assert run(tmp_path, {"x": np.float32(0)}).state["x"].dtype == np.float64


def test_a_part_that_came_during_the_loop_is_refused_at_the_save(tmp_path: Path) -> None:
    with pytest.raises(outlast.StateUnsupported, match=r"new part 'extra'.*Job\(state="):
        run(tmp_path, {"x": 1}, change=lambda state: state.update(extra=2))


def test_a_part_that_came_before_the_first_step_without_register_is_refused(tmp_path: Path) -> None:
    job = outlast.Job(tmp_path, state={"x": 1})
    job.state["extra"] = 2
    with pytest.raises(outlast.StateUnsupported, match=r"job\.register"):
        next(iter(job.steps(2)))


@pytest.mark.parametrize("other", [(1, 2), {"a": 1}, None], ids=["tuple", "dict", "None"])
def test_a_list_that_became_something_else_is_refused_at_the_save(tmp_path: Path, other: Any) -> None:
    with pytest.raises(outlast.StateUnsupported, match=r"state\['h'\] was a list"):
        run(tmp_path, {"h": [1]}, change=lambda state: state.update(h=other))


def test_a_list_is_not_restored_from_a_tuple(tmp_path: Path) -> None:
    run(tmp_path, {"h": (1, 2)})
    with pytest.raises(outlast.StateMismatch, match="is a list in the program and a tuple"):
        run(tmp_path, {"h": []}, 3)
