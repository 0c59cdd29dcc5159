"""The figures of all runs by state, figure and case; medians, spread, ratios, and when there is no verdict."""

import statistics
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from benchmarks.figures import BEST_PEER, FIGURES, LIMITS, Figure, Goal

STEADY = 0.20
ENOUGH_ROUNDS = 7
_FIGURE = {figure.key: figure for figure in FIGURES}


@dataclass(frozen=True, slots=True)
class Result:
    """One run: its figures, or why it failed."""

    round: int
    state: str
    case: str
    action: str
    figures: dict[str, float] = field(default_factory=dict)
    fails: str | None = None


class Samples:
    """All results of a benchmark; a case's figures are looked up by name."""

    def __init__(self, results: Iterable[Result]) -> None:
        self.results = list(results)
        self._values: dict[tuple[str, str, str], list[float]] = {}
        self._by_round: dict[tuple[str, str, str], dict[int, float]] = {}
        for result in self.results:
            for name, value in result.figures.items():
                which = (result.state, name, result.case)
                self._values.setdefault(which, []).append(value)
                self._by_round.setdefault(which, {})[result.round] = value

    def __iter__(self) -> Iterator[tuple[tuple[str, str, str], list[float]]]:
        """((state, figure, case), values) of each."""
        return iter(self._values.items())

    @property
    def states(self) -> list[str]:
        return list(dict.fromkeys(result.state for result in self.results))

    def cases(self, state: str, figure: str) -> list[str]:
        """Cases with at least one value, the fastest first."""
        found = [case for (of, name, case) in self._values if (of, name) == (state, figure) and case != LIMITS]
        return sorted(found, key=lambda case: self.median(state, figure, case))

    def values(self, state: str, figure: str, case: str) -> list[float]:
        return self._values.get((state, figure, case), [])

    def by_round(self, state: str, figure: str, case: str) -> dict[int, float]:
        return self._by_round.get((state, figure, case), {})

    def median(self, state: str, figure: str, case: str) -> float:
        return statistics.median(self.values(state, figure, case))

    def failures(self, state: str) -> dict[tuple[str, str], str]:
        """(case, action) -> why, and in how many runs of how many."""
        runs: dict[tuple[str, str], list[str | None]] = {}
        for result in self.results:
            if result.state == state:
                runs.setdefault((result.case, result.action), []).append(result.fails)
        found = {}
        for which, reasons in runs.items():
            failed = [reason for reason in reasons if reason is not None]
            if failed:
                found[which] = f"{failed[-1]} ({len(failed)} of {len(reasons)} runs)"
        return found

    def limit(self, state: str, figure: Figure) -> list[float]:
        return self.values(state, figure.limit, LIMITS) if figure.limit else []

    def over_limit(self, state: str, figure: Figure, case: str) -> float | None:
        limit = self.limit(state, figure)
        return self.median(state, figure.key, case) / statistics.median(limit) if limit else None

    def best_peer(self, state: str, figure: str) -> str | None:
        return next((other for other in self.cases(state, figure) if not is_ours(other)), None)

    def over_best_peer(self, state: str, figure: str, case: str) -> float | None:
        peer = self.best_peer(state, figure)
        best = self.median(state, figure, peer) if peer else 0.0
        return self.median(state, figure, case) / best if best > 0 else None

    def measure(self, state: str, goal: Goal) -> tuple[str, str] | None:
        """(figure, case) that a goal is a ratio to; None for a goal in the figure's unit, or where there is no such."""
        limit = _FIGURE[goal.figure].limit
        if goal.of_limit and limit and self.values(state, limit, LIMITS):
            return limit, LIMITS
        other = self.best_peer(state, goal.figure) if goal.than == BEST_PEER else goal.than
        return (goal.figure, other) if other and self.values(state, goal.figure, other) else None


def is_ours(case: str) -> bool:
    return case.startswith("outlast")


def moved(values: list[float]) -> float:
    """By which share the values moved: highest over lowest, less 1."""
    return max(values) / min(values) - 1 if values and min(values) > 0 else 0.0


def no_verdict(limit: list[float]) -> str | None:
    """Why nothing can be said about a ratio to this limit, or None."""
    share = moved(limit)
    return f"no verdict: the limit itself moved by {100 * share:.0f} %" if share > STEADY else None


@dataclass(frozen=True, slots=True)
class Judged:
    """A goal, what was measured, and the verdict on it. `spread`: the lowest and the highest ratio of a round."""

    goal: Goal
    state: str
    measured: float
    verdict: str
    spread: tuple[float, float] | None = None


def judge(samples: Samples, state: str, goal: Goal) -> Judged | None:
    """The verdict on a goal, or None where nothing was measured."""
    values = samples.values(state, goal.figure, goal.case)
    ratio = goal.of_limit or goal.than is not None
    measure = samples.measure(state, goal)
    if not values or goal.state not in (None, state) or (ratio and measure is None):
        return None
    less = [max(0.0, value - goal.beside) for value in values]
    measured, spread, of = statistics.median(less), None, []
    if measure:
        of = samples.values(state, *measure)
        measured /= statistics.median(of)
        spread = _spread(samples, state, goal, measure)
    if len(values) < ENOUGH_ROUNDS:
        verdict = f"no verdict: {len(values)} rounds, {ENOUGH_ROUNDS} are needed"
    elif of and max(less) / min(of) <= goal.at_most:  # the worst moment of one beside the best of the other
        verdict = "met"
    elif of and min(less) / max(of) > goal.at_most:
        verdict = "missed"
    elif reason := no_verdict(of):
        verdict = reason
    else:
        verdict = "met" if measured <= goal.at_most else "missed"
    return Judged(goal, state, measured, verdict, spread)


def _spread(samples: Samples, state: str, goal: Goal, measure: tuple[str, str]) -> tuple[float, float] | None:
    ours, others = samples.by_round(state, goal.figure, goal.case), samples.by_round(state, *measure)
    ratios = [max(0.0, ours[number] - goal.beside) / others[number] for number in ours if others.get(number)]
    return (min(ratios), max(ratios)) if ratios else None


def as_document(samples: Samples, settings: dict[str, Any]) -> dict[str, Any]:
    """The report for machines: the settings, every run, and medians with their spread."""
    summary: dict[str, Any] = {}
    for (state, figure, case), values in samples:
        one = {"median": statistics.median(values), "lowest": min(values), "highest": max(values), "runs": len(values)}
        summary.setdefault(state, {}).setdefault(figure, {})[case] = one
    runs = [
        {"round": one.round, "state": one.state, "case": one.case, "action": one.action}
        | ({"fails": one.fails} if one.fails is not None else {"figures": one.figures})
        for one in samples.results
    ]
    return {"settings": settings, "summary": summary, "runs": runs}
