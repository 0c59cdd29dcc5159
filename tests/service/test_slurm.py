"""Real jobs of a real Slurm 22.05: warned, ended at their limit, requeued, killed, sent as arrays; nothing is lost.

CI takes four hard kills; OUTLAST_SLURM_KILLS=100 asks for so many in all.
"""

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from service import servers
from service.slurm_cluster import SOURCE, BatchJob, Cluster, cluster

STEPS = 1200
KILLS = int(os.environ.get("OUTLAST_SLURM_KILLS", "4"))
EVERY = 20
# The first life goes slowly, so that it is there to be ended.
PROGRAM = f"""
import os, sys, time
import numpy as np
import outlast

life = int(os.environ.get("SLURM_RESTART_COUNT", "0"))
pace = float(os.environ.get("PACE", "0")) if life < int(os.environ.get("SLOW_LIVES", "1")) else 0
trace = os.open("trace", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
open("pid", "w").write(str(os.getpid()))
np.random.seed(7)
state = {{"weights": np.zeros(64), "last": 0.0}}
job = outlast.Job(state=state, every=outlast.Steps({EVERY}))
for step in job.steps({STEPS}):
    state["weights"][step % 64] += np.random.random()
    job.state["last"] = float(state["weights"].sum())
    os.write(trace, b"%d %d\\n" % (life, step))
    time.sleep(pace)
task = os.environ.get("SLURM_ARRAY_TASK_ID", "")
open(f"result{{task}}", "w").write(f"{{state['weights'].tolist()}} {{job.state['last']}}")
"""


@pytest.fixture(scope="module")
def slurm() -> Cluster:
    there = cluster()
    sent_before(there)
    return there


@pytest.fixture
def jobs(slurm: Cluster) -> Iterator[list[BatchJob]]:
    """Those of a test, none of which outlives it."""
    sent: list[BatchJob] = []
    yield sent
    if sent:
        slurm.ask("scancel", "--signal=KILL", "--full", *(job.id for job in sent), check=False)
        slurm.ask("scancel", *(job.id for job in sent), check=False)


