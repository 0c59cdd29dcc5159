"""Attempts under each platform's procedure: real processes, and notices that come by the platform's own door."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from outlast.containers.container import can_isolate
from outlast.emulate.scale import TimeScale
from outlast.events import Advised, NoticeHeard, NoticeRevoked, SaveFailed, from_lines
from outlast.registry import platform_named
from outlast.rehearse.attempt import Attempt
from outlast.rehearse.display import SilentDisplay
from outlast.rehearse.interrupted import run_interrupted
from outlast.rehearse.procedures import procedure_on
from outlast.rehearse.profile import Profile
from outlast.rehearse.request import Limits, Request
from outlast.rehearse.sandbox import plan_copy
from outlast.rehearse.scenario_file import read_scenario
from outlast.rehearse.site import Site
from outlast.rehearse.stage import Stage
from outlast.rehearse.watch import SaveFilter

pytestmark = pytest.mark.skipif(
    not sys.platform.startswith("linux") or not can_isolate(), reason="containers are simulated in Linux's namespaces"
)

JOB = """
import os, time
import outlast
state = {"done": 0}
job = outlast.Job(state=state, every="0.05s")
for step in job.steps(%d):
    state["done"] += 1
    time.sleep(0.01)
with open("pid", "w") as out:
    out.write(str(os.getpid()))
