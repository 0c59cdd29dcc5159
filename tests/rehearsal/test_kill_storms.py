"""Kill storms: arrays saved beside the training, changed parts only, on every place that has a real server or disk.

CI runs a few kills on each; OUTLAST_STORM_KILLS=1000 asks for so many in all, and OUTLAST_STORM_SEED for other moments.
"""

import os
import secrets
import signal
from functools import partial
from pathlib import Path

import pytest

from outlast.stores.directory import DirectoryStore
from outlast.stores.mount import MountStore
from rehearsal.storms import Climate, ForkServer, Storm, Tally
from service import servers

ASKED = os.environ.get("OUTLAST_STORM_KILLS")
SEED = int(os.environ.get("OUTLAST_STORM_SEED", "1"))
FOLDERS = ("memory", "disk")
REMOTE = ("rclone", "s3fs", "gs", "s3", "az")
KINDS = [(place, schedule) for place in (*FOLDERS, *REMOTE) for schedule in ("steps", "duration")]
IN_CI = [kind for kind in KINDS if kind[1] == "steps" or kind[0] in ("memory", "rclone", "gs")]


def kills_on(place: str) -> int:
    """How many one storm is to see; two a place."""
    if ASKED is None:
        return 12 if place == "memory" else 3
    return -(-int(ASKED) // len(KINDS))


def climate(place: str, schedule: str, folder: Path) -> tuple[Climate, dict[str, str]]:
    """(the storm's climate, the variables that lead its lives to the server)."""
    every = 7 if schedule == "steps" else 0
    if place in FOLDERS:
        return Climate(lambda: str(folder / secrets.token_hex(4)), DirectoryStore, every=every), {}
    slow = partial(Climate, every=every and 12, sleep_seconds=0.004, steps=240, longest_seconds=0.9, interval="80ms")
    if place in ("rclone", "s3fs"):
        mount = servers.rclone_mount() if place == "rclone" else servers.s3fs_mount()
        return slow(partial(servers.fresh_folder, mount), MountStore), {}
    variables = servers.environment_of(place)
    return slow(partial(servers.fresh_url, place), partial(servers.store_at, **variables)), variables


def tell(place: str, schedule: str, tally: Tally) -> None:
    """A long storm says what it saw, where it is asked to."""
    if "OUTLAST_STORM_REPORT" in os.environ:
        with Path(os.environ["OUTLAST_STORM_REPORT"]).open("a") as report:
            report.write(f"{place} {schedule}: {tally}\n")


@pytest.mark.slow
@pytest.mark.timeout(300 if ASKED is None else 7200)
@pytest.mark.parametrize(("place", "schedule"), IN_CI if ASKED is None else KINDS)
def test_b01_kills_at_any_moment_of_saves_beside_the_steps_leave_a_good_checkpoint(
    place: str, schedule: str, tmp_path: Path, quick_folder: Path
) -> None:
    weather, variables = climate(place, schedule, quick_folder if place == "memory" else tmp_path)
    with ForkServer(**variables) as server:
        storm = Storm(weather, tmp_path / "lives", SEED, server)
        tally = storm.blow(kills_on(place))
    tell(place, schedule, tally)
    assert tally.resumed >= 2
    assert tally.shared > 0, "no save referred to an earlier one: the storm shows nothing of incremental saves"


def test_b17_stops_and_kills_of_saves_beside_the_steps_lose_no_step_at_a_stop(
    tmp_path: Path, quick_folder: Path
) -> None:
    weather, variables = climate("memory", "duration", quick_folder)
    with ForkServer(**variables) as server:
        tally = Storm(weather, tmp_path / "lives", SEED, server).blow(16, stops=True)
    assert tally.stops
    assert tally.kills


@pytest.mark.slow
def test_b17_a_stop_during_a_save_to_a_bucket_makes_the_last_state_durable(tmp_path: Path) -> None:
    weather, variables = climate("gs", "duration", tmp_path)
    with ForkServer(**variables) as server:
        storm = Storm(weather, tmp_path / "lives", SEED, server)
        for _ in range(5):
            storm.life(signal.SIGTERM)
        assert storm.tally.stops > 2
