"""Whole rehearsals of small programs: real processes, real signals, shortened graces."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import victims

import outlast
from outlast.rehearse.report import Report, as_object
from outlast.rehearse.request import Limits, Request
from outlast.rehearse.runner import rehearse

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="containers are simulated on Linux")

SHORT = Limits(grace_seconds=0.5, hung_floor_seconds=3.0, hung_factor=1.0)
PYTHON_JOB = (sys.executable, "job.py")


def rehearse_program(folder: Path, program: str, *command: str, limits: Limits = SHORT, **asked: object) -> Report:
    (folder / "job.py").write_text(program)
    request = Request(command=command or PYTHON_JOB, folder=folder, **{"interruptions": 3, **asked})
    return rehearse(request, limits=limits)


@pytest.fixture
def scenario_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the cuts of saves and the many notices, where what is looked at shows in the attempts before."""
    monkeypatch.setattr("outlast.rehearse.runner.can_cut", lambda _site: False)


def start_command(folder: Path, *words: str) -> subprocess.Popen[str]:
    # What is started in the background of a script inherits a SIGINT that is ignored, and a test run may be.
    code = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)\n"
    code += "from outlast.cli.main import main; main()"
    found = {**os.environ, "PYTHONPATH": str(Path(outlast.__file__).parents[1]), "TMPDIR": str(folder.parent)}
    return subprocess.Popen(
        [sys.executable, "-c", code, "rehearse", *words],
        cwd=folder,
        env=found,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def run_command(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    process = start_command(folder, *words)
    out, err = process.communicate()
    return subprocess.CompletedProcess(words, process.returncode, out, err)


def test_a_program_that_saves_and_hears_survives_every_kind_of_interruption(tmp_path: Path) -> None:
    report = rehearse_program(tmp_path, victims.SURVIVOR)
    assert (report.verdict, report.exit_code, report.reasons) == ("survived", 0, ())
    found = as_object(report)
    assert {one["kind"] for one in found["interruptions"]} == {"SIGTERM", "SIGKILL", "SIGKILL at a save"}
    assert {one["path"] for one in found["results"]} == {"state.json", "<stdout, last line>"}
    assert all(one["same"] for one in found["results"])
    noticed = next(one for one in found["attempts"] if one["ended_by"] == "SIGTERM")
    assert (noticed["exit_code"], noticed["heard_notice_after_seconds"]) == (143, None)
    assert 0 <= noticed["stopped_after_seconds"] < 0.5
    assert [one["number"] for one in found["attempts"]] == [0, 1, 2, 3]
    assert found["attempts"][-1]["ended_by"] == "finished"
    assert 0 < found["goodput"] <= 1
    assert found["lost_seconds"] >= 0
    assert [one.name for one in tmp_path.iterdir()] == ["job.py"]  # the folder itself is untouched


def test_b25_leaving_with_0_on_a_notice_loses_the_work(tmp_path: Path) -> None:
    report = rehearse_program(tmp_path, victims.LEAVES_WITH_0)
    assert (report.verdict, report.exit_code) == ("not-survived", 1)
    assert report.reasons[0].endswith("unfinished work is lost; leave with 143")
    assert report.reasons[0].startswith("it left with 0, so the platform records success")


@pytest.mark.parametrize("command", ["python job.py; true", "python job.py"])
def test_b19_a_shell_as_first_process_keeps_the_signal_from_the_program(tmp_path: Path, command: str) -> None:
    command = command.replace("python", sys.executable)
    report = rehearse_program(tmp_path, victims.LONGER_SURVIVOR, "sh", "-c", command)
    assert report.verdict == "not-survived"
    assert any(one.ended_by == "SIGKILL after the grace" for one in report.attempts)
    (reason,) = report.reasons
    assert "does not handle SIGTERM and, as PID 1, ignores it" in reason
    assert "(its child) would, but the signal never reaches it" in reason
    assert "Use the exec form, `exec`, or `outlast run -- …`" in reason


@pytest.mark.usefixtures("scenario_alone")
def test_a_shell_that_execs_is_no_finding(tmp_path: Path) -> None:
    report = rehearse_program(tmp_path, victims.SURVIVOR, "sh", "-c", f"exec {sys.executable} job.py")
    assert (report.verdict, report.reasons) == ("survived", ())


def test_a_program_that_never_saves_is_told_so(tmp_path: Path) -> None:
    report = rehearse_program(tmp_path, victims.NEVER_SAVES)
    assert report.verdict == "not-survived"  # nobody hears the notice, either
    assert any(reason.startswith("it was not seen to save") for reason in report.reasons)
    assert "an interruption in the middle of a save: the program was not seen to save" in report.not_exercised
    assert any("never saw the signal" in reason for reason in report.reasons)


def test_a_program_that_never_resumes_is_told_so(tmp_path: Path) -> None:
    report = rehearse_program(tmp_path, victims.NEVER_RESUMES)
    assert report.verdict == "not-survived"
    assert any("began again: it wrote as many files as the whole job" in reason for reason in report.reasons)


def test_a_job_that_removes_its_saves_when_it_is_done_may_begin_again_after_its_end(tmp_path: Path) -> None:
    cleanup = "\nif os.path.exists('state.json'):\n    os.unlink('state.json')\n"
    report = rehearse_program(tmp_path, victims.SURVIVOR + cleanup, limits=Limits(grace_seconds=2.0))
    assert (report.verdict, report.reasons) == ("survived", ())


def test_a_state_torn_in_place_uses_up_the_retries(tmp_path: Path) -> None:
    report = rehearse_program(tmp_path, victims.TORN_IN_PLACE)
    assert (report.verdict, report.exit_code) == ("not-survived", 1)
    assert report.reasons[0].startswith("the retries are used up")
    assert "JSONDecodeError" in report.reasons[0]
    assert any("JSONDecodeError" in line for line in report.output)
    assert len(report.attempts) == report.retries + 1


def test_a_program_that_hangs_after_its_resume_has_not_survived(tmp_path: Path) -> None:
    limits = Limits(grace_seconds=0.5, hung_floor_seconds=1.5, hung_factor=1.0)
    report = rehearse_program(tmp_path, victims.HANGS_AFTER_RESUME, limits=limits)
    assert report.verdict == "not-survived"
    assert report.attempts[-1].ended_by == "hung"
    assert "hung" in report.reasons[0]


def test_two_uninterrupted_runs_that_differ_are_no_ground_for_a_verdict(tmp_path: Path) -> None:
    report = rehearse_program(tmp_path, victims.NOT_DETERMINISTIC)
    assert (report.verdict, report.exit_code) == ("could-not-rehearse", 2)
    assert report.reasons[0].startswith("not deterministic")
    assert "out.txt" in report.reasons[0]
    assert report.reasons[1] == "what can be shown: it survived 3 interruptions to the end"
    assert report.attempts


def test_a_tolerance_covers_what_differs_between_runs(tmp_path: Path) -> None:
    report = rehearse_program(tmp_path, victims.NOT_DETERMINISTIC, tolerance=0.6)
    assert (report.verdict, report.reasons) == ("survived", ())


def test_only_named_results_are_compared(tmp_path: Path) -> None:
    report = rehearse_program(tmp_path, victims.NOT_DETERMINISTIC, results=("state.*",))
    assert report.verdict == "survived"
    assert [one.path for one in report.results] == ["state.json", "<stdout, last line>"]


def test_a_job_that_is_too_short_is_not_called_safe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("outlast.rehearse.interrupted.seconds_into_work", lambda *_, **__: 100.0)
    report = rehearse_program(tmp_path, "open('result', 'w').write('1')")
    assert (report.verdict, report.exit_code) == ("could-not-rehearse", 2)
    assert report.reasons[0].startswith("too short to interrupt")


def test_a_caught_signal_that_is_not_acted_on_is_named(tmp_path: Path) -> None:
    report = rehearse_program(tmp_path, victims.DEAF)
    assert report.verdict == "not-survived"
    assert any("catches SIGTERM but did not end within 0.5 s" in reason for reason in report.reasons)


@pytest.mark.parametrize("platform", ["cloud-run", "gce-spot"])
def test_a_notice_while_a_program_that_is_done_ends_says_nothing_against_it(tmp_path: Path, platform: str) -> None:
    """Python takes handlers away at its end: PID 1 then ignores the signal, and any other process dies of it."""
    end = "signal.signal(signal.SIGTERM, signal.SIG_DFL)\ntime.sleep(0.5)\n"
    word = {"cloud-run": "maintenance", "gce-spot": "spot-reclaim"}[platform]
    attempts = [f"{{{word}: {{at: 20%}}}}", "{host-error: {at: 20%}}", "crash-at-a-save", f"{{{word}: {{at: 80%}}}}"]
    (tmp_path / "late.yaml").write_text(f"about: a notice at the end\nattempts: [{', '.join(attempts)}]\n")
    patient = Limits(grace_seconds=5.0)
    program = victims.SURVIVOR + end
    report = rehearse_program(tmp_path, program, limits=patient, platform=platform, scenarios=("late.yaml",))
    assert (report.verdict, report.reasons) == ("survived", ())
    late = report.attempts[3]
    assert late.notice is not None
    assert not late.notice.first_hears
    assert late.exit_code == {"cloud-run": 0, "gce-spot": 143}[platform]


def test_a_child_still_writing_when_the_first_process_leaves_is_named(tmp_path: Path) -> None:
    (tmp_path / "writer.py").write_text(victims.WRITER)
    report = rehearse_program(tmp_path, victims.LEAVES_A_WRITER, results=("state.json",))
    assert report.verdict == "not-survived"
    assert any("writer.py` was still running, writing growing.bin," in reason for reason in report.reasons)


@pytest.mark.usefixtures("scenario_alone")
def test_events_of_a_job_show_in_the_attempts(tmp_path: Path) -> None:
    report = rehearse_program(tmp_path, victims.TELLS_EVENTS)
    assert report.verdict == "survived"
    noticed = next(one for one in report.attempts if one.ended_by == "SIGTERM")
    assert noticed.heard_notice_after_seconds is not None
    assert 0 <= noticed.heard_notice_after_seconds <= 0.1
    assert all(one.resumed_from_step for one in report.attempts[1:])


@pytest.mark.usefixtures("scenario_alone")
def test_attempts_find_the_platforms_environment(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CLOUD_RUN_TASK_INDEX", "7")
    memory = "/dev/shm/outlast-of-an-attempt"
    program = (
        f"import os\nfound = os.path.exists({memory!r})\nopen({memory!r}, 'w').close()\n"
        + victims.SURVIVOR
        + """
names = ["CLOUD_RUN_TASK_ATTEMPT", "CLOUD_RUN_TASK_INDEX", "OUTLAST_PLATFORM", "PWD", "TMPDIR"]
with open("seen.json", "w") as file:
    json.dump([os.environ[name] for name in names] + [os.getpid(), found], file)
"""
    )
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path_factory.mktemp("kept")))
    report = rehearse_program(tmp_path, program, keep=True, results=("state.json",))
    assert report.kept is not None
    (seen,) = report.kept.glob("rehearsal-1/copy/*/seen.json")
    attempt, index, platform, folder, temporary, pid, memory_of_another = json.loads(seen.read_text())
    assert (attempt, index, platform, pid) == ("3", "0", "cloud-run", 1)
    assert not memory_of_another
    assert not Path(memory).exists()
    assert Path(folder) == seen.parent
    assert Path(temporary).parent == report.kept / "rehearsal-1" / "outside"
    assert Path(temporary).name == "tmp-3"


def test_a_failing_program_shows_its_output_and_what_the_copy_lacks(tmp_path: Path) -> None:
    (tmp_path / ".gitignore").write_text("data/\n")
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "train.csv").write_text("1\n")
    report = rehearse_program(tmp_path, "open('data/train.csv')")
    assert (report.verdict, report.exit_code) == ("could-not-rehearse", 2)
    assert "exit code 1: FileNotFoundError" in report.reasons[0]
    assert "data/" in report.reasons[0]
    assert any("FileNotFoundError" in line for line in report.output)


