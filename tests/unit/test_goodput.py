"""The goodput simulator against reckoned cases, formulae and the shipped traces."""

import random

import pytest

from benchmarks import goodput, goodput_report
from benchmarks.goodput import OUTLAST, STRATEGIES, Setting, Strategy, fixed, oracle_keeps, replay
from benchmarks.goodput_report import BEST_FIXED, JUDGED, PREFIX, Goal, goodput_tables, judge
from benchmarks.goodput_traces import (
    Trace,
    UpTime,
    cluster_of,
    cluster_traces,
    judged_traces,
    machines_of,
    synthetic_traces,
    weibull_trace,
)
from benchmarks.samples import Result, Samples
from outlast.planning.formulae import Costs, best_period_seconds, wasted_share

ASYNC = Setting(stall_seconds=1.0, persist_seconds=10.0, restore_seconds=20.0)
NOTICED = Setting(
    stall_seconds=1.0,
    persist_seconds=10.0,
    restore_seconds=20.0,
    notice_share=1.0,
    notice_seconds=30.0,
    final_save_seconds=20.0,
)


def kept(seconds: float, period: float, setting: Setting = ASYNC, *, killed: bool = True) -> float:
    return replay(Trace("one", (UpTime(seconds, killed),)), fixed(period), setting).work


# --- one machine, reckoned by hand --------------------------------------------------------------------


def test_what_is_durable_at_the_kill_is_kept() -> None:
    # Restored at 20; saves end at 121, 222, 323, and are durable at 131, 232, 333, of 100 s of work each.
    assert kept(332.0, 101.0) == 200.0
    assert kept(333.0, 101.0) == 300.0


def test_a_machine_that_dies_before_its_first_save_is_durable_keeps_nothing() -> None:
    assert kept(130.0, 101.0) == 0.0
    assert kept(10.0, 101.0) == 0.0


def test_the_work_of_the_last_machine_goes_on() -> None:
    assert kept(333.0, 101.0, killed=False) == 310.0  # three periods' work, and 10 s since the last save


def test_with_a_notice_only_the_notice_is_lost() -> None:
    assert kept(353.0, 101.0, NOTICED) == 300.0  # up to the notice at 323
    assert kept(363.0, 101.0, NOTICED) == 310.0
    assert kept(40.0, 101.0, NOTICED) == 0.0  # it came while the job was restored


def test_a_final_save_that_does_not_fit_is_not_made() -> None:
    long = Setting(
        stall_seconds=1.0,
        persist_seconds=10.0,
        restore_seconds=20.0,
        notice_share=1.0,
        notice_seconds=30.0,
        final_save_seconds=25.0,
    )
    assert not long.final_save_fits
    assert kept(353.0, 101.0, long) == kept(353.0, 101.0)


def test_the_oracle_saves_once_just_in_time() -> None:
    assert oracle_keeps(UpTime(100.0, True), ASYNC, final_save=False) == 100 - 20 - 11
    assert oracle_keeps(UpTime(100.0, False), ASYNC, final_save=False) == 100 - 20
    assert oracle_keeps(UpTime(25.0, True), ASYNC, final_save=False) == 0
    quick = Setting(**{**_fields(NOTICED), "persist_seconds": 60.0})
    assert oracle_keeps(UpTime(100.0, True), quick, final_save=True) == 100 - 20 - 20


def _fields(setting: Setting) -> dict[str, float]:
    return {name: getattr(setting, name) for name in Setting.__dataclass_fields__}


@pytest.mark.parametrize("strategy", STRATEGIES, ids=lambda one: one.name)
def test_nobody_beats_the_oracle_without_notice(strategy: Strategy) -> None:
    trace = weibull_trace("w", seed=5, seconds=5 * 86400.0)
    assert 0 < replay(trace, strategy, ASYNC).percent < 100


def test_the_first_order_waste_is_what_the_replay_finds() -> None:
    """Exponential up-times, so the formula's assumption holds: the same within 0.2 points."""
    source = random.Random(11)
    trace = Trace("exponential", tuple(UpTime(source.expovariate(1 / 14400.0), True) for _ in range(3000)))
    setting = Setting(stall_seconds=0.5, persist_seconds=30.0, restore_seconds=60.0)
    costs = Costs(stall_seconds=0.5, between_seconds=trace.between_seconds, persist_seconds=30.0, restore_seconds=60.0)
    period = best_period_seconds(0.5, between_seconds=trace.between_seconds)
    found = replay(trace, fixed(period), setting).work / trace.seconds
    assert found == pytest.approx(1 - wasted_share(period, costs), abs=0.002)


