"""B17: every checkpoint is of one border, and the last save asked for is durable at each orderly end."""

import json
from pathlib import Path

import pytest
from driving import commits, run

PROGRAM = """
import json, os, signal, sys, threading, time
import numpy as np
import outlast
first, second = np.zeros(50_000), np.zeros(50_000)
n = [0]
job = outlast.Job(state={"first": first, "second": second, "n": n}, every=EVERY, keep=1000)
print(json.dumps([job.resumed_from, n[0], bool((first == second).all() and (first == n[0]).all())]), flush=True)
for step in job.steps(30):
    first += 1
    if step == 7:
        job.save()  # in mid-step, so it is of the coming border
    second += 1
    n[0] += 1
    if step == 8:
        END
"""
ENDS = {
    "loop ends": ("pass", 0, 30),
    "break": ("break", 0, 8),
    "raise": ("raise ValueError", 1, 8),
    "sys.exit": ("sys.exit(4)", 4, 8),
    "SIGTERM": ("os.kill(os.getpid(), signal.SIGTERM); time.sleep(0.1)", 143, 9),
    "SIGKILL": ("os.kill(os.getpid(), signal.SIGKILL)", -9, 8),
    "finish": ("job.finish()", 0, 9),
}


def program(every: str, end: str) -> str:
    return PROGRAM.replace("EVERY", every).replace("END", end)


@pytest.mark.parametrize("end", ENDS)
def test_the_save_asked_for_is_durable_at_each_end(end: str, tmp_path: Path) -> None:
    source, code, step = ENDS[end]
    assert run(program("'1h'", source), tmp_path).code == code
    again = run(program("'1h'", "pass"), tmp_path)
    assert json.loads(again.out) == [step, step, True]


def test_in_every_checkpoint_the_arrays_belong_to_its_step(tmp_path: Path) -> None:
    assert run(program("'0s'", "pass"), tmp_path).code == 0
    steps = [int(name[1:13]) for name in commits(tmp_path)]
    assert steps == list(range(1, 31))
    for step in (30, 29, 9, 8, 7, 1):  # each sets the later ones aside
        rolled = run(program("'1h'", "os._exit(0)").replace("keep=1000", f"keep=1000, resume={step}"), tmp_path)
        assert json.loads(rolled.out) == [step, step, True]
