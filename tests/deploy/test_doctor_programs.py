"""The doctor asks each question once, waits no longer than told, and says what a program's failure means."""

import os
import time
from pathlib import Path

import pytest
from doctor_desk import CLOUD_RUN, URL, Desk, answers, states

from outlast.deploy.doctor.examining import side_by_side
from outlast.deploy.doctor.findings import Finding, ok
from outlast.deploy.doctor.programs import Answer, RealPrograms, mapping, parsed
from outlast.deploy.doctor.troubles import trouble
from service import servers


@pytest.fixture(autouse=True)
def bucket(monkeypatch: pytest.MonkeyPatch) -> None:
    """The real bucket that the checks write to."""
    monkeypatch.setenv("STORAGE_EMULATOR_HOST", servers.gcs_server())


def _desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path / "desk", answers("cloud"))


def test_a_question_is_asked_once_whoever_wants_to_know(tmp_path: Path) -> None:
    desk = _desk(tmp_path)
    desk.examined(CLOUD_RUN.format(url=URL))
    calls = [" ".join(words) for words in desk.calls("gcloud")]
    assert len(calls) == len(set(calls)) > 8


def test_a_program_that_hangs_is_ended_with_all_that_it_started(tmp_path: Path) -> None:
    desk = _desk(tmp_path)
    pid_file = tmp_path / "pid"
    script = desk.folder / "bin" / "hangs"
    script.write_text(f"#!/bin/sh\n/bin/sleep 60 & echo $! > {pid_file}\nwait\n")
    script.chmod(0o755)
    programs = RealPrograms(desk.env, longest_seconds=0.5)
    began = time.monotonic()
    assert programs.ask("hangs", "one").failure == "hung"
    assert programs.ask("hangs", "two").failure == "hung"  # it is not tried a second time
    assert time.monotonic() - began < 5
    child = int(pid_file.read_text())
    until = time.monotonic() + 5
    while _runs(child) and time.monotonic() < until:
        time.sleep(0.01)
    assert not _runs(child)


def _runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_nothing_is_started_once_all_are_ended(tmp_path: Path) -> None:
    """Ctrl-C comes while other threads are about to ask."""
    script = tmp_path / "late"
    script.write_text(f"#!/bin/sh\necho started > {tmp_path / 'trace'}\n")
    script.chmod(0o755)
    programs = RealPrograms({"PATH": str(tmp_path)})
    programs.end()
    assert programs.ask("late").failure == "hung"
    assert not (tmp_path / "trace").exists()


def test_a_hung_gcloud_costs_its_limit_once_and_the_other_checks_are_made(tmp_path: Path) -> None:
    desk = _desk(tmp_path).says("gcloud", sleep=60)
    began = time.monotonic()
    found = desk.examined(CLOUD_RUN.format(url=URL), seconds=1.0)
    assert time.monotonic() - began < 8
    assert found["login"].state == "unknown"
    assert "did not answer in time" in found["login"].why
    assert found["login"].mend == "gcloud config list --format=json"
    assert "bad" not in states(found).values()
    assert found["store write"].state == found["save time"].state == found["entry point"].state == "ok"


def test_a_program_that_cannot_be_started_is_told(tmp_path: Path) -> None:
    (tmp_path / "gcloud").write_bytes(b"\x7fELF but no program")
    (tmp_path / "gcloud").chmod(0o755)
    answer = RealPrograms({"PATH": str(tmp_path)}).ask("gcloud", "version")
    assert answer.failure == "failed"
    assert trouble("login", answer).state == "unknown"


def test_programs_are_given_no_input_and_ask_nothing(tmp_path: Path) -> None:
    script = tmp_path / "gcloud"
    script.write_text('#!/bin/sh\nread line && echo "heard $line"; echo "$CLOUDSDK_CORE_DISABLE_PROMPTS"\n')
    script.chmod(0o755)
    assert RealPrograms({"PATH": f"{tmp_path}{os.pathsep}/bin"}).ask("gcloud").out == "1\n"


@pytest.mark.parametrize("text", ["", "{", "[1, 2]", "null", '"text"', "[" * 100_000, "\x00\xff", "NaN"])
def test_what_is_no_answer_in_json_is_malformed_and_not_believed(text: str) -> None:
    found = parsed(Answer(("gcloud", "x"), text), mapping)
    assert isinstance(found, Answer)
    assert found.failure == "malformed"
    told = trouble("apis", found)
    assert told.state == "unknown"
    assert len(told.why) < 400


@pytest.mark.parametrize(
    ("error", "why", "mend"),
    [
        (
            "ERROR: (gcloud.x) You do not currently have an active account selected.",
            "not logged in",
            "gcloud auth login",
        ),
        (
            "ERROR: There was a problem refreshing your current auth tokens: invalid_grant",
            "not logged in",
            "auth login",
        ),
        (
            "ERROR: PERMISSION_DENIED: SERVICE_DISABLED: cloudquotas.googleapis.com is off in project 12",
            "is off",
            "gcloud services enable cloudquotas.googleapis.com",
        ),
        (
            "ERROR: (gcloud.x) User [a] does not have permission to access projects instance [p]",
            "may not look",
            "gcloud",
        ),
        (
            "The connection to the server 10.0.0.1 was refused - did you specify the right host?",
            "no server",
            "gcloud x",
        ),
        ("Segmentation fault", "Segmentation fault", "gcloud x"),
        ("", "it said nothing", "gcloud x"),
    ],
)
def test_a_refusal_is_told_in_its_own_words_with_what_would_help(error: str, why: str, mend: str) -> None:
    told = trouble("check", Answer(("gcloud", "x"), error=error, failure="failed"), ask="some.right")
    assert told.state == "unknown"
    assert why in told.why
    assert mend in (told.mend or "")


def test_a_check_that_breaks_or_never_ends_leaves_the_others_alone() -> None:
    def breaks() -> list[Finding]:
        raise RuntimeError("boom")

    def hangs() -> list[Finding]:
        time.sleep(30)
        return []

    began = time.monotonic()
    found = side_by_side([("a", breaks), ("b", hangs), ("c", lambda: [ok("c", "fine")])], 0.5)
    assert time.monotonic() - began < 5
    assert [(one.check, one.state) for one in found] == [("a", "unknown"), ("b", "unknown"), ("c", "ok")]
    assert "boom" in found[0].why
    assert "0.5 s" in found[1].why


def test_a_program_that_prints_without_an_end_is_ended_before_it_fills_the_memory(tmp_path: Path) -> None:
    program = tmp_path / "gcloud"
    program.write_text("#!/bin/sh\nexec yes no\n")
    program.chmod(0o755)
    answer = RealPrograms({"PATH": f"{tmp_path}:{os.environ['PATH']}"}, longest_seconds=60).ask("gcloud")
    assert answer.failure == "malformed"
    assert "it printed more than" in answer.error
