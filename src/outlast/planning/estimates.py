"""What is learned over the attempts of a run: how often it is interrupted, how often warned, how long things take."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from outlast.planning.attempts import AttemptFacts, Ending
from outlast.planning.formulae import PRIOR_INTERRUPTIONS, estimated_between_seconds, notice_share

_HIGH = 0.99
_NORMAL_HIGH = 2.3263478740408408  # that quantile of the normal distribution
# Before anything is known of how much times scatter: a spread of a fifth, worth as much as three measurements.
_PRIOR_SPREAD = 0.2
_PRIOR_WEIGHT = 3
# From so many on, the measurements themselves say what is exceeded once in a hundred times.
_ENOUGH_FOR_ORDER = 99
_LEAST_SECONDS = 1e-6  # a clock may say that something took no time at all
_MOST_SECONDS = 1e9  # and a damaged journal that it took longer than there have been computers


@dataclass(frozen=True, slots=True)
class Times:
    """How long something takes, from `count` measurements. Seconds; the next will rarely exceed `p99_seconds`."""

    count: int
    mean_seconds: float
    p50_seconds: float
    p99_seconds: float


def times_of(measured: Sequence[float]) -> Times | None:
    """What measurements say of the next one; None where there are none. Those that can be no time are left out.

    p50 is the median. p99 is a bound for the next measurement, not for those seen. From 99 on, it is an order
    statistic: the k-th smallest of n is not exceeded by the next with probability k / (n + 1). With fewer there is
    none, and it is parametric: times are log-normal, their spread is unknown with a prior of a fifth that weighs as
    much as three measurements, and the next one then follows a Student t in logarithms (the posterior predictive of
    the normal-inverse-gamma model; Gelman et al., "Bayesian Data Analysis", 3rd edition, 3.2-3.3). One measurement
    gives about 3.6 times itself, five alike 1.5 times, thirty alike 1.2; it is never below the longest seen.
    """
    kept = sorted(max(one, _LEAST_SECONDS) for one in measured if 0.0 <= one < _MOST_SECONDS)
    if not kept:
        return None
    high = _order_bound(kept) if len(kept) >= _ENOUGH_FOR_ORDER else max(_parametric_bound(kept), kept[-1])
    return Times(len(kept), _mean(kept), _median(kept), high)


def _order_bound(kept: Sequence[float]) -> float:
    return kept[math.ceil(_HIGH * (len(kept) + 1)) - 1]


def _parametric_bound(kept: Sequence[float]) -> float:
    logs = [math.log(one) for one in kept]
    middle = _mean(logs)
    scatter = sum((one - middle) ** 2 for one in logs)
    freedom = _PRIOR_WEIGHT + len(logs) - 1
    spread = math.sqrt((_PRIOR_WEIGHT * _PRIOR_SPREAD**2 + scatter) / freedom * (1.0 + 1.0 / len(logs)))
    return math.exp(middle + student_p99(freedom) * spread)


def student_p99(freedom: int) -> float:
    """The 0.99 quantile of Student's t, within 0.5 % from 3 degrees of freedom on, 0.1 % from 5 on.

    The expansion around the normal quantile: Abramowitz and Stegun, "Handbook of Mathematical Functions", 26.7.5.
    """
    z = _NORMAL_HIGH
    terms = (
        (z**3 + z) / 4,
        (5 * z**5 + 16 * z**3 + 3 * z) / 96,
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384,
        (79 * z**9 + 776 * z**7 + 1482 * z**5 - 1920 * z**3 - 945 * z) / 92160,
    )
    return z + sum(term / math.pow(freedom, power) for power, term in enumerate(terms, start=1))


# The standard module of this name would cost the start of every job some milliseconds.


def _mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values)


def _median(in_order: Sequence[float]) -> float:
    middle = len(in_order) // 2
    return in_order[middle] if len(in_order) % 2 else (in_order[middle - 1] + in_order[middle]) / 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Learned:
    """What the attempts of a run say. None where nothing of the kind was measured.

    `losses` are interruptions and crashes together: each takes unsaved work away. `between_seconds` is the mean time
    between losses, `notice_share` the share of losses with a final save in time, were every final save to fit; see
    `usable_notice_share`.
    """

    attempts: int
    interruptions: int
    crashes: int
    exposure_seconds: float
    between_seconds: float
    notice_share: float
    stall: Times | None = None
    persist: Times | None = None
    final_save: Times | None = None
    restore: Times | None = None

    @property
    def losses(self) -> int:
        return self.interruptions + self.crashes

    def between_after(self, seconds: float) -> float:
        """`between_seconds` once the running attempt has gone on for so long without a loss."""
        return self.between_seconds + seconds / (PRIOR_INTERRUPTIONS + self.losses)


def learn(attempts: Iterable[AttemptFacts], *, prior_between_seconds: float) -> Learned:
    """What a run's attempts say, the running one among them; with none, the prior of the platform alone.

    Crashes count as interruptions without notice: what was not saved is lost all the same.
    """
    known = list(attempts)
    interruptions = sum(one.ending.is_interruption for one in known)
    crashes = sum(one.ending is Ending.CRASHED for one in known)
    exposure = sum(one.exposure_seconds for one in known if 0.0 < one.exposure_seconds < _MOST_SECONDS)
    saved = sum(one.ending is Ending.SAVED for one in known)
    return Learned(
        attempts=len(known),
        interruptions=interruptions,
        crashes=crashes,
        exposure_seconds=exposure,
        between_seconds=estimated_between_seconds(
            interruptions=interruptions + crashes, exposure_seconds=exposure, prior_seconds=prior_between_seconds
        ),
        notice_share=notice_share(saved_in_time=saved, interruptions=interruptions + crashes),
        stall=times_of([one for attempt in known for one in attempt.stalls_seconds]),
        persist=times_of([one for attempt in known for one in attempt.persists_seconds]),
        final_save=times_of([one for attempt in known for one in attempt.final_saves_seconds]),
        restore=times_of([one.restore_seconds for one in known if one.restore_seconds is not None]),
    )


def usable_notice_share(
    share: float, *, final_save_p99_seconds: float | None, grace_seconds: float, margin_seconds: float
) -> float:
    """The share r that a plan may count on: 0 where a final save would not fit, or nobody knows how long it takes.

    Formula 6: r = 0 whenever F_p99 + margin > G.
    """
    if final_save_p99_seconds is None or final_save_p99_seconds + margin_seconds > grace_seconds:
        return 0.0
    return share


def transfer_times(size_bytes: int, *, measured: Iterable[tuple[int, float]]) -> Times | None:
    """How long a save of a size may take, from (bytes, seconds) of others; None where there are none.

    Formula 6: p99 is bytes / BW_p1. For a final save, the p99 of a step comes on top. It scales in proportion, so
    small saves say too much of large ones: their seconds are mostly a constant.
    """
    per_gigabyte = times_of([seconds / size * 1e9 for size, seconds in measured if size > 0])
    if per_gigabyte is None:
        return None
    share = size_bytes / 1e9
    return Times(
        per_gigabyte.count,
        share * per_gigabyte.mean_seconds,
        share * per_gigabyte.p50_seconds,
        share * per_gigabyte.p99_seconds,
    )
