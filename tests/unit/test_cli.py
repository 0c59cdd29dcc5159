"""The small commands, called in this process."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from outlast.cli.init import init
from outlast.cli.main import main
from outlast.cli.platform import platform

_EXAMPLE = Path(__file__).parents[2] / "examples" / "digits.py"


def test_init_writes_here_unless_told_where(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert CliRunner().invoke(init, []).exit_code == 0
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
