"""What is learned over attempts: rates, shares, and times that are honest about how little was measured."""

import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as some

from outlast.planning.attempts import AttemptFacts, Ending
from outlast.planning.estimates import learn, student_p99, times_of, usable_notice_share

HOUR = 3600.0


def attempt(hours: float, ending: Ending, **changed: object) -> AttemptFacts:
    return AttemptFacts(exposure_seconds=hours * HOUR, ending=ending, **changed)  # type: ignore[arg-type]  # by name


def test_before_the_first_attempt_the_platform_is_all_that_is_known() -> None:
    nothing = learn([], prior_between_seconds=3 * HOUR)
    assert (nothing.between_seconds, nothing.notice_share, nothing.losses) == (3 * HOUR, 0.5, 0)
    assert nothing.stall is nothing.persist is nothing.final_save is nothing.restore is None


def test_the_attempt_that_runs_counts_as_exposure() -> None:
    ended = [attempt(2, Ending.SAVED), attempt(1, Ending.UNWARNED)]
    known = learn([*ended, attempt(2, Ending.RUNNING)], prior_between_seconds=3 * HOUR)
    assert known.between_seconds / HOUR == pytest.approx(8 / 3, rel=1e-3)
    quiet = learn([attempt(10, Ending.RUNNING)], prior_between_seconds=3 * HOUR)
    assert quiet.between_seconds / HOUR == pytest.approx(13, rel=1e-3)


def test_a_finished_attempt_is_no_interruption() -> None:
    known = learn([attempt(5, Ending.FINISHED)], prior_between_seconds=HOUR)
    assert (known.losses, known.between_seconds) == (0, 6 * HOUR)


def test_only_a_final_save_in_time_counts_for_the_notice_share() -> None:
    saved = [attempt(1, Ending.SAVED)] * 6
    assert learn(saved, prior_between_seconds=HOUR).notice_share == pytest.approx(7 / 8)
    others = [attempt(1, Ending.NOT_SAVED), attempt(1, Ending.UNWARNED)]
    assert learn(saved + others, prior_between_seconds=HOUR).notice_share == pytest.approx(7 / 10)


def test_a_crash_loses_work_too_and_is_counted_apart() -> None:
    known = learn([attempt(1, Ending.CRASHED), attempt(1, Ending.SAVED)], prior_between_seconds=HOUR)
    assert (known.interruptions, known.crashes, known.losses) == (1, 1, 2)
    assert known.notice_share == pytest.approx(2 / 4)
    assert known.between_seconds == pytest.approx(HOUR)


def test_times_are_gathered_over_all_attempts() -> None:
    first = attempt(1, Ending.SAVED, stalls_seconds=(0.1, 0.2), persists_seconds=(20.0,), restore_seconds=60.0)
    second = attempt(1, Ending.RUNNING, stalls_seconds=(0.3,), final_saves_seconds=(8.0,))
    known = learn([first, second], prior_between_seconds=HOUR)
    assert known.stall is not None
    assert (known.stall.count, known.stall.p50_seconds) == (3, 0.2)
    assert known.stall.mean_seconds == pytest.approx(0.2)
    for times, value in ((known.persist, 20.0), (known.final_save, 8.0), (known.restore, 60.0)):
        assert times is not None
        assert (times.count, times.p50_seconds) == (1, pytest.approx(value))


# --- p99 ----------------------------------------------------------------------------------------------


# The quantiles printed in the tables of t.
@pytest.mark.parametrize(
    ("freedom", "value"),
    [(3, 4.5407), (5, 3.3649), (8, 2.8965), (12, 2.6810), (20, 2.5280), (30, 2.4573), (120, 2.3578)],
)
def test_students_quantile(freedom: int, value: float) -> None:
    assert student_p99(freedom) == pytest.approx(value, rel=5e-3 if freedom < 5 else 1e-3)


@pytest.mark.parametrize(("count", "factor"), [(1, 3.59), (5, 1.54), (30, 1.16)])
def test_the_fewer_were_measured_the_further_the_p99_lies_above(count: int, factor: float) -> None:
    times = times_of([2.0] * count)
    assert times is not None
    assert times.p50_seconds == pytest.approx(2.0)
    assert times.p99_seconds / 2.0 == pytest.approx(factor, abs=0.05)


@given(some.lists(some.floats(0.0, 1e6), min_size=1, max_size=98))
def test_with_few_measurements_p99_is_never_below_the_longest(measured: list[float]) -> None:
    times = times_of(measured)
    assert times is not None
    assert times.p99_seconds >= max(measured)
    assert times.p50_seconds <= times.p99_seconds < math.inf


def test_from_99_measurements_on_they_speak_for_themselves() -> None:
    times = times_of([float(one) for one in range(1, 200)])
    assert times is not None
    assert (times.count, times.p50_seconds, times.p99_seconds) == (199, 100.0, 198.0)


def test_what_is_no_time_is_left_out() -> None:
    assert times_of([]) is None
    assert times_of([-1.0, math.nan, math.inf]) is None
    times = times_of([-1.0, 3.0, math.nan])
    assert times is not None
    assert (times.count, times.mean_seconds) == (1, 3.0)


@pytest.mark.parametrize("count", [1, 3, 10, 30, 120])
@pytest.mark.parametrize("spread", [0.05, 0.25])
def test_the_next_time_exceeds_the_p99_of_those_before_about_once_in_a_hundred(count: int, spread: float) -> None:
    """Whatever was measured: over many histories, the promise of p99 holds."""
    source = random.Random(f"{count} {spread}")
    exceeded = 0
    for _ in range(2000):
        times = times_of([source.lognormvariate(1.0, spread) for _ in range(count)])
        assert times is not None
        exceeded += source.lognormvariate(1.0, spread) > times.p99_seconds
    assert exceeded / 2000 <= 0.017


def test_a_notice_that_leaves_too_little_time_counts_as_none() -> None:
    assert usable_notice_share(0.9, final_save_p99_seconds=12, grace_seconds=30, margin_seconds=6) == 0.9
    assert usable_notice_share(0.9, final_save_p99_seconds=12, grace_seconds=15, margin_seconds=3) == 0.9
    assert usable_notice_share(0.9, final_save_p99_seconds=12.1, grace_seconds=15, margin_seconds=3) == 0.0
    assert usable_notice_share(0.9, final_save_p99_seconds=None, grace_seconds=3600, margin_seconds=30) == 0.0


def test_what_a_damaged_journal_says_is_left_out() -> None:
    assert times_of([1e308, math.inf, math.nan, -1.0]) is None
    assert times_of([1e308, 2.0]) == times_of([2.0])
    sound = AttemptFacts(exposure_seconds=100.0, ending=Ending.UNWARNED)
    wild = AttemptFacts(exposure_seconds=1e308, ending=Ending.UNWARNED, stalls_seconds=(1e308,))
    assert learn([sound, wild], prior_between_seconds=3600.0).between_seconds < 3600.0
