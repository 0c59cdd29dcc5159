"""The planner of the last seconds: most progress of what surely ends in time, and on until the last safe moment."""

import math
import random
import re

import pytest
from hypothesis import given
from hypothesis import strategies as some

from outlast.planning.estimates import times_of, transfer_times
from outlast.planning.planner import Candidate, Plan, SaveKind, plan
from outlast.settings import LONG_NOTICE_SECONDS


def one(kind: SaveKind, step: int, seconds: float) -> Candidate:
    return Candidate(kind=kind, step=step, p99_seconds=seconds)


def worked(*, incremental: float) -> Plan:
    """The worked example of the formulae: 10 s of grace, a margin of 1 s."""
    candidates = [
        one(SaveKind.FULL, 120, 12),
        one(SaveKind.INCREMENTAL, 120, incremental),
        one(SaveKind.IN_FLIGHT, 110, 3),
    ]
    return plan(candidates, remaining_seconds=10, margin_seconds=1, durable_step=100)


def test_the_newest_progress_that_fits() -> None:
    found = worked(incremental=6)
    assert found.chosen == one(SaveKind.INCREMENTAL, 120, 6)
    assert found.train_on_seconds is None
    assert found.reason == "an incremental save, step 120: 6.0 s at most, 9.0 s left"


def test_what_is_in_flight_where_nothing_newer_fits() -> None:
    found = worked(incremental=9.5)
    assert found.chosen == one(SaveKind.IN_FLIGHT, 110, 3)
    assert found.reason == (
        "finishing the save in flight, step 110: 3.0 s at most, 9.0 s left; "
        "an incremental save (step 120) may take 9.5 s"
    )


def test_of_equal_progress_the_shortest() -> None:
    candidates = [one(SaveKind.FULL, 7, 5), one(SaveKind.CURSOR, 7, 0.1), one(SaveKind.INCREMENTAL, 7, 2)]
    found = plan(candidates, remaining_seconds=10, margin_seconds=2, durable_step=5)
    assert found.chosen == one(SaveKind.CURSOR, 7, 0.1)


def test_nothing_is_begun_that_cannot_end() -> None:
    found = plan([one(SaveKind.FULL, 7, 12)], remaining_seconds=10, margin_seconds=2, durable_step=5)
    assert found.chosen is None
    assert found.worth_trying is None
    assert found.reason == "no save surely fits, 8.0 s left: a full save (step 7) may take 12 s; step 5 is safe"


def test_what_was_never_measured_is_tried_and_no_usual_time_is_claimed() -> None:
    unknown = Candidate(kind=SaveKind.FULL, step=7, p99_seconds=float("inf"), p50_seconds=1e-6)
    found = plan([unknown], remaining_seconds=10, margin_seconds=2, durable_step=5)
    assert found.worth_trying == unknown
    assert found.reason.endswith("how long a full save takes (step 7) is not known; tried all the same; step 5 is safe")


def test_a_save_that_only_usually_ends_in_time_is_no_plan_but_worth_trying() -> None:
    usual = Candidate(kind=SaveKind.FULL, step=7, p99_seconds=12, p50_seconds=4)
    found = plan([usual], remaining_seconds=10, margin_seconds=2, durable_step=5)
    assert (found.chosen, found.worth_trying) == (None, usual)
    assert "; tried all the same, since a full save usually takes 4.0 s; step 5 is safe" in found.reason
    sure = one(SaveKind.IN_FLIGHT, 6, 3)
    found = plan([usual, sure], remaining_seconds=10, margin_seconds=2, durable_step=5)
    assert (found.chosen, found.worth_trying) == (sure, None)


def test_a_save_that_nobody_can_judge_is_not_begun() -> None:
    found = plan([one(SaveKind.FULL, 7, math.inf)], remaining_seconds=3600, margin_seconds=30, durable_step=5)
    assert (found.chosen, found.train_on_seconds) == (None, None)
    assert "how long a full save takes (step 7) is not known" in found.reason


def test_what_is_safe_is_not_saved_again() -> None:
    found = plan([one(SaveKind.FULL, 7, 1)], remaining_seconds=10, margin_seconds=2, durable_step=7)
    assert found.chosen is None
    assert found.reason == "step 7 is safe, and there is nothing newer to save"


# --- long notices -------------------------------------------------------------------------------------


def gke_maintenance(**changed: object) -> Plan:
    settings = {"remaining_seconds": 3600.0, "margin_seconds": 30.0, "durable_step": 100, "step_p99_seconds": 10.0}
    candidates = [one(SaveKind.FULL, 120, 50), one(SaveKind.INCREMENTAL, 120, 20)]
    return plan(candidates, **{**settings, **changed})  # type: ignore[arg-type]  # by name


def test_a_long_notice_is_saved_at_once_and_used_until_the_last_safe_moment() -> None:
    found = gke_maintenance()
    assert found.chosen == one(SaveKind.INCREMENTAL, 120, 20)
    assert found.train_on_seconds == 3600 - 30 - 50 - 10
    assert found.reason.endswith("steps go on for 58 min 30 s, which leaves time for a final save")


def test_a_long_notice_can_be_left_unused() -> None:
    found = gke_maintenance(use_grace=False)
    assert found.chosen == one(SaveKind.INCREMENTAL, 120, 20)
    assert found.train_on_seconds is None


def test_where_all_is_safe_a_long_notice_is_used_all_the_same() -> None:
    found = gke_maintenance(durable_step=120)
    assert found.chosen is None
    assert found.train_on_seconds == 3600 - 30 - 50 - 10


