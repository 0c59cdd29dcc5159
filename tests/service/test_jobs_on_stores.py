"""Real jobs, killed again and again, on each store that has a real server: the result is that of a plain loop."""

import random
import signal
from dataclasses import replace
from pathlib import Path

import pytest

from outlast.checkpoint.lineage import read_lineage
from outlast.checkpoint.survey import tasks_in
from rehearsal.lives import Victim, ended
from service import servers

STEPS = 40
KILLS = 3


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
    victim = Victim("counter.py", tmp_path / kind, every=4, keep=2, variables=settings)
    moments = random.Random(11)
    starts = []
    for _ in range(KILLS):
        life = victim.live(signal.SIGKILL, moments.uniform(0.1, 0.4), from_its_first_step=True)
        assert life.exit_code in (-signal.SIGKILL, 0), life
        starts.append(life.start)
    last = ended(replace(victim, variables=settings | {"VICTIM_SLEEP": "0"}).start())
    assert last.exit_code == 0, last
    assert victim.result == _right_result()
    assert starts == sorted(starts, key=lambda start: start or 0)
    assert last.start, f"nothing was ever resumed: {starts}"
    store = servers.store_at(url, **variables)
    [place] = tasks_in(store)
    assert 1 <= len(read_lineage(store, place).counted) <= 3
