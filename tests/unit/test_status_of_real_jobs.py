"""`outlast status` after real processes that were interrupted, killed, crashed, or ended by themselves."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from rehearsal.driving import SOURCE, Running, run

JOB = """
import os, signal, sys, time
import outlast
state = {"n": 0}
job = outlast.Job(state=state, every=outlast.Steps(10), name="j")
how, at = os.environ.get("HOW"), int(os.environ.get("AT", "-1"))
for step in job.steps(60):
    state["n"] += 1
    if step == at:
        if how == "sleep":
            print("asleep", flush=True)
            time.sleep(60)
        if how == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        if how == "term":
            os.kill(os.getpid(), signal.SIGTERM)
        if how == "crash":
            raise ValueError("a bad batch")
        if how == "leave":
            sys.exit(3)
        if how == "swallow":
            os.kill(os.getpid(), signal.SIGTERM)
            time.sleep(0.2)
            sys.exit(0)
if how == "export":
    os.kill(os.getpid(), signal.SIGKILL)
"""


def status(folder: Path) -> dict[str, Any]:
    program = "from outlast.cli.main import main; main()"
    command = [sys.executable, "-c", program, "status", str(folder / "store"), "--json"]
    shown = subprocess.run(command, capture_output=True, check=True, env={**os.environ, "PYTHONPATH": SOURCE})
    found: dict[str, Any] = json.loads(shown.stdout)
    return found


def test_a_life_of_many_ends_is_told_as_it_was(tmp_path: Path) -> None:
    ends = [("kill", 14), ("term", 23), ("crash", 36), ("leave", 47), ("swallow", 45)]
    for how, at in ends:
        run(JOB, tmp_path, env={"HOW": how, "AT": str(at)})
    assert run(JOB, tmp_path).code == 0
    run(JOB, tmp_path)
    run(JOB, tmp_path, env={"HOW": "export"})
    shown = status(tmp_path)
    assert [(one["ended_by"], one["exit_code"], one["resumed_from"]) for one in shown["attempts"]] == [
        ("killed", None, None),
        ("interrupted", 143, 10),
        ("crashed", 1, 24),
        ("left", None, 30),
        ("interrupted", 143, 40),
        ("finished", 0, 40),
        ("finished", 0, 60),
        ("finished", None, 60),
    ]
    assert [one["steps"] for one in shown["attempts"]] == [10, 14, 12, 17, 5, 20, 0, 0]
    assert [one["lost_steps"] for one in shown["attempts"]] == [0, 0, 6, 7, 5, 0, 0, 0]
    assert (shown["state"], shown["steps_done"], shown["steps_total"]) == ("finished", 60, 60)
    assert (shown["preemptions"], shown["failures"]) == (3, 1)
    assert 0 < shown["goodput"] < 1
    assert sum(shown["buckets"].values()) == pytest.approx(shown["billed_seconds"], abs=0.01)


def test_a_process_of_this_machine_is_known_to_run_and_known_to_be_dead(tmp_path: Path) -> None:
    running = Running(JOB, tmp_path, env={"HOW": "sleep", "AT": "25"}).wait_for("asleep")
    try:
        assert (status(tmp_path)["state"], status(tmp_path)["attempts"][0]["ended_by"]) == ("running", "running")
    finally:
        running.signal(signal.SIGKILL).ended()
    shown = status(tmp_path)
    assert (shown["state"], shown["attempts"][0]["ended_by"], shown["steps_done"]) == ("unfinished", "killed", 20)


def test_signs_of_life_tell_how_far_a_job_was_that_saved_nothing_for_long(tmp_path: Path) -> None:
    program = JOB.replace('state["n"] += 1', 'state["n"] += 1; time.sleep(0.1); print(f"<{step}>", flush=True)')
    program = program.replace("Steps(10)", "Steps(1000)")
    Running(program, tmp_path).wait_for("<25>").signal(signal.SIGKILL).ended()
    [attempt] = status(tmp_path)["attempts"]
    assert 8 <= attempt["lost_steps"] <= 25
    assert attempt["lost_seconds"] == pytest.approx(0.1 * attempt["lost_steps"], rel=0.5)


def test_a_step_that_outlasts_the_grace_is_told_with_what_it_cost(tmp_path: Path) -> None:
    environment = {"HOW": "sleep", "AT": "25", "OUTLAST_GRACE": "1"}
    running = Running(JOB, tmp_path, env=environment).wait_for("asleep")
    assert running.signal(signal.SIGTERM).ended().code == 143
    [attempt] = status(tmp_path)["attempts"]
    assert (attempt["ended_by"], attempt["exit_code"], attempt["lost_steps"]) == ("interrupted", 143, 5)
    assert "the step under way did not end within the grace of 1.0 s" in attempt["why"]
    assert (attempt["notice"]["source"], attempt["final_save_fitted"]) == ("SIGTERM", False)
