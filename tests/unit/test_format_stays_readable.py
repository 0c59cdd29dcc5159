"""Old checkpoints stay readable: one store of each format is kept in tests/data and restored here.

`python tests/unit/test_format_stays_readable.py FOLDER` made the one of the present format.
"""

import random
import shutil
import sys
from collections import OrderedDict, deque
from pathlib import Path

import numpy as np
import pytest

import outlast

STORES = sorted((Path(__file__).parents[1] / "data").glob("format-*"))


def empty_state() -> dict[str, object]:
    return {
        "weights": np.zeros((2, 3), np.float32),
        "counts": [],
        "table": OrderedDict(),
        "recent": deque(maxlen=3),
        "rng": np.random.default_rng(0),
        "drawn": 0.0,
        "odd": None,
    }


def advance(state: dict[str, object], step: int) -> None:
    """One step whose outcome depends on everything before it."""
    state["weights"] += state["rng"].normal(size=(2, 3)).astype(np.float32)
    state["counts"].append(step)
    state["table"][(step, b"key")] = {"nan": float("nan"), "big": 1 << 80, "pair": (step, -0.0)}
    state["recent"].append(random.random())
    state["drawn"] = float(np.random.random())
    state["odd"] = np.array(["2026-11-29", "NaT"], "datetime64[D]")


def run(folder: Path, steps: int) -> dict[str, object]:
    random.seed(1)
    np.random.seed(2)
    state = empty_state()
    job = outlast.Job(folder, state=state, name="kept", every=outlast.Steps(2), keep=2)
    for step in job.steps(steps):
        advance(job.state, step)
    return {**job.state, "resumed_from": job.resumed_from}


def test_there_is_a_store_of_each_format_up_to_the_present_one() -> None:
    assert [store.name for store in STORES] == ["format-1", "format-2"]


@pytest.mark.parametrize("store", STORES, ids=lambda store: store.name)
def test_a_run_of_an_old_format_goes_on_to_the_same_result(store: Path, tmp_path: Path) -> None:
    shutil.copytree(store, tmp_path / "store")
    resumed, whole = run(tmp_path / "store", 9), run(tmp_path / "whole", 9)
    assert (resumed.pop("resumed_from"), whole.pop("resumed_from")) == (5, None)
    assert repr(resumed.pop("rng").bit_generator.state) == repr(whole.pop("rng").bit_generator.state)
    assert repr(resumed) == repr(whole)


if __name__ == "__main__":
    run(Path(sys.argv[1]), 5)
