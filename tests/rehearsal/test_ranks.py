"""B29: several processes stop after the same step, make one checkpoint together, and strand nobody."""

import json
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from outlast.checkpoint.history import history_of
from outlast.checkpoint.survey import tasks_in
from outlast.stores.directory import DirectoryStore
from rehearsal.ranked_lives import Ended, Launches, RankServer

INTERRUPTED, HUMAN, RETRY, CRASH = 143, 78, 75, 1

COUNTING = """
state = {"n": 0, "mine": [rank]}
job = outlast.Job(url, state=state, name="j", every=eval(os.environ.get("EVERY", "'1h'")), keep=100)
say("from", job.resumed_from or 0)
assert state["mine"][0] == rank + state["n"], state
for step in job.steps(int(os.environ.get("STEPS", "40"))):
    together()
    state["n"] += 1
    state["mine"][0] += 1
    time.sleep(float(os.environ.get("SLEEP", "0.005")))
    exec(os.environ.get("IN_STEP", ""))
    say("did", step + 1)
say("end", state["mine"][0])
"""


@pytest.fixture(scope="module")
def server() -> Iterator[RankServer]:
    with RankServer() as made:
        yield made


@pytest.fixture
def launches(server: RankServer, quick_folder: Path) -> Launches:
    return Launches(server, quick_folder / "launches")


def check(ended: Ended, *codes: int) -> None:
    assert ended.codes == list(codes), ended
    assert ended.hung == []


# --- the stop ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("ring", ["", "1"])
@pytest.mark.parametrize("heard_by", [[0], [1], [2], [0, 1, 2]])
def test_b29_a_notice_to_any_rank_stops_all_after_the_same_step_and_loses_none(
    ring: str, heard_by: list[int], launches: Launches
) -> None:
    kills = [(rank, 0.06, int(signal.SIGTERM)) for rank in heard_by]
    ended = launches.run(COUNTING, 3, kills=kills, RING=ring, STEPS="2000")
    check(ended, *[INTERRUPTED] * 3)
    done = [ended.numbers(rank, "did")[-1] for rank in range(3)]
    assert len(set(done)) == 1, done
    assert launches.commits() == done[:1]
    again = launches.run(COUNTING, 3, RING=ring, STEPS=str(done[0] + 3))
    check(again, 0, 0, 0)
    assert [again.numbers(rank, "from") for rank in range(3)] == [done[:1]] * 3
    assert [again.numbers(rank, "end") for rank in range(3)] == [[done[0] + 3 + rank] for rank in range(3)]


def test_a_rank_that_is_a_step_ahead_is_waited_for_and_nobody_skips_one(launches: Launches) -> None:
    slow = "time.sleep(0.03 if rank == 0 else 0.0)"
    ended = launches.run(COUNTING, 3, kills=[(0, 0.2, int(signal.SIGTERM))], STEPS="2000", IN_STEP=slow, SLEEP="0.001")
    check(ended, *[INTERRUPTED] * 3)
    done = {ended.numbers(rank, "did")[-1] for rank in range(3)}
    assert len(done) == 1
    assert launches.commits() == list(done)


def test_check_raises_on_every_rank_and_the_save_of_the_last_border_is_durable(launches: Launches) -> None:
    waits = "    while step == 12:\n        time.sleep(0.01)\n        job.check()\n"
    program = COUNTING.replace("    exec(", f"{waits}    exec(")
    ended = launches.run(program, 2, kills=[(1, 0.5, int(signal.SIGTERM))], EVERY="outlast.Steps(4)")
    check(ended, INTERRUPTED, INTERRUPTED)
    assert launches.commits() == [4, 8, 12]


def test_a_notice_before_the_first_step_leaves_with_the_interrupted_code(launches: Launches) -> None:
    program = COUNTING.replace("for step in", "say('did', 0)\ntime.sleep(0.5)\nfor step in")
    ended = launches.run(program, 2, kills=[(1, 0.0, int(signal.SIGTERM))])
    check(ended, INTERRUPTED, INTERRUPTED)
    assert launches.commits() == []


