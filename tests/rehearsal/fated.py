"""Lives whose fate waits at one file-system call, for each call: the driver of victims/calls.py, and what must hold."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from lives import VICTIMS, environment

Point = dict[str, Any]
EVERY, KEEP, STEPS = 3, 2, 12


def points(scenario: str, fate: str, folder: Path, *, script: str = "calls.py") -> list[Point]:
    """One entry for each call; see the script, victims/calls.py or the like, for scenarios and fates."""
    done = subprocess.run(
        [sys.executable, str(VICTIMS / script), scenario, fate, str(folder)],
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def lowest_resume(point: Point) -> int:
    """The step of the last save that must have been committed before the last reported step began."""
    reported = point["reported"]
    return (reported[-1] - 1) // EVERY * EVERY if reported else 0


def check_rerun(point: Point) -> None:
    """What must hold of the life after the fated one, whatever the fate was."""
    second, end = point["second"], point["end"]
    assert second["code"] == 0, point
    assert second["acc"] == point["right"], point
    assert end["counted"][0] == STEPS, point
    assert len(end["counted"]) <= KEEP + 1, point
    assert end["bad"] == [], point
    assert end["unnamed"] == [], point  # no orphan is left for ever
