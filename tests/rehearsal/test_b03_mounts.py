"""B03: a bucket mounted as a folder, with the manners of such mounts: a kill and an error at every call."""

from pathlib import Path

import pytest
from fated import KEEP, STEPS, Point, lowest_resume, points

TORN = "is not a whole record"
MARK = "outlast-store.json"


def mount_points(fate: str, folder: Path) -> list[Point]:
    return points("mount", fate, folder, script="mount_calls.py")


def torn_at_the_start(point: Point) -> bool:
    """Nothing was saved before the death, and what it tore says so: the store's mark, or the only record."""
    only_a_torn_record = point["between"].get("bad", []) and len(point["between"]["counted"]) == 1
    return bool(only_a_torn_record) or f"{MARK} {TORN}" in point["second"].get("error", "")


def check_resumed(point: Point) -> None:
    """What must hold of the next life, whatever came before. A torn record stays: it is nobody's to delete."""
    second, end = point["second"], point["end"]
    assert second["code"] == 0, point
    assert second["acc"] == point["right"], point
    torn = [one for one in end["bad"] if TORN in one]
    assert end["bad"] == torn, point
    assert end["counted"][0] == STEPS, point
    assert len(end["counted"]) <= KEEP + 1 + len(torn), point
    # What an unreadable record may refer to is kept for as long as that is there.
    assert end["unnamed"] == [] or torn, point


@pytest.mark.slow
@pytest.mark.parametrize("fate", ["half", "lost", "empty"])
def test_b03_a_kill_at_any_call_to_a_mount_leaves_a_resumable_state(fate: str, quick_folder: Path) -> None:
    killed = [point for point in mount_points(fate, quick_folder) if point["first"]["killed"]]
    assert len(killed) > (20 if fate == "half" else 80)
    for point in killed:
        if torn_at_the_start(point):
            continue
        check_resumed(point)
        resumed = point["second"]["resumed"] or 0
        done = point["reported"][-1] if point["reported"] else 0
        # A save is committed before the step after it is reported; the one under way may be lost.
        assert lowest_resume(point) <= resumed <= done, point
        assert all(TORN in bad for bad in point["between"].get("bad", [])), point
    assert sum(torn_at_the_start(point) for point in killed) <= 6


def test_b03_a_kill_within_the_very_first_record_is_a_first_run_again(quick_folder: Path) -> None:
    torn = [point for point in mount_points("half", quick_folder) if torn_at_the_start(point)]
    assert len(torn) == 2
    for point in torn:
        assert point["second"]["code"] == 0, point


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
        if torn_at_the_start(point):
            continue
        check_resumed(point)
        good = [
            step for step in between.get("counted", []) if not any(f"s{step:012}-" in bad for bad in between["bad"])
        ]
        assert (point["second"]["resumed"] or 0) == max(good, default=0), point
    assert codes == {0, 75}
