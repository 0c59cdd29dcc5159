"""The period of every="auto", what goodput it promises, and what a final save that fits is worth."""

import math
from dataclasses import dataclass, replace

from outlast.planning.formulae import (
    Costs,
    best_period_seconds,
    bounded_period_seconds,
    effective_stall_seconds,
    wasted_share,
)

# Saving may cost this share of the time at most, and this much work may be lost at most, when outlast decides.
AUTO_LARGEST_SHARE = 0.05
AUTO_LONGEST_SECONDS = 600.0
AUTO_SHORTEST_SECONDS = 1.0
# What persisting is taken to slow the training beside it by: the goal of docs/benchmarks.md, not measured in the job.
ASSUMED_SLOWDOWN = 0.03


@dataclass(frozen=True, slots=True, kw_only=True)
class Situation:
    """What a period is chosen by. Seconds; shares from 0 to 1.

    `slowdown`: of the training while a save is written beside it. `notice_share`: of all interruptions, those with a
    notice and a final save in time, 0 where none fits: see `outlast.planning.estimates.usable_notice_share`.
    `longest_loss_seconds`: the user's bound.
    """

    stall_seconds: float
    persist_seconds: float
    between_seconds: float
    slowdown: float = 0.0
    notice_share: float = 0.0
    restore_seconds: float = 0.0
    final_save_seconds: float = 0.0
    longest_loss_seconds: float = math.inf
    saves_in_flight: int = 1

    @property
    def effective_stall_seconds(self) -> float:
        return effective_stall_seconds(self.stall_seconds, persist_seconds=self.persist_seconds, slowdown=self.slowdown)

    @property
    def unbounded_period_seconds(self) -> float:
        """Where least is wasted: formula 6."""
        return best_period_seconds(
            self.effective_stall_seconds, between_seconds=self.between_seconds, notice_share=self.notice_share
        )

    @property
    def period_seconds(self) -> float:
        """The period of every="auto": formula 6 within its bounds, and 1 s at least.

        The bound of loss holds for what a kill just before a save is durable takes away: a period and the time to
        persist.
        """
        period = bounded_period_seconds(
            self.unbounded_period_seconds,
            stall_seconds=self.effective_stall_seconds,
            persist_seconds=self.persist_seconds,
            in_flight=self.saves_in_flight,
            largest_share=AUTO_LARGEST_SHARE,
            longest_seconds=AUTO_LONGEST_SECONDS,
            longest_loss_seconds=self.longest_loss_seconds - self.persist_seconds,
        )
        return max(period, AUTO_SHORTEST_SECONDS)

    @property
    def bound(self) -> str | None:
        """What keeps the period from being the best one, in words; None where it is."""
        period, stall = self.period_seconds, self.effective_stall_seconds
        if period == self.unbounded_period_seconds:
            return None
        reasons = (
            ("a save takes so long to be durable", self.persist_seconds / self.saves_in_flight),
            ("no more work may be lost", self.longest_loss_seconds - self.persist_seconds),
            (f"more often would take over {AUTO_LARGEST_SHARE:.0%} of the time", stall / AUTO_LARGEST_SHARE),
            ("the longest that outlast chooses by itself", AUTO_LONGEST_SECONDS),
            ("the shortest that outlast chooses by itself", AUTO_SHORTEST_SECONDS),
        )
        return next((reason for reason, seconds in reasons if seconds == period), None)

    def goodput(self, period_seconds: float | None = None) -> float:
        """The share of a machine's time that becomes kept work, from 0 to 1, at a period (default: the chosen one)."""
        costs = Costs(
            stall_seconds=self.effective_stall_seconds,
            between_seconds=self.between_seconds,
            persist_seconds=self.persist_seconds,
            restore_seconds=self.restore_seconds,
            final_save_seconds=self.final_save_seconds,
            notice_share=self.notice_share,
        )
        period = self.period_seconds if period_seconds is None else period_seconds
        return min(max(1.0 - wasted_share(period, costs), 0.0), 1.0)

    def with_notice_share(self, share: float) -> "Situation":
        """The same job, were this the share of interruptions that a final save comes in time for."""
        return replace(self, notice_share=share)
