"""Formulae for checkpoint intervals, waste and goodput, each with its source. Nothing here measures or decides.

All times are seconds. The words, and their letters in the literature:

- stall (s): the training stands still for one save; persist (P): from the end of the stall until durable;
- final save (F): from a notice until a last save is durable; grace (G): from a notice until the kill;
- between (M): mean time between interruptions of this job; restore (R): from the start of a process until its first
  new step; downtime (D): waiting for a machine, which nobody is billed for;
- interval (tau): compute between two saves; period (T): interval and stall;
- notice share (r): of all interruptions, those with a notice that leaves time for a final save.
"""

import math
from dataclasses import dataclass

_WEIBULL_LEAST_AGE_SECONDS = 60.0
_LARGE_SHARE = 25.0
PRIOR_INTERRUPTIONS = 1.0  # formula 9: a platform's prior weighs as much as one interruption


def young_interval_seconds(stall_seconds: float, *, between_seconds: float) -> float:
    """The interval sqrt(2 s M).

    Formula 1: J. W. Young, "A first order approximation to the optimum checkpoint interval", CACM 17 (9), 1974.
    """
    return math.sqrt(2.0 * stall_seconds * between_seconds)


def daly_first_order_interval_seconds(stall_seconds: float, *, between_seconds: float, restore_seconds: float) -> float:
    """The interval sqrt(2 s (M + R)) - s.

    Formula 2: J. T. Daly, "A model for predicting the optimum checkpoint interval for restart dumps", ICCS 2003.
    """
    return math.sqrt(2.0 * stall_seconds * (between_seconds + restore_seconds)) - stall_seconds


def most_available_period_seconds(stall_seconds: float, *, between_seconds: float, restore_seconds: float) -> float:
    """The period, save included, with the highest availability: s + sqrt(2 (M + R) s + s^2).

    Formula 2: arXiv 2410.18124 (NVIDIA, 2024).
    """
    room = 2.0 * (between_seconds + restore_seconds) * stall_seconds + stall_seconds**2
    return stall_seconds + math.sqrt(room)


def daly_interval_seconds(stall_seconds: float, *, between_seconds: float) -> float:
    """The interval of higher order: sqrt(2 s M) [1 + sqrt(s / 2M) / 3 + (s / 2M) / 9] - s for s < 2M, else M.

    Formula 3: J. T. Daly, "A higher order estimate of the optimum checkpoint interval for restart dumps", Future
    Generation Computer Systems 22 (3), 2006.
    """
    if stall_seconds >= 2.0 * between_seconds:
        return between_seconds
    part = stall_seconds / (2.0 * between_seconds)
    young = young_interval_seconds(stall_seconds, between_seconds=between_seconds)
    return young * (1.0 + math.sqrt(part) / 3.0 + part / 9.0) - stall_seconds


def exact_interval_seconds(stall_seconds: float, *, between_seconds: float) -> float:
    """The interval that is best when interruptions are exponential: M (1 + W0(-exp(-1 - s/M))).

    Formula 4: derived, where (exp((tau + s) / M) - 1) / tau is least; W0 is Lambert's function.
    """
    return between_seconds * (1.0 + _lambert_offset(stall_seconds / between_seconds))


def _lambert_offset(share: float) -> float:
    """W0(-exp(-1 - share)) for share >= 0.

    With w = W0(...) the equation w e^w = -e^(-1 - share) is ln(-w) + w = -1 - share. Newton on x = 1 + w, which is in
    [0, 1): x + ln(1 - x) + share = 0; from sqrt(2 share), its first-order value, a handful of steps are exact. A
    direct W0 would lose its digits here, next to the branch point at -1/e.
    """
    if share <= 0.0:
        return -1.0
    if share > _LARGE_SHARE:
        return -math.exp(-1.0 - share)  # W0(z) = z, but for z^2
    inside = min(math.sqrt(2.0 * share), 1.0 - 1e-12)
    for _ in range(60):
        value = inside + math.log1p(-inside) + share
        step = value * (1.0 - inside) / inside  # value / -derivative
        following = inside + step
        if following >= 1.0:
            following = (inside + 1.0) / 2.0
        elif following <= 0.0:
            following = inside / 2.0
        if abs(following - inside) <= 1e-15 * inside:
            return following - 1.0
        inside = following
    return inside - 1.0


def expected_slowdown(
    interval_seconds: float,
    *,
    stall_seconds: float,
    between_seconds: float,
    restore_seconds: float = 0.0,
    downtime_seconds: float = 0.0,
) -> float:
    """Expected wall time over work, blocking saves, exponential interruptions; its inverse is the goodput.

    Formula 5: e^(R/M) (M + D) (e^((tau + s) / M) - 1) / tau. Infinite where a period all but never succeeds.
    """
    try:
        attempts = math.exp(restore_seconds / between_seconds)
        growth = math.expm1((interval_seconds + stall_seconds) / between_seconds)
    except OverflowError:
        return math.inf
    return attempts * (between_seconds + downtime_seconds) * growth / interval_seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class Costs:
    """What interruptions and saves cost a job: see this module's words. Seconds, and a share from 0 to 1."""

    stall_seconds: float
    between_seconds: float
    persist_seconds: float = 0.0
    restore_seconds: float = 0.0
    final_save_seconds: float = 0.0
    notice_share: float = 0.0


