"""Replays up-times of machines under ways to choose the interval, against an oracle that knows each kill.

A machine starts, restores for R, and computes; a save stops it for s, and is durable P later. At a kill, what was not
durable is lost. Some kills have a notice: the job stops at once, makes a final save in F, and leaves.
"""

import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from benchmarks.goodput_traces import SYNTHETIC_SHAPE, Trace, UpTime
from outlast.planning.attempts import AttemptFacts, Ending
from outlast.planning.estimates import Learned, learn
from outlast.planning.formulae import (
    best_period_seconds,
    hazard_interval_seconds,
    weibull_hazard_per_second,
    young_interval_seconds,
)
from outlast.schedule import AutoSchedule, Expected

SPOT_BETWEEN_SECONDS = 3 * 3600.0  # formula 9: the prior for spot machines
NOTICE_SEED = 20261129


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """What things cost. Seconds; `notice_share` of the kills have a notice of `notice_seconds`."""

    stall_seconds: float
    persist_seconds: float
    restore_seconds: float
    notice_share: float = 0.0
    notice_seconds: float = 0.0
    final_save_seconds: float = 0.0

    @property
    def final_save_fits(self) -> bool:
        """With the margin that a job keeps: a fifth of the notice."""
        return 0.0 < self.final_save_seconds <= 0.8 * self.notice_seconds


PeriodAt = Callable[[float], float]  # the age of the machine -> seconds from one save to the next


class Strategy:
    """A way to choose the period: `begin` is asked at the start of each attempt, with what the ones before were."""

    def __init__(self, name: str, begin: Callable[[Sequence[AttemptFacts], Setting, Trace], PeriodAt]) -> None:
        self.name, self.begin = name, begin


def fixed(seconds: float, name: str = "") -> Strategy:
    return Strategy(name or f"fixed {seconds:.0f} s", lambda _seen, _setting, _trace: lambda _age: seconds)


def _young_true(_seen: Sequence[AttemptFacts], setting: Setting, trace: Trace) -> PeriodAt:
    period = young_interval_seconds(setting.stall_seconds, between_seconds=trace.between_seconds)
    return lambda _age: period


def _adaptive(seen: Sequence[AttemptFacts], setting: Setting, _trace: Trace) -> PeriodAt:
    period = young_interval_seconds(setting.stall_seconds, between_seconds=_learned(seen).between_seconds)
    return lambda _age: period


def _hazard(seen: Sequence[AttemptFacts], setting: Setting, _trace: Trace) -> PeriodAt:
    scale = _learned(seen).between_seconds / math.gamma(1.0 + 1.0 / SYNTHETIC_SHAPE)

    def period(age: float) -> float:
        hazard = weibull_hazard_per_second(age, shape=SYNTHETIC_SHAPE, scale_seconds=scale)
        return hazard_interval_seconds(setting.stall_seconds, hazard_per_second=hazard)

    return period


def _notice_aware(seen: Sequence[AttemptFacts], setting: Setting, _trace: Trace) -> PeriodAt:
    learned = _learned(seen)
    share = learned.notice_share if setting.final_save_fits else 0.0
    period = best_period_seconds(setting.stall_seconds, between_seconds=learned.between_seconds, notice_share=share)
    return lambda _age: period


def _outlast(seen: Sequence[AttemptFacts], setting: Setting, _trace: Trace) -> PeriodAt:
    """every="auto" itself, with what a job would measure; the stall of its first save is known from the size."""
    schedule = AutoSchedule(
        Expected(
            between_seconds=SPOT_BETWEEN_SECONDS,
            state_bytes=int(5e9 * setting.stall_seconds),
            grace_seconds=setting.notice_seconds,
            margin_seconds=0.2 * setting.notice_seconds,
        )
    )
    schedule.learn(_learned(seen))
    schedule.measured(setting.stall_seconds, persist_seconds=setting.persist_seconds)

    def period(age: float) -> float:
        schedule.saved(step=0, epochs=0, now=age)
        return schedule.period_seconds

    return period


