"""Real jobs, killed again and again, on each store that has a real server: the result is that of a plain loop."""

import random
import signal
import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

from outlast.checkpoint.lineage import read_lineage
from outlast.checkpoint.record import load_record
from outlast.checkpoint.survey import tasks_in
from outlast.errors import CheckpointCorrupt, ObjectMissing, StoreUnreachable
from outlast.ports import Store
from rehearsal.lives import Life, Victim, ended
from service import servers

STEPS = 200
KILLS = 3
LONGEST_WAIT_SECONDS = 60.0


def _place(kind: str) -> tuple[str, dict[str, str]]:
    """(URL, the variables that lead to its server)."""
    if kind == "rclone":
        return servers.fresh_folder(servers.rclone_mount()), {}
    if kind == "s3fs":
        return servers.fresh_folder(servers.s3fs_mount()), {}
    return servers.fresh_url(kind), servers.environment_of(kind)


def _right_result() -> str:
    acc = 0
    for step in range(STEPS):
        acc = (acc * 31 + step) % (2**61 - 1)
    return str(acc)


def _saved(store: Store) -> int:
    """The step of the newest checkpoint that counts; 0 for none.

    A mount may answer with an error of its own for a file that another process is making or removing: then again.
    """
    for _ in range(50):
        with suppress(StoreUnreachable):
            return _saved_as_it_seems(store)
        time.sleep(0.1)
    return _saved_as_it_seems(store)


def _saved_as_it_seems(store: Store) -> int:
    """A record that the kill has cut short, as a mount lets it, never was one."""
    steps = [0]
    for place in tasks_in(store):
        for name in read_lineage(store, place).counted:
            with suppress(CheckpointCorrupt, ObjectMissing):  # or that was retired meanwhile
                steps.append(load_record(store, place.commit(name)).step)
    return max(steps)


def _live_until_a_save(victim: Victim, store: Store, more_seconds: float) -> Life:
    """One life, killed at a random moment after its first save."""
    before, until = _saved(store), time.monotonic() + LONGEST_WAIT_SECONDS
    process = victim.start()
    while process.poll() is None and _saved(store) <= before:
        assert time.monotonic() < until
        time.sleep(0.05)
    time.sleep(more_seconds)
    process.send_signal(signal.SIGKILL)
    return ended(process)


@pytest.mark.parametrize("kind", ["gs", "s3", "az", "rclone", "s3fs"])
def test_a_job_that_is_killed_again_and_again_ends_with_the_same_result(kind: str, tmp_path: Path) -> None:
    url, variables = _place(kind)
    settings = {
        "VICTIM_URL": url,
        "VICTIM_STEPS": str(STEPS),
        "VICTIM_SLEEP": "0.02",
        "VICTIM_BLOB": "300000",
        **variables,
    }
    victim = Victim("counter.py", tmp_path / kind, every=10, keep=2, variables=settings)
    store = servers.store_at(url, **variables)
    moments, saved = random.Random(11), []
    for _ in range(KILLS):
        life = _live_until_a_save(victim, store, moments.uniform(0.0, 0.3))
        assert life.exit_code == -signal.SIGKILL, life
        assert life.start == (saved[-1] if saved else 0), f"{saved}: {life}"
        saved.append(_saved(store))
    last = ended(replace(victim, variables=settings | {"VICTIM_SLEEP": "0"}).start())
    assert (last.exit_code, last.start) == (0, saved[-1]), last
    assert victim.result == _right_result()
    assert saved == sorted(set(saved))
    [place] = tasks_in(store)
    assert 1 <= len(read_lineage(store, place).counted) <= 3
