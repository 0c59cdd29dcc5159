"""B25: work that is done stays done, over reruns, and under a controller like that of Cloud Run jobs."""

from pathlib import Path

import pytest
from signalled import START, Left, Program, commits, events, run

from outlast.checkpoint.sealed import load_sealed
from outlast.stores.directory import DirectoryStore

STEP_LOOP = "for step in job.steps(8):\n    state['done'].append(step)\n"
EPOCH_LOOP = (
    "for epoch in job.epochs(2):\n    for batch in job.batches(range(4)):\n        state['done'].append(batch)\n"
)
AFTER = "say('after the loop', len(state['done']))\n"
STOP = "os.kill(os.getpid(), signal.SIGTERM)\nuntil_it_is_heard()\n"


# --- the code after the loop ------------------------------------------------------------------------


@pytest.mark.parametrize("code", [0, 3])
def test_code_after_the_loop_that_ends_in_time_keeps_its_own_code(code: int, tmp_path: Path) -> None:
    left = run(START + STEP_LOOP + STOP + AFTER + f"sys.exit({code})\n", tmp_path)
    assert (left.code, left.out) == (code, "after the loop 8\n")
    assert "the code after the loop may go on until then" in left.err
    assert events(tmp_path, "Stopped") == []


def test_code_after_the_loop_that_takes_too_long_is_left_so_that_a_rerun_repeats_it(tmp_path: Path) -> None:
    with Program(
        START + STEP_LOOP + "say('exporting')\ntime.sleep(60)\n", tmp_path, env={"OUTLAST_GRACE": "2"}
    ) as program:
        program.wait_for("exporting").send()
        assert program.leave().code == 143
    again = run(START + STEP_LOOP + AFTER, tmp_path)
    assert (again.code, again.out) == (0, "after the loop 8\n")


def test_an_exception_after_the_loop_keeps_its_code_also_while_a_notice_is_pending(tmp_path: Path) -> None:
    left = run(START + STEP_LOOP + STOP + "raise ValueError('in the export')\n", tmp_path)
    assert left.code == 1
    assert "ValueError: in the export" in left.err
    assert events(tmp_path, "Crashed") == []


# --- reruns -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("loop", [STEP_LOOP, EPOCH_LOOP], ids=["steps", "epochs"])
def test_a_rerun_of_a_finished_run_does_nothing_but_the_code_after_the_loop(loop: str, tmp_path: Path) -> None:
    program = START + "job.log(tries=1)\n" + loop + AFTER + "say(job.finished, job.attempt)\n"
    assert run(program, tmp_path).out == "after the loop 8\nTrue 0\n"
    before = commits(tmp_path)
    data = sorted(tmp_path.glob("store/*/*/*/data/*"))
    for attempt in (1, 2):
        again = run(program.replace(loop, f"job.save()\n{loop}") + "job.save()\njob.finish()\n", tmp_path)
        assert (again.code, again.out) == (0, f"after the loop 8\nTrue {attempt}\n")
        assert sum("already finished" in line for line in again.told()) == 1
    assert commits(tmp_path) == before
    assert sorted(tmp_path.glob("store/*/*/*/data/*")) == data
    larger = run(program.replace("(8)", "(10)").replace("epochs(2)", "epochs(3)"), tmp_path)
    assert larger.code == 0
    assert larger.out.startswith("after the loop 10\n" if loop is STEP_LOOP else "after the loop 12\n")


def test_a_run_that_was_finished_early_stays_finished(tmp_path: Path) -> None:
    early = START + STEP_LOOP + "    if step == 3:\n        job.finish()\n        break\n" + AFTER
    assert run(early, tmp_path).out == "after the loop 4\n"
    for program in (early, START + STEP_LOOP + AFTER, START + f"job.save()\n{STEP_LOOP}{AFTER}"):
        again = run(program, tmp_path)
        assert (again.code, again.out) == (0, "after the loop 4\n")
        assert "already finished" in again.err
    assert commits(tmp_path) == [4]


def test_a_loop_that_was_finished_early_yields_no_further_step(tmp_path: Path) -> None:
    program = START + STEP_LOOP + "    if step == 3:\n        job.finish()\n" + AFTER
    assert run(program, tmp_path).out == "after the loop 4\n"


# --- a controller like that of Cloud Run jobs -------------------------------------------------------

COUNTS = (
    START.replace("every=", "EXTRA every=")
    + STEP_LOOP.replace("(8)", "(TOTAL)")
    + "    if step == int(os.environ.get('STOP_AT', -1)):\n        os.kill(os.getpid(), signal.SIGTERM)\n"
    + "        until_it_is_heard()\n"
    + "say(job.attempt, job.resumed_from, len(state['done']))\n"
)


