"""The formulae of intervals and goodput against the worked numbers of their sources, and against each other."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as some

from outlast.planning import formulae
from outlast.planning.formulae import Costs

MINUTE = 60.0
HOUR = 3600.0


def near(value: float) -> object:
    return pytest.approx(value, rel=1e-3)


# The figure captions of Daly 2006 are in minutes; formulae know no unit as long as it is the same one.
@pytest.mark.parametrize(("between", "best"), [(1440, 116.690), (360, 56.713), (15, 9.141)])
def test_daly_2006_gives_the_optima_that_the_paper_prints(between: float, best: float) -> None:
    assert formulae.daly_interval_seconds(5, between_seconds=between) == near(best)


@pytest.mark.parametrize(
    ("stall", "between", "best"),
    [
        (5, 1440, 116.690), (5, 360, 56.714), (5, 15, 9.167), (30, 15, 14.2130), (10, 3600, 261.7033),
        (0.2, 14400, 75.761), (30, 7200, 637.421),
    ],
)  # fmt: skip
def test_the_exact_interval(stall: float, between: float, best: float) -> None:
    assert formulae.exact_interval_seconds(stall, between_seconds=between) == near(best)


@pytest.mark.parametrize(
    ("stall", "between", "best"),
    [(5, 1440, 120.0), (5, 360, 60.0), (5, 15, 12.247), (10, 3600, 268.328), (0.2, 14400, 75.895)],
)
def test_youngs_interval(stall: float, between: float, best: float) -> None:
    assert formulae.young_interval_seconds(stall, between_seconds=between) == near(best)


@pytest.mark.parametrize(("between", "best"), [(1440, 115.416), (360, 55.828), (15, 10.811)])
def test_daly_of_first_order(between: float, best: float) -> None:
    found = formulae.daly_first_order_interval_seconds(5, between_seconds=between, restore_seconds=10)
    assert found == near(best)


def test_the_most_available_period() -> None:
    found = formulae.most_available_period_seconds(5, between_seconds=360, restore_seconds=10)
    assert found == near(66.033)


def test_a_save_longer_than_what_stands_between_interruptions() -> None:
    assert formulae.daly_interval_seconds(30, between_seconds=15) == 15
    assert formulae.daly_interval_seconds(10, between_seconds=3600) == near(261.703)


@pytest.mark.parametrize(
    ("interval", "costs", "goodput"),
    [
        (56.713, {"stall_seconds": 5, "between_seconds": 360, "restore_seconds": 10}, 0.819381),
        (60.0, {"stall_seconds": 5, "between_seconds": 360, "restore_seconds": 10}, 0.819176),
        (
            637.421,
            {"stall_seconds": 30, "between_seconds": 7200, "restore_seconds": 120, "downtime_seconds": 60},
            0.888996,
        ),
        (261.7033, {"stall_seconds": 10, "between_seconds": 3600, "restore_seconds": 120}, 0.896904),
    ],
)
def test_the_goodput_of_blocking_saves(interval: float, costs: dict[str, float], goodput: float) -> None:
    assert 1 / formulae.expected_slowdown(interval, **costs) == pytest.approx(goodput, rel=1e-5)


def test_a_period_that_never_succeeds_has_no_end() -> None:
    assert formulae.expected_slowdown(1e6, stall_seconds=1, between_seconds=1) == math.inf


@pytest.mark.parametrize(
    ("share", "period", "waste"),
    [(0, 268.328, 0.107869), (0.5, 379.473, 0.087149), (0.9, 848.528, 0.058904), (0.99, 2683.282, 0.042987)],
)
def test_notices_make_the_period_longer_and_the_waste_smaller(share: float, period: float, waste: float) -> None:
    found = formulae.best_period_seconds(10, between_seconds=3600, notice_share=share)
    costs = Costs(stall_seconds=10, between_seconds=3600, final_save_seconds=8, restore_seconds=120, notice_share=share)
    assert found == near(period)
    assert formulae.wasted_share(found, costs) == near(waste)


@pytest.mark.parametrize(("share", "final", "period", "goodput"), [(0, 0, 120, 0.98542), (0.9, 12, 379.473, 0.99224)])
def test_saves_beside_the_training(share: float, final: float, period: float, goodput: float) -> None:
    found = formulae.best_period_seconds(0.5, between_seconds=14400, notice_share=share)
    costs = Costs(
        stall_seconds=0.5,
        between_seconds=14400,
        persist_seconds=30,
        restore_seconds=60,
        final_save_seconds=final,
        notice_share=share,
    )
    assert found == near(period)
    assert 1 - formulae.wasted_share(found, costs) == pytest.approx(goodput, abs=1e-5)


def test_where_each_interruption_has_a_notice_periodic_saves_are_not_needed() -> None:
    assert formulae.best_period_seconds(10, between_seconds=3600, notice_share=1.0) == math.inf
    costs = Costs(stall_seconds=10, between_seconds=3600, final_save_seconds=36, notice_share=1.0)
    assert formulae.wasted_share(math.inf, costs) == near(0.01)


def test_persisting_that_slows_the_training_down_is_part_of_the_cost() -> None:
    assert formulae.effective_stall_seconds(0.5, persist_seconds=30, slowdown=0.03) == near(1.4)


def test_the_notice_share_starts_at_a_half_and_follows_what_is_seen() -> None:
    assert formulae.notice_share(saved_in_time=0, interruptions=0) == 0.5
    assert formulae.notice_share(saved_in_time=8, interruptions=8) == near(0.9)
    assert formulae.notice_share(saved_in_time=0, interruptions=8) == near(0.1)


@pytest.mark.parametrize(("factor", "more"), [(2, 1.25), (0.5, 1.25), (4, 2.125), (0.25, 2.125)])
def test_what_a_wrong_period_costs(factor: float, more: float) -> None:
    assert formulae.misjudged_waste(factor) == near(more)
    costs = Costs(stall_seconds=1, between_seconds=7200)
    best = formulae.best_period_seconds(1, between_seconds=7200)
    assert formulae.wasted_share(factor * best, costs) / formulae.wasted_share(best, costs) == near(more)


@pytest.mark.parametrize(
    ("age", "interval"), [(60, 132.970), (600, 210.744), (3600, 301.568), (14400, 397.921), (86400, 569.412)]
)
def test_a_machine_at_risk_after_its_start_is_saved_more_often_there(age: float, interval: float) -> None:
    hazard = formulae.weibull_hazard_per_second(age, shape=0.6, scale_seconds=7200)
    assert formulae.hazard_interval_seconds(5, hazard_per_second=hazard) == near(interval)


def test_an_age_below_a_minute_counts_as_a_minute() -> None:
    young = formulae.weibull_hazard_per_second(0, shape=0.6, scale_seconds=7200)
    assert young == formulae.weibull_hazard_per_second(60, shape=0.6, scale_seconds=7200)


@pytest.mark.parametrize(("interruptions", "exposure", "between"), [(2, 5, 2.6667), (0, 10, 13)])
def test_the_time_between_interruptions_is_learned(interruptions: int, exposure: float, between: float) -> None:
    found = formulae.estimated_between_seconds(
        interruptions=interruptions, exposure_seconds=exposure * HOUR, prior_seconds=3 * HOUR
    )
    assert found / HOUR == near(between)


def test_a_save_is_due_at_the_first_border_past_the_threshold() -> None:
    borders = [step * 40.0 for step in range(1, 6)]
    due = [border for border in borders if formulae.is_step_border_due(border, threshold_seconds=100)]
    assert due[0] == 120.0
    assert formulae.is_step_border_due(100.0, threshold_seconds=100)


def test_computing_goes_on_until_the_last_safe_moment() -> None:
    assert formulae.last_safe_moment_seconds(3600, final_save_p99_seconds=40, margin_seconds=30) == 3530


def test_each_tier_has_its_own_interval() -> None:
    assert formulae.tier_interval_seconds(0.2, between_losses_seconds=14400) == near(75.895)


def test_pcchecks_least_frequency() -> None:
    found = formulae.pccheck_least_steps(write_seconds=12, in_flight=2, slowdown=1.05, step_seconds=0.5)
    assert found == pytest.approx(11.43, abs=5e-3)


# --- bounds -----------------------------------------------------------------------------------------


def bounded(period: float, **changed: float) -> float:
    known = {"stall_seconds": 1.0, "persist_seconds": 0.0, "largest_share": 0.05}
    return formulae.bounded_period_seconds(period, **{**known, **changed})


def test_a_period_keeps_to_what_can_be_written_and_to_the_budget() -> None:
    assert bounded(100.0) == 100.0
    assert bounded(5.0) == 20.0  # 5 % of the time at most
    assert bounded(50.0, persist_seconds=90.0) == 90.0
    assert bounded(50.0, persist_seconds=90.0, in_flight=2) == 50.0
    assert bounded(math.inf, longest_seconds=600.0) == 600.0


def test_a_bound_of_loss_beats_the_budget_but_not_the_storage() -> None:
    assert bounded(100.0, longest_loss_seconds=10.0) == 10.0
    assert bounded(100.0, longest_loss_seconds=10.0, persist_seconds=15.0) == 15.0


# --- the formulae against each other ------------------------------------------------------------------

_stalls = some.floats(1e-3, 1e4)
_betweens = some.floats(1.0, 1e7)


@given(_stalls, _betweens)
def test_no_interval_beats_the_exact_one(stall: float, between: float) -> None:
    best = formulae.exact_interval_seconds(stall, between_seconds=between)
    least = formulae.expected_slowdown(best, stall_seconds=stall, between_seconds=between)
    for factor in (0.5, 0.9, 0.99, 1.01, 1.1, 2.0):
        other = formulae.expected_slowdown(factor * best, stall_seconds=stall, between_seconds=between)
        assert other >= least * (1 - 1e-9)


@pytest.mark.parametrize("stall", [24.9, 25.1, 1e3, 1e6])
def test_a_save_that_takes_far_longer_than_machines_live(stall: float) -> None:
    assert formulae.exact_interval_seconds(stall, between_seconds=1) == pytest.approx(1.0, abs=1e-10)


@given(some.floats(1e-3, 10.0), some.floats(3600.0, 1e7))
def test_daly_and_young_come_close_to_the_exact_interval_where_saves_are_short(stall: float, between: float) -> None:
    exact = formulae.exact_interval_seconds(stall, between_seconds=between)
    assert formulae.daly_interval_seconds(stall, between_seconds=between) == pytest.approx(exact, rel=1e-3)
    assert formulae.young_interval_seconds(stall, between_seconds=between) == pytest.approx(exact, rel=0.06)


@given(_stalls, _betweens, some.floats(0.0, 0.99), some.floats(0.1, 10.0))
def test_no_period_wastes_less_than_the_best(stall: float, between: float, share: float, factor: float) -> None:
    costs = Costs(stall_seconds=stall, between_seconds=between, notice_share=share, persist_seconds=3.0)
    best = formulae.best_period_seconds(stall, between_seconds=between, notice_share=share)
    assert formulae.wasted_share(best, costs) <= formulae.wasted_share(factor * best, costs) * (1 + 1e-9)
