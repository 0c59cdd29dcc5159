"""B22: a notice is answered from the moment the Job is made, in whatever thread, and is nobody else's business."""

import signal
import time
from pathlib import Path

import pytest
from driving import Running, commits, events, run

from outlast.events import NoticeHeard

PID_1 = ("unshare", "--pid", "--fork", "--mount-proc", "--kill-child")
START = """
import os, signal, subprocess, sys, threading, time
import outlast
def mark(text="mark"):
    print(text, flush=True)
def wait_until_heard():
    while not job.stopping:
        time.sleep(0.001)
"""
MAKE = "state = {'n': 0}\njob = outlast.Job(state=state, every='0s')\n"
LOOP = "for step in job.steps(1000):\n    state['n'] += 1\n    time.sleep(0.02)\n"


def in_namespace(program: str, folder: Path) -> tuple[Running, int]:
    """A program that is PID 1, and its PID outside; skipped where namespaces are not allowed."""
    running = Running(program, folder, prefix=PID_1)
    try:
        running.wait_for("mark")
    except AssertionError as error:
        if "unshare" in str(error):
            pytest.skip("no PID namespaces here")
        raise
    children = Path(f"/proc/{running.process.pid}/task/{running.process.pid}/children").read_text().split()
    return running, int(children[0])


def test_before_the_job_a_signal_ends_the_process_as_ever(tmp_path: Path) -> None:
    ended = Running(START + "mark()\ntime.sleep(30)\n" + MAKE, tmp_path).wait_for("mark").signal().ended(5)
    assert (ended.code, ended.seconds < 1) == (-signal.SIGTERM, True)
    assert not (tmp_path / "store").exists()


BETWEEN = {
    "in start-up code": MAKE + "mark()\ntime.sleep(0.5)\n" + LOOP,
    "in start-up code that checks": MAKE + "mark()\nfor _ in range(500):\n    time.sleep(0.01); job.check()\n" + LOOP,
    "just before the loop": MAKE + "loop = job.steps(9)\nmark()\nwait_until_heard()\nnext(loop)\n",
    "while parts are registered": MAKE + "mark()\ntime.sleep(0.5)\njob.register('late', [])\n" + LOOP,
}


@pytest.mark.parametrize("pid_1", [False, True])
@pytest.mark.parametrize("moment", BETWEEN)
def test_a_stop_before_the_first_step_is_prompt_and_writes_nothing(moment: str, pid_1: bool, tmp_path: Path) -> None:
    if pid_1:
        running, target = in_namespace(START + BETWEEN[moment], tmp_path)
        import os

        os.kill(target, signal.SIGTERM)
        running.since = time.monotonic()
    else:
        running = Running(START + BETWEEN[moment], tmp_path).wait_for("mark").signal()
    ended = running.ended(5)
    assert (ended.code, ended.seconds < 2) == (143, True)
    assert commits(tmp_path) == []
    assert len(events(tmp_path, NoticeHeard)) == 1


def test_a_stop_while_a_large_state_is_restored_is_prompt_and_leaves_the_store_alone(tmp_path: Path) -> None:
    big = "state = {'n': 0, 'blob': bytearray(300_000_000)}\nmark()\n"
    first = (
        START + big + "job = outlast.Job(state=state)\nnext(job.steps(5))\njob._session.in_step = False\njob.save()\n"
    )
    assert run(first, tmp_path).code == 0
    before = commits(tmp_path)
    for delay in (0.0, 0.05, 0.1, 0.2):
        program = START + big + "job = outlast.Job(state=state)\n" + LOOP.replace("0.02", "5")
        running = Running(program, tmp_path).wait_for("mark")
        time.sleep(delay)
        ended = running.signal().ended(4)
        assert ended.code in (143, -signal.SIGTERM)
        assert "completed" not in ended.out
        assert commits(tmp_path) == before


def test_a_job_in_a_side_thread_works_and_says_once_that_it_hears_no_signals(tmp_path: Path) -> None:
    program = (
        START
        + """
def train():
    state = {"n": 0}
    job = outlast.Job(state=state, every="0s")
    for step in job.steps(5):
        state["n"] += 1
    mark(f"n {state['n']}")
thread = threading.Thread(target=train)
thread.start()
thread.join()
def again():
    outlast.Job(state={"n": 0}, name="second")
thread = threading.Thread(target=again)
thread.start()
thread.join()
"""
    )
    ended = run(program, tmp_path)
    assert (ended.code, "n 5" in ended.out) == (0, True)
    assert ended.err.count("warning") == 1


