"""`outlast interval`: from what is given, from a store, and what it refuses."""

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

import outlast
from outlast.cli.main import main

WORKED = ["--stall", "500ms", "--persist", "30s", "--slowdown", "0", "--restore", "60s", "--between", "4h"]
NOTICE = ["--notice-share", "90%", "--final-save", "12s", "--grace", "30s"]


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["interval", *arguments])


def advice(*arguments: str) -> dict[str, Any]:
    done = run("--json", *arguments)
    assert done.exit_code == 0, done.output
    shown: dict[str, Any] = json.loads(done.stdout)
    return shown


def test_the_worked_example_without_notice() -> None:
    shown = advice(*WORKED, "--notice-share", "0")
    assert shown["interval_seconds"] == pytest.approx(120, rel=1e-3)
    assert shown["goodput"] == pytest.approx(0.98542, abs=1e-5)
    assert shown["bound"] is None


def test_the_worked_example_with_notices_and_a_final_save_that_fits() -> None:
    shown = advice(*WORKED, *NOTICE)
    assert shown["interval_seconds"] == pytest.approx(379.473, rel=1e-3)
    assert shown["goodput"] == pytest.approx(0.99224, abs=1e-5)
    final = shown["final_save"]
    assert (final["fits"], final["p99_seconds"], final["room_seconds"]) == (True, 12, 24)
    assert final["worth"] == pytest.approx(0.99224 - 0.98542, abs=2e-5)
    assert final["interval_without_seconds"] == pytest.approx(120, rel=1e-3)


def test_a_final_save_that_does_not_fit_is_worth_nothing_and_the_report_says_what_it_could_be() -> None:
    arguments = [*WORKED, *NOTICE, "--final-save", "25s"]
    shown = advice(*arguments)
    assert shown["interval_seconds"] == pytest.approx(120, rel=1e-3)
    assert shown["goodput"] == shown["final_save"]["goodput_without"]
    assert shown["final_save"]["fits"] is False
    assert shown["final_save"]["worth"] > 0
    assert "does not fit (25 s, and 24 s are left); made to fit, it would be worth +0." in run(*arguments).stdout


def test_where_every_interruption_has_a_notice_the_interval_is_the_longest_allowed() -> None:
    shown = advice(*WORKED, *NOTICE, "--notice-share", "1")
    assert (shown["interval_seconds"], shown["best_interval_seconds"]) == (600, None)
    assert shown["bound"] == "the longest that outlast chooses by itself"


def test_a_bound_of_loss_is_kept() -> None:
    shown = advice(*WORKED, "--longest-loss", "90s", "--notice-share", "0")
    assert (shown["interval_seconds"], shown["bound"]) == (60, "no more work may be lost")


def test_what_is_not_given_comes_from_the_platform_and_says_so() -> None:
    shown = advice("--stall", "2s", "--platform", "cloud-run")
    assert shown["inputs"]["grace"]["value"] == 10
    assert shown["inputs"]["between"]["value"] == 168 * 3600
    assert "Cloud Run" in shown["inputs"]["between"]["source"]
    assert shown["inputs"]["persist"]["source"] == "assumed: saves block"
    assert shown["inputs"]["stall"]["source"] == "given"


def test_the_report_for_people_gives_every_quantity_with_its_source() -> None:
    said = run(*WORKED, *NOTICE).stdout
    for line in ("notice share", "90.0%", "save every 6 min 19 s", "expected goodput: 99.22%", "a final save fits"):
        assert line in said


# --- from a store -------------------------------------------------------------------------------------


@pytest.fixture
def store(tmp_path: Path) -> str:
    url = str(tmp_path / "store")
    job = outlast.Job(url, state={"x": bytearray(1_000_000)}, name="trained", every=outlast.Steps(2))
    for _ in job.steps(6):
        pass
    return url


def test_a_store_tells_what_its_run_measured(store: str) -> None:
    shown = advice(store, "--platform", "local")
    inputs = shown["inputs"]
    assert inputs["persist"]["source"] == "measured, mean of 3"
    assert 0 < inputs["persist"]["value"] < 60
    assert inputs["stall"]["source"] == "measured, mean of 3"
    assert inputs["between"]["source"].startswith("learned: 0 interruptions")
    assert inputs["between"]["value"] > 24 * 3600
    assert shown["final_save"]["fits"] is True


def test_what_is_given_beats_what_was_measured(store: str) -> None:
    shown = advice(store, *WORKED, "--notice-share", "0")
    assert shown["interval_seconds"] == pytest.approx(120, rel=1e-3)
    assert {one["source"] for name, one in shown["inputs"].items() if name in ("stall", "persist", "between")} == {
        "given"
    }


# --- refusals -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "--stall is not known"),
        (["--stall", "soon"], "--stall='soon' is not a duration"),
        (["--stall", "0s"], "it must be more than 0"),
        (["--stall", "-1"], "is not a duration"),
        (["--stall", "1s", "--between", "0"], "it must be more than 0"),
        (["--stall", "1s", "--notice-share", "2"], "'2' is no share"),
        (["--stall", "1s", "--notice-share", "nan"], "'nan' is no share"),
        (["--stall", "1s", "--notice-share", "most%"], "'most%' is no share"),
        (["--stall", "1s", "--platform", "moon"], "'moon' is not one of"),
        (["--stall", "1s", "--grace", "inf"], "is not a duration"),
        (["--stall", "1s", "--run", "run-1"], "give its URL"),
    ],
)
def test_bad_input_is_a_line_and_exit_2(arguments: list[str], said: str) -> None:
    refused = run(*arguments)
    assert refused.exit_code == 2
    [line] = [line for line in refused.stderr.splitlines() if line.startswith("Error: ")]
    assert said in line


def test_a_store_that_is_not_there_is_a_line_and_exit_78(tmp_path: Path) -> None:
    refused = run(str(tmp_path / "nowhere"))
    assert refused.exit_code == 78
    assert "there is no store" in refused.stderr


def test_a_store_without_a_checkpoint_still_needs_the_stall(tmp_path: Path) -> None:
    url = str(tmp_path / "store")
    outlast.Job(url, state={"x": 1}, name="begun")
    refused = run(url)
    assert refused.exit_code == 2
    assert "--stall is not known" in refused.stderr
