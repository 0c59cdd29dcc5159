"""The goodput part of the benchmarks: every setting and strategy over all traces, its tables, and the goals."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import reduce
from operator import add

from rich.console import Group, RenderableType
from rich.table import Table

from benchmarks.goodput import OUTLAST, STRATEGIES, Kept, Setting, Strategy, fixed, replay
from benchmarks.goodput_traces import Trace, cluster_traces, judged_traces
from benchmarks.samples import Result, Samples

PREFIX = "goodput: "
BEST_FIXED, BEST_OF_EACH = "best fixed interval in hindsight", "best fixed interval of each trace"
JUDGED = ("async 0.5 s, 30 s lag, no notice", "async 0.5 s, 30 s lag, 30 s notice, F=20 s")
SETTINGS = {
    "sync 60 s, no notice": Setting(stall_seconds=60.0, persist_seconds=0.0, restore_seconds=120.0),
    "sync 10 s, no notice": Setting(stall_seconds=10.0, persist_seconds=0.0, restore_seconds=120.0),
    JUDGED[0]: Setting(stall_seconds=0.5, persist_seconds=30.0, restore_seconds=120.0),
    "async 50 ms, 5 s lag, no notice": Setting(stall_seconds=0.05, persist_seconds=5.0, restore_seconds=60.0),
    JUDGED[1]: Setting(
        stall_seconds=0.5,
        persist_seconds=30.0,
        restore_seconds=120.0,
        notice_share=0.95,
        notice_seconds=30.0,
        final_save_seconds=20.0,
    ),
    "async 50 ms, 5 s lag, 10 s notice, F=6 s": Setting(
        stall_seconds=0.05,
        persist_seconds=5.0,
        restore_seconds=60.0,
        notice_share=0.95,
        notice_seconds=10.0,
        final_save_seconds=6.0,
    ),
}
# Seconds, each a quarter longer than the one before: the best of them is within 0.7 % of what saves and losses cost.
FIXED_GRID = tuple(30.0 * 1.25**number for number in range(21))


@dataclass(frozen=True, slots=True)
class Goal:
    """What a strategy is to reach in one of JUDGED. Percent of the oracle, or points below another case."""

    setting: str
    figure: str
    at_least: float
    points_below: str | None = None


GOALS = (
    Goal(JUDGED[0], "pooled", 99.1),
    Goal(JUDGED[0], "worst", 98.0),
    Goal(JUDGED[0], "pooled", -0.05, BEST_FIXED),
    Goal(JUDGED[0], "pooled", -0.05, BEST_OF_EACH),
    Goal(JUDGED[1], "pooled", 99.75),
    Goal(JUDGED[1], "worst", 98.0),
    Goal(JUDGED[1], "pooled", -0.05, BEST_FIXED),
    Goal(JUDGED[1], "pooled", -0.05, BEST_OF_EACH),
)


def replay_all() -> Iterator[Result]:
    """Every setting and strategy; the same figures each time, since nothing is timed and every draw has its seed."""
    traces, clusters = judged_traces(), cluster_traces()
    for name, setting in SETTINGS.items():
        for strategy in STRATEGIES:
            yield _result(name, strategy.name, _over(traces, strategy, setting), _over(clusters, strategy, setting))
        if name in JUDGED:
            yield from _in_hindsight(name, traces, setting)


Replayed = dict[str, Kept]  # by trace


def _over(traces: list[Trace], strategy: Strategy, setting: Setting) -> Replayed:
    return {trace.name: replay(trace, strategy, setting) for trace in traces}


def _in_hindsight(name: str, traces: list[Trace], setting: Setting) -> Iterator[Result]:
    tried = [_over(traces, fixed(seconds), setting) for seconds in FIXED_GRID]
    best = max(range(len(tried)), key=lambda number: _pooled(tried[number]).work)
    yield _result(name, BEST_FIXED, tried[best], extra={"interval_seconds": FIXED_GRID[best]})
    each = {trace.name: max((one[trace.name] for one in tried), key=lambda kept: kept.work) for trace in traces}
    yield _result(name, BEST_OF_EACH, each)


def _pooled(replayed: Replayed) -> Kept:
    return reduce(add, replayed.values())


def _result(
    setting: str, case: str, replayed: Replayed, clusters: Replayed | None = None, extra: dict[str, float] | None = None
) -> Result:
    pooled = _pooled(replayed)
    figures = {
        "pooled": pooled.percent,
        "worst": min(kept.percent for kept in replayed.values()),
        "real": _pooled({name: kept for name, kept in replayed.items() if not name.startswith("weibull")}).percent,
        "heeding": pooled.percent_of_heeding_oracle,
        **{f"trace: {name}": kept.percent for name, kept in replayed.items()},
        **{f"cluster: {name}": kept.percent for name, kept in (clusters or {}).items()},
        **(extra or {}),
    }
    return Result(0, PREFIX + setting, case, "goodput", figures)


# --- tables -----------------------------------------------------------------------------------------


def goodput_tables(samples: Samples) -> Iterator[RenderableType]:
    """Nothing if this part was not run."""
    states = [state for state in samples.states if state.startswith(PREFIX)]
    for state in states:
        yield _table(samples, state)
    if verdicts := [one for goal in GOALS if (one := judge(samples, goal))]:
        table = Table("setting", "figure", "goal", OUTLAST.name, "verdict", title="goodput: goals")
        for row in verdicts:
            table.add_row(*row)
        yield Group(table, _notes(samples))


def _table(samples: Samples, state: str) -> Table:
    titles = ("strategy", "all traces", "worst trace", "real traces", "÷ oracle with final saves", "whole clusters")
    table = Table(*titles, title=f"{state}: % of the oracle")
    for case in dict.fromkeys(result.case for result in samples.results if result.state == state):
        clusters = [
            values[0]
            for (of, figure, whose), values in samples
            if (of, whose) == (state, case) and "cluster:" in figure
        ]
        lowest = f"{min(clusters):.1f} to {max(clusters):.1f}" if clusters else ""
        cells = [f"{samples.median(state, figure, case):.2f}" for figure in ("pooled", "worst", "real", "heeding")]
        table.add_row(case, *cells, lowest)
    return table


def judge(samples: Samples, goal: Goal) -> tuple[str, str, str, str, str] | None:
    """(setting, figure, goal, measured, verdict), or None where nothing was replayed."""
    state = PREFIX + goal.setting
    if not samples.values(state, goal.figure, OUTLAST.name):
        return None
    measured = samples.median(state, goal.figure, OUTLAST.name)
    if goal.points_below is None:
        said, asked = f"{measured:.2f} %", f"≥ {goal.at_least} %"
        title = "all traces" if goal.figure == "pooled" else "worst trace"
    else:
        measured -= samples.median(state, goal.figure, goal.points_below)
        said, asked = f"{measured:+.3f} points", f"≥ {goal.at_least} points"
        title = f"against the {goal.points_below}"
    return goal.setting, title, asked, said, "met" if measured >= goal.at_least else "missed"


def _notes(samples: Samples) -> str:
    found = [
        f"{samples.median(PREFIX + setting, 'interval_seconds', BEST_FIXED):.0f} s"
        for setting in JUDGED
        if samples.values(PREFIX + setting, "interval_seconds", BEST_FIXED)
    ]
    return (
        "the oracle restores, and saves once, as periodic saves are made, just in time. With final saves: it makes a "
        f"final save where there is a notice, which is quicker. The best fixed intervals: {', '.join(found)}. Whole "
        "clusters (a job on all machines of a count, which each drop interrupts) are not judged."
    )