def test_a_missing_result_cannot_be_rehearsed(tmp_path: Path) -> None:
    report = rehearse_program(tmp_path, "", results=("model.bin",))
    assert report.verdict == "could-not-rehearse"
    assert "--result model.bin" in report.reasons[0]


def test_a_large_copy_is_made_only_when_allowed(tmp_path: Path) -> None:
    limits = Limits(grace_seconds=0.5, copy_bytes=10)
    report = rehearse_program(tmp_path, "print('much more than 10 bytes')", limits=limits)
    assert report.verdict == "could-not-rehearse"
    assert "--yes" in report.reasons[0]


def test_state_kept_outside_the_copy_is_no_ground_for_a_verdict(tmp_path: Path) -> None:
    project = tmp_path / "project"
    project.mkdir()
    program = victims.SURVIVOR.replace('"state.', f'"{tmp_path}/state.')
    report = rehearse_program(project, program)
    assert report.verdict == "could-not-rehearse"
    assert "left outside the copy" in report.reasons[0]


def test_in_place_each_run_begins_without_what_the_one_before_made(tmp_path: Path) -> None:
    patient = Limits(grace_seconds=2.0, hung_floor_seconds=5.0)
    report = rehearse_program(tmp_path, victims.SURVIVOR, limits=patient, in_place=True)
    assert (report.verdict, report.reasons) == ("survived", ())
    assert len(report.attempts) == 4
    assert {one.name for one in tmp_path.iterdir()} == {"job.py", "state.json"}


