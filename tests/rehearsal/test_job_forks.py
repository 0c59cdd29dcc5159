"""The job is the process that made it: forked children, pools, loader workers and commands are none of its business."""

import signal
from pathlib import Path

import pytest
from signalled import START, Program, commits, events, run

# `in_child(function)`: what becomes of a forked child that calls it: its exit code, or minus its signal.
FORKS = """
def in_child(function):
    pid = os.fork()
    if pid == 0:
        try:
            code = function() or 0
        except BaseException as error:
            say(type(error).__name__)
            code = 9
        os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])

def signalled():
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(10)
"""
FINISH = "\nfor step in job.steps(2):\n    pass\nsay('finished')\n"


@pytest.mark.parametrize("when", ["before the loop", "in a step", "after the loop"])
def test_a_forked_child_has_the_default_behaviour_and_its_signals_are_no_notice(when: str, tmp_path: Path) -> None:
    look = "say(in_child(signalled), in_child(lambda: signal.getsignal(signal.SIGTERM) == signal.SIG_DFL))\n"
    look += "say(in_child(lambda: signal.set_wakeup_fd(-1) == -1), signal.pthread_sigmask(signal.SIG_BLOCK, []))\n"
    look += "say(job.notice)\n"
    loop = "for step in job.steps(2):\n    time.sleep(0)\n"
    program = {
        "before the loop": look + loop,
        "in a step": loop + "    if step == 1:\n        " + look.replace("\n", "\n        ") + "\n",
        "after the loop": loop + look,
    }[when]
    left = run(START + FORKS + program, tmp_path)
    assert left.out == "-15 1\n1 set()\nNone\n"
    assert left.code == 0
    assert events(tmp_path, "NoticeHeard") == []


def test_a_forked_child_has_the_users_own_handler_again(tmp_path: Path) -> None:
    mine = "import signal\ndef mine(*_):\n    raise SystemExit(7)\nsignal.signal(signal.SIGTERM, mine)\n"
    exits = "def exits():\n    try:\n        signalled()\n    except SystemExit as left:\n        return left.code\n"
    left = run(mine + START + FORKS + exits + "say(in_child(exits), job.notice)\n" + FINISH, tmp_path)
    assert left.out == "7 None\nfinished\n"
    ignored = "import signal\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
    exits = "def exits():\n    os.kill(os.getpid(), 15)\n    return 8\n"
    left = run(ignored + START + FORKS + exits + "say(in_child(exits), job.notice)\n" + FINISH, tmp_path / "ignored")
    assert left.out == "8 None\nfinished\n"


HAMMER = """
noticed = []
def hammer(count):
    for _ in range(count):
        pid = os.fork()
        if pid == 0:
            time.sleep(10)
            os._exit(0)
        os.kill(pid, signal.SIGTERM)
        codes.add(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
    masks.append(signal.pthread_sigmask(signal.SIG_BLOCK, []))
codes, masks = set(), []
"""


@pytest.mark.parametrize(
    "start",
    ["hammer(200)", "thread = threading.Thread(target=hammer, args=(200,)); thread.start(); thread.join()"],
    ids=["main thread", "side thread"],
)
def test_children_signalled_right_after_the_fork_are_no_notice(start: str, tmp_path: Path) -> None:
    left = run(START + HAMMER + start + "\ntime.sleep(0.1)\nsay(codes, masks, job.notice)\n" + FINISH, tmp_path)
    assert left.out == "{-15} [set()] None\nfinished\n"
    assert left.code == 0


def test_a_mask_that_the_program_had_set_is_kept(tmp_path: Path) -> None:
    masked = "signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM, signal.SIGUSR1])\n"
    look = "now = lambda: int(signal.pthread_sigmask(signal.SIG_BLOCK, []) == {signal.SIGTERM, signal.SIGUSR1})\n"
    left = run(START + FORKS + masked + look + "say(in_child(now), now())\n" + FINISH, tmp_path)
    assert left.out == "1 1\nfinished\n"


def test_the_parent_hears_while_it_forks(tmp_path: Path) -> None:
    forks = "\nfor step in job.steps(None):\n    state['done'].append(step)\n    in_child(lambda: 0)\n"
    with Program(START + FORKS + forks + "    if step == 7:\n        say('begun')\n", tmp_path) as program:
        program.wait_for("begun").send()
        left = program.leave()
    assert left.code == 143
    assert events(tmp_path, "Stopped")[0]["step"] == commits(tmp_path)[-1]


# --- a child never saves ----------------------------------------------------------------------------

USES = {
    "goes on": "next(loop)",
    "saves": "job.save()",
    "checks": "job.check()",
    "logs": "job.log(loss=1.0)",
    "finishes": "job.finish()",
    "another loop": "next(job.steps(2))",
    "registers": "job.register('more', 1)",
}


@pytest.mark.parametrize("noticed", [False, True], ids=["", "noticed"])
def test_a_forked_child_that_uses_the_job_is_refused_and_saves_nothing(noticed: bool, tmp_path: Path) -> None:
    program = START + FORKS + "loop = job.steps(2)\nnext(loop)\n"
    if noticed:
        program += "os.kill(os.getpid(), signal.SIGTERM)\nuntil_it_is_heard()\n"
    program += "".join(f"in_child(lambda: {use})\n" for use in USES.values())
    left = run(program + "next(loop)\nnext(loop, None)\nsay(job.finished)\n", tmp_path)
    assert left.out.splitlines()[: len(USES)] == ["LoopMisused"] * len(USES)
    assert left.code == (143 if noticed else 0)
    assert commits(tmp_path) == ([1] if noticed else [2])
    assert len(events(tmp_path, "SaveCommitted")) == 1


