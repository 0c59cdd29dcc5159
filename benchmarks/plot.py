"""The picture: stall, time until durable and restore of every case, for each state, beside the limits."""

import statistics
from pathlib import Path

import matplotlib as mpl

mpl.use("Agg")
from matplotlib import pyplot as plt
from matplotlib.axes import Axes

from benchmarks.figures import FIGURES
from benchmarks.samples import Samples, is_ours

_PANELS = ("stall", "lost", "durable", "restore_cold", "restore_warm")
_OURS, _PEER, _LIMIT = "#1b6ca8", "#b8b8b8", "#c0392b"


def draw(samples: Samples, paths: list[Path]) -> None:
    """One row of panels for each state with anything to show; each path's suffix says the format."""
    states = [state for state in samples.states if any(samples.cases(state, key) for key in _PANELS)]
    if not states:
        return
    figure, axes = plt.subplots(
        len(states), len(_PANELS), figsize=(4 * len(_PANELS), 4 * len(states)), squeeze=False, layout="constrained"
    )
    for row, state in zip(axes, states, strict=True):
        for axis, key in zip(row, _PANELS, strict=True):
            _panel(axis, samples, state, key)
    for path in paths:
        figure.savefig(path, dpi=130)
    plt.close(figure)


def _panel(axis: Axes, samples: Samples, state: str, key: str) -> None:
    kind = next(figure for figure in FIGURES if figure.key == key)
    cases = samples.cases(state, key)[::-1]
    medians = [samples.median(state, key, case) for case in cases]
    values = [samples.values(state, key, case) for case in cases]
    spread = [
        [median - min(each) for median, each in zip(medians, values, strict=True)],
        [max(each) - median for median, each in zip(medians, values, strict=True)],
    ]
    colors = [_OURS if is_ours(case) else _PEER for case in cases]
    axis.barh(cases, medians, xerr=spread, color=colors, error_kw={"linewidth": 0.8})
    limit = samples.limit(state, kind)
    if limit:
        axis.axvline(statistics.median(limit), color=_LIMIT, linestyle="--", linewidth=1, label="limit")
        axis.legend(loc="lower right", fontsize="small")
    if medians and min(medians) > 0 and max(medians) > 20 * min(medians):
        axis.set_xscale("log")
    axis.set_title(f"{state}: {kind.title}", fontsize="medium")
    axis.set_xlabel("seconds")
