"""The last seconds: which save a notice leaves time for, and how long a long one leaves for training on."""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from outlast.clock import format_duration
from outlast.planning.formulae import last_safe_moment_seconds
from outlast.settings import LONG_NOTICE_SECONDS


class SaveKind(StrEnum):
    """The ways to make progress durable at a notice, as they are named to people."""

    IN_FLIGHT = "finishing the save in flight"
    INCREMENTAL = "an incremental save"
    FULL = "a full save"
    CURSOR = "saving the position alone"


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A save that could be made now.

    `step`: completed steps that are durable once it ends; the position alone is progress only where nothing else of
    the state has changed. `p99_seconds`: from now until it is committed, all told: the rest of the step under way and
    a save in flight that it has to wait for included; `p50_seconds` likewise. Infinite where nobody can say.
    """

    kind: SaveKind
    step: int
    p99_seconds: float
    p50_seconds: float = math.inf


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What to do at a notice.

    `chosen`: the save to make now; None where none surely fits, or none would be of use. `worth_trying`: where nothing
    surely fits, a save that ends in time more often than not; it promises nothing, and costs nothing either, since
    the process has to leave anyway and an unfinished save is no checkpoint. Without it, a job whose saves take nearly
    all of the grace, or were measured once or twice only, would never learn how long they take. `train_on_seconds`:
    for how long from now steps may still begin, after which the plan is made again for the final save; None: stop at
    the next border. `reason`: one line for people.
    """

    chosen: Candidate | None
    worth_trying: Candidate | None
    train_on_seconds: float | None
    reason: str


def plan(
    candidates: Iterable[Candidate],
    *,
    remaining_seconds: float,
    margin_seconds: float,
    durable_step: int,
    step_p99_seconds: float = 0.0,
    use_grace: bool = True,
    long_notice_seconds: float = LONG_NOTICE_SECONDS,
) -> Plan:
    """The save with the most progress that ends in time, at its p99; of several, the shortest.

    `remaining_seconds` until the process may be gone, of which `margin_seconds` are kept. `durable_step` is what is
    safe already. Nothing is chosen that would not fit. With a notice of `long_notice_seconds` or more and `use_grace`,
    training goes on beside that save until the last step that leaves time for a final one: formula 11, less the step
    itself. Reckoned with the longest of the saves that could be made afresh, so with a full one.
    """
    known = list(candidates)
    left = remaining_seconds - margin_seconds
    useful = [one for one in known if one.step > durable_step]
    chosen = _most_progress(one for one in useful if one.p99_seconds <= left)
    hoped = None if chosen is not None else _most_progress(one for one in useful if one.p50_seconds <= left)
    until = None
    if use_grace and remaining_seconds >= long_notice_seconds:
        until = _train_on_seconds(known, chosen, remaining_seconds, margin_seconds, step_p99_seconds)
    missed = _most_progress(
        one for one in useful if one.p99_seconds > left and (chosen is None or one.step > chosen.step)
    )
    saving = _saving(chosen, hoped, missed, left, durable_step)
    on = "" if until is None else f"; steps go on for {format_duration(until)}, which leaves time for a final save"
    return Plan(chosen=chosen, worth_trying=hoped, train_on_seconds=until, reason=saving + on)


def _most_progress(candidates: Iterable[Candidate]) -> Candidate | None:
    return max(candidates, key=lambda one: (one.step, -one.p99_seconds, -one.p50_seconds), default=None)


def _train_on_seconds(
    known: list[Candidate],
    chosen: Candidate | None,
    remaining_seconds: float,
    margin_seconds: float,
    step_p99_seconds: float,
) -> float | None:
    """None unless the save of now has ended, and a step can be done, before the final save must begin."""
    until = last_step_seconds(
        known,
        remaining_seconds=remaining_seconds,
        margin_seconds=margin_seconds,
        step_p99_seconds=step_p99_seconds,
    )
    return until if until > 0.0 and (chosen is None or chosen.p99_seconds <= until) else None


def last_step_seconds(
    candidates: Iterable[Candidate], *, remaining_seconds: float, margin_seconds: float, step_p99_seconds: float
) -> float:
    """For how long from now a step may begin that leaves time for a final save; 0 or less where none may.

    Formula 11, less the step itself. Reckoned with the longest of the saves that could be made afresh.
    """
    fresh = [one.p99_seconds for one in candidates if one.kind is not SaveKind.IN_FLIGHT]
    final = max(fresh, default=math.inf)
    if final == math.inf:
        return 0.0
    moment = last_safe_moment_seconds(remaining_seconds, final_save_p99_seconds=final, margin_seconds=margin_seconds)
    return moment - step_p99_seconds


def _saving(
    chosen: Candidate | None, hoped: Candidate | None, missed: Candidate | None, left: float, durable_step: int
) -> str:
    room = f"{format_duration(max(left, 0.0))} left"
    if chosen is not None:
        instead = f"; {_too_long(missed)}" if missed else ""
        return f"{chosen.kind}, step {chosen.step}: {format_duration(chosen.p99_seconds)} at most, {room}{instead}"
    if missed is None:
        return f"step {durable_step} is safe, and there is nothing newer to save"
    trying = "" if hoped is None else "; tried all the same"
    if hoped is not None and hoped.p99_seconds != math.inf:  # else nothing was measured, and p50 is assumed
        trying += f", since {hoped.kind} usually takes {format_duration(hoped.p50_seconds)}"
    return f"no save surely fits, {room}: {_too_long(missed)}{trying}; step {durable_step} is safe"


def _too_long(missed: Candidate) -> str:
    if missed.p99_seconds == math.inf:
        return f"how long {missed.kind} takes (step {missed.step}) is not known"
    return f"{missed.kind} (step {missed.step}) may take {format_duration(missed.p99_seconds)}"