def test_a_forked_child_that_ends_or_crashes_says_nothing_of_the_job(tmp_path: Path) -> None:
    program = START + (
        "for step in job.steps(4):\n"
        "    if os.fork() == 0:\n"
        "        if step == 1:\n            raise ValueError('in the child')\n"
        "        sys.exit(0 if step else 5)\n"
        "    say(os.waitstatus_to_exitcode(os.wait()[1]))\n"
        "    if step == 2:\n        os.kill(os.getpid(), signal.SIGTERM)\n        until_it_is_heard()\n"
        "        if os.fork() == 0:\n            sys.exit(6)\n"
        "        say(os.waitstatus_to_exitcode(os.wait()[1]))\n"
    )
    left = run(program, tmp_path)
    assert left.out.split() == ["5", "1", "0", "6"]
    assert left.code == 143
    assert events(tmp_path, "Crashed") == []
    assert commits(tmp_path) == [3]


def test_a_forked_child_may_have_a_job_of_its_own(tmp_path: Path) -> None:
    program = (
        START
        + """
if os.fork() == 0:
    job = outlast.Job(state={}, name="child")
    with contextlib.suppress(SystemExit):
        for step in job.steps(None):
            os.kill(os.getpid(), signal.SIGTERM)
            until_it_is_heard()
    sys.exit(0)
say(os.waitstatus_to_exitcode(os.wait()[1]), job.notice)
"""
        + FINISH
    )
    left = run(program, tmp_path)
    assert left.out == "143 None\nfinished\n"
    assert left.code == 0


# --- what libraries start ---------------------------------------------------------------------------

POOL = """
import multiprocessing
def child(_):
    return signal.getsignal(signal.SIGTERM) == signal.SIG_DFL and signal.pthread_sigmask(signal.SIG_BLOCK, []) == set()
if __name__ == "__main__":
    import outlast
    job = outlast.Job(state={}, every="1h")
    for step in job.steps(3):
        with multiprocessing.get_context("METHOD").Pool(2) as pool:  # which ends its workers by SIGTERM
            print(all(pool.map(child, range(4))), flush=True)
    print(job.notice, flush=True)
"""


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_the_workers_of_a_pool_are_ended_without_a_notice(method: str, tmp_path: Path) -> None:
    left = run("import signal\n" + POOL.replace("METHOD", method), tmp_path)
    assert left.out.split() == ["True", "True", "True", "None"]
    assert left.code == 0
    assert commits(tmp_path) == [3]


def test_a_killed_command_is_no_notice(tmp_path: Path) -> None:
    program = (
        START
        + """
import subprocess
for step in job.steps(20):
    options = {"preexec_fn": os.setsid} if step % 2 else {}
    command = subprocess.Popen(["sleep", "100"], **options)
    command.terminate()
    assert command.wait() == -signal.SIGTERM
say(job.notice)
"""
    )
    left = run(program, tmp_path)
    assert (left.code, left.out) == (0, "None\n"), left.err


LOADER = """
import os, signal, sys, time
import torch
import outlast

class Items(torch.utils.data.Dataset):
    def __len__(self):
        return 1000
    def __getitem__(self, index):
        time.sleep(0.005)
        return index, os.getpid(), signal.getsignal(signal.SIGTERM) == signal.SIG_DFL

if __name__ == "__main__":
    torch.set_num_threads(1)
    loader = torch.utils.data.DataLoader(Items(), batch_size=4, num_workers=2)
    job = outlast.Job(state={"n": 1}, every=outlast.Steps(5))
    for epoch in job.epochs(1):
        for index, pid, default in job.batches(loader):
            assert bool(default.all()) and os.getpid() not in pid.tolist()
            if job.resumed_from:
                print("resumed with", index[0].item(), flush=True)
                sys.exit(0)
            if index[0] == 40:
                print("begun", flush=True)
"""


def test_loader_workers_are_left_alone_and_go_with_the_job(tmp_path: Path) -> None:
    with Program(LOADER, tmp_path) as program:
        program.wait_for("begun").send(signal.SIGTERM)
        left = program.leave()  # which sees that no worker holds its streams any more
    assert left.code == 143, left.err
    assert "Traceback" not in left.err
    (stopped,) = events(tmp_path, "Stopped")
    assert commits(tmp_path)[-1] == stopped["step"]
    assert f"resumed with {4 * stopped['step']}" in run(LOADER, tmp_path).out


def test_a_forked_child_that_writes_to_a_restored_array_changes_its_own_only(tmp_path: Path) -> None:
    program = """
import os
import numpy as np
import outlast
job = outlast.Job(state={"a": None, "b": np.ones(2_000_000)}, random_state=False)
if job.resumed_from is None:
    job.state["a"] = np.ones(2_000_000)
    job.save()
else:
    child = os.fork()
    if not child:
        job.state["a"][:] = job.state["b"][:] = 99.0
        os._exit(0)
    os.waitpid(child, 0)
    print(job.state["a"].max(), job.state["b"].max())
"""
    assert run(program, tmp_path).code == 0
    assert run(program, tmp_path).out == "1.0 1.0\n"
