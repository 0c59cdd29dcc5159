"""Disk errors at each call: loud, bounded, and never at the cost of the last good checkpoint."""

from pathlib import Path

import pytest
from fated import KEEP, STEPS, Point, check_rerun, points


def check_failed_once(point: Point, folder: Path) -> None:
    """A start that failed left with 75; after that the job went on, whatever failed."""
    first, between = point["first"], point["between"]
    check_rerun(point)
    if first["code"] != 0:
        assert first["code"] == 75, point
        assert f"error: {first['error']}" in first["said"], point
        assert between.get("bad", []) == [], point
        return
    assert first["acc"] == point["right"], point
    assert between["counted"][0] == STEPS, point
    assert len(between["counted"]) == KEEP, point
    assert between["unnamed"] == [], point
    assert between["bad"] == [], point
    assert [name for name in between["files"] if name.startswith(".tmp-")] == [] or "unlink" in first["met"], point
    failed = "the save at step" in first["said"]
    assert failed == ("SaveFailed" in between["events"]), point
    said = any(text in first["said"] for text in ("could not be marked", "not being written", "could not be deleted"))
    # Debris is swept later; what holds the store need not be ours to sync.
    quiet = first["met"].startswith("unlink .tmp-") or first["met"] == f"sync_folder {folder.name}"
    assert failed or said or quiet, point


@pytest.mark.parametrize(
    ("scenario", "fate"), [("first", "ENOSPC"), ("first", "EIO"), ("first", "EFBIG"), ("large", "EDQUOT")]
)
def test_one_call_that_fails_costs_one_save_at_most(scenario: str, fate: str, quick_folder: Path) -> None:
    found = points(scenario, fate, quick_folder)
    assert len(found) > 100
    for point in found:
        check_failed_once(point, quick_folder)
    assert any("the save at step" in point["first"]["said"] for point in found)
    assert any("write_at" in point["first"]["met"] for point in found) == (scenario == "large")


def test_one_call_that_fails_in_a_later_attempt_costs_one_save_at_most(quick_folder: Path) -> None:
    for point in points("second", "ENOSPC", quick_folder):
        check_failed_once(point, quick_folder)


@pytest.mark.parametrize("fate", ["ENOSPC+", "EIO+"])
def test_a_disk_that_fails_for_good_ends_in_75_with_the_last_good_one_untouched(fate: str, quick_folder: Path) -> None:
    codes = set()
    for point in points("first", fate, quick_folder):
        check_rerun(point)
        assert point["first"]["code"] in (0, 75), point
        codes.add(point["first"]["code"])
        assert point["between"].get("bad", []) == [], point
        assert (point["second"]["resumed"] or 0) in (point["between"].get("counted") or [0]), point
    assert codes == {0, 75}  # 0 once the finish is durable: only the journal and the tidying fail then
