"""Ends of single ranks in a rehearsal: which programs of two ranks survive them, and what is said of the others."""

import sys
from pathlib import Path

import pytest
import ranked_programs as programs

from outlast.containers.container import can_isolate
from outlast.emulate.scale import TimeScale
from outlast.registry import platform_named
from outlast.rehearse.baseline import outcome_of, run_baseline
from outlast.rehearse.cut_saves import Job
from outlast.rehearse.display import SilentDisplay
from outlast.rehearse.elsewhere import Elsewhere
from outlast.rehearse.procedures import procedure_on
from outlast.rehearse.rank_ends import RankEnds, end_ranks
from outlast.rehearse.request import Limits, Request
from outlast.rehearse.results import Result, compare_outcomes
from outlast.rehearse.sandbox import plan_copy
from outlast.rehearse.site import Site
from outlast.rehearse.stage import Stage

pytestmark = pytest.mark.skipif(
    not sys.platform.startswith("linux") or not can_isolate(), reason="containers are simulated in Linux's namespaces"
)
HUNG_SECONDS = 6.0


def ends_of(
    folder: Path, train: str, *, launcher: str = programs.LAUNCHER, platform: str = "cloud-run", nodes: int = 1
) -> tuple[RankEnds, Site]:
    """What becomes of the program when its ranks end alone, after one uninterrupted run; on nodes without launcher."""
    source = folder / "source"
    source.mkdir()
    (source / "train.py").write_text(train)
    (source / "launch.py").write_text(launcher)
    site = Site(
        request=Request(
            command=(sys.executable, "launch.py" if nodes == 1 else "train.py"),
            folder=source,
            platform=platform,
            results=("result-*.json",),
            nodes=nodes,
        ),
        limits=Limits(grace_seconds=4.0, hung_floor_seconds=HUNG_SECONDS, hung_factor=1.0),
        platform=platform_named(platform),
        procedure=procedure_on(platform),
        work=folder / "work",
        copies=plan_copy(source),
        isolated=True,
        scale=TimeScale(1.0),
    )
    baseline = run_baseline(site, 1, Elsewhere())
    assert baseline.profile.ranks == 2

    def compare(stage: Stage, last: int) -> list[Result]:
        outcome = outcome_of(stage, last)
        return compare_outcomes(baseline.paths, baseline.outcome, outcome, tolerance=0.0, with_stdout=False)

    hung = max(HUNG_SECONDS, 4 * baseline.profile.seconds)
    job = Job(site=site, compare=compare, seconds=baseline.profile.seconds, hung_seconds=hung, to_resume=False)
    return end_ranks(job, baseline.profile, SilentDisplay()), site


def test_a_job_survives_the_end_of_a_rank_and_a_notice_to_one(tmp_path: Path) -> None:
    ends, site = ends_of(tmp_path, programs.OUTLAST)
    assert ends.broken == ()
    assert {one.partition(" ")[0] for one in ends.said} == {"rank", "each"}
    stage = next(one for one in site.work.iterdir() if one.name == "ranks-1")
    events = sorted((stage / "outside" / "logs").glob("*.events"))
    checks = [line for file in events for line in file.read_text().splitlines() if "RestoreChecked" in line]
    starts = [line for file in events for line in file.read_text().splitlines() if '"Restored"' in line]
    assert len(checks) > len(starts) > 0  # each rank's restore was looked at, and not only the first one's


def test_ranks_that_agree_by_hand_survive_too(tmp_path: Path) -> None:
    ends, _ = ends_of(tmp_path, programs.BY_HAND)
    assert (ends.broken, ends.missed) == ((), ())


def test_ranks_that_stop_at_steps_of_their_own_do_not_survive(tmp_path: Path) -> None:
    ends, _ = ends_of(tmp_path, programs.MIXES_SHARDS)
    assert ends.broken


def test_a_rank_that_waits_for_ever_for_one_that_is_lost_is_found(tmp_path: Path) -> None:
    ends, _ = ends_of(tmp_path, programs.HANGS)
    assert "rank 0 alone was killed, and the others waited for it for ever" in ends.broken[0]


def test_a_launcher_that_hides_the_death_of_a_rank_is_found(tmp_path: Path) -> None:
    ends, _ = ends_of(tmp_path, programs.APART, launcher=programs.HIDES_CODES)
    assert "left with 0 all the same, so the platform records success" in ends.broken[0]
    assert "pass on the codes of its ranks" in ends.broken[1]


def test_a_job_on_two_nodes_survives_the_loss_of_one_and_a_notice_to_one(tmp_path: Path) -> None:
    train = programs.OUTLAST.replace('os.environ["RANK"]', 'os.environ["SLURM_PROCID"]')
    ends, _ = ends_of(tmp_path, train, platform="slurm", nodes=2)
    assert (ends.broken, ends.missed) == ((), ())
    assert {one for one in ends.said if one.startswith("node")} == {
        "node 1 alone was killed",
        "node 0 alone got SIGTERM",
    }