# --- saves ------------------------------------------------------------------------------------------


def test_saves_by_steps_are_made_at_exactly_these_steps(launches: Launches) -> None:
    ended = launches.run(COUNTING, 3, EVERY="outlast.Steps(7)", SLEEP="0")
    check(ended, 0, 0, 0)
    assert launches.commits() == [7, 14, 21, 28, 35, 40]


def test_every_step_is_a_checkpoint_with_0s(launches: Launches) -> None:
    ended = launches.run(COUNTING, 2, EVERY="'0s'", STEPS="9", SLEEP="0")
    check(ended, 0, 0)
    assert launches.commits() == list(range(1, 10))


def test_a_duration_saves_now_and_then(launches: Launches) -> None:
    ended = launches.run(COUNTING, 2, EVERY="'30ms'")
    check(ended, 0, 0)
    assert len(launches.commits()) > 3


def test_job_save_on_all_ranks_saves_once_at_the_coming_border(launches: Launches) -> None:
    ended = launches.run(COUNTING, 3, IN_STEP="if step in (4, 5, 20): job.save()", RING="1")
    check(ended, 0, 0, 0)
    assert launches.commits() == [5, 6, 21, 40]


@pytest.mark.parametrize("asker", [0, 2])
def test_job_save_on_one_rank_saves_all_at_the_first_border_that_nobody_has_passed(
    asker: int, launches: Launches
) -> None:
    asks = f"if step == 9 and rank == {asker}: job.save()"
    ended = launches.run(COUNTING, 3, IN_STEP=asks, RING="1")
    check(ended, 0, 0, 0)
    [first, last] = launches.commits()
    assert 10 <= first <= 11
    assert last == 40


def test_job_save_outside_of_the_loop_saves_at_once_where_all_come_by(launches: Launches) -> None:
    program = COUNTING.replace("for step in", "job.save()\nsay('saved', 1)\nfor step in")
    ended = launches.run(program, 2, STEPS="3")
    check(ended, 0, 0)
    assert launches.commits() == [0, 3]


def test_what_is_equal_is_written_once(launches: Launches) -> None:
    program = """
import numpy as np
state = {"w": np.random.default_rng(1).random(300_000), "mine": np.zeros(10) + rank}
job = outlast.Job(url, state=state, name="j", every="1h")
for step in job.steps(3):
    state["w"] += step
"""
    check(launches.run(program, 4), 0, 0, 0, 0)
    sizes = {path.name.split("-r")[1][:4]: path.stat().st_size for path in launches.url.rglob("*.safetensors")}
    assert sizes["0000"] > 2_400_000
    assert all(size < 100_000 for rank, size in sizes.items() if rank != "0000"), sizes


# --- ranks that go ----------------------------------------------------------------------------------


@pytest.mark.parametrize("ring", ["", "1"])
@pytest.mark.parametrize("victim", [0, 1])
def test_b29_a_vanished_rank_strands_nobody_and_the_older_checkpoint_stands(
    victim: int, ring: str, launches: Launches
) -> None:
    dies = f"if step == 13 and rank == {victim}: os.kill(os.getpid(), 9)"
    ended = launches.run(COUNTING, 3, EVERY="outlast.Steps(5)", IN_STEP=dies, RING=ring)
    assert [code for rank, code in enumerate(ended.codes) if rank != victim] == [INTERRUPTED] * 2, ended
    assert ended.seconds < 5
    assert launches.commits() == [5, 10]
    again = launches.run(COUNTING, 3, EVERY="outlast.Steps(5)", RING=ring)
    check(again, 0, 0, 0)
    assert again.numbers(0, "from") == [10]