@pytest.fixture(scope="module")
def right(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The result of an uninterrupted run."""
    folder = tmp_path_factory.mktemp("plain")
    env = {**os.environ, "PYTHONPATH": str(SOURCE), "OUTLAST_URL": str(folder / "store")}
    subprocess.run([sys.executable, "-c", PROGRAM], cwd=folder, env=env, check=True, capture_output=True)
    return (folder / "result").read_text()


def lost_nothing(job: BatchJob, right: str) -> None:
    """One life more, no step twice, and the right result."""
    assert (job.folder / "result").read_text() == right, job.said
    assert [step for _, step in job.trace] == list(range(STEPS)), job.said
    assert {life for life, _ in job.trace} == {0, 1}, job.said
    stopped = [event for event in job.events if event["event"] == "Stopped"]
    assert [event["lost_steps"] for event in stopped] == [0], job.said
    assert f"resuming from step {sum(life == 0 for life, _ in job.trace)} " in job.said


WARNED = {"srun python": "USR1@60", "exec outlast": "B:USR1@60", "script": "USR1@60"}
LAUNCH = {
    "srun python": "srun",
    "srun outlast": "srun outlast run --",
    "exec outlast": "exec outlast run --",
    "script": "export OUTLAST_EXIT_CODE=55\nsrun outlast run --",  # which no RequeueExit names
}
AFTER = {"script": 'code=$?\nif [ $code = 55 ]; then scontrol requeue "$SLURM_JOB_ID"; fi\nexit $code\n'}
END_TIME = 'export SLURM_JOB_END_TIME=$(date -d "$(squeue -h -j "$SLURM_JOB_ID" -o %e)" +%s)\nsrun'


def sent(slurm: Cluster, folder: Path, kind: str, launch: str, *options: str) -> BatchJob:
    """A job that goes slowly until it is ended."""
    where = folder / f"{kind}-{launch.replace(' ', '-')}"
    return BatchJob.submit(slurm, where, PROGRAM, LAUNCH[launch], *options, after=AFTER.get(launch, ""), PACE="0.05")


def with_first_steps(job: BatchJob) -> BatchJob:
    return job.wait(lambda job: len(job.trace) > 5, "its first steps")


def sent_before(slurm: Cluster) -> dict[str, list[BatchJob]]:
    """Slurm takes its time, 30 s for limits: whichever test comes first sends, for all, what has to wait.

    The shortest limit is a minute; an operator may end a job earlier.
    """
    folder = Path(slurm.config).parent / "jobs"

    def send(_: int) -> str:
        warned = [sent(slurm, folder, "signal", launch, f"--signal={how}") for launch, how in WARNED.items()]
        limited = [sent(slurm, folder, "limit", launch) for launch in ("srun outlast", "exec outlast")]
        requeued = [sent(slurm, folder, "requeue", launch) for launch in ("srun python", "exec outlast")]
        for job in limited:
            with_first_steps(job).scontrol("update", "EndTime=now+1")
        for job in requeued:
            with_first_steps(job).scontrol("requeue")
        sets = {"warned": warned, "limited": limited, "requeued": requeued}
        return json.dumps({name: [[str(job.folder), job.id] for job in jobs] for name, jobs in sets.items()})

    told = json.loads(servers.shared("slurm-jobs", send))
    return {name: [BatchJob(slurm, Path(where), number) for where, number in jobs] for name, jobs in told.items()}


def heard(job: BatchJob) -> set[str]:
    """The sources of all notices."""
    return {event["source"] for event in job.events if event["event"] == "NoticeHeard"}


TELLS = """
import os, time
said = {name for name in os.environ if name.startswith(("SLURM_", "SBATCH_"))}
print(sorted(said & {"SLURM_JOB_END_TIME", "SBATCH_SIGNAL", "SLURM_JOB_ID", "SLURM_JOB_NAME"}))
print(0 < float(os.environ.get("SLURM_JOB_END_TIME", "0")) - time.time() <= 61)
"""


def test_arrays_are_runs_of_their_own_tasks_and_what_a_job_is_told(
    slurm: Cluster, jobs: list[BatchJob], tmp_path: Path, right: str
) -> None:
    def send(name: str, launch: str, *options: str, program: str = PROGRAM) -> BatchJob:
        jobs.append(BatchJob.submit(slurm, tmp_path / name, program, LAUNCH.get(launch, launch), *options))
        return jobs[-1]

    told = [
        send(f"told-{launch}", launch, "--signal=USR1@60", program=TELLS) for launch in ("srun python", "exec outlast")
    ]
    asked = send("asked", END_TIME, program=TELLS)
    arrays = {
        numbers: send(f"array-{numbers}", "exec outlast", f"--array={numbers}") for numbers in ("0-1", "3-4", "1,5")
    }
    for numbers, job in arrays.items():
        first, last = numbers[0], numbers[-1]
        job.wait(lambda job: len(list(job.folder.glob("result*"))) == 2, "its results")
        assert {path.name for path in job.folder.glob("result*")} == {f"result{first}", f"result{last}"}
        assert {path.read_text() for path in job.folder.glob("result*")} == {right}
        assert {path.name for path in job.folder.glob("store/train/run-1/task-*")} == {f"task-{first}", f"task-{last}"}
    for job in told:
        assert job.done().said == "['SLURM_JOB_ID', 'SLURM_JOB_NAME']\nFalse\n"
    assert asked.done().said.endswith("\nTrue\n")
    # Sent again, whole or in part: the run is finished, so this is a new one.
    store = arrays["3-4"].folder / "store"
    again = BatchJob.submit(
        slurm, tmp_path / "again", PROGRAM, LAUNCH["exec outlast"], "--array=4", OUTLAST_URL=str(store)
    )
    jobs.append(again.wait(lambda job: (job.folder / "result4").exists(), "its result"))
    assert {path.name for path in store.glob("train/run-*")} == {"run-1", "run-2"}


def begin(slurm: Cluster, folder: Path, *, slow_lives: int) -> list[BatchJob]:
    """Four jobs on the node that may be lost."""
    given = {"PACE": "0.02", "SLOW_LIVES": str(slow_lives)}
    launches = [LAUNCH["exec outlast"], LAUNCH["srun python"]] * 2
    where = [(slurm, folder / str(number), PROGRAM, launch) for number, launch in enumerate(launches)]
    return [BatchJob.submit(*one, "--partition=fragile", **given) for one in where]


def kill(slurm: Cluster, jobs: list[BatchJob]) -> None:
    """Two programs are killed, as by the memory's guard, and sent again; two jobs go with their node."""
    for job in jobs[:2]:
        os.kill(int((job.folder / "pid").read_text()), signal.SIGKILL)
    for job in jobs[:2]:
        job.wait(lambda job: job.state == "FAILED", "its death").scontrol("requeue")
    slurm.ask("scontrol", "update", "NodeName=fragile", "State=DOWN", "Reason=lost")
    slurm.ask("scontrol", "update", "NodeName=fragile", "State=RESUME")


@pytest.mark.slow
@pytest.mark.timeout(120 + 20 * KILLS)
def test_hard_kills_and_lost_nodes_cost_no_more_than_the_saves_under_way(
    slurm: Cluster, jobs: list[BatchJob], tmp_path: Path, right: str
) -> None:
    rounds, moments = -(-KILLS // 4), random.Random(5)
    for first in range(0, rounds, 3):
        lives = min(3, rounds - first)  # before the program comes to its end
        storm = begin(slurm, tmp_path / str(first), slow_lives=lives)
        jobs += storm
        for life in range(lives):
            for job in storm:
                job.wait(lambda job, life=life: sum(at == life for at, _ in job.trace) > 2 * EVERY, f"life {life}")
            time.sleep(moments.uniform(0, 0.3))
            kill(slurm, storm)
        for job in storm:
            job.done()
            assert (job.folder / "result").read_text() == right
            assert {life for life, _ in job.trace} == set(range(lives + 1)), job.said
            for life in range(lives):
                ended = max(step for at, step in job.trace if at == life) + 1
                resumed = min(step for at, step in job.trace if at == life + 1)
                # The save before the one that was due at the last border has ended: the loop has waited for it.
                assert (ended - 1) // EVERY * EVERY - EVERY <= resumed <= ended, job.said


def test_a_requeue_loses_nothing(slurm: Cluster, right: str) -> None:
    for job in sent_before(slurm)["requeued"]:
        lost_nothing(job.done(), right)
        assert heard(job) == {"SIGTERM"}


@pytest.mark.timeout(120)
def test_a_warning_before_the_time_limit_loses_nothing_and_the_exit_code_starts_the_job_again(
    slurm: Cluster, right: str
) -> None:
    jobs = sent_before(slurm)["warned"]
    for job in jobs:
        lost_nothing(job.done(), right)
        assert heard(job) == {"SIGUSR1"}
    assert "notice: SIGUSR1; grace 4.0 s; passed on" in jobs[1].said


@pytest.mark.timeout(120)
def test_the_time_limit_itself_loses_nothing(slurm: Cluster, right: str) -> None:
    """The shell around srun dies of the SIGTERM, so that an operator has to start the job again; with exec none has."""
    around_srun, by_exec = sent_before(slurm)["limited"]
    around_srun.wait(lambda job: job.state == "TIMEOUT", "its limit").scontrol("requeue")
    for job in (around_srun, by_exec):
        lost_nothing(job.done(), right)
        assert heard(job) == {"SIGTERM"}
        assert "DUE TO TIME LIMIT" in job.said
