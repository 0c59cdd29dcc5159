"""`outlast doctor` as people run it: exit codes, JSON, without a file, with a gcloud that nobody is logged in to."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from doctor_desk import CLOUD_RUN, URL, Desk, answers

from outlast.cli.doctor import doctor
from outlast.deploy.description_file import read_description
from outlast.deploy.doctor import account, roles
from outlast.deploy.doctor.cases import Case
from outlast.deploy.doctor.programs import RealPrograms
from rehearsal.driving import SOURCE
from service import servers

_MAIN = "from outlast.cli.main import main; main()"


def _doctor(folder: Path, *words: str, env: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", _MAIN, "doctor", *words],
        cwd=folder,
        env={"PYTHONPATH": SOURCE, "STORAGE_EMULATOR_HOST": servers.gcs_server(), **(env or {})},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


def _rows(done: subprocess.CompletedProcess[str]) -> dict[str, dict[str, Any]]:
    rows = json.loads(done.stdout)
    assert all(set(row) == {"check", "state", "why", "mend"} for row in rows)
    return {row["check"]: row for row in rows}


def test_a_job_that_can_be_deployed_gets_0(tmp_path: Path) -> None:
    desk = Desk(tmp_path / "desk", answers("cloud"))
    (tmp_path / "outlast.yaml").write_text(CLOUD_RUN.format(url=URL))
    done = _doctor(tmp_path, "--json", env=desk.env)
    assert done.returncode == 0, done.stdout + done.stderr
    assert {row["state"] for row in _rows(done).values()} == {"ok"}


def test_something_bad_gets_1_and_its_command_stands_below_it(tmp_path: Path) -> None:
    desk = Desk(tmp_path / "desk", answers("cloud")).says("gcloud billing", {"billingEnabled": False})
    (tmp_path / "job.yaml").write_text(CLOUD_RUN.format(url=URL))
    done = _doctor(tmp_path, "job.yaml", env=desk.env)
    assert done.returncode == 1
    lines = done.stdout.splitlines()
    place = next(n for n, line in enumerate(lines) if line.startswith("BAD"))
    assert "billing" in lines[place]
    assert lines[place + 1].strip() == "$ gcloud billing projects link example-project --billing-account ACCOUNT_ID"


@pytest.mark.parametrize(
    "text", ["name: [", "nam: x\n", "", "name: x\ncommand: [a]\nsource: .\nurl: x\nplatform: mars\n"]
)
def test_a_file_that_makes_no_sense_gets_2_and_a_line(tmp_path: Path, text: str) -> None:
    (tmp_path / "job.yaml").write_text(text)
    done = CliRunner().invoke(doctor, [str(tmp_path / "job.yaml")])
    assert done.exit_code == 2
    assert done.stdout == ""
    assert "job.yaml" in done.stderr


@pytest.mark.parametrize("name", ["nowhere.yaml", "."])
def test_a_file_that_cannot_be_read_gets_2(tmp_path: Path, name: str) -> None:
    assert CliRunner().invoke(doctor, [str(tmp_path / name)]).exit_code == 2


def test_an_odd_time_limit_gets_2(tmp_path: Path) -> None:
    assert CliRunner().invoke(doctor, ["--timeout", "soon"]).exit_code == 2


def test_without_a_file_this_machine_is_looked_at(tmp_path: Path) -> None:
    desk = Desk(tmp_path / "desk", answers("cloud", "cluster"))
    (tmp_path / "store").mkdir()
    done = _doctor(tmp_path, "--json", env={**desk.env, "OUTLAST_URL": str(tmp_path / "store")})
    rows = _rows(done)
    assert done.returncode == 0, rows
    assert rows["login"]["state"] == rows["kubectl"]["state"] == rows["store write"]["state"] == "ok"
    assert "30 s of grace" in rows["platform"]["why"]


def test_a_variable_that_makes_no_sense_is_found_without_a_file(tmp_path: Path) -> None:
    rows = _rows(_doctor(tmp_path, "--json", env={"PATH": str(tmp_path), "OUTLAST_GRACE": "soon"}))
    assert (rows["platform"]["state"], rows["platform"]["mend"]) == ("bad", "unset OUTLAST_GRACE")
    assert rows["login"]["state"] == "unknown"  # a machine may do without gcloud


def test_a_gcloud_that_hangs_does_not_hold_the_doctor_up(tmp_path: Path) -> None:
    desk = Desk(tmp_path / "desk", answers("cloud")).says("gcloud", sleep=60)
    (tmp_path / "outlast.yaml").write_text(CLOUD_RUN.format(url=URL))
    began = time.monotonic()
    done = _doctor(tmp_path, "--json", "--timeout", "1s", env=desk.env)
    assert time.monotonic() - began < 20
    assert done.returncode == 0  # nothing is known to be bad
    assert "did not answer in time" in _rows(done)["login"]["why"]


def test_ctrl_c_leaves_no_gcloud_behind(tmp_path: Path) -> None:
    desk = Desk(tmp_path / "desk", answers("cloud")).says("gcloud", sleep=60)
    (tmp_path / "outlast.yaml").write_text(CLOUD_RUN.format(url=tmp_path / "store"))
    env = {"PYTHONPATH": SOURCE, **desk.env}
    doctor = subprocess.Popen([sys.executable, "-c", _MAIN, "doctor"], cwd=tmp_path, env=env, stderr=subprocess.PIPE)
    until = time.monotonic() + 20
    while not desk.calls("gcloud") and time.monotonic() < until:
        time.sleep(0.02)
    doctor.send_signal(signal.SIGINT)
    assert doctor.wait(10) != 0
    assert doctor.stderr is not None
    doctor.stderr.close()
    until = time.monotonic() + 10
    while (left := _started_in(desk.folder)) and time.monotonic() < until:
        time.sleep(0.02)
    assert left == []


def _started_in(folder: Path) -> list[str]:
    """The processes that run one of the folder's programs."""
    found = []
    for one in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            words = (one / "cmdline").read_bytes().decode(errors="replace").split("\0")
            found += [one.name] if any(word.startswith(f"{folder}/bin/g") for word in words) else []
    return found


def test_names_that_would_steer_a_terminal_are_shown_as_text(tmp_path: Path) -> None:
    desk = Desk(tmp_path / "desk", answers("cloud")).says(
        "gcloud auth list", [{"account": "\x1b[2Jx", "status": "ACTIVE"}]
    )
    (tmp_path / "outlast.yaml").write_text(CLOUD_RUN.format(url=URL))
    assert "\x1b" not in _doctor(tmp_path, env=desk.env).stdout


@pytest.mark.skipif(shutil.which("gcloud") is None, reason="needs gcloud")
def test_the_real_gcloud_that_nobody_is_logged_in_to_is_understood(tmp_path: Path) -> None:
    env = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "CLOUDSDK_CONFIG": str(tmp_path / "gcloud")}
    case = Case(described=read_description(CLOUD_RUN.format(url=URL)), programs=RealPrograms(env), folder=tmp_path)
    (login,), (project,), (apis,) = account.login(case), account.project(case), roles.apis(case, ["run.googleapis.com"])
    assert (login.state, login.mend) == ("bad", "gcloud auth login")
    assert (project.state, project.mend) == ("bad", "gcloud auth login")
    assert (apis.state, apis.mend) == ("unknown", "gcloud auth login")


def test_the_help_tells_the_exit_codes() -> None:
    assert "Exit codes: 0" in (doctor.help or "")
