"""Two ranks that a real srun starts: one checkpoint for both, a requeue loses no step, and each goes on as itself."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from service.slurm_cluster import BatchJob, Cluster, cluster

STEPS = 300
PROGRAM = f"""
import os, time
import numpy as np
import outlast

life, rank = int(os.environ.get("SLURM_RESTART_COUNT", "0")), int(os.environ["SLURM_PROCID"])
assert os.environ["SLURM_STEP_NUM_TASKS"] == "2" and "RANK" not in os.environ
trace = os.open(f"trace-{{rank}}", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
np.random.seed(rank)
state = {{"sum": 0.0, "steps": []}}
job = outlast.Job(state=state, every=outlast.Steps(20))
for step in job.steps({STEPS}):
    job.state["sum"] += np.random.random()
    state["steps"].append(step)
    os.write(trace, b"%d %d\\n" % (life, step))
    time.sleep(0.02 if life == 0 else 0)
open(f"result-{{rank}}", "w").write(repr([job.state["sum"], state["steps"] == list(range({STEPS}))]))
"""


@pytest.fixture
def jobs() -> Iterator[list[BatchJob]]:
    """Those of a test, none of which outlives it."""
    sent: list[BatchJob] = []
    yield sent
    for job in sent:
        job.cluster.ask("scancel", "--signal=KILL", "--full", job.id, check=False)
        job.cluster.ask("scancel", job.id, check=False)


@pytest.fixture(scope="module")
def slurm() -> Cluster:
    return cluster()


def trace(job: BatchJob, rank: int) -> list[tuple[int, int]]:
    path = job.folder / f"trace-{rank}"
    lines = path.read_text().splitlines() if path.exists() else []
    return [(int(life), int(step)) for life, step in (line.split() for line in lines if line.count(" ") == 1)]


@pytest.mark.timeout(240)
def test_b29_two_tasks_of_srun_stop_at_one_step_and_go_on_as_themselves(
    slurm: Cluster, jobs: list[BatchJob], tmp_path: Path
) -> None:
    whole = BatchJob.submit(slurm, tmp_path / "whole", PROGRAM, "srun", "--ntasks=2")
    cut = BatchJob.submit(slurm, tmp_path / "cut", PROGRAM, "srun outlast run --", "--ntasks=2")
    jobs += [whole, cut]
    cut.wait(lambda job: len(trace(job, 0)) > 30, "its first steps").scontrol("requeue")
    whole.done()
    cut.done()
    for rank in range(2):
        right = (whole.folder / f"result-{rank}").read_text()
        assert (cut.folder / f"result-{rank}").read_text() == right, cut.said
        assert right.endswith("True]")
        assert [step for _, step in trace(cut, rank)] == list(range(STEPS)), cut.said
        assert {life for life, _ in trace(cut, rank)} == {0, 1}
    assert len({sum(life == 0 for life, _ in trace(cut, rank)) for rank in range(2)}) == 1
    assert [path.name for path in cut.folder.glob("store/train/run-1/task-*")] == ["task-0"]
