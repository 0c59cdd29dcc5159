"""The watch over a copy: what its library complains of ends no watching."""

import warnings
from pathlib import Path

import pytest

from outlast.rehearse.watch import Write, WriteWatch, find_rotated


def test_a_folder_that_is_seen_twice_is_no_error(tmp_path: Path) -> None:
    with WriteWatch(tmp_path):
        warnings.warn("Callback with id '1' already exists for watch x.", RuntimeWarning, stacklevel=1)


@pytest.mark.parametrize(
    ("written", "left", "rotated"),
    [
        ("ck-1/s ck-2/s ck-3/s final", "ck-2/s ck-3/s final", "ck-2/s"),
        ("step_9 step_10 step_11", "step_11", ""),
        ("out/1 out/2 out/3", "out/1 out/2 out/3", ""),  # nothing was removed: all are results
        ("out/1 out/2 out/3", "out/1 out/3", ""),  # not the oldest
        ("tmp1 a1 tmp2 a2", "a1 a2", ""),
        ("epoch=1-step=5 epoch=1-step=9 epoch=2-step=3", "epoch=1-step=9 epoch=2-step=3", "epoch=1-step=9"),
    ],
)
def test_only_the_newest_is_a_result_where_older_ones_are_removed_in_turn(
    written: str, left: str, rotated: str
) -> None:
    writes = [Write(name, "created", at) for at, name in enumerate(written.split())]
    assert find_rotated(writes, left.split()) == set(rotated.split())
