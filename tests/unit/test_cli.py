"""The small commands, called in this process."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

import outlast
from outlast.checkpoint.lineage import commit_names
from outlast.checkpoint.places import TaskPlace
from outlast.checkpoint.record import load_record
from outlast.cli.init import init
from outlast.cli.main import main
from outlast.cli.platform import platform
from outlast.registry import open_store

_EXAMPLE = Path(__file__).parents[2] / "examples" / "digits.py"


def test_the_example_is_written_here_unless_told_where(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert CliRunner().invoke(init, ["--example"]).exit_code == 0
    assert (tmp_path / "digits.py").read_bytes() == _EXAMPLE.read_bytes()


def test_init_leaves_even_a_dangling_link_alone(tmp_path: Path) -> None:
    (tmp_path / "digits.py").symlink_to(tmp_path / "elsewhere.py")
    refused = CliRunner().invoke(init, ["--example", str(tmp_path)])
    assert refused.exit_code == 1
    assert not (tmp_path / "elsewhere.py").exists()


def test_init_into_a_file_is_wrong_usage(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert CliRunner().invoke(init, [str(tmp_path / "file")]).exit_code == 2


def test_platform_says_which_variable_a_fact_comes_from(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {
        "CLOUD_RUN_JOB": "train",
        "CLOUD_RUN_EXECUTION": "train-x7k2p",
        "OUTLAST_GRACE": "8s",
        "OUTLAST_EXIT_CODE": "75",
    }.items():
        monkeypatch.setenv(name, value)
    shown = json.loads(CliRunner().invoke(platform, ["--json"]).stdout)
    assert (shown["platform"], shown["job"], shown["execution"]) == ("cloud-run", "train", "train-x7k2p")
    assert (shown["grace_seconds"], shown["sources"]["grace_seconds"]) == (8, "OUTLAST_GRACE")
    assert (shown["exit_code_interrupted"], shown["sources"]["exit_code_interrupted"]) == (75, "OUTLAST_EXIT_CODE")
    assert "no source is given" not in shown["sources"].values()


def test_platform_leaves_with_78_and_a_line_when_a_variable_makes_no_sense(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OUTLAST_GRACE", "soon")
    refused = CliRunner().invoke(main, ["platform"])
    assert refused.exit_code == 78
    assert "OUTLAST_GRACE='soon'" in refused.stderr


def test_of_two_checkpoints_of_a_step_the_one_that_counts_is_shown(tmp_path: Path) -> None:
    url = str(tmp_path / "store")
    for _ in range(2):  # the second attempt lists what the first had committed
        job = outlast.Job(url, state={"x": 1}, name="j", every=outlast.Steps(1))
        for _ in job.steps(1):
            pass
    store, place = open_store(url), TaskPlace("j", "run-1", 0)
    [counted] = commit_names(store, place)
    late = replace(load_record(store, place.commit(counted)), sequence=9)
    store.create(place.commit(late.name), late.to_bytes())
    shown = json.loads(CliRunner().invoke(main, ["checkpoints", "show", "--json", "--step", "1", url]).stdout)
    assert (shown["path"], shown["standing"]) == (place.commit(counted), "counted")


@pytest.mark.parametrize("group", [[], ["emulate"], ["queue"], ["checkpoints"], ["sink"]])
def test_help_cuts_off_no_sentence_about_a_command(group: list[str]) -> None:
    shown = CliRunner().invoke(main, [*group, "--help"]).stdout
    assert "Commands:" in shown
    assert "..." not in shown.partition("Commands:")[2]


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["cloud-run", "--image", "a=sh -c 'x"], "No closing quotation"),
        (["gke", "--image", "a=sh -c 'x"], "No closing quotation"),
        (["gke", "--bucket", "ckpt"], "'ckpt' is not NAME=DIR"),
        (["gke", "--nodes", "spot=0"], "'spot=0' is no KIND or KIND=N"),
        (["gke", "--kubeconfig", "no/such/folder/config"], "no/such/folder/config cannot be written"),
    ],
)
def test_a_mistyped_emulator_is_told_by_its_option(options: list[str], told: str) -> None:
    refused = CliRunner().invoke(main, ["emulate", *options])
    assert refused.exit_code == 2
    assert f"Invalid value for {options[1]}: " in refused.stderr
    assert told in refused.stderr
