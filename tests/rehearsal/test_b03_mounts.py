"""B03: a bucket mounted as a folder, with the manners of such mounts: a kill and an error at every call."""

from pathlib import Path

import pytest
from fated import KEEP, STEPS, Point, lowest_resume, points

TORN = "is not a whole record"
MARK = "outlast-store.json"


def mount_points(fate: str, folder: Path) -> list[Point]:
    return points("mount", fate, folder, script="mount_calls.py")


def check_resumed(point: Point) -> None:
    """What must hold of the next life, whatever came before; what a death tore was never a checkpoint, and goes."""
    second, end = point["second"], point["end"]
    assert second["code"] == 0, point
    assert second["acc"] == point["right"], point
    assert end["bad"] == [], point
    assert end["counted"][0] == STEPS, point
    assert len(end["counted"]) <= KEEP + 1, point
    assert end["unnamed"] == [], point


@pytest.mark.slow
@pytest.mark.parametrize("fate", ["half", "lost", "empty"])
def test_b03_a_kill_at_any_call_to_a_mount_leaves_a_resumable_state(fate: str, quick_folder: Path) -> None:
    killed = [point for point in mount_points(fate, quick_folder) if point["first"]["killed"]]
    assert len(killed) > (20 if fate == "half" else 80)
    for point in killed:
        check_resumed(point)
        resumed = point["second"]["resumed"] or 0
        done = point["reported"][-1] if point["reported"] else 0
        # A save is committed before the step after it is reported; the one under way may be lost.
        assert lowest_resume(point) <= resumed <= done, point
        assert all(TORN in bad for bad in point["between"].get("bad", [])), point
    assert fate != "half" or any(point["between"].get("bad") for point in killed), "some deaths tore a record"


def test_b03_an_error_of_any_one_call_is_a_failed_save_that_is_shown(quick_folder: Path) -> None:
    """Fsync or close among them, where the upload failed and left half of the object."""
    found = mount_points("EIO", quick_folder)
    assert {point["first"]["met"].split()[0] for point in found} >= {"open", "write", "fsync", "close", "unlink"}
    shown = 0
    for point in found:
        check_resumed(point)
        first, between = point["first"], point["between"]
        if first["code"] != 0:
            assert first["code"] == 75, point
            assert f"error: {first['error']}" in first["said"], point
            assert point["reported"] == [] or point["reported"][-1] == STEPS, point
            continue
        assert first["acc"] == point["right"], point
        assert between["bad"] == [], point
        failed = "the save at step" in first["said"]
        assert failed == ("SaveFailed" in between["events"]), point
        if "/data/" in first["met"] or "/commits/" in first["met"]:
            shown += failed
            deleting = first["met"].startswith("unlink") and "could not be deleted" in first["said"]
            assert failed or deleting, point
    assert shown > 20


def test_b03_an_object_that_is_shorter_than_what_was_written_is_a_failed_save(quick_folder: Path) -> None:
    """A full staging disk: close succeeds, and half of the object is there."""
    found = mount_points("short", quick_folder)
    for point in found:
        if MARK in point["first"]["met"]:
            continue
        check_resumed(point)
        if "/data/" in point["first"]["met"] or "/commits/" in point["first"]["met"]:
            assert "the save at step" in point["first"]["said"], point
            assert point["between"]["bad"] == [], point
    assert len(found) > 15


def test_b03_a_mount_that_fails_for_good_ends_in_75_with_the_last_good_one_untouched(quick_folder: Path) -> None:
    codes = set()
    for point in mount_points("EIO+", quick_folder):
        first, between = point["first"], point["between"]
        codes.add(first["code"])
        assert first["code"] in (0, 75), point
        assert all(TORN in bad for bad in between.get("bad", [])), point
        check_resumed(point)
        good = [
            step for step in between.get("counted", []) if not any(f"s{step:012}-" in bad for bad in between["bad"])
        ]
        assert (point["second"]["resumed"] or 0) == max(good, default=0), point
    assert codes == {0, 75}
