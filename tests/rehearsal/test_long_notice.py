"""A rehearsal on nodes with GPUs: a pod whose grace is long trains on until the last safe moment, and loses nothing."""

import sys
from pathlib import Path

import pytest

from outlast.events import NoticeHeard, PlanMade, Stopped, from_lines
from outlast.rehearse.request import Request
from outlast.rehearse.runner import rehearse

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="containers are simulated on Linux")

SPEED = 6.0
POD_GRACE_SECONDS = 100.0  # well above the minute that is trained through, however late a busy machine hears of it
GRACE_SECONDS = POD_GRACE_SECONDS / SPEED  # as it passes here; a fifth of it is kept
MARGIN_SECONDS = 0.2 * GRACE_SECONDS
STEP_SECONDS = 0.0625
TRAINING = f"""
import json, time
import numpy as np
import outlast

rng = np.random.default_rng(7)
state = {{"weights": np.zeros(250_000), "rng": rng, "sums": []}}
job = outlast.Job(state=state, every="0.75s")
for step in job.steps(300):
    state["weights"] += rng.standard_normal(250_000)
    state["sums"].append(float(state["weights"].sum()))
    time.sleep({STEP_SECONDS})
with open("result.json", "w") as out:
    json.dump(state["sums"], out)
"""
SIGTERM_FIRST = 15  # a seed


@pytest.mark.slow
@pytest.mark.first
@pytest.mark.timeout(600)
def test_a_long_notice_is_trained_through_until_the_last_safe_moment_and_loses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, kept = tmp_path / "training", tmp_path / "kept"
    folder.mkdir()
    kept.mkdir()
    (folder / "job.py").write_text(TRAINING)
    monkeypatch.setenv("TMPDIR", str(kept))
    monkeypatch.setattr("tempfile.tempdir", None)
    monkeypatch.setenv("OUTLAST_POD_GRACE", f"{POD_GRACE_SECONDS:g}")
    command = (sys.executable, "job.py")
    request = Request(
        command=command,
        folder=folder,
        platform="gke-gpu",
        interruptions=3,
        seed=SIGTERM_FIRST,
        keep=True,
        in_place=True,
        speed=SPEED,
    )
    report = rehearse(request)
    assert (report.verdict, report.reasons) == ("survived", ())
    noticed, after = report.attempts[:2]
    assert (noticed.ended_by, noticed.exit_code) == ("SIGTERM", 143)
    (events,) = kept.rglob("rehearsal*/outside/logs/attempt-0.events")
    recorded = from_lines(events.read_bytes())
    # The node's label comes ahead of SIGTERM, from which the grace counts.
    heard, heard_at = next(
        (one.event, one.monotonic_seconds)
        for one in recorded
        if isinstance(one.event, NoticeHeard) and one.event.source == "SIGTERM"
    )
    ((stopped, stopped_at),) = (
        (one.event, one.monotonic_seconds) for one in recorded if isinstance(one.event, Stopped)
    )
    last_safe = heard_at + GRACE_SECONDS - MARGIN_SECONDS
    assert last_safe - 5 < stopped_at < last_safe, "not until the last safe moment, or beyond it"
    told = [one.event for one in recorded]
    assert heard.grace_seconds == pytest.approx(GRACE_SECONDS, abs=0.001)
    assert any("which leaves time for a final save" in one.why for one in told if isinstance(one, PlanMade))
    assert stopped.lost_steps == 0
    assert after.resumed_from_step == stopped.step
