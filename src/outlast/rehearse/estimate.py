"""What if interruptions came more often, or less: the goodput to expect, from what the rehearsal measured."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from outlast.events import Recorded, SaveCommitted, SaveStalled, SaveStarted, Stopped
from outlast.planning.estimates import times_of
from outlast.planning.formulae import Costs, best_period_seconds, expected_slowdown, wasted_share
from outlast.timeline.moments import AttemptLine, Timeline

BETWEEN_SECONDS = (24 * 3600.0, 8 * 3600.0, 4 * 3600.0, 3600.0, 20 * 60.0, 5 * 60.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """What the estimate rests on. Seconds.

    `period_seconds`: from one save to the next. `stall_seconds`: the training stood still for a save, all of it where
    nobody tells. `persist_seconds`: from then on until durable. `restore_seconds`: from the start of a process that
    went on from a save to its first work. `final_save_seconds`: from a notice until the last save; None: none was
    seen.
    """

    period_seconds: float
    stall_seconds: float
    persist_seconds: float
    restore_seconds: float
    final_save_seconds: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Expected:
    """Expected goodput, from 0 to 1, where interruptions come every `between_seconds` on the average.

    `unwarned`: none has a notice, saves as often as was seen; `best` likewise, with `best_period_seconds` between
    saves; `warned`: each has a notice, and a final save in time. None: not known.
    """

    between_seconds: float
    unwarned: float
    best: float
    best_period_seconds: float
    warned: float | None


def measure(timeline: Timeline, recorded: Sequence[Sequence[Recorded]]) -> Measured | None:
    """What the attempts show; None where fewer than two saves follow each other in one attempt."""
    periods = [gap for one in timeline.attempts for gap in _gaps(one)]
    restores = [gap for one in timeline.attempts for gap in _restore(one)]
    period, restore = times_of(periods), times_of(restores)
    if period is None or restore is None or period.p50_seconds <= 0:
        return None
    stalls, persists, finals = _told_times(recorded)
    stall, persist, final = times_of(stalls), times_of(persists), times_of(finals)
    if stall is None:  # the program does not tell: its writes are taken for a save that it waited for
        seen = [save.span.seconds for one in timeline.attempts for save in one.saves if save.durable]
        stall, persist = times_of(seen), None
    return Measured(
        period_seconds=period.p50_seconds,
        stall_seconds=stall.p50_seconds if stall else 0.0,
        persist_seconds=persist.p50_seconds if persist else 0.0,
        restore_seconds=restore.p50_seconds,
        final_save_seconds=final.p50_seconds if final else None,
    )


def _gaps(line: AttemptLine) -> Iterable[float]:
    durable = [save.span.start for save in line.saves if save.durable]
    return (later - earlier for earlier, later in pairwise(durable) if later > earlier)


def _restore(line: AttemptLine) -> Iterable[float]:
    """From the start of a process to its first work, for those that did not begin at 0."""
    if line.number > 0 and line.work_from is not None and line.from_step != 0:
        yield line.work_from - line.span.start


def _told_times(recorded: Iterable[Sequence[Recorded]]) -> tuple[list[float], list[float], list[float]]:
    """(stalls, times to persist, final saves) that events tell of."""
    stalls, persists, finals = [], [], []
    for events in recorded:
        beside = {one.event.step for one in events if isinstance(one.event, SaveStarted)}
        stalled: set[int] = set()
        for one in events:
            event = one.event
            if isinstance(event, SaveStalled):
                stalls.append(event.seconds)
                stalled.add(event.step)
            elif isinstance(event, SaveCommitted) and event.step in beside & stalled:
                persists.append(event.seconds)
            elif isinstance(event, Stopped) and event.final_save_seconds is not None:
                finals.append(event.final_save_seconds)
    return stalls, persists, finals


def expect(measured: Measured, between_seconds: Sequence[float] = BETWEEN_SECONDS) -> list[Expected]:
    """The goodput to expect at each mean time between interruptions.

    Without notices: formula 5, which also holds where interruptions come about as often as saves; the time to persist
    counts as work at risk beside the period. With notices: formula 6. The best period: formula 6, or the one that was
    seen where that does better.
    """
    return [_expect(measured, one) for one in between_seconds]


def _expect(measured: Measured, between: float) -> Expected:
    best = best_period_seconds(max(measured.stall_seconds, 1e-3), between_seconds=between)
    best = max(best, measured.stall_seconds + measured.persist_seconds)
    # Formula 6 is an approximation: what was seen may do better by formula 5, which is what is shown.
    best = max(best, measured.period_seconds, key=lambda period: _unwarned(measured, period, between))
    warned = None
    if measured.final_save_seconds is not None:
        costs = Costs(
            stall_seconds=measured.stall_seconds,
            between_seconds=between,
            persist_seconds=measured.persist_seconds,
            restore_seconds=measured.restore_seconds,
            final_save_seconds=measured.final_save_seconds,
            notice_share=1.0,
        )
        warned = min(max(1.0 - wasted_share(measured.period_seconds, costs), 0.0), 1.0)
    return Expected(
        between_seconds=between,
        unwarned=_unwarned(measured, measured.period_seconds, between),
        best=_unwarned(measured, best, between),
        best_period_seconds=best,
        warned=warned,
    )


def _unwarned(measured: Measured, period: float, between: float) -> float:
    """Formula 5, and of formula 6 what it lacks: work is at risk for the time to persist too."""
    slowdown = expected_slowdown(
        max(period - measured.stall_seconds, 1e-6),
        stall_seconds=measured.stall_seconds,
        between_seconds=between,
        restore_seconds=measured.restore_seconds,
    )
    return max(0.0, 1.0 / slowdown - measured.persist_seconds / between)
