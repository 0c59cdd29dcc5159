"""`outlast status`: what it says of journals written by hand, damaged, old, hostile; its JSON and its codes."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from jobs_in_process import save_at
from journal_stores import STORES
from written_lives import NOON, PLACE, Life, Lives

import outlast
from outlast.checkpoint.history import SaveMade, history_of
from outlast.checkpoint.runs import mark_store
from outlast.cli.main import main
from outlast.events import (
    LATEST_WALL_SECONDS,
    Crashed,
    Drifted,
    Failed,
    FirstStepDone,
    Left,
    LoopStarted,
    PlanMade,
    Progressed,
    SaveCommitted,
    SaveFailed,
    SaveStalled,
    SaveStarted,
    SaveTakenBack,
    Stopped,
    to_line,
)
from outlast.ports import Store
from outlast.stores.directory import DirectoryStore
from outlast.testing import FakeClock, MemoryStore

FIELDS = {"number", "started_at", "ended_at", "ended_by", "exit_code", "resumed_from", "steps", "saves"}
FIELDS |= {"failed_saves", "notice"}


def run(*words: object, code: int = 0, columns: int = 160) -> Result:
    done = CliRunner(env={"COLUMNS": str(columns)}).invoke(main, ["status", *(str(word) for word in words)])
    assert done.exit_code == code, done.output
    return done


def told(*words: object, code: int = 0) -> Any:
    return json.loads(run(*words, "--json", code=code).stdout)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A store in a folder, for lives that are written by hand."""
    mark_store(DirectoryStore(str(tmp_path / "store")))
    return tmp_path / "store"


def lives(folder: Path) -> Lives:
    return Lives(DirectoryStore(str(folder)))


# --- how attempts ended -----------------------------------------------------------------------------


def test_each_way_to_end_has_its_name_and_its_reason() -> None:
    all_lives = Lives()
    all_lives.next().begin().work(5, 5).notice().stop()
    all_lives.next().begin(step=5).work(5, 5).tell(Crashed(12, "ValueError: no"))
    all_lives.next().begin(step=10).work(5, 5)
    all_lives.next().begin(step=15).work(5, 5).notice(grace=10.0)
    all_lives.next().begin(step=20).tell(Failed(20, 75, "the storage is gone")).tell(Left(20))
    all_lives.next().begin(step=20).tell(Left(20))
    all_lives.next().begin(step=20).tell(Failed(20, 75, "caught")).work(5, 5).notice().stop()
    all_lives.next().begin(step=25).notice().tell(Left(25, 143))
    all_lives.next().begin(step=25).notice().tell(Left(25))  # as earlier versions wrote it
    all_lives.next().begin(step=25).work(75, 75).finish().tell(Left(100))
    history = all_lives.history()
    assert [(one.ended_by, one.exit_code) for one in history.attempts] == [
        ("interrupted", 143),
        ("crashed", 1),
        ("killed", None),
        ("killed", None),
        ("failed", 75),
        ("left", None),
        ("interrupted", 143),
        ("interrupted", 143),
        ("interrupted", None),
        ("finished", 0),
    ]
    assert history.attempts[1].why == "ValueError: no"
    assert history.attempts[2].why == "without notice"
    assert "did not leave within the grace of 10 s" in history.attempts[3].why
    assert (history.preemptions, history.failures) == (6, 2)


def test_what_the_code_after_the_loop_did_is_told_and_changes_no_finish() -> None:
    all_lives = Lives()
    all_lives.next().begin().work(100, 100).finish().tell(Failed(100, 1, "OSError: no export"), 5)
    all_lives.next().begin(step=100).finish().notice(10.0).tell(Stopped(100, 143, "it did not end in the grace"), 8)
    all_lives.next().begin(step=100).finish().tell(Left(100), 3)
    all_lives.next().begin(step=100).finish()  # and killed, or still at work
    ends = [(one.ended_by, one.exit_code, one.why) for one in all_lives.history().attempts]
    assert ends == [
        ("finished", 1, "all is done at step 100; the code after the loop failed: OSError: no export"),
        ("finished", 143, "all is done at step 100; it did not end in the grace"),
        ("finished", 0, "all is done at step 100"),
        ("finished", None, "all is done at step 100; the end of its process is not told"),
    ]