def command_line(process: Path) -> bytes:
    try:
        return (process / "cmdline").read_bytes()
    except OSError:
        return b""  # it ended while we looked


def test_without_namespaces_it_still_kills_everything_and_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("outlast.rehearse.runner.can_isolate", lambda: False)
    ours = f"writer-{os.getpid()}.py"  # other workers of the test run start writers too
    (tmp_path / ours).write_text(victims.WRITER)
    report = rehearse_program(tmp_path, victims.LEAVES_A_WRITER.replace("writer.py", ours), results=("state.json",))
    assert report.verdict == "not-survived"
    assert "PID namespace (your process was not PID 1)" in report.not_exercised
    assert [found for found in Path("/proc").glob("[0-9]*") if ours.encode() in command_line(found)] == []


def test_the_command_prints_one_object_and_leaves_with_the_verdicts_code(tmp_path: Path) -> None:
    (tmp_path / "job.py").write_text(victims.SURVIVOR)
    done = run_command(tmp_path, "--interruptions", "1", "--json", "--", *PYTHON_JOB)
    found = json.loads(done.stdout)
    assert (done.returncode, found["verdict"], len(found["interruptions"])) == (0, "survived", 3)
    assert "raised to 3" in done.stderr
    keys = {"verdict", "platform", "seed", "baseline", "attempts", "interruptions", "results"}
    assert keys | {"lost_seconds", "goodput", "reasons", "not_exercised"} <= found.keys()