def test_auto_learns_the_rate_and_comes_close_to_the_best_interval() -> None:
    trace = weibull_trace("w", seed=3, shape=1.0, scale_seconds=1800.0, seconds=10 * 86400.0)
    best = max((replay(trace, fixed(30.0 * 1.25**n), ASYNC) for n in range(15)), key=lambda one: one.work)
    assert replay(trace, OUTLAST, ASYNC).percent > best.percent - 0.3
    assert replay(trace, fixed(1800.0), ASYNC).percent < best.percent - 10


def test_a_replay_is_the_same_each_time() -> None:
    trace = weibull_trace("w", seed=4, seconds=86400.0)
    assert replay(trace, OUTLAST, NOTICED) == replay(trace, OUTLAST, NOTICED)


# --- traces -------------------------------------------------------------------------------------------


def test_the_shipped_traces() -> None:
    traces = {trace.name: trace for trace in judged_traces()}
    assert (len(traces["bamboo AWS p3"].up_times), traces["bamboo AWS p3"].kills) == (177, 167)
    assert (len(traces["bamboo AWS g4dn"].up_times), traces["bamboo AWS g4dn"].kills) == (79, 74)
    assert traces["pccheck"].kills == 130  # all of its drops together
    assert traces["bamboo GCP v100"].seconds / 3600 == pytest.approx(1845, rel=0.01)
    assert all(up.seconds >= 0 for trace in traces.values() for up in trace.up_times)
    assert len({trace.name for trace in cluster_traces()}) == 3


def test_counts_become_up_times_of_machines_that_add_up() -> None:
    rows = [(0.0, 2), (10.0, 3), (20.0, 1), (30.0, 2), (50.0, 2)]
    trace = machines_of("counts", rows)
    assert trace.kills == 2
    assert trace.seconds == 2 * 10 + 3 * 10 + 1 * 10 + 2 * 20  # machines there, over time
    assert machines_of("counts", rows) == trace


def test_counts_become_the_times_between_drops_of_a_cluster() -> None:
    trace = cluster_of("counts", [(0.0, 2), (10.0, 3), (20.0, 1), (30.0, 2), (50.0, 1), (60.0, 1)])
    assert trace.up_times == (UpTime(20.0, True), UpTime(30.0, True), UpTime(10.0, False))


def test_synthetic_traces_have_the_mean_that_they_are_named_for() -> None:
    traces = synthetic_traces()
    assert len({trace.up_times for trace in traces}) == len(traces)
    between = sum(trace.seconds for trace in traces) / sum(trace.kills for trace in traces)
    assert between / 3600 == pytest.approx(3.0, rel=0.06)


# --- the report -----------------------------------------------------------------------------------------


def samples(percent: float) -> Samples:
    figures = {"pooled": percent, "worst": 98.5, "real": percent, "heeding": percent, "cluster: c": 50.0}
    best = {**figures, "pooled": 99.2, "interval_seconds": 120.0}
    state = PREFIX + JUDGED[0]
    return Samples([Result(0, state, OUTLAST.name, "goodput", figures), Result(0, state, BEST_FIXED, "goodput", best)])


@pytest.mark.parametrize(("percent", "verdict"), [(99.1, "met"), (99.09, "missed")])
def test_a_goal_is_a_share_of_the_oracle(percent: float, verdict: str) -> None:
    judged = judge(samples(percent), Goal(JUDGED[0], "pooled", 99.1))
    assert judged is not None
    assert judged[-1] == verdict


@pytest.mark.parametrize(("percent", "verdict"), [(99.16, "met"), (99.3, "met"), (99.14, "missed")])
def test_or_points_below_another_case(percent: float, verdict: str) -> None:
    judged = judge(samples(percent), Goal(JUDGED[0], "pooled", -0.05, BEST_FIXED))
    assert judged is not None
    assert judged[-1] == verdict


def test_what_was_not_replayed_is_not_judged() -> None:
    assert judge(Samples([]), Goal(JUDGED[0], "pooled", 99.1)) is None
    assert list(goodput_tables(Samples([]))) == []


def test_every_setting_has_its_strategies(monkeypatch: pytest.MonkeyPatch) -> None:
    short = [weibull_trace("weibull", seed=1, seconds=40000.0), weibull_trace("real", seed=2, seconds=40000.0)]
    monkeypatch.setattr(goodput_report, "judged_traces", lambda: short)
    monkeypatch.setattr(goodput_report, "cluster_traces", lambda: short[:1])
    results = list(goodput_report.replay_all())
    found = {(result.state, result.case) for result in results}
    assert found >= {(PREFIX + name, one.name) for name in goodput_report.SETTINGS for one in goodput.STRATEGIES}
    assert {case for state, case in found if state == PREFIX + JUDGED[1]} >= {BEST_FIXED}
    assert len(list(goodput_tables(Samples(results)))) == len(goodput_report.SETTINGS) + 1
