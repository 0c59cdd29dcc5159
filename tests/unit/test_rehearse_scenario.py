"""What goes wrong in a rehearsal is data: seeded, complete, and inside the job's life."""

from collections import Counter

import pytest

from outlast.errors import SettingsError
from outlast.registry import platform_named
from outlast.rehearse.request import Limits, Request, retry_budget
from outlast.rehearse.scenario import ROUNDS, draw_scenario, seconds_into_work


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("count", [3, 5, 10])
@pytest.mark.parametrize("round_number", range(ROUNDS))
def test_each_kind_is_in_every_scenario(seed: int, count: int, round_number: int) -> None:
    saving = draw_scenario(count, seed=seed, saves=True, round_number=round_number)
    assert Counter(one.kind for one in saving).keys() == {"SIGTERM", "SIGKILL", "SIGKILL at a save"}
    other = draw_scenario(count, seed=seed, saves=False, round_number=round_number)
    assert Counter(one.kind for one in other).keys() == {"SIGTERM", "SIGKILL"}
    assert len(saving) == len(other) == count


def test_a_seed_always_gives_the_same_scenario() -> None:
    assert draw_scenario(5, seed=4, saves=True) == draw_scenario(5, seed=4, saves=True)
    assert len({draw_scenario(5, seed=seed, saves=True) for seed in range(10)}) > 1


@pytest.mark.parametrize("seed", range(20))
def test_all_interruptions_fit_into_the_work(seed: int) -> None:
    scenario = draw_scenario(5, seed=seed, saves=True)
    left = 1.0
    for landed in range(5):
        left -= seconds_into_work(scenario, landed, work_left=left, round_number=0)
    assert 0 < left < 1


def test_a_later_round_comes_earlier_and_ends_with_notices() -> None:
    first, second = (draw_scenario(5, seed=0, saves=True, round_number=number) for number in (0, 1))
    assert [one.kind for one in second] == sorted(
        [one.kind for one in second], key=["SIGKILL at a save", "SIGKILL", "SIGTERM"].index
    )
    assert seconds_into_work(second, 0, work_left=1, round_number=1) <= 1 / 6 / 2
    assert seconds_into_work(first, 0, work_left=1, round_number=0) >= 1 / 6 / 2


@pytest.mark.parametrize(
    ("asked", "interruptions", "expected"), [(None, 3, 3), (None, 5, 5), (0, 5, 0), (2, 5, 2), (10, 10, 10)]
)
def test_retries_are_enough_for_the_interruptions(asked: int | None, interruptions: int, expected: int) -> None:
    facts = platform_named("cloud-run").facts
    assert retry_budget(facts, interruptions=interruptions, asked=asked) == expected


@pytest.mark.parametrize(("asked", "interruptions"), [(11, 5), (None, 11)])
def test_retries_beyond_the_platforms_are_refused(asked: int | None, interruptions: int) -> None:
    with pytest.raises(SettingsError, match="allows 10 at most"):
        retry_budget(platform_named("cloud-run").facts, interruptions=interruptions, asked=asked)


@pytest.mark.parametrize(
    "wrong",
    [
        {"command": ()},
        {"interruptions": 0},
        {"retries": -1},
        {"tolerance": -0.1},
        {"tolerance": float("nan")},
        {"results": ("/etc/passwd",)},
        {"results": ("../out.txt",)},
    ],
)
def test_a_request_that_cannot_work_is_refused(wrong: dict[str, object], tmp_path: object) -> None:
    with pytest.raises(SettingsError):
        Request(**{"command": ("true",), "folder": tmp_path, **wrong})


def test_fewer_than_three_interruptions_are_raised() -> None:
    assert Request(command=("true",), folder=None, interruptions=1).raised_interruptions == 3


def test_hung_is_far_beyond_the_whole_jobs_time() -> None:
    assert Limits().hung_seconds(1.0) == 60.0
    assert Limits().hung_seconds(100.0) == 1000.0