@pytest.mark.parametrize(
    ("later", "state", "ended_by"),
    [
        (10, "running", "running"),
        (119, "running", "running"),
        (130, "unknown", "unknown"),
        (-50, "running", "running"),
        (-3e7, "unknown", "unknown"),  # a clock that is a year behind the attempt's
    ],
)
def test_a_journal_that_simply_ends_is_running_as_long_as_signs_of_life_may_be_due(
    later: float, state: str, ended_by: str
) -> None:
    all_lives = Lives()
    all_lives.next().begin().work(5, 5)
    history = all_lives.history(later=later)
    assert (history.state, history.attempts[0].ended_by) == (state, ended_by)
    assert (history.attempts[0].ended_at is None) == (ended_by == "running")


def test_an_attempt_that_was_at_work_when_a_newer_one_began_is_superseded() -> None:
    all_lives = Lives()
    first = all_lives.next().begin().work(5, 5)
    second = all_lives.next().begin(step=5)
    first.work(5, 5)
    second.work(5, 5).finish()
    assert [one.ended_by for one in all_lives.history().attempts] == ["superseded", "finished"]


def test_a_killed_attempt_is_not_called_superseded_because_the_next_clock_is_an_hour_behind() -> None:
    all_lives = Lives()
    all_lives.next(machine="one").begin().work(5, 5)
    behind = FakeClock(wall_seconds=all_lives.clock.wall_seconds() - 3600, monotonic_seconds=5.0)
    all_lives.next(clock=behind, machine="two").begin(step=5).work(95, 95).finish()
    assert [one.ended_by for one in all_lives.history().attempts] == ["killed", "finished"]


def test_the_notice_the_plan_and_the_final_save_are_told() -> None:
    all_lives = Lives()
    life = all_lives.next().begin().tell(FirstStepDone(1), 3).work(5, 5).tell(SaveFailed(6, "full")).notice(grace=10.0)
    life.tell(PlanMade("full save", "it takes 2 s of 8", 8.0)).stop(final=1.5)
    [attempt] = all_lives.history().attempts
    assert attempt.notice is not None
    assert (attempt.notice.source, attempt.notice.grace_seconds) == ("SIGTERM", 10.0)
    assert attempt.notice.at == pytest.approx(2 + 1 + 3 + 5)
    assert [plan.choice for plan in attempt.plans] == ["full save"]
    assert (attempt.final_save_seconds, attempt.fitted, attempt.failed_saves) == (1.5, True, 1)
    assert attempt.first_step_seconds == pytest.approx(2 + 1 + 3)


def test_saves_are_told_one_by_one_for_those_who_plan_the_next() -> None:
    all_lives = Lives()
    life = all_lives.next().begin(lived=2.0, then=1.0).tell(FirstStepDone(1), 4)
    life.work(5, 5, stall=2.0)  # at once: the stall ends with the save
    life.tell(SaveStalled(8, 0.1), 1).tell(SaveStarted(8)).tell(SaveCommitted(8, "c8", 1, 3.0), 3)  # beside
    life.tell(SaveStalled(9, 0.1), 1).tell(SaveStarted(9)).tell(SaveCommitted(9, "c9", 1, 3.0), 3)
    life.tell(SaveTakenBack(9, "c9", "torn"))
    life.notice()
    life.step = 10
    life.tell(SaveStarted(10)).tell(SaveCommitted(10, "c10", 1, 1.0), 1).tell(SaveStalled(10, 1.0)).stop()
    [attempt] = all_lives.history().attempts
    assert attempt.saves_made == (
        SaveMade(5, 2.0, 0.0, after_notice=False),
        SaveMade(8, 0.1, 3.0, after_notice=False),
        SaveMade(10, 1.0, 0.0, after_notice=True),
    )
    assert (attempt.loop_seconds, attempt.first_step_seconds) == (3, 7)


def test_a_finished_run_that_goes_on_with_a_larger_total_runs(folder: Path) -> None:
    for state in outlast_steps(folder, 5):
        assert state == "running"
    assert told(folder)["state"] == "finished"
    for state in outlast_steps(folder, 8):
        assert state == "running"
    shown = told(folder)
    assert (shown["state"], shown["steps_done"], shown["steps_total"]) == ("finished", 8, 8)


def outlast_steps(folder: Path, total: int) -> Iterator[str]:
    """What status says meanwhile."""
    job = outlast.Job(folder, state={"n": 0}, name="j", every="1h", random_state=False)
    for _ in job.steps(total):
        yield told(folder)["state"]


def test_epochs_are_not_taken_for_steps() -> None:
    all_lives = Lives()
    all_lives.next().tell(LoopStarted(0, 3, "epochs")).work(500, 5)
    history = all_lives.history()
    assert (history.steps_done, history.steps_total, history.epochs_total) == (500, None, 3)


# --- every store, old stores, damage ----------------------------------------------------------------


