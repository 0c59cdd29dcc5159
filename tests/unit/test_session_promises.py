"""What a session promises around its saves: judged first, wishes kept, metrics and history that are true."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import outlast
from outlast.checkpoint.lineage import read_lineage
from outlast.checkpoint.places import STORE_MARK, RunPlace
from outlast.checkpoint.record import load_record
from outlast.checkpoint.sealed import seal
from outlast.stores.directory import DirectoryStore


def make(folder: Path, **settings: Any) -> outlast.Job:
    settings.setdefault("state", {"x": 0})
    return outlast.Job(folder, name="promise", **settings)


def records(folder: Path, run: str = "run-1") -> list[Any]:
    store, place = DirectoryStore(str(folder)), RunPlace("promise", run).task(0)
    return [load_record(store, place.commit(name)) for name in sorted(read_lineage(store, place).counted)]


def python(code: str, folder: Path, **env: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-c", f"import os, signal, sys\nimport outlast\nfolder = {str(folder)!r}\n{code}"]
    source = str(Path(outlast.__file__).parents[1])
    return subprocess.run(
        command, env={"PYTHONPATH": source, **env}, capture_output=True, text=True, check=False, timeout=60
    )


def test_a_pin_asked_for_in_the_step_of_the_stop_is_kept(tmp_path: Path) -> None:
    done = python(
        "job = outlast.Job(folder, state={'x': 0}, name='promise', every='1h')\n"
        "for step in job.steps(9):\n"
        "    if step == 3:\n        job.save(pin=True)\n        os.kill(os.getpid(), signal.SIGTERM)\n",
        tmp_path,
    )
    assert done.returncode == 143, done.stderr
    assert [(one.step, one.pinned) for one in records(tmp_path)] == [(4, True)]


def test_an_outage_of_a_thousand_failed_saves_ends_no_job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    job = make(tmp_path)

    def away(*_: object, **__: object) -> None:
        raise outlast.StoreUnreachable("away")

    with monkeypatch.context() as broken:
        broken.setattr(job._session.attempt, "commit", away)
        for _ in range(1100):
            with pytest.raises(outlast.SaveFailed, match="away"):
                job.save()
    job.save()
    assert [one.step for one in records(tmp_path)] == [0]


def test_a_save_before_the_loop_is_judged_first(tmp_path: Path) -> None:
    job = make(tmp_path, state={"x": 0, "late": 1}, every=outlast.Steps(1))
    for step in job.steps(9):
        if step == 1:
            break
    job = make(tmp_path)
    with pytest.raises(outlast.StateMismatch, match="no part 'late'"):
        job.save()
    assert len(records(tmp_path)) == 1


def test_a_number_that_is_not_finite_takes_the_earlier_one_away(tmp_path: Path) -> None:
    job = make(tmp_path, every=outlast.Steps(1))
    for step in job.steps(3):
        job.log(loss=[0.5, float("nan"), 0.25][step])
    assert [dict(one.metrics) for one in records(tmp_path)] == [{"loss": 0.5}, {}, {"loss": 0.25}]


def test_history_survives_an_attempt_that_ended_before_its_first_step(tmp_path: Path) -> None:
    job = make(tmp_path, every=outlast.Steps(1))
    for step in job.steps(5):
        job.log(loss=step)
        if step == 3:
            break
    with pytest.raises(outlast.StateMismatch):
        list(make(tmp_path, state={"y": 0}).steps(5))
    job = make(tmp_path, every=outlast.Steps(1))
    for step in job.steps(5):
        job.log(loss=step)
    assert job.history() == [(step, {"loss": float(step)}) for step in range(5)]


def test_without_end_is_more_than_any_total(tmp_path: Path) -> None:
    list(make(tmp_path).steps(3))
    assert next(make(tmp_path).steps(None)) == 3


def test_a_rollback_of_a_finished_run_goes_on_in_that_run_in_a_new_execution(tmp_path: Path) -> None:
    code = (
        "job = outlast.Job(folder, state={'x': 0}, every=outlast.Steps(1), resume=eval(sys.stdin.read()))\n"
        "print(list(job.steps(5)))\n"
    )
    for execution, resume, steps in (("a", "'latest'", "[0, 1, 2, 3, 4]"), ("b", "3", "[3, 4]"), ("b", "3", "[]")):
        env = {"CLOUD_RUN_JOB": "promise", "CLOUD_RUN_EXECUTION": execution}
        done = python(code.replace("sys.stdin.read()", repr(resume)), tmp_path, **env)
        assert (done.returncode, done.stdout.strip()) == (0, steps), done.stderr
    assert not (tmp_path / "promise" / "run-2").exists()


def test_stepping_back_from_crashes_goes_one_checkpoint_at_a_time(tmp_path: Path) -> None:
    crashes = (
        "policy = {'after_crashes': 'step-back', 'crash_limit': 2}\n"
        "job = outlast.Job(folder, state={'x': 0}, every=outlast.Steps(10), **policy)\n"
        "print(job.resumed_from, flush=True)\n"
        "for step in job.steps(99):\n    if step == 35:\n        raise ValueError\n"
    )
    attempts = [python(crashes, tmp_path) for _ in range(5)]
    assert [done.stdout.strip() for done in attempts] == ["None", "30", "20", "10", ""]
    assert attempts[-1].returncode == 78  # nothing earlier is left


def test_a_store_of_a_later_format_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / STORE_MARK).write_bytes(seal({"format": 3}))
    with pytest.raises(outlast.SettingsError, match="format 3"):
        make(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == [STORE_MARK]


def test_epochs_as_interval_is_refused_for_a_loop_of_steps(tmp_path: Path) -> None:
    with pytest.raises(outlast.SettingsError, match="has none"):
        make(tmp_path, every=outlast.Epochs(1)).steps(3)


@pytest.mark.parametrize("left", [b"", b'{"digest":"xxh3_128:12'])
def test_a_mark_or_a_binding_that_a_death_cut_short_is_made_anew(
    left: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a mounted bucket a record appears under its name before it is whole."""
    monkeypatch.setenv("CLOUD_RUN_JOB", "promise")
    monkeypatch.setenv("CLOUD_RUN_EXECUTION", "promise-x1")
    binding = tmp_path / "promise/executions/promise-x1.json"
    binding.parent.mkdir(parents=True)
    for cut in (tmp_path / STORE_MARK, binding):
        cut.write_bytes(left)
    make(tmp_path).save()
    assert [one.step for one in records(tmp_path)] == [0]
    assert make(tmp_path).resumed_from == 0
