"""What the installed SDK has is asked of it, and not of a table of ours."""

import shutil
from pathlib import Path

import pytest

from outlast.installed_sdk import InstalledSdk, flags_in_help

needs_gcloud = pytest.mark.skipif(shutil.which("gcloud") is None, reason="needs gcloud")
_DEPLOY = ("gcloud", "beta", "run", "jobs", "deploy", "train", "--gpu", "1", "--gpu-type=nvidia-l4")
_HELP = """\
NAME
    gcloud run jobs replace - create or replace a job

SYNOPSIS
    \x1b[1mgcloud run jobs replace\x1b[m FILE [\x1b[1m--[no-]async\x1b[m] [--region=REGION] [GCLOUD_WIDE_FLAG ...]
"""


def _old(folder: Path) -> InstalledSdk:
    """An SDK without the table, which tells of itself only by --help."""
    program = folder / "bin" / "gcloud"
    program.parent.mkdir()
    (folder / "help").write_text(_HELP)
    program.write_text(
        f'#!/bin/sh\necho x >> {folder}/asked\n[ "$*" = "version" ] && echo "Google Cloud SDK 400.0.0" && exit 0\n'
        f'[ "$*" = "run jobs replace --help" ] && cat {folder}/help && exit 0\necho "Invalid choice" >&2\nexit 2\n'
    )
    program.chmod(0o755)
    return InstalledSdk(str(program))


@needs_gcloud
def test_the_real_one_lists_its_tracks_apart() -> None:
    """A property of any version: what jobs have in GA they have in beta; a made-up flag is nowhere."""
    sdk = InstalledSdk()
    assert sdk.version is not None
    ga, beta = sdk.command(("run", "jobs", "deploy")), sdk.command(("beta", "run", "jobs", "deploy"))
    assert ga is not None
    assert beta is not None
    assert ga.flags <= beta.flags
    assert beta.has("--gpu=1")
    assert beta.has("--no-async") == beta.has("--async")
    assert not beta.has("--no-gpu-in-the-sky")
    assert sdk.command(("run", "jobs")) is None, "a group is no command"


@needs_gcloud
@pytest.mark.skipif(InstalledSdk().version != "528.0.0", reason="a fact of 528.0.0")
def test_528_has_no_zonal_redundancy_for_jobs_and_says_so() -> None:
    sdk = InstalledSdk()
    assert sdk.problems(_DEPLOY) == []
    (said,) = sdk.problems((*_DEPLOY, "--no-gpu-zonal-redundancy"))
    assert said == "--no-gpu-zonal-redundancy is not listed in the SDK installed here (528.0.0)"
    assert sdk.problems(("run", "jobs", "deploy", "x", "--gpu", "1"))


@needs_gcloud
def test_the_table_and_the_help_of_the_real_one_agree() -> None:
    sdk = InstalledSdk()
    words = ("run", "jobs", "replace")
    by_table, by_help = sdk.command(words), sdk._in_help(words)
    assert by_table is not None
    assert by_help is not None
    assert by_table.flags <= by_help.flags


def test_an_sdk_without_the_table_is_asked_once_for_each_command(tmp_path: Path) -> None:
    sdk = _old(tmp_path)
    assert sdk.version == "400.0.0"
    asked = (tmp_path / "asked").read_text().count("x")
    for _ in range(3):
        replace = sdk.command(("run", "jobs", "replace"))
        assert replace is not None
        assert replace.has("--no-async")
        assert not replace.has("--gpu")
    assert (tmp_path / "asked").read_text().count("x") == asked + 1
    assert sdk.command(("run", "jobs", "deploy")) is None


def test_no_sdk_has_no_problems_to_tell_of(tmp_path: Path) -> None:
    sdk = InstalledSdk(str(tmp_path / "gcloud"))
    assert (sdk.path, sdk.version, sdk.problems(_DEPLOY)) == (None, None, [])


def test_a_group_has_no_flags() -> None:
    assert flags_in_help("NAME\n    gcloud run\n\nGROUPS\n    GROUP is one of\n") is None