def test_a_job_in_the_main_thread_hears_even_if_the_first_one_was_in_a_side_thread(tmp_path: Path) -> None:
    program = START + "t = threading.Thread(target=lambda: outlast.Job(state={}, name='first'))\nt.start()\nt.join()\n"
    ended = Running(program + MAKE + "mark()\n" + LOOP, tmp_path).wait_for("mark").signal().ended(5)
    assert (ended.code, ended.seconds < 1) == (143, True)


def test_the_users_handler_is_called_too_and_is_back_after_the_loop(tmp_path: Path) -> None:
    program = (
        START
        + """
def mine(number, frame):
    mark(f"mine {number}")
signal.signal(signal.SIGTERM, mine)
"""
        + MAKE
        + """
for step in job.steps(3):
    if step == 2:
        os.kill(os.getpid(), signal.SIGTERM); wait_until_heard()
mark(f"back {signal.getsignal(signal.SIGTERM) is mine}")
"""
    )
    ended = run(program, tmp_path)
    assert ended.out.splitlines() == ["mine 15", "back True"]
    assert ended.code == 0


@pytest.mark.parametrize("taker", ["signal.set_wakeup_fd(-1)", "take()"])
def test_a_notice_is_heard_when_other_code_has_taken_the_wakeup_descriptor(taker: str, tmp_path: Path) -> None:
    program = (
        START
        + MAKE
        + f"""
import asyncio
def take():
    async def main():
        asyncio.get_running_loop().add_signal_handler(signal.SIGUSR1, print)
    asyncio.run(main())
{taker}
mark()
"""
        + LOOP
    )
    ended = Running(program, tmp_path, env={"OUTLAST_GRACE": "5"}).wait_for("mark").signal().ended(10)
    assert (ended.code, ended.seconds < 1) == (143, True)


CHILDREN = {
    "fork": """
def start():
    child = os.fork()
    if not child:
        time.sleep(30)
        os._exit(3)
    return child
def end(child):
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
""",
    "multiprocessing fork": """
import multiprocessing
processes = {}
def start():
    child = multiprocessing.get_context("fork").Process(target=time.sleep, args=(30,))
    child.start()
    processes[child.pid] = child
    return child.pid
def end(child):
    processes[child].join()
    return processes[child].exitcode
""",
    "subprocess": """
processes = {}
def start():
    child = subprocess.Popen(["sleep", "30"])
    processes[child.pid] = child
    return child.pid
def end(child):
    return processes[child].wait()
""",
}


@pytest.mark.parametrize("kind", CHILDREN)
def test_a_signal_to_a_child_ends_the_child_and_is_no_notice(kind: str, tmp_path: Path) -> None:
    program = (
        START
        + MAKE
        + CHILDREN[kind]
        + """
codes = []
for step in job.steps(200):
    child = start()
    os.kill(child, signal.SIGTERM)  # right after the fork
    codes.append(end(child))
    state["n"] += 1
mark(f"{sorted(set(codes))} {job.notice}")
"""
    )
    ended = run(program.replace("every='0s'", "every=outlast.Steps(50)"), tmp_path)
    assert ended.out.splitlines() == ["[-15] None"]
    assert ended.code == 0


def test_a_spawned_child_is_as_ever(tmp_path: Path) -> None:
    program = (
        START
        + """
import multiprocessing
if __name__ == "__main__":
    job = outlast.Job(state={})
    for step in job.steps(1):
        child = multiprocessing.get_context("spawn").Process(target=time.sleep, args=(30,))
        child.start()
        child.terminate()
        child.join()
        mark(f"{child.exitcode} {job.notice}")
"""
    )
    assert run(program, tmp_path).out.splitlines() == ["-15 None"]


def test_a_forked_child_that_goes_on_with_the_loop_never_saves(tmp_path: Path) -> None:
    program = (
        START
        + MAKE
        + """
for step in job.steps(5):
    if step == 2:
        child = os.fork()
        if child:
            code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
            mark(f"child {code}")
    state["n"] += 1
mark(f"n {state['n']}")
"""
    )
    ended = run(program, tmp_path)
    assert ended.out.splitlines() == ["child 1", "n 5"]
    assert "belongs to process" in ended.err
    assert ended.code == 0


@pytest.mark.parametrize("call", ["job.save()", "job.finish()", "job.check()", "job.register('x', 1)"])
def test_a_forked_child_may_not_use_the_job(call: str, tmp_path: Path) -> None:
    program = (
        START
        + MAKE
        + f"""
if not os.fork():
    try:
        {call}
    except outlast.LoopMisused:
        mark("refused")
    os._exit(0)
os.wait()
"""
    )
    ended = run(program, tmp_path)
    assert ended.out.splitlines() == ["refused"]
    assert commits(tmp_path) == []
