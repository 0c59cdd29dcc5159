"""B29: kills of random ranks at random moments and at every point of a joint commit; nothing is ever mixed.

CI sees a few. OUTLAST_RANK_STORM_KILLS=200 asks for so many in each storm, OUTLAST_STORM_SEED for other moments,
OUTLAST_EVERY_POINT=1 for every point.
"""

import os
import signal
from pathlib import Path

import pytest

from rehearsal.ranked_lives import RankServer, RankStorm, environment_seed

KILLS = int(os.environ.get("OUTLAST_RANK_STORM_KILLS", "4"))
# size, what is different: ranks that wait for each other in every step, saves at once, by time, asked for by one rank.
STORMS = [
    (2, {"RING": "1"}),
    (4, {"RING": "1", "SAVING": "blocking"}),
    (2, {"EVERY": "40ms", "SAVING": "blocking", "ASK": "13", "ASKER": "1"}),
    (4, {"EVERY": "40ms"}),
]
# Fates that meet one rank: at a call of its disk, or at a message. Each has some two hundred, or thirty, points.
POINTS = [
    (fate, rank, saving)
    for fate in ("before", "half", "after", "unsaid", "said", "heard")
    for rank in (0, 1)
    for saving in ("background", "blocking")
]
EVERY_POINT = bool(os.environ.get("OUTLAST_EVERY_POINT"))
FEW = [
    ("before", 0, "background", 35),
    ("before", 1, "background", 11),
    ("unsaid", 0, "background", 9),
    ("heard", 1, "blocking", 9),
]


@pytest.mark.slow
@pytest.mark.timeout(300 if KILLS < 20 else 3600)
@pytest.mark.parametrize(("size", "env"), STORMS, ids=str)
def test_b29_kills_of_random_ranks_at_random_moments_change_nothing(
    size: int, env: dict[str, str], tmp_path: Path, quick_folder: Path
) -> None:
    with RankServer() as server:
        tally = RankStorm(server, quick_folder / "storm", size, environment_seed(), **env).storm(KILLS)
    if "OUTLAST_STORM_REPORT" in os.environ:
        with Path(os.environ["OUTLAST_STORM_REPORT"]).open("a") as report:
            report.write(f"ranks {size} {env}: {tally}\n")
    assert tally.kills >= KILLS
    assert tally.resumed
    assert tally.shared, "no rank referred to what another one wrote"


@pytest.mark.slow
def test_b29_stops_of_random_ranks_lose_no_step(quick_folder: Path) -> None:
    with RankServer() as server:
        storm = RankStorm(server, quick_folder / "storm", 3, environment_seed(), EVERY="40ms")
        tally = storm.storm(4 if KILLS < 20 else 50, by=(signal.SIGTERM,))
    assert tally.codes.get("143")


@pytest.mark.slow
@pytest.mark.timeout(300 if not EVERY_POINT else 3600)
@pytest.mark.parametrize(("fate", "rank", "saving", "apart"), [(*point, 1) for point in POINTS] if EVERY_POINT else FEW)
def test_b29_a_kill_at_any_point_of_a_joint_commit_leaves_the_older_checkpoint_or_the_newer(
    fate: str, rank: int, saving: str, apart: int, quick_folder: Path
) -> None:
    settings = {"STEPS": "12", "EVERY": "3", "SLEEP": "0.001", "SAVING": saving, "OUTLAST_RANKS_WAIT": "2s"}
    killed, at = 0, 1 + apart // 2
    with RankServer() as server:
        while True:
            storm = RankStorm(server, quick_folder / f"point-{at}", 2, 1, **settings)
            ended = storm.life([], fate=[rank, fate, at])
            if ended["codes"][rank] != -signal.SIGKILL:
                assert ended["codes"] == [0, 0], ended["said"]
                break
            killed, at = killed + 1, at + apart
            again = [storm.life([])["codes"] for _ in range(2)]
            assert [0, 0] in again, again
    assert killed >= 2
