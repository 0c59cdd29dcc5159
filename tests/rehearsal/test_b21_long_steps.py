"""B21: a notice is heard within 0.1 s whatever the main thread does, and the process is gone before the kill."""

import time
from pathlib import Path

import pytest
from driving import Running, commits, events

from outlast.events import NoticeHeard, Stopped

HEARD_WITHIN_SECONDS = 0.1

# The iterations that take about a second here; the call releases the GIL, as a GPU step does.
START = """
import hashlib, time
import outlast
began = time.monotonic()
hashlib.pbkdf2_hmac("sha256", b"x", b"y", 200_000)
second = int(200_000 / (time.monotonic() - began))
def compute(seconds):
    hashlib.pbkdf2_hmac("sha256", b"x", b"y", int(seconds * second))
state = {"n": 0}
job = outlast.Job(state=state, every="0s")
"""


def heard_after(folder: Path, since: float) -> float:
    return float(events(folder, NoticeHeard)[0].monotonic_seconds) - since


def test_a_notice_in_a_long_c_call_is_heard_at_once_and_acted_on_at_the_border(tmp_path: Path) -> None:
    program = START + "for step in job.steps(9):\n    state['n'] += 1\n    print('mark', flush=True)\n    compute(2)\n"
    running = Running(program, tmp_path).wait_for("mark")
    time.sleep(0.2)
    since = running.signal().since
    ended = running.ended()
    assert heard_after(tmp_path, since) < HEARD_WITHIN_SECONDS
    assert ended.code == 143
    assert events(tmp_path, Stopped)[0].event.step == 1
    assert commits(tmp_path)[-1].startswith("s000000000001-")


def test_a_step_longer_than_the_grace_loses_itself_alone_and_says_so(tmp_path: Path) -> None:
    program = START.replace("'0s'", "outlast.Steps(3)").replace('"0s"', "outlast.Steps(3)") + (
        "for step in job.steps(9):\n    state['n'] += 1\n    if step == 5:\n        print('mark', flush=True)\n"
        "        compute(6)\n"
    )
    running = Running(program, tmp_path, env={"OUTLAST_GRACE": "2"}).wait_for("mark")
    since = running.signal().since
    ended = running.ended(6)
    assert heard_after(tmp_path, since) < HEARD_WITHIN_SECONDS
    assert (ended.code, ended.seconds < 2) == (143, True)
    assert "2 completed steps since the last checkpoint are lost" in ended.err
    assert "save more often" in ended.err
    assert commits(tmp_path)[-1].startswith("s000000000003-")
    assert events(tmp_path, Stopped)[0].event.lost_steps == 2


@pytest.mark.parametrize(("checks", "within"), [(True, 0.7), (False, 2.0)])
def test_an_evaluation_outside_the_loop_ends_in_time(checks: bool, within: float, tmp_path: Path) -> None:
    program = START + (
        "for step in job.steps(4):\n    state['n'] += 1\n    if step == 3:\n        job.save()\n"
        "    if step == 3:\n        break\n"
        "print('mark', flush=True)\n"
        "for _ in range(200):\n    compute(0.1)\n" + ("    job.check()\n" if checks else "")
    )
    ended = Running(program, tmp_path, env={"OUTLAST_GRACE": "2"}).wait_for("mark").signal().ended(6)
    assert (ended.code, ended.seconds < within) == (143, True)
    assert commits(tmp_path)[-1].startswith("s000000000003-")


def test_a_notice_below_the_batches_keeps_the_last_border_and_nothing_of_the_code_under_way(tmp_path: Path) -> None:
    program = START + (
        "for epoch in job.epochs(2):\n    for batch in job.batches([1, 2, 3]):\n        state['n'] += batch\n"
        "    state['evaluated'].append(epoch)\n    print('mark', state, job.resumed_from, flush=True)\n"
        "    for _ in range(20 if job.attempt == 0 else 0):\n        compute(0.1)\n        job.check()\n"
    )
    program = program.replace('state = {"n": 0}', "state = {'n': 0, 'evaluated': []}")
    ended = Running(program, tmp_path).wait_for("mark").signal().ended(6)
    assert (ended.code, ended.seconds < 1) == (143, True)
    again = Running(program, tmp_path).ended()
    assert again.out.splitlines() == [
        "mark {'n': 6, 'evaluated': [0]} 3",
        "mark {'n': 12, 'evaluated': [0, 1]} 3",
    ]


def test_a_step_that_holds_the_gil_is_acted_on_at_its_border(tmp_path: Path) -> None:
    program = START + (
        "for step in job.steps(9):\n    state['n'] += 1\n    print('mark', flush=True)\n    sum(range(30_000_000))\n"
    )
    ended = Running(program, tmp_path).wait_for("mark").signal().ended()
    assert ended.code == 143
    assert commits(tmp_path)[-1].startswith("s000000000001-")