class Controller:
    """Starts the tasks of executions, each again while it fails, and counts how often."""

    def __init__(self, folder: Path, *, tasks: int = 1, extra: str = "", total: int = 8) -> None:
        self._folder, self._tasks = folder, tasks
        self._program = COUNTS.replace("EXTRA", extra).replace("TOTAL", str(total))
        self._executions = 0

    def attempt(self, execution: str, *, task: int = 0, number: int = 0, stop_at: int | None = None) -> Left:
        env = {
            "CLOUD_RUN_JOB": "counts",
            "CLOUD_RUN_EXECUTION": execution,
            "CLOUD_RUN_TASK_INDEX": str(task),
            "CLOUD_RUN_TASK_COUNT": str(self._tasks),
            "CLOUD_RUN_TASK_ATTEMPT": str(number),
            **({} if stop_at is None else {"STOP_AT": str(stop_at)}),
        }
        return run(self._program, self._folder, env=env)

    def task_of(self, execution: str, *, task: int = 0, stops: tuple[int, ...] = ()) -> str:
        """What the last attempt of a task says, after it was stopped at those steps and tried again."""
        for number, stop_at in enumerate(stops):
            assert self.attempt(execution, task=task, number=number, stop_at=stop_at).code == 143
        last = self.attempt(execution, task=task, number=len(stops))
        assert last.code == 0, last.err
        return last.out.strip()

    def runs(self) -> list[str]:
        return sorted(path.parent.name for path in self._folder.glob("store/counts/*/run.json"))

    def bound(self) -> dict[str, str]:
        names = [path.stem for path in self._folder.glob("store/counts/executions/*.json")]
        store = DirectoryStore(str(self._folder / "store"))
        return {name: load_sealed(store, f"counts/executions/{name}.json")["run"] for name in names}


def test_the_retries_of_an_execution_resume_and_the_next_execution_is_a_new_run(tmp_path: Path) -> None:
    controller = Controller(tmp_path)
    assert controller.task_of("first", stops=(2, 6)) == "2 7 8"
    assert controller.task_of("second", stops=(4,)) == "1 5 8"
    assert controller.task_of("second") == "2 8 8"  # a retry although it had finished
    assert controller.bound() == {"first": "run-1", "second": "run-2"}
    assert controller.runs() == ["run-1", "run-2"]


def test_an_execution_after_an_unfinished_one_resumes_it(tmp_path: Path) -> None:
    controller = Controller(tmp_path)
    assert controller.attempt("first", stop_at=3).code == 143
    assert controller.task_of("second") == "1 4 8"
    assert controller.task_of("third") == "0 None 8"
    assert controller.bound() == {"first": "run-1", "second": "run-1", "third": "run-2"}


def test_a_run_is_finished_when_all_its_tasks_are(tmp_path: Path) -> None:
    controller = Controller(tmp_path, tasks=2)
    assert controller.task_of("first", task=1) == "0 None 8"
    assert controller.attempt("first", task=0, stop_at=3).code == 143
    # The second execution resumes: the finished task does nothing, the other one goes on.
    assert controller.task_of("second", task=1) == "1 8 8"
    assert controller.task_of("second", task=0) == "1 4 8"
    assert controller.task_of("third", task=0) == "0 None 8"
    assert controller.task_of("third", task=1) == "0 None 8"
    assert controller.runs() == ["run-1", "run-2"]
    assert controller.bound() == {"first": "run-1", "second": "run-1", "third": "run-2"}


def test_an_execution_that_asks_for_a_new_run_keeps_it_over_its_retries(tmp_path: Path) -> None:
    assert Controller(tmp_path).attempt("first", stop_at=3).code == 143
    controller = Controller(tmp_path, extra='resume="none",')
    assert controller.task_of("second", stops=(2, 5)) == "2 6 8"
    assert controller.bound() == {"first": "run-1", "second": "run-2"}


def test_an_execution_goes_back_once_and_its_retries_go_on_from_there(tmp_path: Path) -> None:
    assert Controller(tmp_path).attempt("first", stop_at=6).code == 143
    assert commits(tmp_path) == [5, 7]
    controller = Controller(tmp_path, extra="resume=5,", total=9)
    assert controller.attempt("second", stop_at=5).code == 143
    assert controller.attempt("second", number=1, stop_at=7).code == 143
    assert [event["step"] for event in events(tmp_path, "Restored")] == [5, 6]
    assert controller.task_of("second") == "3 8 9"


def test_the_first_task_to_start_binds_the_execution_and_no_run_is_left_empty(tmp_path: Path) -> None:
    """Two tasks ask for a new run at the same moment, the second after the first has made its run."""
    race = (
        "import outlast.checkpoint.runs as runs\nslow = runs._bound_run\n"
        "def late(*args):\n    found = slow(*args)\n    if found is None:\n        print('looked', flush=True)\n"
        "        while not os.path.exists('go'):\n            time.sleep(0.01)\n    return found\n"
        "import os, time\nruns._bound_run = late\n"
    )
    program = race + COUNTS.replace("EXTRA", 'resume="none",').replace("TOTAL", "8")
    env = {"CLOUD_RUN_JOB": "counts", "CLOUD_RUN_EXECUTION": "one", "CLOUD_RUN_TASK_COUNT": "2"}
    with Program(program, tmp_path, env=env | {"CLOUD_RUN_TASK_INDEX": "1"}) as second:
        second.wait_for("looked")
        first = Controller(tmp_path, tasks=2, extra='resume="none",')
        assert first.task_of("one", task=0) == "0 None 8"
        (tmp_path / "go").touch()
        assert second.leave().code == 0
    assert first.runs() == ["run-1"]
    assert first.bound() == {"one": "run-1"}