"""
# A program that polls no door, and lives until it is killed.
DEAF = "import time; print('begun', flush=True); time.sleep(60)"
SPEED = 20.0


@contextmanager
def stage_on(
    platform: str, folder: Path, program: str, *, given: dict[str, object], speed: float
) -> Iterator[tuple[Site, Stage]]:
    source = folder / "source"
    source.mkdir()
    (source / "job.py").write_text(program)
    there = platform_named(platform)
    site = Site(
        request=Request(command=(sys.executable, "job.py"), folder=source, platform=platform),
        limits=Limits(),
        platform=there,
        procedure=procedure_on(platform),
        work=folder / "work",
        copies=plan_copy(source),
        isolated=True,
        given=given,
        scale=TimeScale(speed),
    )
    yield site, site.make_stage("stage")


def attempts_of(
    platform: str,
    happens: str,
    folder: Path,
    *,
    program: str = JOB % 60,
    speed: float = SPEED,
    saves: bool = False,
    retries: int = 6,
) -> tuple[list[Attempt], Stage]:
    """What becomes of the attempts at a job of half a second when `happens`, and then what a proof needs beside it."""
    procedure = procedure_on(platform)
    asked = read_scenario(happens, "f", "f", folder, platform=platform, procedure=procedure)
    ours = "outlast" in program
    profile = Profile(
        seconds=1.0,
        start_up_seconds=0.5,
        sign="loop" if ours else "activity",
        saves=saves,
        save_filter=SaveFilter(store_only=ours),
    )
    with stage_on(platform, folder, program, given=dict(asked.given), speed=speed) as (site, stage):
        found, _ = run_interrupted(
            site, stage, asked.interruptions, profile, retries=retries, round_number=0, display=SilentDisplay()
        )
    return found, stage


def happens_on(happenings: str, **given: str) -> str:
    said = ", ".join(f"{name.replace('_', '-')}: {value}" for name, value in given.items())
    return f"attempts: {happenings}\n" + (f"given: {{{said}}}\n" if said else "")


NOTICES = [
    ("local", "[stop]", {}, "SIGTERM", "SIGTERM"),
    ("cloud-run", "[maintenance]", {}, "SIGTERM", "SIGTERM"),
    # The client for the node takes a while to load; until then SIGTERM is what a pod hears.
    ("kubernetes", "[eviction: {at: 50s}]", {}, "SIGTERM kubernetes-pod", "SIGTERM"),
    ("gke-spot", "[spot-reclaim: {at: 50s}]", {}, "SIGTERM kubernetes-node", "SIGTERM"),
    ("gke-tpu", "[maintenance: {at: 50s}]", {}, "SIGTERM kubernetes-node", "SIGTERM"),
    ("slurm", "[{timeout: {signal: 40s}}]", {}, "SIGUSR1", "SIGTERM"),
    ("gce-spot", "[spot-reclaim]", {"preemption_notice": "120s"}, "gce-metadata preempted", "notice"),
    ("gce-spot", "[maintenance]", {}, "gce-metadata maintenance-event", "notice"),
    ("aws-spot", "[spot-reclaim]", {}, "aws-imds", "notice"),
    ("azure-spot", "[spot-reclaim]", {}, "azure-scheduled-events", "notice"),
]


@pytest.mark.parametrize(("platform", "happens", "given", "doors", "ended_by"), NOTICES)
def test_a_notice_comes_by_the_platforms_door_and_the_job_leaves_in_time(
    platform: str, happens: str, given: dict[str, str], doors: str, ended_by: str, tmp_path: Path
) -> None:
    (noticed,), _ = attempts_of(platform, happens_on(happens, **given), tmp_path, program=JOB % 9000, retries=0)
    assert noticed.heard_from is not None
    assert noticed.heard_from == doors or noticed.heard_from in doors.split()
    assert (noticed.ended_by, noticed.exit_code, noticed.kind) == (ended_by, 143, "SIGTERM")
    assert noticed.heard_notice_after_seconds is not None
    assert noticed.heard_notice_after_seconds < 1.0
    assert noticed.commits > 0


def test_a_pod_hears_of_the_maintenance_of_its_node_before_it_is_evicted(tmp_path: Path) -> None:
    happens = happens_on("[maintenance: {at: 6s}]")
    program = "import kubernetes.client\n" + JOB % 9000  # else it loads beside the steps, for seconds
    (noticed,), stage = attempts_of("gke-gpu", happens, tmp_path, program=program, speed=1.0, retries=0)
    assert noticed.heard_from == "kubernetes-node"
    heard = [one.event for one in from_lines(stage.events(0).read_bytes()) if isinstance(one.event, NoticeHeard)]
    assert "active-node-maintenance=true" in heard[0].reason
    assert 3590 < heard[0].grace_seconds <= 3600
    assert {one.source for one in heard} > {"kubernetes-node"}
    assert (noticed.ended_by, noticed.exit_code) == ("SIGTERM", 143)


@pytest.mark.parametrize(
    ("platform", "happens", "seconds"),
    [
        ("gce-spot", "[spot-reclaim]", 30.0),
        ("aws-spot", "[spot-reclaim]", 120.0),
        ("azure-spot", "[spot-reclaim]", 30.0),
    ],
)
def test_who_does_not_hear_is_killed_when_the_machine_is_off(
    platform: str, happens: str, seconds: float, tmp_path: Path
) -> None:
    program, speed = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); " + DEAF, 100.0
    found, _ = attempts_of(platform, f"attempts: {happens}", tmp_path, program=program, speed=speed, retries=0)
    (attempt,) = found
    assert (attempt.ended_by, attempt.exit_code) == ("SIGKILL after the grace", 137)
    assert attempt.stopped_after_seconds == pytest.approx(seconds / speed, abs=0.3)


def test_on_a_machine_the_program_is_not_pid_1_and_dies_of_a_signal_that_it_does_not_handle(tmp_path: Path) -> None:
    (attempt,), _ = attempts_of("slurm", "attempts: [preemption]", tmp_path, program=DEAF, speed=1.0, retries=0)
    assert (attempt.ended_by, attempt.exit_code) == ("SIGTERM", 143)
    assert attempt.notice is not None
    assert not attempt.notice.first_was_pid_1


def test_a_timeout_is_a_failure_and_a_cancelled_job_is_executed_again(tmp_path: Path) -> None:
    program = (
        "import os, signal, sys, time\n"
        "signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))\n"
        "print(os.environ['CLOUD_RUN_EXECUTION'], os.environ['CLOUD_RUN_TASK_ATTEMPT'], flush=True)\n"
        "time.sleep(1)\n"
    )
    attempts, stage = attempts_of("cloud-run", "attempts: [timeout, cancel]", tmp_path, program=program, speed=1.0)
    assert [one.happened for one in attempts[:2]] == [("timeout",), ("cancel",)]
    assert [(one.exit_code, one.succeeded) for one in attempts] == [(0, False), (0, False), (137, False), (0, True)]
    said = [stage.stdout(one.number).read_text().strip() for one in attempts]
    assert said == ["rehearsal 0", "rehearsal 1", "rehearsal-2 0", "rehearsal-2 1"]


def test_a_notice_that_is_revoked_ends_nothing(tmp_path: Path) -> None:
    happens = happens_on("[maintenance: {revoked-after: 5s}]", machine_type="a2-highgpu-1g")
    program = JOB.replace("%d", "60")
    attempts, stage = attempts_of("gce-spot", happens, tmp_path, program=program)
    revoked = next(one for one in attempts if one.kind == "revoked notice")
    assert (revoked.ended_by, revoked.heard_from) == ("finished", "gce-metadata maintenance-event")
    events = [one.event for one in from_lines(stage.events(revoked.number).read_bytes())]
    assert any(isinstance(event, NoticeRevoked) for event in events)


def test_a_live_migration_is_told_by_two_signals_and_time_passes(tmp_path: Path) -> None:
    happens = "attempts: [live-migration: {ahead: 1s, pause: 4s}]"
    attempts, stage = attempts_of("cloud-run", happens, tmp_path)
    moved = next(one for one in attempts if one.kind == "live migration")
    assert (moved.ended_by, moved.happened) == ("finished", ("live-migration",))
    said = {
        one.event.source: one.monotonic_seconds
        for one in from_lines(stage.events(moved.number).read_bytes())
        if isinstance(one.event, Advised)
    }
    assert list(said) == ["SIGTSTP", "SIGCONT"]
    assert said["SIGCONT"] - said["SIGTSTP"] > 0.9 * 5 / SPEED


def test_the_next_attempt_begins_while_one_that_nobody_reaches_works_on(tmp_path: Path) -> None:
    happens = "attempts: [second-live-attempt: {at: 5%, overlap: 1min}]"
    attempts, _ = attempts_of("kubernetes", happens, tmp_path, program=JOB % 250, speed=1.0)
    first, second = attempts[:2]
    assert (first.ended_by, first.exit_code, first.kind) == ("superseded", 143, "second attempt")
    assert second.started_at < first.started_at + first.seconds, "they did not overlap"
    assert attempts[-1].succeeded


@pytest.mark.parametrize("error", ["ENOSPC", "EIO"])
def test_a_storage_that_fails_meets_every_write_and_the_next_attempt_has_a_sound_one(
    error: str, tmp_path: Path
) -> None:
    happens = f"attempts: [storage-fault: {{error: {error}, at: 20%, lasts: 6s}}]"
    attempts, stage = attempts_of("cloud-run", happens, tmp_path, program=JOB % 90)
    spoilt = next(one for one in attempts if one.kind == "storage fault")
    failed = [
        one.event for one in from_lines(stage.events(spoilt.number).read_bytes()) if isinstance(one.event, SaveFailed)
    ]
    assert failed or spoilt.exit_code == 75
    assert attempts[-1].succeeded


def test_a_save_is_cut_before_the_write_that_is_named(tmp_path: Path) -> None:
    program = """
import os, time
time.sleep(0.2)
for number in range(200):
    with open(f"state-{number}", "wb", buffering=0) as file:
        for part in range(4):
            file.write(b"x" * 10)
    time.sleep(0.02)
"""
    attempts, stage = attempts_of(
        "local", "attempts: [crash-at-a-save: {write: 3, at: start}]", tmp_path, program=program, saves=True, retries=0
    )
    (attempt,) = attempts
    assert (attempt.ended_by, attempt.cut_write) == ("SIGKILL at a save", "state-0")
    assert (stage.folder / "state-0").stat().st_size == 20


def test_an_attempt_that_works_on_beside_the_next_is_ended_once_that_has_finished(tmp_path: Path) -> None:
    program = """
import os, time
print("begun", flush=True)
time.sleep(3600 if os.environ["CLOUD_RUN_TASK_ATTEMPT"] == "0" else 0.5)
"""
    happens = "attempts: [second-live-attempt: {at: start, overlap: 1h}]"
    attempts, _ = attempts_of("cloud-run", happens, tmp_path, program=program, speed=1.0)
    assert (attempts[0].kind, attempts[0].exit_code) == ("second attempt", 137)
    assert attempts[-1].succeeded
