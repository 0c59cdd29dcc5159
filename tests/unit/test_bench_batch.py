"""The batch part of the benchmarks: what it counts as done, its own loops on SQLite, and the full-size run, small."""

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from benchmarks.batch.contender import Span, measure_drain, value_of
from benchmarks.batch.one_case import measure_batch
from benchmarks.batch.results import right_ones
from benchmarks.batch.settings import ITEMS, LOADS, SETTINGS
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


@pytest.mark.parametrize(
    ("which", "case"),
    [("sqlite", LIMITS), ("sqlite", "outlast adapters, no worker"), ("sqlite", "outlast"), (ITEMS, ""), (LOADS, "")],
)
def test_our_own_loops_measure_what_the_report_knows(which: str, case: str, tmp_path: Path) -> None:
    figures = measure_batch(which, case, 0.002, tmp_path, "")
    assert set(figures) <= {name for figure in FIGURES for name in (figure.key, figure.limit)}
    assert len(figures) >= 2
    if which == "sqlite":
        assert all(value > 0 for value in figures.values())


def test_every_setting_has_a_loop_by_hand_and_ours() -> None:
    for setting in SETTINGS.values():
        assert {LIMITS, "outlast"} <= set(setting.contenders)


def test_memory_that_grows_on_and_on_is_told_from_memory_that_settles() -> None:
    settles = [(float(second), min(100 + 20 * second, 200) << 20) for second in range(100)]
    grows = [(float(second), (100 + 2 * second) << 20) for second in range(100)]
    part = Part("drain", memory={"settles": settles, "grows": grows})
    assert part.grew() == ["grows"]


def test_the_full_size_run_small_counts_what_was_done_before_and_proves_each_result(tmp_path: Path) -> None:
    report = tmp_path / "report.json"
    command = [sys.executable, "-m", "benchmarks.full_size_queue", "--items", "300", "--workers", "2", "--chunk", "16"]
    done = subprocess.run(
        [*command, "--scattered", "--out", str(report)], check=False, cwd=_ROOT, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    document = json.loads(report.read_text())
    assert document["published"] == {"new": 300, "already": 0, "rejected": 0}
    assert sum(one["known"] for one in document["drained"]) == document["done_before"] == 30
    assert sum(one["computed"] for one in document["drained"]) == 270
    assert not any(document["wrong"].values())
    assert {part: bool(taken["files"]) for part, taken in document["parts"].items()} == {"publish": True, "drain": True}