def test_a_short_notice_is_for_saving_alone() -> None:
    quick = [one(SaveKind.FULL, 120, 0.1)]
    settings = {"margin_seconds": 2.0, "durable_step": 100, "step_p99_seconds": 0.01}
    assert plan(quick, remaining_seconds=LONG_NOTICE_SECONDS - 1, **settings).train_on_seconds is None
    assert plan(quick, remaining_seconds=LONG_NOTICE_SECONDS, **settings).train_on_seconds is not None


@pytest.mark.parametrize("step_seconds", [60.0, 3600.0])
def test_no_step_begins_that_would_take_the_time_of_the_final_save(step_seconds: float) -> None:
    found = gke_maintenance(remaining_seconds=120.0, step_p99_seconds=step_seconds)
    assert found.train_on_seconds is None


def test_training_on_waits_for_no_save_that_is_still_under_way_at_the_last_moment() -> None:
    candidates = [one(SaveKind.IN_FLIGHT, 120, 80), one(SaveKind.FULL, 120, 90)]
    found = plan(candidates, remaining_seconds=190, margin_seconds=30, durable_step=100)
    assert found.chosen == one(SaveKind.IN_FLIGHT, 120, 80)
    assert found.train_on_seconds is None


# --- whatever comes -------------------------------------------------------------------------------------

_candidates = some.lists(
    some.builds(
        Candidate,
        kind=some.sampled_from(SaveKind),
        step=some.integers(0, 50),
        p99_seconds=some.floats(0.0, 5000.0) | some.just(math.inf),
        p50_seconds=some.floats(0.0, 5000.0) | some.just(math.inf),
    ),
    max_size=6,
)
_situations = {
    "candidates": _candidates,
    "remaining": some.floats(0.0, 4000.0),
    "margin": some.floats(0.0, 60.0),
    "durable": some.integers(0, 50),
    "step": some.floats(0.0, 500.0),
}


@given(**_situations)
def test_never_what_does_not_fit_and_never_less_than_another_that_fits(
    candidates: list[Candidate], remaining: float, margin: float, durable: int, step: float
) -> None:
    found = plan(
        candidates,
        remaining_seconds=remaining,
        margin_seconds=margin,
        durable_step=durable,
        step_p99_seconds=step,
    )
    fitting = [other for other in candidates if other.p99_seconds <= remaining - margin and other.step > durable]
    assert (found.chosen is None) == (fitting == [])
    if found.worth_trying is not None:
        assert found.chosen is None
        assert found.worth_trying.p50_seconds <= remaining - margin
        assert found.worth_trying.step > durable
    if found.chosen is not None:
        assert found.chosen in fitting
        assert found.chosen.step == max(other.step for other in fitting)
        assert all(
            found.chosen.p99_seconds <= other.p99_seconds for other in fitting if other.step == found.chosen.step
        )
    assert "\n" not in found.reason
    assert re.match(r"\w", found.reason)


@given(**_situations)
def test_training_on_always_leaves_time_for_a_step_and_any_final_save(
    candidates: list[Candidate], remaining: float, margin: float, durable: int, step: float
) -> None:
    found = plan(
        candidates,
        remaining_seconds=remaining,
        margin_seconds=margin,
        durable_step=durable,
        step_p99_seconds=step,
    )
    if found.train_on_seconds is None:
        return
    assert remaining >= LONG_NOTICE_SECONDS
    then_left = remaining - found.train_on_seconds - step
    final = [other for other in candidates if other.kind is not SaveKind.IN_FLIGHT]
    assert final
    for other in final:
        assert other.p99_seconds <= then_left - margin + 1e-6
    assert found.chosen is None or found.chosen.p99_seconds <= found.train_on_seconds


# --- with times that were measured ------------------------------------------------------------------------


def test_what_the_planner_says_fits_is_durable_in_time() -> None:
    """2,000 notices in each grace, after 1 to 40 saves that take up to nearly all of it, and scatter by 10 %.

    In time is before the margin, when the guard ends the process.
    """
    source = random.Random(20261129)
    said, late, helped = 0, 0, 0
    for grace in (10.0, 15.0, 30.0, 120.0, 300.0, 3600.0) * 2000:
        typical, margin = grace * source.uniform(0.02, 0.9), min(0.2 * grace, 30.0)
        times = times_of([typical * source.lognormvariate(0.0, 0.1) for _ in range(source.randint(1, 40))])
        assert times is not None
        candidate = one(SaveKind.FULL, 2, times.p99_seconds)
        found = plan([candidate], remaining_seconds=grace, margin_seconds=margin, durable_step=1, use_grace=False)
        in_time = typical * source.lognormvariate(0.0, 0.1) <= grace - margin
        helped += in_time
        if found.chosen is not None:
            said += 1
            late += not in_time
    assert late / said <= 0.001
    assert said >= 0.5 * helped  # and it is not by refusing everything


def test_a_size_that_was_never_saved_is_judged_by_the_slowest_rates() -> None:
    assert transfer_times(10**9, measured=[]) is None
    steady = [(10**9, 2.0)] * 50
    half = transfer_times(5 * 10**8, measured=steady)
    assert half is not None
    assert half.p50_seconds == pytest.approx(1.0)
    assert 1.0 < half.p99_seconds < 1.3
    wild = transfer_times(5 * 10**8, measured=[*steady, (10**9, 20.0)])
    assert wild is not None
    assert wild.p99_seconds >= 10.0