@pytest.mark.parametrize("victim", [0, 1])
def test_a_crash_of_one_rank_is_said_by_all_and_keeps_its_own_code(victim: int, launches: Launches) -> None:
    crash = f"if step == 7 and rank == {victim}: raise ValueError('boom')"
    ended = launches.run(COUNTING, 2, EVERY="outlast.Steps(5)", IN_STEP=crash, RING="1")
    assert ended.codes[victim] == CRASH
    assert ended.codes[1 - victim] == INTERRUPTED
    assert f"rank {victim} crashed: ValueError: boom" in ended.errors[1 - victim]
    assert launches.commits() == [5]


def test_b29_a_program_that_hangs_on_its_way_out_after_a_loss_is_ended(launches: Launches) -> None:
    hangs = COUNTING.replace("for step in", "import atexit\natexit.register(time.sleep, 9)\nfor step in")
    dies = "if step == 7 and rank == 1: os.kill(os.getpid(), 9)"
    ended = launches.run(hangs, 2, IN_STEP=dies)
    check(ended, INTERRUPTED, -9)
    assert ended.seconds < 5
    assert "did not end after that" in ended.errors[0]


def test_a_rank_that_ends_by_itself_lets_the_others_leave_at_their_next_border(launches: Launches) -> None:
    ended = launches.run(COUNTING, 2, EVERY="outlast.Steps(5)", IN_STEP="if step == 7 and rank == 1: sys.exit(3)")
    check(ended, INTERRUPTED, 3)
    assert launches.commits() == [5]


def test_a_state_that_cannot_be_saved_on_one_rank_leaves_with_78_on_all(launches: Launches) -> None:
    bad = "if step == 8 and rank == 1: state['mine'].append(lambda: 0)"
    ended = launches.run(COUNTING, 2, EVERY="outlast.Steps(5)", IN_STEP=bad)
    check(ended, HUMAN, HUMAN)
    assert "state['mine'][1]" in ended.errors[0]
    assert launches.commits() == [5]


def test_a_rank_that_never_comes_is_not_waited_for_without_end(launches: Launches) -> None:
    absent = "if rank == 1:\n    time.sleep(6)\n    sys.exit(9)\n" + COUNTING
    ended = launches.run(absent, 2, OUTLAST_RANKS_WAIT="1s")
    check(ended, RETRY, 9)
    assert "[1] did not come within 1.0 s" in ended.errors[0]
    alone = "if rank == 0:\n    sys.exit(9)\n" + COUNTING
    ended = launches.run(alone, 2, OUTLAST_RANKS_WAIT="1s")
    check(ended, 9, RETRY)
    assert "rank 1 did not find rank 0" in ended.errors[1]


# --- ranks that differ ------------------------------------------------------------------------------


def test_ranks_with_other_settings_are_refused_by_name(launches: Launches) -> None:
    differs = "os.environ['EVERY'] = f'outlast.Steps({rank + 2})'\n" + COUNTING
    ended = launches.run(differs, 2)
    check(ended, HUMAN, HUMAN)
    assert "every=Steps(count=3)" in ended.errors[0]


@pytest.mark.parametrize("longer", [0, 1])
def test_ranks_that_do_other_numbers_of_steps_are_told_and_nothing_is_mixed(longer: int, launches: Launches) -> None:
    differs = f"os.environ['STEPS'] = '12' if rank == {longer} else '9'\n" + COUNTING
    ended = launches.run(differs, 2, EVERY="outlast.Steps(5)")
    check(ended, HUMAN, HUMAN)
    assert "Every rank has to do the same steps" in ended.errors[0]
    assert launches.commits() == [5]


# --- the whole of a run -----------------------------------------------------------------------------


def test_a_finished_run_says_so_on_every_rank_and_a_larger_total_goes_on(launches: Launches) -> None:
    check(launches.run(COUNTING, 2, STEPS="6"), 0, 0)
    again = launches.run(COUNTING, 2, STEPS="6")
    check(again, 0, 0)
    assert [again.numbers(rank, "did") for rank in range(2)] == [[], []]
    more = launches.run(COUNTING, 2, STEPS="8")
    check(more, 0, 0)
    assert [more.numbers(rank, "did") for rank in range(2)] == [[7, 8], [7, 8]]