def _learned(seen: Sequence[AttemptFacts]) -> Learned:
    return learn(seen, prior_between_seconds=SPOT_BETWEEN_SECONDS)


OUTLAST = Strategy('outlast, every="auto"', _outlast)
STRATEGIES = (
    fixed(300.0, "fixed 5 min"),
    fixed(1800.0, "fixed 30 min"),
    Strategy("Young, true M", _young_true),
    Strategy("adaptive (9)", _adaptive),
    Strategy("hazard, k=0.6", _hazard),
    Strategy("notice-aware (6)", _notice_aware),
    OUTLAST,
)


# --- the replay -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Kept:
    """Work that survived, and what the oracles keep of the same up-times: see `oracle_keeps`. Seconds."""

    work: float
    oracle: float
    heeding_oracle: float

    def __add__(self, other: "Kept") -> "Kept":
        return Kept(self.work + other.work, self.oracle + other.oracle, self.heeding_oracle + other.heeding_oracle)

    @property
    def percent(self) -> float:
        return 100.0 * self.work / self.oracle

    @property
    def percent_of_heeding_oracle(self) -> float:
        return 100.0 * self.work / self.heeding_oracle


def replay(trace: Trace, strategy: Strategy, setting: Setting) -> Kept:
    """The trace from its first machine to its last; what one attempt was is known to the next."""
    source = random.Random(f"{NOTICE_SEED} {trace.name}")
    seen: list[AttemptFacts] = []
    kept = Kept(0.0, 0.0, 0.0)
    for up in trace.up_times:
        noticed = source.random() < setting.notice_share and up.killed
        work = _work_kept(up, strategy.begin(seen, setting, trace), setting, noticed=noticed)
        heeding = oracle_keeps(up, setting, final_save=noticed)
        kept += Kept(work, oracle_keeps(up, setting, final_save=False), heeding)
        seen.append(_facts(up, setting, noticed=noticed))
    return kept


def oracle_keeps(up: UpTime, setting: Setting, *, final_save: bool) -> float:
    """It saves once, as periodic saves are made, so that this is durable just in time for the kill; and never else.

    With `final_save` it makes that one as a final save instead, where that is quicker: a stricter measure.
    """
    last = setting.stall_seconds + setting.persist_seconds
    if final_save and setting.final_save_fits:
        last = min(last, setting.final_save_seconds)
    return max(up.seconds - setting.restore_seconds - (last if up.killed else 0.0), 0.0)


def _work_kept(up: UpTime, period_at: PeriodAt, setting: Setting, *, noticed: bool) -> float:
    saved_at_the_end = noticed and setting.final_save_fits
    end = up.seconds - setting.notice_seconds if saved_at_the_end else up.seconds
    now, work, durable = setting.restore_seconds, 0.0, 0.0
    while True:
        compute = max(period_at(now) - setting.stall_seconds, 1.0)
        after = now + compute + setting.stall_seconds
        if after > end:
            break
        work += compute
        if after + setting.persist_seconds <= up.seconds:
            durable = work
        now = after
    if saved_at_the_end or not up.killed:  # nothing is taken away from the last machine: its work goes on
        return work + min(max(end - now, 0.0), compute)
    return durable


def _facts(up: UpTime, setting: Setting, *, noticed: bool) -> AttemptFacts:
    in_time = noticed and setting.final_save_fits
    if not up.killed:
        ending = Ending.RUNNING
    elif noticed:
        ending = Ending.SAVED if in_time else Ending.NOT_SAVED
    else:
        ending = Ending.UNWARNED
    return AttemptFacts(
        exposure_seconds=up.seconds,
        ending=ending,
        stalls_seconds=(setting.stall_seconds,),
        persists_seconds=(setting.persist_seconds,),
        final_saves_seconds=(setting.final_save_seconds,) if in_time else (),
        restore_seconds=setting.restore_seconds,
    )