def wasted_share(period_seconds: float, costs: Costs) -> float:
    """The share of up-time that is not kept work: saves, lost work, final saves, restores. To first order.

    Formula 6: s/T + (1 - r) (T/2 + P) / M + r F / M + R / M; the shape of Aupy, Robert, Vivien, Zaidouni,
    "Checkpointing algorithms and fault prediction", JPDC 74 (2), 2014. The expected goodput is 1 less this.
    An infinite period means no periodic saves: possible only where each interruption has a notice.
    """
    unwarned = 1.0 - costs.notice_share
    saves = costs.stall_seconds / period_seconds
    lost = unwarned * (period_seconds / 2.0 + costs.persist_seconds) / costs.between_seconds if unwarned else 0.0
    ends = (costs.notice_share * costs.final_save_seconds + costs.restore_seconds) / costs.between_seconds
    return saves + lost + ends


def best_period_seconds(stall_seconds: float, *, between_seconds: float, notice_share: float = 0.0) -> float:
    """The period that wastes least: sqrt(2 s M / (1 - r)); infinite when every interruption has a notice.

    Formula 6: persist, restore and final-save times shift what is wasted, not where it is least. Where persisting
    slows the training down, s is `effective_stall_seconds`.
    """
    if notice_share >= 1.0:
        return math.inf
    return math.sqrt(2.0 * stall_seconds * between_seconds / (1.0 - notice_share))


def effective_stall_seconds(stall_seconds: float, *, persist_seconds: float, slowdown: float) -> float:
    """What one save costs the training in all: s + k P, where persisting slows it by the share k for P seconds.

    Formula 6.
    """
    return stall_seconds + slowdown * persist_seconds


def notice_share(*, saved_in_time: int, interruptions: int, prior: tuple[float, float] = (1.0, 1.0)) -> float:
    """The share r of interruptions with a notice and a final save in time: (a + saved) / (a + b + interruptions).

    Formula 6: the mean of a Beta posterior; the prior Beta(1, 1) is for platforms that send SIGTERM.
    """
    before, against = prior
    return (before + saved_in_time) / (before + against + interruptions)


def is_step_border_due(compute_seconds_since_save: float, *, threshold_seconds: float) -> bool:
    """Whether to save at the end of this step: the first whose compute since the last save reaches the threshold.

    Formula 7: the dynamic threshold of hal-02514107, whose first-order value is `best_period_seconds`. The threshold
    is not rounded to whole steps beforehand.
    """
    return compute_seconds_since_save >= threshold_seconds


def misjudged_waste(factor: float) -> float:
    """What saves and lost work cost with a period `factor` times the best one, over what they cost with the best.

    Formula 8: (k + 1/k) / 2. Twice the period, four times M or s, costs a quarter more: simple estimates suffice.
    """
    return (factor + 1.0 / factor) / 2.0


def estimated_between_seconds(
    *,
    interruptions: int,
    exposure_seconds: float,
    prior_seconds: float,
    prior_interruptions: float = PRIOR_INTERRUPTIONS,
) -> float:
    """The mean time between interruptions after some were seen: (b + exposure) / (a + interruptions).

    Formula 9: the inverse of the mean of a Gamma(a, b) posterior of the rate; b is `prior_seconds`. The exposure
    includes the attempt that still runs.
    """
    return (prior_seconds + exposure_seconds) / (prior_interruptions + interruptions)


def weibull_hazard_per_second(age_seconds: float, *, shape: float, scale_seconds: float) -> float:
    """The rate of interruptions at a machine's age, 60 s at least: (k / eta) (age / eta)^(k - 1). Formula 10."""
    age = max(age_seconds, _WEIBULL_LEAST_AGE_SECONDS)
    return shape / scale_seconds * math.pow(age / scale_seconds, shape - 1.0)


def hazard_interval_seconds(stall_seconds: float, *, hazard_per_second: float) -> float:
    """The interval where the rate of interruptions is not constant: sqrt(2 s / h), h being the rate at this age.

    Formula 10, a fluid approximation. On spot machines the risk is often highest after the start (Weibull shapes of
    0.5 to 0.75 on AWS), so this saves more densely there.
    """
    return math.sqrt(2.0 * stall_seconds / hazard_per_second)


def last_safe_moment_seconds(deadline_seconds: float, *, final_save_p99_seconds: float, margin_seconds: float) -> float:
    """Until when a job may compute before a known deadline: deadline - F_p99 - margin, on the deadline's clock.

    Formula 11: for long notices and known time limits. With a save at once as insurance, the gain is G - F - margin.
    """
    return deadline_seconds - final_save_p99_seconds - margin_seconds


def tier_interval_seconds(stall_seconds: float, *, between_losses_seconds: float) -> float:
    """The interval of one of two places to save to: sqrt(2 s_i M_i).

    Formula 12: M_i is the mean time between failures that destroy the faster place before it.
    """
    return young_interval_seconds(stall_seconds, between_seconds=between_losses_seconds)


def pccheck_least_steps(*, write_seconds: float, in_flight: int, slowdown: float, step_seconds: float) -> float:
    """PCcheck's least number of steps between saves, for a slow-down of at most `slowdown` (1.05: 5 %).

    Tw / (N q t), not rounded up. Strati, Friedman, Klimovic, "PCcheck: persistent concurrent checkpointing for ML",
    ASPLOS 2025.
    """
    return write_seconds / (in_flight * slowdown * step_seconds)


def bounded_period_seconds(
    period_seconds: float,
    *,
    stall_seconds: float,
    persist_seconds: float,
    in_flight: int = 1,
    largest_share: float,
    longest_seconds: float = math.inf,
    longest_loss_seconds: float = math.inf,
) -> float:
    """The period within what is possible and allowed: T >= P/N, T >= s/q, T <= the user's bound of loss.

    Formula 6. Where bounds contradict each other, the later one wins of: our own longest period, the share q of the
    time that saves may cost, the user's bound of loss, and what can be written with N saves in flight.
    """
    allowed = max(min(period_seconds, longest_seconds), stall_seconds / largest_share)
    return max(min(allowed, longest_loss_seconds), persist_seconds / in_flight)
