"""The board arms first and tells in order, whoever is slow; and what a signal says on which platform."""

import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest

import outlast
from outlast.disruptions import Disruption
from outlast.events import Advised, Event
from outlast.limits import known_limits
from outlast.notices import Notice, NoticeBoard
from outlast.notices.signals import disruption_of
from outlast.registry import platform_named
from outlast.settings import Surroundings, look_around
from outlast.testing import FakeClock


class Job:
    """Who is told. `held` keeps it from hearing the next word."""

    def __init__(self) -> None:
        self.told: list[Notice | Event] = []
        self.held = threading.Event()
        self.held.set()

    def on_notice(self, notice: Notice) -> None:
        assert self.held.wait(10)
        self.told.append(notice)

    def on_word(self, event: Event) -> None:
        assert self.held.wait(10)
        self.told.append(event)

    def at_deadline(self, notice: Notice) -> None:
        raise AssertionError("no test waits for the deadline")

    def leave_code(self) -> int:
        return 143

    def serve(self, board: NoticeBoard) -> None:
        board.serve(self.on_notice, self.at_deadline, self.leave_code, self.on_word)


@pytest.fixture
def around() -> Surroundings:
    return replace(look_around({}), clock=FakeClock(), grace_seconds=600.0)


@pytest.fixture
def board(around: Surroundings) -> NoticeBoard:
    return NoticeBoard(around, around.clock)


FINAL = Disruption("SIGTERM", "asked", "final")
ADVICE = Disruption("a", "move away", "advisory")


def test_a_notice_is_there_at_once_though_nobody_takes_the_words(board: NoticeBoard) -> None:
    job = Job()
    job.serve(board)
    job.held.clear()
    slow = threading.Thread(target=board.report, args=("metadata", [ADVICE]))
    slow.start()
    hearing = threading.Thread(target=board.post, args=("SIGTERM", FINAL))
    hearing.start()
    until = time.monotonic() + 5
    while board.notice is None and time.monotonic() < until:
        time.sleep(0.001)
    assert board.notice is not None
    assert job.told == []
    job.held.set()
    slow.join()
    hearing.join()
    board.settle()
    assert [type(one) for one in job.told] == [Advised, Notice]


def test_what_came_before_the_job_is_told_when_it_comes(board: NoticeBoard) -> None:
    board.report("metadata", [ADVICE])
    board.post("SIGTERM", FINAL)
    job, later = Job(), Job()
    job.serve(board)
    assert [type(one) for one in job.told] == [Advised, Notice]
    later.serve(board)
    assert later.told == [board.notice]


def test_the_board_keeps_no_job_alive(board: NoticeBoard) -> None:
    job = Job()
    job.serve(board)
    told = job.told
    del job
    board.post("SIGTERM", FINAL)
    assert board.notice is not None
    assert told == []


def test_settling_waits_for_the_telling_and_not_for_ever(board: NoticeBoard) -> None:
    job = Job()
    job.serve(board)
    job.held.clear()
    threading.Thread(target=board.post, args=("SIGTERM", FINAL), daemon=True).start()
    while board.notice is None:
        time.sleep(0.001)
    began = time.monotonic()
    board.settle()
    assert 0.4 < time.monotonic() - began < 5
    job.held.set()


POD = {"KUBERNETES_SERVICE_HOST": "10.0.0.1"}


@pytest.mark.parametrize(
    ("env", "told", "grace"),
    [
        ({}, {}, 30),
        ({}, {"OUTLAST_NODE_CLASS": "gke-spot"}, 15),
        ({}, {"OUTLAST_POD_GRACE": "600"}, 30),
        ({}, {"OUTLAST_POD_GRACE": "10"}, 10),
        ({}, {"OUTLAST_POD_GRACE": "600", "OUTLAST_NODE_CLASS": ""}, 600),
        ({"OUTLAST_NODE_CLASS": "gke-gpu"}, {"OUTLAST_POD_GRACE": "600"}, 600),
        ({"OUTLAST_GRACE": "20"}, {"OUTLAST_NODE_CLASS": "gke-spot"}, 20),
        ({"OUTLAST_GRACE": "300"}, {"OUTLAST_NODE_CLASS": "gke-spot"}, 105),
        ({"OUTLAST_POD_GRACE": "10"}, {"OUTLAST_POD_GRACE": "600"}, 10),
    ],
)
def test_b26_what_a_source_finds_out_of_the_grace_counts_as_if_the_manifest_had_told_it(
    env: dict[str, str], told: dict[str, str], grace: float
) -> None:
    board = NoticeBoard(replace(look_around({**POD, **env}), clock=FakeClock()), FakeClock())
    board.learn(told)
    board.learn(told)
    board.post("SIGTERM", FINAL)
    assert board.notice is not None
    assert board.notice.grace_seconds == grace


