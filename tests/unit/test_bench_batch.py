"""The batch part of the benchmarks: what it counts as done, its own loops on SQLite, and the full-size run, small."""

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from benchmarks.batch.contender import Span, measure_drain, value_of
from benchmarks.batch.one_case import measure_batch
from benchmarks.batch.results import right_ones
from benchmarks.batch.settings import SETTINGS
from benchmarks.figures import FIGURES, LIMITS
from benchmarks.full_size_queue import Part

_ROOT = Path(__file__).resolve().parents[2]


class _Contender:
    """Does what it is told to do wrong."""

    def __init__(self, *, done: int, stored: int, left: int) -> None:
        self._done, self._stored, self._left = done, stored, left

    def publish(self, ids: Sequence[str]) -> None:
        pass

    def drain(self, span: Span) -> None:
        span.chunk(self._done)

    def stored(self) -> int:
        return self._stored

    def left(self) -> int:
        return self._left


@pytest.mark.parametrize(
    ("done", "stored", "left", "said"),
    [(10, 9, 0, "9 of 10 results"), (10, 10, 1, "1 of 10 items are not"), (11, 10, 0, "11 items were done")],
)
def test_a_contender_that_loses_or_repeats_an_item_has_no_figure(done: int, stored: int, left: int, said: str) -> None:
    with pytest.raises(RuntimeError, match=said):
        measure_drain(_Contender(done=done, stored=stored, left=left), 10)
    assert set(measure_drain(_Contender(done=10, stored=10, left=0), 10)) == {"publish_item", "drain_item"}


def test_a_result_counts_once_and_only_if_it_is_the_right_one() -> None:
    right = [("a", json.dumps(value_of("a"))), ("b", value_of("b"))]
    assert right_ones([*right, right[0]]) == 2
    assert right_ones([*right, ("c", json.dumps(value_of("d")))]) == 2


@pytest.mark.parametrize("case", [LIMITS, "outlast adapters, no worker"])
def test_our_own_loops_measure_what_the_report_knows(case: str, tmp_path: Path) -> None:
    figures = measure_batch("sqlite", case, 0.005, tmp_path, "")
    assert all(value > 0 for value in figures.values())
    limits = {figure.limit for figure in FIGURES}
    keys = {figure.key for figure in FIGURES}
    assert set(figures) <= (limits if case == LIMITS else keys)


def test_every_setting_has_a_loop_by_hand_and_ours() -> None:
    for setting in SETTINGS.values():
        assert {LIMITS, "outlast"} <= set(setting.contenders)


def test_memory_that_grows_on_and_on_is_told_from_memory_that_settles() -> None:
    settles = [(float(second), min(100 + 20 * second, 200) << 20) for second in range(100)]
    grows = [(float(second), (100 + second) << 20) for second in range(100)]
    part = Part("drain", memory={"settles": settles, "grows": grows})
    assert part.grew() == ["grows"]
