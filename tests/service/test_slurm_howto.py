"""The batch scripts of docs/howto/slurm.md, sent to a real Slurm as they stand there: warned, they lose nothing."""

import os
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from docs_pages import ROOT, read_page
from outlast.checkpoint.places import RunPlace
from outlast.checkpoint.runs import run_is_finished
from outlast.stores.directory import DirectoryStore
from service.slurm_cluster import SOURCE, Cluster, cluster

SCRIPTS = read_page((ROOT / "docs" / "howto" / "slurm.md").read_text()).files
STEPS = 600
LONGEST_WAIT_SECONDS = 60.0
# Its first life goes slowly, so that it is there to be warned.
PROGRAM = f"""
import os, sys, time
import numpy as np
import outlast

trace = "trace" + "".join(f"-{{task}}" for task in sys.argv[1:])
pace = 0.0 if os.path.exists(trace) else 0.05
state = {{"sums": np.zeros(8)}}
job = outlast.Job(state=state, every="5min")
for step in job.steps({STEPS}):
    state["sums"] += np.arange(8.0) * step
    with open("trace" + "-".join(["", *sys.argv[1:]]), "a") as trace:
        trace.write(f"{{step}}\\n")
    time.sleep(pace)
assert state["sums"].tolist() == (np.arange(8.0) * sum(range({STEPS}))).tolist()
print("the sums are right")
"""


@dataclass
class Sent:
    """A script of the page, sent to the queue."""

    folder: Path
    job: str
    warning: tuple[str, ...]  # how scancel sends the signal that the script asks for

    def trace(self, task: str = "") -> list[int]:
        path = self.folder / f"trace{task}"
        return [int(line) for line in path.read_text().split()] if path.exists() else []

    @property
    def said(self) -> str:
        return "".join(path.read_text() for path in sorted(self.folder.glob("slurm-*.out")))


def _send(slurm: Cluster, folder: Path, name: str, body: str, *options: str) -> Sent:
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(body)
    (folder / "train.py").write_text(PROGRAM)
    command = ["sbatch", "--parsable", "--time=1", f"--chdir={folder}", *options, str(folder / name)]
    path = f"{folder.parent / 'bin'}{os.pathsep}{os.environ['PATH']}"
    code = {"OUTLAST_EXIT_CODE": "99"} if "= 99" in body else {}
    job = slurm.ask(*command, env={"PATH": path, "PYTHONPATH": str(SOURCE), **code})
    return Sent(folder, job, ("--batch",) if "--signal=B:" in body else ())


@pytest.fixture
def programs(tmp_path: Path) -> None:
    """The commands that the page's scripts start, as this environment has them."""
    (tmp_path / "bin").mkdir()
    for name, arguments in {"python": "", "outlast": "-c 'from outlast.cli.main import main; main()'"}.items():
        program = tmp_path / "bin" / name
        program.write_text(f'#!/bin/sh\nexec {sys.executable} {arguments} "$@"\n')
        program.chmod(0o755)


def _wait(until: Callable[[], bool], what: str, *sent: Sent) -> None:
    end = time.monotonic() + LONGEST_WAIT_SECONDS
    while not until():
        assert time.monotonic() < end, f"{what}\n" + "\n".join(f"{one.folder.name}: {one.said}" for one in sent)
        time.sleep(0.1)


@pytest.mark.usefixtures("programs")
def test_the_scripts_of_the_page_do_what_it_says(tmp_path: Path) -> None:
    slurm = cluster()
    scripts = {name: body for name, body in SCRIPTS.items() if name != "array.sbatch"}
    # This site starts a job again after 143: the script that does so itself has to show it with another code.
    scripts["requeue.sbatch"] = scripts["requeue.sbatch"].replace("143", "99")
    sent = [_send(slurm, tmp_path / name, name, body) for name, body in scripts.items()]
    array = _send(slurm, tmp_path / "array", "array.sbatch", SCRIPTS["array.sbatch"])
    tasks = ("-3", "-4")
    try:
        _wait(lambda: all(len(one.trace()) > 5 for one in sent), "no first steps", *sent)
        for one in sent:
            slurm.ask("scancel", "--signal=USR1", *one.warning, one.job)
        _wait(lambda: all(len(array.trace(task)) > 5 for task in tasks), "no first steps", array)
        # Task 4 is ended for good, and sent again when task 3, warned and requeued, is done.
        slurm.ask("scancel", "--signal=USR1", *array.warning, f"{array.job}_3")
        slurm.ask("scancel", f"{array.job}_4")
        _wait(lambda: all("the sums are right" in one.said for one in (*sent, array)), "not done", *sent, array)
        store, run = DirectoryStore(str(array.folder / "checkpoints")), RunPlace("train-digits", "run-1")
        assert not run_is_finished(store, run)
        again = _send(slurm, array.folder, "array.sbatch", SCRIPTS["array.sbatch"], "--array=4")
        _wait(lambda: again.said.count("the sums are right") == 2, "task 4 was not done", again)
        assert run_is_finished(store, run)
    finally:
        slurm.ask("scancel", "--quiet", array.job, *(one.job for one in sent), check=False)
    for one in sent:
        assert one.trace() == list(range(STEPS)), one.said
        assert one.said.count("notice: SIGUSR1") in (1, 2), one.said
    for task in tasks:
        assert array.trace(task) == list(range(STEPS)), array.said
    assert sorted(path.name for path in array.folder.glob("checkpoints/train-digits/run-*")) == ["run-1"]
