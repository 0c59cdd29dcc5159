"""Two attempts alive at once: the older one leaves, and nothing that it does late counts or costs a checkpoint."""

import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import reduce
from pathlib import Path

import pytest
from lives import INTERRUPTED, Victim, counted_steps, ended, only_task

from one_attempt import AROUND
from outlast.checkpoint.attempt import Attempt, StartRequest
from outlast.checkpoint.crashes import CrashPolicy
from outlast.checkpoint.lineage import read_lineage
from outlast.checkpoint.retain import Keep

STEPS = 60
RIGHT = str(reduce(lambda acc, step: (acc * 31 + step) % (2**61 - 1), range(STEPS), 0))


@dataclass
class Pair:
    """Victims on one store, each with a trace of its own."""

    folder: Path
    running: "list[subprocess.Popen[str]]" = field(default_factory=list)

    def victim(self, script: str = "counter.py", *, sleep: float = 0.005) -> Victim:
        return Victim(script, self.folder, variables={"VICTIM_STEPS": str(STEPS), "VICTIM_SLEEP": str(sleep)})

    def start(self, victim: Victim, trace: str, **more: str) -> "subprocess.Popen[str]":
        process = victim.start(VICTIM_TRACE=str(self.folder / trace), **more)
        self.running.append(process)
        return process

    def reported(self, trace: str) -> list[int]:
        path = self.folder / trace
        return [int(line) for line in path.read_bytes().split()] if path.exists() else []

    def result(self, trace: str) -> str:
        return (self.folder / f"{trace}.result").read_text().strip()


@pytest.fixture
def pair(quick_folder: Path) -> Iterator[Pair]:
    pair = Pair(quick_folder)
    yield pair
    for process in pair.running:
        if process.stderr is not None and not process.stderr.closed:
            process.kill()
            process.communicate()


def wait_until(true: Callable[[], bool]) -> None:
    until = time.monotonic() + 30
    while not true():
        assert time.monotonic() < until
        time.sleep(0.002)


def test_of_two_on_one_store_the_older_leaves_and_the_younger_finishes_right(pair: Pair) -> None:
    older = pair.start(pair.victim(sleep=0.1), "older")
    wait_until(lambda: len(pair.reported("older")) >= 6)
    younger = ended(pair.start(pair.victim(), "younger"))
    left = ended(older)
    assert left.exit_code == INTERRUPTED, left
    assert "superseded: attempt 1 has claimed" in left.errors
    assert younger.exit_code == 0, younger
    assert younger.start is not None
    assert younger.start >= 5
    assert pair.result("younger") == RIGHT
    assert not (pair.folder / "older.result").exists()
    store, place = only_task(pair.victim().url)
    assert {name.attempt for name in read_lineage(store, place).counted} == {1}


def test_of_many_that_start_at_once_one_finishes_right_and_the_others_leave(pair: Pair) -> None:
    started = [pair.start(pair.victim(sleep=0.05), f"trace-{number}") for number in range(4)]
    lives = [ended(process) for process in started]
    assert sorted(life.exit_code for life in lives) == [0, INTERRUPTED, INTERRUPTED, INTERRUPTED], lives
    winner = next(number for number, life in enumerate(lives) if life.exit_code == 0)
    assert pair.result(f"trace-{winner}") == RIGHT
    for life in lives:
        assert life.exit_code == 0 or "superseded" in life.errors


def test_a_superseded_attempt_deletes_nothing_more(pair: Pair) -> None:
    victim = pair.victim(sleep=0.02)
    older = pair.start(victim, "older")
    wait_until(lambda: len(pair.reported("older")) >= 22)  # it has begun to retire
    store, place = only_task(victim.url)
    request = StartRequest(place, None, CrashPolicy(), Keep(), execution=None)
    Attempt.claim(store, request, AROUND)
    before = {entry.name for entry in store.list("")}
    counted = read_lineage(store, place).counted
    assert ended(older).exit_code == INTERRUPTED
    assert before <= {entry.name for entry in store.list("")}
    assert read_lineage(store, place).counted == counted


# Each is a place in which an attempt can be frozen in the save at step 10, with the save at step 5 behind it.
FREEZES = {
    "before its data": "create_file /data/s000000000010 1",
    "between its data and the look for claims": "sync_folder /data 2",
    "between the look for claims and its record": "create_file /commits/.tmp- 2",
    "right before its record has a name": "link /commits/s000000000010 1",
    "right after its record has a name": "sync_folder /commits 3",
}


