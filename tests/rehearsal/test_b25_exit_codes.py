"""B25: the exit code tells the truth: 0 finished, 143 work left, 75 again, 78 a human, else the user's own."""

import signal
from pathlib import Path

import pytest
from driving import Running, commits, run

START = """
import os, signal, sys, time
import outlast
state = {"n": 0}
"""
MAKE = "job = outlast.Job(state=state, every='0s')\n"
HIT = """
def hit():
    os.kill(os.getpid(), signal.SIGTERM)
    while not job.stopping:
        time.sleep(0.001)
"""
STEPS = "for step in job.steps(5):\n    state['n'] += 1\n"
INTERRUPTED = START + MAKE + HIT + STEPS + "    if step == 2: hit()\n"


def test_finished_is_0_and_interrupted_is_143_and_the_rerun_finishes(tmp_path: Path) -> None:
    program = INTERRUPTED.replace("step == 2", "step == 2 and job.attempt == 0") + "print('end', state)\n"
    assert run(program, tmp_path).code == 143
    ended = run(program, tmp_path)
    assert (ended.code, ended.out) == (0, "end {'n': 5}\n")


@pytest.mark.parametrize("code", ["0", "9"])
def test_the_interrupted_code_can_be_set(code: str, tmp_path: Path) -> None:
    assert run(INTERRUPTED, tmp_path, env={"OUTLAST_EXIT_CODE": code}).code == int(code)


def test_a_final_save_that_fails_asks_for_a_retry(tmp_path: Path) -> None:
    program = INTERRUPTED.replace("hit()\n", "break_disk(); hit()\n").replace(
        STEPS,
        "import resource\n"
        "def break_disk():\n"
        "    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))\n" + STEPS,
    )
    ended = run(program, tmp_path)
    assert ended.code == 75
    assert commits(tmp_path)[-1].startswith("s000000000002-")


def test_a_finish_that_cannot_be_made_durable_asks_for_a_retry(tmp_path: Path) -> None:
    program = (
        START
        + MAKE
        + (
            "import resource\nsignal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
            + STEPS
            + "    if step == 4: resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))\nprint('after')\n"
        )
    )
    ended = run(program, tmp_path)
    assert (ended.code, ended.out) == (75, "")


HUMAN = {
    "keep": ("outlast.Job(state={}, keep=0)", {}, "keep=0"),
    "every": ("outlast.Job(state={}, every='often')", {}, "every='often'"),
    "keep policy": ("outlast.Job(state={}, keep=outlast.Keep(last=0))", {}, "keep=0"),
    "steps": ("outlast.Job(state={}, every=outlast.Steps(0))", {}, "Steps(0)"),
    "resume": ("outlast.Job(state={}, resume='newest')", {}, "resume='newest'"),
    "rollback": ("outlast.Job(state={}, resume=77)", {}, "resume=77"),
    "store": ("outlast.Job('ftp://there', state={})", {}, "no store for ftp"),
    "url is a file": ("outlast.Job(__file__, state={})", {}, "cannot hold"),
    "name": ("outlast.Job(state={}, name='../up')", {}, "'../up'"),
    "state": ("outlast.Job(state=[1])", {}, "state=list"),
    "value": ("outlast.Job(state={'f': lambda: 0})", {}, "state['f']"),
    "platform": ("outlast.Job(state={})", {"OUTLAST_PLATFORM": "moon"}, "'moon'"),
    "grace": ("outlast.Job(state={})", {"OUTLAST_GRACE": "soon"}, "OUTLAST_GRACE='soon'"),
    "exit code": ("outlast.Job(state={})", {"OUTLAST_EXIT_CODE": "300"}, "OUTLAST_EXIT_CODE='300'"),
    "ranks": ("outlast.Job(state={})", {"WORLD_SIZE": "2"}, "WORLD_SIZE=2"),
    "task": ("outlast.Job(state={})", {"CLOUD_RUN_JOB": "j", "CLOUD_RUN_TASK_INDEX": "x"}, "CLOUD_RUN_TASK_INDEX='x'"),
}


@pytest.mark.parametrize("kind", HUMAN)
def test_what_needs_a_human_is_78_with_its_reason_before_anything_expensive(kind: str, tmp_path: Path) -> None:
    call, env, reason = HUMAN[kind]
    program = START + f"try:\n    {call}\nfinally:\n    print('numpy' in sys.modules)\n"
    ended = run(program, tmp_path, env=env)
    assert (ended.code, ended.out) == (78, "False\n")
    assert ended.err.count(reason) == 1
    assert "Traceback" not in ended.err


def test_a_users_exception_keeps_its_code_and_traceback(tmp_path: Path) -> None:
    ended = run(START + MAKE + STEPS + "    raise KeyError('mine')\n", tmp_path)
    assert ended.code == 1
    assert "KeyError: 'mine'" in ended.err


def test_a_users_exception_while_a_notice_is_pending_is_143_with_its_traceback(tmp_path: Path) -> None:
    ended = run(START + MAKE + HIT + STEPS + "    if step == 1: hit(); raise KeyError('mine')\n", tmp_path)
    assert ended.code == 143
    assert "KeyError: 'mine'" in ended.err
    assert commits(tmp_path)[-1].startswith("s000000000001-")


