"""Arrays of Slurm as runs: numbered as in `--array`, finished when as many tasks are as the array has."""

from pathlib import Path

import pytest

from one_attempt import AROUND, QuickDisk
from outlast.checkpoint.attempt import Attempt, StartRequest
from outlast.checkpoint.crashes import CrashPolicy
from outlast.checkpoint.image import LiveImage, lay_out
from outlast.checkpoint.retain import Keep
from outlast.checkpoint.runs import RunRequest, find_or_start_run, mark_finished, mark_store, run_is_finished
from outlast.ports import Store
from outlast.registry import platform_named
from outlast.state.parts import Progress, UserState
from outlast.stores.directory import DirectoryStore


@pytest.fixture
def store(tmp_path: Path) -> Store:
    store = DirectoryStore(str(tmp_path / "store"), disk=QuickDisk())
    mark_store(store)
    return store


def array(execution: str, numbers: str, of: tuple[int, int, int, int]) -> list[RunRequest]:
    """What each task of an array asks for; `of` is what 22.05 says: the first, the last, the step, the count."""
    names = [f"SLURM_ARRAY_TASK_{name}" for name in ("MIN", "MAX", "STEP", "COUNT")]
    told = {"SLURM_JOB_ID": "1", "SLURM_ARRAY_JOB_ID": execution, **dict(zip(names, map(str, of), strict=True))}
    identities = [
        platform_named("slurm").identity({**told, "SLURM_ARRAY_TASK_ID": number}) for number in numbers.split(",")
    ]
    assert [str(identity.task) for identity in identities] == numbers.split(",")
    return [RunRequest("job", one.tasks, one.execution, numbers=one.numbers) for one in identities]


def finish(store: Store, request: RunRequest, task: int) -> None:
    place = find_or_start_run(store, request, AROUND.clock).task(task)
    attempt = Attempt.claim(store, StartRequest(place, None, CrashPolicy(), Keep(), execution=None), AROUND)
    snapshot = UserState({"n": task}).snapshot(Progress(completed=8))
    record = attempt.commit(LiveImage(lay_out(snapshot.table), snapshot), 8)
    attempt.confirm(record)
    mark_finished(store, place, record.name, 8, AROUND.clock)


@pytest.mark.parametrize(
    ("numbers", "of"),
    [
        ("0,1", (0, 1, 1, 2)),
        ("3,4", (3, 4, 1, 2)),
        ("3", (3, 3, 1, 1)),
        ("0,3,6,9", (0, 9, 3, 4)),
        ("1,5,9", (1, 9, 1, 3)),  # a list: which ones is not told
        ("1,100000,999999", (1, 999999, 1, 3)),
    ],
)
def test_an_array_is_finished_with_its_last_task(store: Store, numbers: str, of: tuple[int, int, int, int]) -> None:
    requests = array("70", numbers, of)
    run = find_or_start_run(store, requests[0], AROUND.clock)
    for request, number in zip(requests, numbers.split(","), strict=True):
        assert not run_is_finished(store, run)
        assert find_or_start_run(store, array("71", numbers, of)[0], AROUND.clock) == run, "an unfinished run goes on"
        finish(store, request, int(number))
    assert run_is_finished(store, run)
    assert find_or_start_run(store, array("72", numbers, of)[0], AROUND.clock).run == "run-2"


def test_a_part_that_is_sent_again_ends_the_run_of_the_whole(store: Store) -> None:
    whole = array("70", "3,4,5", (3, 5, 1, 3))
    finish(store, whole[0], 3)
    finish(store, whole[2], 5)
    [part] = array("71", "4", (4, 4, 1, 1))
    run = find_or_start_run(store, part, AROUND.clock)
    assert run.run == "run-1"
    finish(store, part, 4)
    assert run_is_finished(store, run)
    [again] = array("72", "4", (4, 4, 1, 1))
    assert find_or_start_run(store, again, AROUND.clock).run == "run-2", "after a finished run, a new one of its own"