@pytest.mark.parametrize("kind", sorted(STORES))
def test_it_reads_every_kind_of_store(kind: str, tmp_path: Path) -> None:
    all_lives = Lives(STORES[kind](tmp_path))
    all_lives.next().begin().work(5, 5).notice().stop()
    all_lives.next().begin(step=5, restore=1.0).work(95, 95).finish()
    history = all_lives.history()
    assert [one.ended_by for one in history.attempts] == ["interrupted", "finished"]
    assert (history.goodput, history.steps_done) == (pytest.approx(100 / 108), 100)


_OLD = b"""\
{"event":"AttemptStarted","at":"2023-11-14T22:13:20.000+00:00","wall":1700000000.0,"monotonic":50.0,"attempt":0,\
"platform":"local","pid":7,"host":"h","execution":null,"platform_attempt":null}
{"event":"LoopStarted","at":"2023-11-14T22:13:21.000+00:00","wall":1700000001.0,"monotonic":51.0,"step":0,"total":20}
{"event":"SaveStarted","at":"2023-11-14T22:13:31.000+00:00","wall":1700000011.0,"monotonic":61.0,"step":10}
{"event":"SaveCommitted","at":"2023-11-14T22:13:31.000+00:00","wall":1700000011.0,"monotonic":61.0,"step":10,\
"commit":"c","bytes":9,"seconds":0.1,"written":9}
{"event":"Stopped","at":"2023-11-14T22:13:41.000+00:00","wall":1700000021.0,"monotonic":71.0,"step":20,\
"exit_code":143,"reason":"SIGTERM","lost_steps":10}
"""


def test_journals_of_the_first_version_stay_readable() -> None:
    store = MemoryStore()
    store.append(PLACE.journal(0), _OLD)
    history = history_of(store, PLACE, now=lambda: NOON)
    [attempt] = history.attempts
    assert (attempt.ended_by, attempt.steps, attempt.saves, attempt.lost_steps) == ("interrupted", 20, 1, 10)
    assert (attempt.buckets.start, attempt.buckets.compute, attempt.lost_seconds) == (1, 10, 10)


def test_a_torn_last_line_is_no_damage(folder: Path) -> None:
    life = lives(folder).next().begin().work(5, 5)
    life.store.append(PLACE.journal(0), to_line(Progressed(6), FakeClock())[:40])
    assert told(folder)["problems"] == []


def test_damage_is_named_and_passed_over(folder: Path) -> None:
    all_lives = lives(folder)
    all_lives.next().begin().work(5, 5).notice().stop()
    life = all_lives.next().begin(step=5)
    life.store.append(PLACE.journal(1), b"\x00\xffrubbish\n")
    life.work(5, 5).finish()
    assert told(folder)["problems"] == ["journal of attempt 1: 1 damaged lines"]
    life.store.create(PLACE.claim(1), b"no claim")
    shown = told(folder, code=1)
    assert [one["ended_by"] for one in shown["attempts"]] == ["interrupted", "finished"]
    assert any(PLACE.claim(1) in problem for problem in shown["problems"])
    assert "passed over: " in run(folder, code=1).stdout


def test_an_attempt_whose_journal_is_gone_is_still_counted(folder: Path) -> None:
    save_at(folder, [1, 2])
    for path in folder.rglob("*.jsonl"):
        path.unlink()
    shown = told(folder)
    [attempt] = shown["attempts"]
    assert (attempt["ended_by"], attempt["why"], shown["goodput"]) == ("unknown", "its journal is not there", None)


# --- the command ------------------------------------------------------------------------------------


def test_one_task_is_an_object_with_the_promised_fields(folder: Path) -> None:
    lives(folder).next().begin().work(5, 5, stall=1.0).notice().stop()
    shown = told(folder)
    assert {"run", "task", "state", "attempts", "steps_done", "steps_total", "goodput", "lost_seconds"} <= shown.keys()
    assert (shown["run"], shown["task"], shown["state"]) == ("run-1", 0, "unfinished")
    [attempt] = shown["attempts"]
    assert attempt.keys() >= FIELDS
    assert attempt["started_at"] == "2023-11-14T22:13:18.000+00:00", "when its process began"
    assert attempt["notice"]["source"] == "SIGTERM"
    assert sum(shown["buckets"].values()) == pytest.approx(shown["billed_seconds"])