@pytest.mark.parametrize("code", [0, 5])
def test_code_after_the_loop_keeps_its_own_code_if_it_ends_in_time(code: int, tmp_path: Path) -> None:
    program = START + MAKE + HIT + STEPS + f"hit()\ntime.sleep(0.3)\nprint('exported')\nsys.exit({code})\n"
    ended = run(program, tmp_path)
    assert (ended.code, ended.out) == (code, "exported\n")


def test_code_after_the_loop_that_outlasts_the_grace_is_143_and_the_rerun_repeats_it(tmp_path: Path) -> None:
    program = (
        START + MAKE + STEPS + "print('mark', job.finished, flush=True)\nif job.attempt == 0:\n    time.sleep(30)\n"
    )
    ended = Running(program, tmp_path, env={"OUTLAST_GRACE": "1"}).wait_for("mark").signal().ended(5)
    assert (ended.code, ended.seconds < 1) == (143, True)
    before = commits(tmp_path)
    again = run(program, tmp_path)
    assert (again.code, again.out) == (0, "mark True\n")
    assert "already finished" in again.err
    assert commits(tmp_path) == before


def test_a_finished_run_yields_no_step_and_a_larger_total_goes_on(tmp_path: Path) -> None:
    program = (
        START + MAKE + "for step in job.steps(int(os.environ['TOTAL'])):\n    state['n'] += 1\nprint(state['n'])\n"
    )
    outs = [run(program, tmp_path, env={"TOTAL": total}).out for total in ("5", "5", "4", "8", "8")]
    assert outs == ["5\n", "5\n", "5\n", "8\n", "8\n"]


class CloudRun:
    """What the service does: a task of an execution is started again, up to the retries, until it leaves with 0."""

    def __init__(self, program: str, folder: Path, *, tasks: int = 1) -> None:
        self.program, self.folder, self.tasks = program, folder, tasks

    def start(self, execution: str, task: int, attempt: int, **env: str) -> tuple[int, str]:
        platform = {
            "CLOUD_RUN_JOB": "trainer",
            "CLOUD_RUN_EXECUTION": execution,
            "CLOUD_RUN_TASK_INDEX": str(task),
            "CLOUD_RUN_TASK_COUNT": str(self.tasks),
            "CLOUD_RUN_TASK_ATTEMPT": str(attempt),
        }
        ended = run(self.program, self.folder, env={**platform, **env})
        return ended.code, ended.out.strip()


TASK = (
    START
    + MAKE
    + HIT
    + "first = job.resumed_from\n"
    + STEPS
    + "    if step == int(os.environ.get('HIT', -1)): hit()\n"
    + "print(first, job._session.attempt.place.run, job.attempt)\n"
)


def test_a_retry_of_an_execution_resumes_and_a_new_one_after_the_end_starts_anew(tmp_path: Path) -> None:
    service = CloudRun(TASK, tmp_path)
    assert service.start("trainer-a", 0, 0, HIT="1") == (143, "")
    assert service.start("trainer-a", 0, 1) == (0, "2 run-1 1")
    assert service.start("trainer-a", 0, 2) == (0, "5 run-1 2")
    assert service.start("trainer-b", 0, 0) == (0, "None run-2 0")


def test_a_new_execution_after_an_unfinished_one_resumes_it(tmp_path: Path) -> None:
    service = CloudRun(TASK, tmp_path)
    assert service.start("trainer-a", 0, 0, HIT="2") == (143, "")
    assert service.start("trainer-b", 0, 0) == (0, "3 run-1 1")
    assert service.start("trainer-b", 0, 1) == (0, "5 run-1 2")
    assert service.start("trainer-c", 0, 0, OUTLAST_RUN="run-1") == (0, "5 run-1 3")


def test_tasks_follow_the_run_that_the_first_of_them_was_bound_to(tmp_path: Path) -> None:
    service = CloudRun(TASK, tmp_path, tasks=2)
    assert service.start("trainer-a", 0, 0) == (0, "None run-1 0")
    assert service.start("trainer-a", 1, 0, HIT="0") == (143, "")
    # Task 0 is finished and task 1 is not, so the run is not, and a new execution goes on with it.
    assert service.start("trainer-b", 0, 0) == (0, "5 run-1 1")
    assert service.start("trainer-b", 1, 0) == (0, "1 run-1 1")
    assert service.start("trainer-b", 0, 1) == (0, "5 run-1 2")
    assert service.start("trainer-c", 1, 0) == (0, "None run-2 0")
    assert service.start("trainer-c", 0, 0) == (0, "None run-2 0")


def test_lines_for_the_service_are_json(tmp_path: Path) -> None:
    import json

    running = Running(
        TASK.replace(STEPS, "print('mark', flush=True)\n" + STEPS + "    time.sleep(0.1)\n"),
        tmp_path,
        env={"CLOUD_RUN_JOB": "trainer"},
    )
    ended = running.wait_for("mark").signal(signal.SIGTERM).ended()
    lines = [json.loads(line) for line in ended.err.splitlines()]
    assert {line["severity"] for line in lines} == {"INFO", "NOTICE"}
