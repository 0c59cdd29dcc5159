"""A kill at every point between two file-system calls: start, saves, retention, finish."""

from pathlib import Path

import pytest
from fated import KEEP, Point, check_rerun, lowest_resume, points

FATES = ("before", "after", "half")


def check_killed(point: Point) -> None:
    """The next life resumes from a whole checkpoint, and loses no more than an interval."""
    check_rerun(point)
    resumed = point["second"]["resumed"] or 0
    done = point["reported"][-1] if point["reported"] else 0
    assert lowest_resume(point) <= resumed <= done, point
    assert resumed in (point["between"].get("counted") or [0]), point
    assert len(point["between"].get("counted", [])) <= KEEP + 1, point
    assert point["between"].get("bad", []) == [], point


@pytest.mark.parametrize(
    ("scenario", "fate"), [*(("first", fate) for fate in FATES), ("large", "before"), ("large", "half")]
)
def test_a_kill_at_any_call_of_a_first_attempt_costs_an_interval_at_most(
    scenario: str, fate: str, quick_folder: Path
) -> None:
    found = points(scenario, fate, quick_folder)
    killed = [point for point in found if point["first"]["killed"]]
    assert len(killed) > (100 if fate != "half" else 20)
    for point in killed:
        check_killed(point)


@pytest.mark.parametrize("fate", FATES)
def test_a_kill_at_any_call_of_a_later_attempt_costs_an_interval_at_most(fate: str, quick_folder: Path) -> None:
    found = points("second", fate, quick_folder)
    killed = [point for point in found if point["first"]["killed"]]
    assert len(killed) > (80 if fate != "half" else 15)
    for point in killed:
        check_killed(point)


def test_a_kill_at_any_call_of_a_rollback_leaves_it_undone_or_done(quick_folder: Path) -> None:
    killed = [point for point in points("back", "before", quick_folder) if point["first"]["killed"]]
    assert len(killed) > 100
    for point in killed:
        check_rerun(point)
        assert point["second"]["resumed"] is None, point  # asked to go back to step 0, it does


@pytest.mark.parametrize(
    ("scenario", "fate"),
    [("beside", "before"), ("beside", "half"), ("beside-second", "before"), ("beside-second", "half")],
)
def test_a_kill_at_any_call_of_a_save_beside_the_steps_costs_an_interval_at_most(
    scenario: str, fate: str, quick_folder: Path
) -> None:
    """Saves that refer to what earlier ones wrote, their read-back and what they retire."""
    found = points(scenario, fate, quick_folder)
    killed = [point for point in found if point["first"]["killed"]]
    assert len(killed) > (80 if fate != "half" else 15)
    for point in killed:
        check_killed(point)
    assert all(point["end"]["shared"] for point in killed)