def test_another_number_of_ranks_goes_on_from_what_is_equal_on_all_and_is_refused_otherwise(
    launches: Launches,
) -> None:
    equal = COUNTING.replace('"mine": [rank]', '"mine": [0]').replace("rank + state", "state")
    check(launches.run(equal, 2, STEPS="5"), 0, 0)
    for size, steps in ((4, 7), (3, 9)):
        ended = launches.run(equal, size, STEPS=str(steps))
        check(ended, *[0] * size)
        assert [ended.numbers(rank, "end") for rank in range(size)] == [[steps]] * size
    other = Launches(launches.server, launches.folder / "other")
    check(other.run(COUNTING, 2, STEPS="5"), 0, 0)
    refused = other.run(COUNTING, 3, STEPS="9")
    check(refused, *[HUMAN] * 3)
    assert "is of 2 ranks, and this is a job of 3 ranks: state['mine'][0] is not the same" in refused.errors[0]


def test_random_state_and_batches_of_each_rank_are_its_own(launches: Launches) -> None:
    program = """
import random
random.seed(rank)
state = {"drawn": []}
class Loader:
    def __iter__(self):
        numbers = list(range(rank, 24, 2))
        random.shuffle(numbers)
        return iter(numbers)
job = outlast.Job(url, state=state, name="j", every="1h")
for epoch in job.epochs(3):
    for batch in job.batches(Loader()):
        state["drawn"].append((batch, random.random()))
        time.sleep(0.003)
        say("did", len(state["drawn"]))
        if os.environ.get("DIES") == str(len(state["drawn"])) and rank == 1:
            os.kill(os.getpid(), 15)
say("drawn", state["drawn"])
"""
    whole = launches.run(program, 2)
    check(whole, 0, 0)
    assert whole.said[0][-1] != whole.said[1][-1]
    other = Launches(launches.server, launches.folder / "other")
    check(other.run(program, 2, DIES="17"), INTERRUPTED, INTERRUPTED)
    again = other.run(program, 2)
    check(again, 0, 0)
    assert [again.said[rank][-1] for rank in range(2)] == [whole.said[rank][-1] for rank in range(2)]


def test_status_tells_the_attempts_of_all_ranks_as_one(launches: Launches) -> None:
    launches.run(COUNTING, 2, EVERY="outlast.Steps(5)", IN_STEP="if step == 7 and rank == 1: raise ValueError('boom')")
    check(launches.run(COUNTING, 2, kills=[(1, 0.05, int(signal.SIGTERM))], STEPS="2000"), INTERRUPTED, INTERRUPTED)
    check(launches.run(COUNTING, 2, STEPS="60"), 0, 0)
    store = DirectoryStore(str(launches.url))
    [place] = tasks_in(store)
    found = history_of(store, place)
    assert [one.ended_by for one in found.attempts] == ["crashed", "interrupted", "finished"], json.dumps(
        [one.why for one in found.attempts]
    )
    assert "rank 1 crashed: ValueError: boom" in found.attempts[0].why
    assert found.problems == ()
    assert found.steps_done is not None


def test_a_record_of_an_earlier_launch_leads_nobody_astray(launches: Launches) -> None:
    early = "if rank == 0:\n    time.sleep(0.3)\n" + COUNTING
    first = "if rank == 1:\n    time.sleep(9)\n" + COUNTING  # rank 0 dies while it waits, and leaves its record
    launches.run(first, 2, kills=[(0, 0.5, 9), (1, 0.6, 9)], within=False, LAUNCH="same")
    assert list(launches.url.rglob("m0*.json"))
    check(launches.run(early, 2, STEPS="5", LAUNCH="same"), 0, 0)
    assert not list(launches.url.rglob("m0*.json"))
