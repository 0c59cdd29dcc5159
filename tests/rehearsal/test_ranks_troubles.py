"""Several processes in trouble: a bad checkpoint, a storage that fails one of them, a newer attempt, a long notice."""

import re
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from rehearsal.ranked_lives import Launches, RankServer
from rehearsal.test_ranks import COUNTING, HUMAN, INTERRUPTED, check

FAILS = """
from outlast.errors import StoreUnreachable
from outlast.ranks import following
real, failures = following.persist, []
def failing(*args, **named):
    if rank == 1 and len(failures) < 2:
        failures.append(1)
        raise StoreUnreachable("the disk of rank 1 is full")
    return real(*args, **named)
following.persist = failing
"""
CLAIMS = """
from outlast.checkpoint.lineage import claim_next
from outlast.checkpoint.survey import tasks_in
from outlast.stores.directory import DirectoryStore
def claim():
    store = DirectoryStore(url)
    claim_next(store, tasks_in(store)[0], lambda found: (found.counted, []), {})
"""


@pytest.fixture(scope="module")
def server() -> Iterator[RankServer]:
    with RankServer() as made:
        yield made


@pytest.fixture
def launches(server: RankServer, quick_folder: Path) -> Launches:
    return Launches(server, quick_folder / "launches")


@pytest.mark.parametrize("bad", [0, 1])
def test_a_checkpoint_that_is_bad_for_one_rank_is_used_by_none(bad: int, launches: Launches) -> None:
    dies = "if step == 13 and rank == 0: os.kill(os.getpid(), 9)"
    launches.run(COUNTING, 2, EVERY="outlast.Steps(5)", IN_STEP=dies)
    assert launches.commits() == [5, 10]
    [newest] = launches.url.rglob(f"s000000000010-*-r000{bad}-*.safetensors")
    data = bytearray(newest.read_bytes())
    data[-20] ^= 1
    newest.write_bytes(data)
    again = launches.run(COUNTING, 2, EVERY="outlast.Steps(5)")
    check(again, 0, 0)
    assert [again.numbers(rank, "from") for rank in range(2)] == [[5], [5]]
    assert f"rank {bad}" in again.errors[0] or bad == 0


def test_where_no_checkpoint_is_good_for_all_nothing_is_started(launches: Launches) -> None:
    check(launches.run(COUNTING, 2, STEPS="5"), 0, 0)
    for path in launches.url.rglob("*-r0001-*.safetensors"):
        path.write_bytes(b"nothing")
    ended = launches.run(COUNTING, 2, STEPS="9")
    check(ended, HUMAN, HUMAN)
    assert ended.numbers(1, "did") == []


@pytest.mark.parametrize("saving", ["background", "blocking"])
def test_a_storage_that_fails_one_rank_fails_the_save_for_all_and_the_next_one_succeeds(
    saving: str, launches: Launches
) -> None:
    program = FAILS + COUNTING.replace("keep=100", f"keep=100, saving={saving!r}")
    ended = launches.run(program, 3, EVERY="outlast.Steps(5)", SLEEP="0.03")
    check(ended, 0, 0, 0)
    assert "rank 1: the disk of rank 1 is full" in ended.errors[0]
    commits = launches.commits()
    assert 5 not in commits, "a part is missing, and the record is there"
    assert commits[-1] == 40
    assert len(commits) > 3


def test_a_newer_attempt_ends_all_ranks_and_nothing_is_committed_any_more(launches: Launches) -> None:
    program = CLAIMS + COUNTING
    ended = launches.run(program, 2, EVERY="outlast.Steps(5)", IN_STEP="if step == 7 and rank == 0: claim()")
    check(ended, INTERRUPTED, INTERRUPTED)
    assert "superseded" in ended.errors[0]
    assert "superseded" in ended.errors[1]
    assert launches.commits() == [5]


def test_a_long_notice_to_one_rank_is_trained_through_by_all_until_the_last_moment(launches: Launches) -> None:
    """A minute of the platform is a second here."""
    env = {"OUTLAST_REHEARSAL_SPEED": "60", "OUTLAST_GRACE": "5s", "STEPS": "100000", "SLEEP": "0.1", "RING": "1"}
    ended = launches.run(COUNTING, 3, kills=[(2, 0.2, int(signal.SIGTERM))], **env)
    check(ended, *[INTERRUPTED] * 3)
    assert "training goes on for now" in ended.errors[0]
    done = {ended.numbers(rank, "did")[-1] for rank in range(3)}
    assert len(done) == 1
    assert launches.commits()[-1] == done.pop(), ended.errors
    assert len(launches.commits()) > 1, "one save at once, one at the end"
    assert ended.seconds > 1


def test_a_run_that_ends_within_a_long_notice_is_finished(launches: Launches) -> None:
    env = {"OUTLAST_GRACE": "300s", "TORCH_ELASTIC_SHUTDOWN_TIMEOUT": "300s", "STEPS": "60", "SLEEP": "0.01"}
    ended = launches.run(COUNTING, 2, kills=[(1, 0.1, int(signal.SIGTERM))], **env)
    check(ended, 0, 0)
    assert launches.commits()[-1] == 60


def test_a_forked_child_of_a_rank_holds_no_connection_open(launches: Launches) -> None:
    forks = "if os.fork() == 0:\n    time.sleep(6)\n    os._exit(0)\n"
    program = COUNTING.replace("for step in", f"{forks}for step in")
    dies = "if step == 13 and rank == 1: os.kill(os.getpid(), 9)"
    ended = launches.run(program, 2, IN_STEP=dies, RING="1")
    assert ended.codes == [INTERRUPTED, -signal.SIGKILL], ended
    assert ended.seconds < 4


def test_lines_of_other_ranks_are_marked_and_only_what_matters(launches: Launches) -> None:
    ended = launches.run(COUNTING, 2, kills=[(1, 0.1, int(signal.SIGTERM))], STEPS="2000")
    check(ended, INTERRUPTED, INTERRUPTED)
    assert re.search(r"^outlast: stopped after step", ended.errors[0], re.MULTILINE)
    assert ended.errors[1] == ""
