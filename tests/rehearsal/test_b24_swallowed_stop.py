"""B24: code that swallows the stop cannot keep the process alive past its grace, nor make it look like success."""

import signal
import time
from pathlib import Path

import pytest
from driving import Running, commits, events

from outlast.events import Stopped

START = """
import contextlib, os, signal, sys, threading, time, atexit
import outlast
state = {"n": 0}
job = outlast.Job(state=state, every="0s")
def work(seconds=0.2):
    time.sleep(seconds)
"""
LOOP = """
for step in job.steps(1000):
    state["n"] += 1
    if step == 3:
        print("mark", flush=True)
"""
NEVER_ENDING_STEPS = {
    "bare except": """
        while True:
            try:
                work(); raise ValueError
            except:
                continue
""",
    "except BaseException": """
        while True:
            try:
                work(); raise OSError
            except BaseException:
                continue
""",
    "suppress": """
        while True:
            with contextlib.suppress(BaseException):
                work()
""",
    "long sleep": """
        time.sleep(60)
""",
    "standard error that nobody reads": """
        reading, writing = os.pipe()
        os.dup2(writing, 2)
        while True:
            sys.stderr.write("x" * 100_000)
""",
}
AFTER_THE_STOP = {
    "atexit": "atexit.register(time.sleep, 60)" + LOOP + "    work()\n",
    "finally": "try:" + LOOP.replace("\n", "\n    ") + "    work()\nfinally:\n    time.sleep(60)\n",
    "thread": "threading.Thread(target=time.sleep, args=(60,)).start()" + LOOP + "    work()\n",
    "swallowed, then endless": "try:"
    + LOOP.replace("\n", "\n    ")
    + "    work()\nexcept BaseException:\n    pass\nwhile True:\n    time.sleep(1)\n",
}


@pytest.mark.parametrize("kind", NEVER_ENDING_STEPS)
def test_a_step_that_never_ends_is_left_before_the_kill_with_the_last_save_kept(kind: str, tmp_path: Path) -> None:
    running = Running(START + LOOP + NEVER_ENDING_STEPS[kind], tmp_path, env=GRACE)
    ended = running.wait_for("mark").signal().ended(5)
    assert ended.code == 143
    assert ended.seconds < 2
    assert commits(tmp_path)[-1].startswith("s000000000003-")
    assert events(tmp_path, Stopped)[-1].event.step == 3


GRACE = {"OUTLAST_GRACE": "2"}


@pytest.mark.parametrize("kind", AFTER_THE_STOP)
def test_code_after_the_stop_that_never_ends_is_left_before_the_kill(kind: str, tmp_path: Path) -> None:
    ended = Running(START + AFTER_THE_STOP[kind], tmp_path, env=GRACE).wait_for("mark").signal().ended(5)
    assert ended.code == 143
    assert ended.seconds < 2
    assert "stopped after step" in ended.err


def test_a_retry_helper_can_see_that_the_job_is_stopping(tmp_path: Path) -> None:
    program = START + LOOP + "        while not job.stopping:\n            time.sleep(0.01)\n"
    ended = Running(program, tmp_path, env={"OUTLAST_GRACE": "60"}).wait_for("mark").signal().ended()
    assert (ended.code, ended.seconds < 2) == (143, True)
    assert commits(tmp_path)[-1].startswith("s000000000004-")


def test_the_stop_is_raised_again_at_each_further_call_and_the_code_is_kept(tmp_path: Path) -> None:
    program = (
        START
        + """
loop = job.steps(1000)
raised = 0
def expect(call):
    global raised
    try:
        call()
    except outlast.Interrupted as stop:
        raised += stop.code == 143
for step in loop:
    if step == 3:
        os.kill(os.getpid(), signal.SIGTERM)
        while not job.stopping:
            time.sleep(0.001)
        break
for call in (lambda: next(loop), lambda: next(loop), job.check, lambda: job.steps(10), job.finish):
    expect(call)
print("raised", raised, flush=True)
sys.exit(0)
"""
    )
    ended = Running(program, tmp_path).ended()
    assert "raised 5" in ended.out
    assert ended.code == 143


@pytest.mark.parametrize("last", ["sys.exit(0)", "pass", "sys.exit()", "sys.exit(5)", "raise ValueError('mine')"])
def test_a_swallowed_stop_never_leaves_with_success(last: str, tmp_path: Path) -> None:
    program = (
        START + "try:" + LOOP.replace("\n", "\n    ") + f"    work(0.01)\nexcept BaseException:\n    pass\n{last}\n"
    )
    ended = Running(program, tmp_path).wait_for("mark").signal().ended()
    assert ended.code == 143
    assert ("mine" in ended.err) == ("mine" in last)


def test_the_stop_ends_a_process_pool(tmp_path: Path) -> None:
    program = (
        START
        + """
import multiprocessing
if __name__ == "__main__":
    with multiprocessing.get_context("fork").Pool(2) as pool:
        for step in job.steps(1000):
            pool.map(work, [0.01] * 4)
            if step == 3:
                print("mark", flush=True)
"""
    )
    ended = Running(program, tmp_path, env={"OUTLAST_GRACE": "20"}).wait_for("mark").signal().ended(15)
    assert (ended.code, ended.seconds < 3) == (143, True)


def test_a_second_signal_does_not_extend_the_grace(tmp_path: Path) -> None:
    running = Running(START + LOOP + "        time.sleep(60)\n", tmp_path, env=GRACE).wait_for("mark").signal()
    first = time.monotonic()
    for _ in range(10):
        time.sleep(0.1)
        running.signal(signal.SIGTERM)
    assert running.ended(5).code == 143
    assert time.monotonic() - first < 2