def test_several_tasks_and_jobs_are_a_list_and_older_runs_are_shown_when_asked_for(folder: Path) -> None:
    store = DirectoryStore(str(folder))
    for name in ("job/run-1/task-0", "job/run-2/task-0", "job/run-2/task-1", "other/run-1/task-0"):
        for line in _OLD.splitlines(keepends=True):
            store.append(f"{name}/journal/a000000.jsonl", line)
    newest = [(one["job"], one["run"], one["task"]) for one in told(folder)]
    assert newest == [("job", "run-2", 0), ("job", "run-2", 1), ("other", "run-1", 0)]
    assert len(told(folder, "--all")) == 4
    assert told(folder, "--job", "job", "--run", "run-1")["run"] == "run-1"
    assert told(folder, "--job", "job", "--task", 1)["task"] == 1
    assert run(folder).stdout.count("goodput") == 3


def test_an_empty_store_has_no_attempts_and_another_folder_is_none(folder: Path, tmp_path: Path) -> None:
    assert run(folder).stdout == "no attempts\n"
    assert told(folder) == []
    (tmp_path / "other").mkdir()
    assert "is not a store of outlast" in run(tmp_path / "other", code=78).stderr
    assert "no such folder" in run(tmp_path / "missing", code=78).stderr
    assert "no such job, run or task" not in run(folder, "--job", "x").stderr


def test_an_attempt_at_the_end_of_all_dates_is_shown(folder: Path) -> None:
    late = FakeClock(wall_seconds=LATEST_WALL_SECONDS - 1)
    lives(folder).next(clock=late).begin(then=0.5).tell(Left(0))
    with (folder / f"{PLACE.journal(0)}").open("ab") as journal:  # a minute later, by the monotonic clock
        journal.write(to_line(Left(0), FakeClock(wall_seconds=NOON, monotonic_seconds=late.monotonic_seconds() + 60)))
    assert told(folder)["attempts"][0]["ended_at"].startswith("9999-12-31T23:59:59")


def test_the_table_says_what_happened(folder: Path) -> None:
    all_lives = lives(folder)
    all_lives.next().begin().work(50, 50, stall=1.0).work(10, 10, save=False).tell(Crashed(60, "ValueError: bad batch"))
    all_lives.clock.advance(30)
    resumed = all_lives.next().begin(step=50, restore=2.0).tell(Drifted(0, ["train.py was edited"]))
    resumed.work(20, 20).notice().tell(PlanMade("full save", "it fits", 20.0)).stop()
    text = run(folder).stdout
    assert "unfinished, 70 of 100 steps done, 2 attempts" in text
    for words in (
        "ValueError: bad batch",
        "goodput 77.8% of 90 s billed: compute 70 s (77.8%), start 6.0 s (6.7%), restore 2.0 s (2.2%)",
        "waiting between attempts, not billed: 28 s",
        "preemptions 1, failures 1",
        "attempt 1: SIGTERM after",
        "planned: full save (it fits); last save 1.0 s",
        "attempt 1: since its checkpoint, train.py was edited",
    ):
        assert words in text, text


def test_in_a_narrow_terminal_no_word_is_broken(folder: Path) -> None:
    life = lives(folder).next().begin().work(43, 43).notice()
    life.tell(PlanMade("a full save", "a full save, step 43: 1.0 s at most", 20.0)).stop()
    text = run(folder, columns=80).stdout
    head, _, *below = text.splitlines()
    assert head.endswith(", 1 attempt")
    assert "interrupted" in text
    assert "attempt 0, 2023-11-14T22:13:18: " in text, "the whole moment, and why"
    assert "planned: a full save, step 43: 1.0 s at most; last save" in text, "the choice is said once"
    assert "started (UTC)" not in below[0]


HOSTILE = "evil\x1b]0;owned\x07\x1b[31m\u202e\x9b2J"


def test_nothing_from_a_store_steers_the_terminal(folder: Path) -> None:
    store: Store = DirectoryStore(str(folder))
    life = Life(store, 0, FakeClock(wall_seconds=NOON)).begin().notice()
    life.tell(PlanMade(HOSTILE, HOSTILE, 1.0)).tell(Drifted(0, [HOSTILE])).tell(Crashed(3, HOSTILE))
    strange = folder / "bad\x1b[2Jname" / "run\x1b[1m" / "task-0" / "journal"
    strange.mkdir(parents=True)
    (strange / "a000000.jsonl").write_bytes(_OLD)
    (strange / "a000001.jsonl").write_bytes(b"\xff\n")
    shown = run(folder).stdout + run(folder, columns=80).stdout + run(folder, "--json").stdout
    assert not {letter for letter in shown if not letter.isprintable()} - {"\n"}
    assert "evil" in shown


def test_help_shows_an_example_that_works(folder: Path) -> None:
    text = run("--help").stdout
    assert "outlast status /mnt/checkpoints" in text
    assert "Exit codes" in text