def freeze(pair: Pair, where: str) -> "subprocess.Popen[str]":
    """An attempt that has stopped there."""
    frozen = pair.start(pair.victim("freezes.py"), "frozen", VICTIM_FREEZE=where)
    _, status = os.waitpid(frozen.pid, os.WUNTRACED)
    assert os.WIFSTOPPED(status)
    return frozen


@pytest.mark.parametrize("where", FREEZES)
def test_a_late_commit_of_a_frozen_attempt_does_not_count(where: str, pair: Pair) -> None:
    frozen = freeze(pair, FREEZES[where])
    known = max(counted_steps(pair.victim().url))
    assert known == (10 if where.startswith("right after") else 5)

    second = pair.start(pair.victim(sleep=0.4), "second")
    wait_until(lambda: len(pair.reported("second")) >= 1)
    second.kill()
    assert ended(second).start == known

    frozen.send_signal(signal.SIGCONT)
    left = ended(frozen)
    assert left.exit_code == INTERRUPTED, left
    assert "superseded" in left.errors
    assert max(counted_steps(pair.victim().url)) == known

    third = ended(pair.start(pair.victim(), "third"))
    assert (third.exit_code, third.start) == (0, known), third
    assert pair.result("third") == RIGHT


def test_a_late_commit_does_not_count_while_the_younger_one_goes_on(pair: Pair) -> None:
    frozen = freeze(pair, "link /commits/s000000000010 1")
    second = pair.start(pair.victim(sleep=0.02), "second")
    wait_until(lambda: len(pair.reported("second")) >= 1)
    frozen.send_signal(signal.SIGCONT)
    assert ended(frozen).exit_code == INTERRUPTED
    life = ended(second)
    assert (life.exit_code, life.start) == (0, 5), life
    assert pair.result("second") == RIGHT
    store, place = only_task(pair.victim().url)
    lineage = read_lineage(store, place)
    assert {name.attempt for name in lineage.counted} == {1}
    assert [name.step for name in lineage.commits if name.attempt == 0] == [10]  # it is there, and no one's


def test_a_deletion_that_was_frozen_costs_no_newest_checkpoint(pair: Pair) -> None:
    frozen = freeze(pair, "unlink /commits/s0000 1")  # the first that is retired, with three newer ones there
    second = pair.start(pair.victim(sleep=0.4), "second")
    wait_until(lambda: len(pair.reported("second")) >= 1)
    second.kill()
    ended(second)
    frozen.send_signal(signal.SIGCONT)
    assert ended(frozen).exit_code == INTERRUPTED
    third = ended(pair.start(pair.victim(), "third"))
    assert (third.exit_code, third.start) == (0, 20), third
    assert pair.result("third") == RIGHT


def test_an_attempt_that_is_superseded_before_its_retention_deletes_nothing(pair: Pair) -> None:
    frozen = freeze(pair, "sync_folder /commits 5")  # the save at step 20 is done, that at step 5 one too many
    store, place = only_task(pair.victim().url)
    Attempt.claim(store, StartRequest(place, None, CrashPolicy(), Keep(), execution=None), AROUND)
    before = {entry.name for entry in store.list("")}
    assert [name.step for name in read_lineage(store, place).counted] == [20, 15, 10, 5]
    frozen.send_signal(signal.SIGCONT)
    assert ended(frozen).exit_code == INTERRUPTED
    assert before <= {entry.name for entry in store.list("")}


def test_an_attempt_that_is_superseded_at_the_finish_leaves_the_run_unfinished(pair: Pair) -> None:
    frozen = freeze(pair, "link /commits/s000000000060 1")
    store, place = only_task(pair.victim().url)
    Attempt.claim(store, StartRequest(place, None, CrashPolicy(), Keep(), execution=None), AROUND)
    frozen.send_signal(signal.SIGCONT)
    assert ended(frozen).exit_code == INTERRUPTED
    assert store.list(place.marks) == []
    third = ended(pair.start(pair.victim(), "third"))
    assert (third.exit_code, third.start) == (0, 55), third
    assert pair.result("third") == RIGHT