@pytest.mark.parametrize("spot", [True, False])
@pytest.mark.parametrize("pod_first", [True, False])
def test_b26_a_grace_grows_only_once_the_kind_of_the_node_is_known(spot: bool, pod_first: bool) -> None:
    board = NoticeBoard(replace(look_around(POD), clock=FakeClock()), FakeClock())
    told = [{"OUTLAST_POD_GRACE": "600"}, {"OUTLAST_NODE_CLASS": "gke-spot" if spot else ""}]
    first, second = told if pod_first else told[::-1]
    early, late = board.learn(first), board.learn(second)
    assert (early is None) == (pod_first or not spot)
    if spot and pod_first:
        assert late is not None
        assert late.startswith("the grace is 15 s here (GKE, Spot VMs")
    board.post("SIGTERM", FINAL)
    assert board.notice is not None
    assert board.notice.grace_seconds == (15 if spot else 600)


# --- signals ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "end", "kind", "left"),
    [
        ("SIGTERM", "", "final", None),
        ("SIGTERM", "+300", "final", None),
        ("SIGUSR1", "+300", "advance", 300),
        ("SIGUSR1", "", "advance", None),
        ("SIGUSR1", "-5", "advance", None),
        ("SIGUSR1", "+36000", "advance", None),
        ("SIGUSR1", "soon", "advance", None),
        ("SIGTSTP", "+300", "advisory", None),
        ("SIGCONT", "", "advisory", None),
    ],
)
def test_what_a_signal_says(name: str, end: str, kind: str, left: float | None, around: Surroundings) -> None:
    known = end[1:].isdigit()
    text = str(int(around.clock.wall_seconds()) + int(end)) if known else end
    facts = replace(around.facts, migration_signals=("SIGTSTP", "SIGCONT"))
    limits = known_limits({"SLURM_JOB_END_TIME": text}, platform_named("slurm").facts, around.clock)
    said = disruption_of(name, replace(around, facts=facts, time_limits=limits))
    assert said.kind == kind
    assert (said.deadline.remaining_seconds(around.clock) if said.deadline else None) == left


# --- forks ------------------------------------------------------------------------------------------

SLOW_SOURCE = """
import time
time.sleep(0.5)
import slow_dependency

def sources(surroundings):
    return []
"""
PROGRAM = """
import dataclasses, os, time
from outlast import registry
from outlast.notices import listen
from outlast.settings import look_around

registry.SOURCES["slow"] = "slow_source:sources"
around = look_around({})
facts = dataclasses.replace(around.facts, notice_sources=("slow",))
began = time.monotonic()
listen(dataclasses.replace(around, facts=facts))
assert time.monotonic() - began < 0.4, "the job waited for a source"
time.sleep(0.2)
child = os.fork()
if child == 0:
    import slow_source
    os._exit(7)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


def test_a_child_that_is_forked_while_a_source_is_opened_can_import_what_it_imports(tmp_path: Path) -> None:
    (tmp_path / "slow_source.py").write_text(SLOW_SOURCE)
    (tmp_path / "slow_dependency.py").write_text("import time\ntime.sleep(0.5)\n")
    (tmp_path / "program.py").write_text(PROGRAM)
    source = str(Path(outlast.__file__).parents[1])
    done = subprocess.run(
        [sys.executable, "program.py"],
        cwd=tmp_path,
        env={"PYTHONPATH": source},
        capture_output=True,
        text=True,
        timeout=20,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, "7\n"), done.stderr