def test_more_retries_than_the_platform_has_are_refused(tmp_path: Path) -> None:
    done = run_command(tmp_path, "--retries", "11", "--", "true")
    assert done.returncode == 2
    assert "cloud-run allows 10 at most" in done.stderr


@pytest.mark.parametrize(("sent", "code"), [(signal.SIGINT, 130), (signal.SIGHUP, 129)])
def test_a_stopped_rehearsal_leaves_no_copy_and_no_process(tmp_path: Path, sent: signal.Signals, code: int) -> None:
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "job.py").write_text("import time; open('begun', 'w').close(); time.sleep(60)")
    process = start_command(folder, "--", *PYTHON_JOB)
    while not list(tmp_path.glob("outlast-rehearsal-*/*/copy/project/begun")):
        time.sleep(0.01)
    (begun,) = tmp_path.glob("outlast-rehearsal-*/*/copy/project/begun")
    process.send_signal(sent)
    process.communicate()
    assert process.returncode == code
    assert [one.name for one in tmp_path.iterdir()] == ["project"]
    assert not any(str(begun.parent) in link for link in working_folders())


def working_folders() -> Iterator[str]:
    for entry in Path("/proc").glob("[0-9]*/cwd"):
        with contextlib.suppress(OSError):
            yield str(entry.readlink())
