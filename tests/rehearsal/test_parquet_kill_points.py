"""A kill at every point between two calls of a Parquet sink's stores and compactions loses and doubles nothing.

CI looks at every 13th call; OUTLAST_PARQUET_STRIDE=1 asks for all of them (about a thousand, minutes).
"""

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from lives import VICTIMS, environment

STRIDE = int(os.environ.get("OUTLAST_PARQUET_STRIDE", "13"))
FATES = {"disk": ("before", "after", "EIO", "ENOSPC+", "half"), "mount": ("before", "lost", "empty", "half")}


def points(kind: str, folder: Path) -> list[dict[str, Any]]:
    """One entry for each fate and call; see victims/parquet_calls.py."""
    done = subprocess.run(
        [sys.executable, str(VICTIMS / "parquet_calls.py"), kind, ",".join(FATES[kind]), str(folder), str(STRIDE)],
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
        timeout=120 if STRIDE > 1 else 1800,
    )
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def rows_of(seen: dict[str, Any]) -> dict[str, list[Any]]:
    found = {one: [value, claim] for one, value, claim in seen["rows"]}
    assert len(found) == len(seen["rows"]), "an id has two results"
    return found


def check(point: dict[str, Any]) -> None:
    then, end = rows_of(point["then"]), rows_of(point["end"])
    assert then in (point["done"], point["tried"]), point
    assert end == then, point
    for seen in (point["then"], point["end"]):
        assert seen["known"] == {one: claim for one, (_, claim) in then.items()}, point
    assert point["count"] == len(end), point
    assert sorted(point["end"]["by_pattern"]) == sorted(end), point
    if point["kind"] == "disk":  # what a death on a mount has cut short stays for a day
        folders = Counter(name.partition("/")[0] for name in point["end"]["names"])
        assert folders["parts"] == 0, point
        assert folders["compactions"] == 1, point


@pytest.mark.slow
@pytest.mark.timeout(1800 if STRIDE == 1 else 300)
@pytest.mark.parametrize("kind", FATES)
def test_whatever_call_it_ends_at_nothing_is_lost_or_doubled(kind: str, quick_folder: Path) -> None:
    found = points(kind, quick_folder)
    met = Counter(point["fate"] for point in found if point["first"]["killed"] or point["first"].get("met"))
    for fate in FATES[kind]:
        assert met[fate] > (60 if fate != "half" else 8) / STRIDE, met
    for point in found:
        check(point)
