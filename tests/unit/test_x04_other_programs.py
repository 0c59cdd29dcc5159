"""X04: the checkpoint of another job or program is never resumed from, and what stands in the store stays as it was."""

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from jobs_in_process import files

import outlast


def arrays(**more: Any) -> dict[str, Any]:
    return {"frozen": np.arange(50_000), "w": np.zeros(1000), **more}


def run(folder: Path, state: dict[str, Any], steps: int, *, name: str = "mine") -> outlast.Job:
    """Saved beside the steps, so that later checkpoints refer to the first one's file."""
    job = outlast.Job(folder, state=state, name=name, every=outlast.Steps(1), saving="background")
    for step in job.steps(None):
        job.state["w"] += 1
        if step == steps:
            break
    job._session.saves.wait()  # the last one is under way
    return job


OTHERS = {
    "another shape": lambda: arrays() | {"w": np.zeros(999)},
    "another dtype": lambda: arrays() | {"w": np.zeros(1000, np.float32)},
    "another shape of what never changes": lambda: arrays() | {"frozen": np.arange(49_999)},
    "another kind": lambda: arrays() | {"w": [0.0] * 1000},
    "a part less": lambda: {"w": np.zeros(1000)},
    "a part more": lambda: arrays(bias=np.zeros(3)),
    "a part by another name": lambda: {"frozen": np.arange(50_000), "weights": np.zeros(1000)},
}


@pytest.mark.parametrize("other", OTHERS)
def test_x04_a_program_with_another_state_is_refused_with_78_and_changes_nothing(tmp_path: Path, other: str) -> None:
    run(tmp_path, arrays(), 4)
    before = files(tmp_path)
    with pytest.raises(outlast.StateMismatch) as refused:
        run(tmp_path, OTHERS[other](), 2)
    assert refused.value.code == 78
    assert "state[" in str(refused.value) or "part" in str(refused.value)
    assert files(tmp_path) == before
    mine = outlast.Job(tmp_path, state=arrays(), name="mine")
    assert mine.resumed_from == 4
    assert (mine.state["w"] == 4).all()


def test_x04_a_job_of_another_name_begins_at_step_0_beside_the_first(tmp_path: Path) -> None:
    run(tmp_path, arrays(), 4)
    before = files(tmp_path)
    other = run(tmp_path, arrays(), 2, name="other")
    assert other.resumed_from is None
    now = files(tmp_path)
    assert {name: now[name] for name in before} == before


def test_x04_records_and_data_copied_from_another_job_are_never_resumed_from(tmp_path: Path) -> None:
    run(tmp_path, arrays(), 2)
    run(tmp_path, arrays(), 6, name="other")
    task = "run-1/task-0"
    for kind in ("commits", "data"):
        for path in (tmp_path / "other" / task / kind).iterdir():
            shutil.copy(path, tmp_path / "mine" / task / kind)
    job = outlast.Job(tmp_path, state=arrays(), name="mine")
    assert job.resumed_from == 2
    assert (job.state["w"] == 2).all()


def test_x04_a_record_may_not_refer_to_another_job_s_data(tmp_path: Path) -> None:
    run(tmp_path, arrays(), 2)
    run(tmp_path, arrays(), 2, name="other")
    newest = max((tmp_path / "mine/run-1/task-0/commits").iterdir())
    text = newest.read_text()
    newest.write_text(text.replace("mine/run-1/task-0/data", "other/run-1/task-0/data"))
    job = outlast.Job(tmp_path, state=arrays(), name="mine")
    assert job.resumed_from == 1
