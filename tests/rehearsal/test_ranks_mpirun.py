"""Several processes under the real mpirun of Open MPI: a notice, a crash, a rank that is killed; codes and results.

X16: mpirun kills its ranks a second after its own SIGTERM, and leaves with the code of whichever left first.
"""

import os
import shutil
import signal
from pathlib import Path

import pytest
from supervised import Supervised, python

from outlast.checkpoint.survey import survey, tasks_in
from outlast.stores.directory import DirectoryStore

PROGRAM = """
import os, time
import outlast

rank = int(os.environ["OMPI_COMM_WORLD_RANK"])
state = {"sum": 0, "mine": [rank]}
job = outlast.Job(state=state, name="j", every=outlast.Steps(5))
os.write(1, f"from {rank} {job.resumed_from}\\n".encode())
for step in job.steps(12):
    exec(os.environ.get("IN_STEP", ""))
    state["sum"] += step
    state["mine"][0] += step
os.write(1, f"end {rank} {state['sum']} {state['mine'][0]}\\n".encode())
"""
AT_ONCE = {"OMPI_MCA_odls_base_sigkill_timeout": "1"}
RIGHT = ["end 0 66 66", "end 1 66 67"]


def start(tmp_path: Path, *, retries: int = 0, grace: str = "5s", **env: str) -> Supervised:
    if shutil.which("mpirun.openmpi") is None:
        if os.environ.get("CI") == "true":
            pytest.fail("CI must have Open MPI's mpirun")
        pytest.skip("no mpirun of Open MPI here")
    mpirun = ("mpirun.openmpi", "--allow-run-as-root", "--oversubscribe", "-n", "2")
    command = (*mpirun, *python(tmp_path, "program.py", PROGRAM))
    variables = {"OUTLAST_URL": str(tmp_path / "store"), "OUTLAST_PLATFORM": "local", **env}
    return Supervised("--grace", grace, "--retries", str(retries), "--", *command, env=variables)


def said(run: Supervised, word: str) -> list[str]:
    return sorted(line for _, line in run.out if line.startswith(f"{word} "))


def test_x16_mpirun_waits_for_the_step_and_the_save_of_its_ranks(tmp_path: Path) -> None:
    """By itself it would have killed them two seconds after its signal, within the step. Here its own comes after 5."""
    long = "if step == 6:\n    print('naps', flush=True)\n    time.sleep(8)"
    with start(tmp_path, grace="12s", IN_STEP=long) as run:
        run.wait_for("naps")
        run.send(signal.SIGTERM)
        assert run.leave() == 143, run.lines()
    store = DirectoryStore(str(tmp_path / "store"))
    [place] = tasks_in(store)
    assert max(one.name.step for one in survey(store, place) if one.verified) in (7, 8)


def test_b29_a_killed_rank_under_mpirun_is_an_interruption_and_the_retry_goes_on(tmp_path: Path) -> None:
    dies = "step == 7 and rank == 1 and job.attempt == 0 and os.kill(os.getpid(), 9)"
    with start(tmp_path, retries=1, IN_STEP=dies, **AT_ONCE) as run:
        assert run.leave() == 0, run.lines()
        assert said(run, "from") == ["from 0 5", "from 0 None", "from 1 5", "from 1 None"], run.out
        assert said(run, "end") == RIGHT, run.out
        assert any("exit code 143" in line for line in run.lines()), run.lines()


def test_b29_a_crash_under_mpirun_is_not_hidden_by_the_code_of_its_neighbour(tmp_path: Path) -> None:
    crash = "if step == 7 and rank == 1: raise ValueError('boom')"
    with start(tmp_path, IN_STEP=crash, **AT_ONCE) as run:
        assert run.leave() == 1, run.lines()
