"""The tables for people: an overview of medians, each figure with its spread and ratios, the goals, the failures."""

import statistics
from collections.abc import Iterator

from rich.console import Console, Group, RenderableType
from rich.table import Table

from benchmarks.figures import FIGURES, GOALS, LIMIT_TITLES, LIMITS, Figure
from benchmarks.goodput_report import goodput_tables
from benchmarks.samples import STEADY, Judged, Samples, judge, moved, no_verdict

WIDTH = 140
_OVERVIEW = (
    ("stall", "stall"), ("lost", "training lost"), ("durable", "durable"), ("durable_running", "durable, training"),
    ("slowdown_percent", "slow-down"), ("memory_save", "memory"), ("restore_cold", "restore cold"),
    ("restore_warm", "warm"), ("memory_restore", "memory"),
)  # fmt: skip


def print_report(samples: Samples, console: Console | None = None) -> None:
    """Prints all tables that have anything to show."""
    console = console or Console(width=WIDTH, markup=False)
    for table in tables(samples):
        console.print(table)


def tables(samples: Samples) -> Iterator[RenderableType]:
    for state in samples.states:
        yield from (table for table in (limits_table(samples, state), overview(samples, state)) if table.row_count)
        yield from figure_tables(samples, state)
        if failures := samples.failures(state):
            yield _failures_table(state, failures)
    judged = [one for state in samples.states for goal in GOALS if (one := judge(samples, state, goal))]
    if judged:
        yield goals_table(judged)
    yield from goodput_tables(samples)


def limits_table(samples: Samples, state: str) -> Table:
    table = Table("limit", "median", "lowest to highest", "GiB/s", "moved by", title=f"{state}: limits")
    size = samples.values(state, "bytes", LIMITS)
    units = {figure.limit: figure.unit for figure in FIGURES}
    for key, title in LIMIT_TITLES.items():
        values = samples.values(state, key, LIMITS)
        if values:
            speed = f"{size[0] / statistics.median(values) / 2**30:.2f}" if size else ""
            unsteady = " (more than 20 %)" if moved(values) > STEADY else ""
            table.add_row(
                title, *_median_and_spread(values, units.get(key, "s")), speed, f"{100 * moved(values):.0f} %{unsteady}"
            )
    return table


def overview(samples: Samples, state: str) -> Table:
    """Medians only: a row for each case."""
    units = {figure.key: figure.unit for figure in FIGURES}
    columns = [(key, title) for key, title in _OVERVIEW if samples.cases(state, key)]
    cases = list(dict.fromkeys(case for key, _ in columns for case in samples.cases(state, key)))
    table = Table("case", *(title for _, title in columns), title=f"{state}: medians")
    for case in cases:
        cells = [
            text(samples.median(state, key, case), units[key]) if samples.values(state, key, case) else "-"
            for key, _ in columns
        ]
        table.add_row(case, *cells)
    return table


def figure_tables(samples: Samples, state: str) -> Iterator[RenderableType]:
    """Each figure: medians with their spread, over the limit and over the best peer, the best case first."""
    for figure in FIGURES:
        cases = samples.cases(state, figure.key)
        if not cases:
            continue
        limit = samples.limit(state, figure)
        reason = no_verdict(limit)
        table = Table("case", "median", "lowest to highest", "÷ limit", "÷ best peer", title=f"{state}: {figure.title}")
        if limit and figure.limit:
            table.add_row(f"limit: {LIMIT_TITLES[figure.limit]}", *_median_and_spread(limit, figure.unit), "1.00", "")
            table.add_section()
        for case in cases:
            table.add_row(*figure_row(samples, state, figure, case))
        yield Group(table, reason) if reason else table


def figure_row(samples: Samples, state: str, figure: Figure, case: str) -> list[str]:
    limit_ratio = samples.over_limit(state, figure, case)
    peer_ratio = samples.over_best_peer(state, figure.key, case)
    unsteady = " ?" if no_verdict(samples.limit(state, figure)) else ""
    return [
        case,
        *_median_and_spread(samples.values(state, figure.key, case), figure.unit),
        "" if limit_ratio is None else f"{limit_ratio:.2f}{unsteady}",
        "" if peer_ratio is None else f"{peer_ratio:.2f}",
    ]


def goals_table(judged: list[Judged]) -> Table:
    figures = {figure.key: figure for figure in FIGURES}
    table = Table("state", "case", "figure", "goal", "measured", "of the rounds", "verdict", title="goals")
    for one in judged:
        figure = figures[one.goal.figure]
        unit = "x limit" if one.goal.of_limit else f"x {one.goal.than}" if one.goal.than else figure.unit
        goal, measured = text(one.goal.at_most, unit), text(one.measured, unit)
        beside = f" + {text(one.goal.beside, figure.unit)}" if one.goal.beside else ""
        spread = f"{one.spread[0]:.2f} to {one.spread[1]:.2f}" if one.spread else ""
        row = (one.state, one.goal.case, figure.title, f"≤ {goal}{beside}", f"{measured}{beside}", spread, one.verdict)
        table.add_row(*row)
    return table


def _failures_table(state: str, failures: dict[tuple[str, str], str]) -> Table:
    table = Table("case", "run", "fails", title=f"{state}: what failed")
    for (case, action), reason in failures.items():
        table.add_row(case, action, reason)
    return table


def _median_and_spread(values: list[float], unit: str) -> tuple[str, str]:
    return text(statistics.median(values), unit), f"{text(min(values), unit)} to {text(max(values), unit)}"


def text(value: float, unit: str) -> str:
    """A figure for people."""
    if unit == "s":
        if abs(value) < 1e-3:
            return f"{value * 1e6:.2f} µs" if abs(value) < 1e-4 else f"{value * 1e6:.0f} µs"
        return f"{value * 1e3:.1f} ms" if abs(value) < 1 else f"{value:.2f} s"
    if unit == "%":
        return f"{value:.1f} %"
    return f"{value:.2f} {unit}"
