"""`outlast platform` shows what counts here and why; `outlast rehearse` refuses what it cannot do."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from outlast.cli.main import main
from outlast.cli.platform import platform
from outlast.cli.rehearse import rehearse
from outlast.ports import Identity
from outlast.registry import PLATFORMS, platform_named
from outlast.rehearse.procedures import PROCEDURES, procedure_on
from outlast.rehearse.request import Limits, Request
from outlast.rehearse.site import Site
from outlast.rehearse.stage import environment_on

_POD = {"KUBERNETES_SERVICE_HOST": "10.96.0.1", "HOSTNAME": "train-x7k2p", "COLUMNS": "200"}


@pytest.mark.parametrize("name", sorted(PLATFORMS))
def test_every_platform_can_be_shown_with_a_source_for_each_fact(name: str) -> None:
    shown = json.loads(CliRunner().invoke(platform, ["--platform", name, "--json"]).stdout)
    facts = platform_named(name).facts
    assert (shown["platform"], shown["sources"]["platform"]) == (name, "--platform")
    assert set(shown["sources"]) == set(shown) - {"sources"}
    assert all(text.strip() for text in shown["sources"].values())
    assert shown["notice_sources"] == list(facts.notice_sources) == list(shown["grace_after"])
    assert shown["grace_seconds"] == min(shown["grace_after"].values())
    assert shown["usable_seconds"] == pytest.approx(shown["grace_seconds"] - shown["margin_seconds"])
    assert shown["exit_code_interrupted"] == facts.interrupted_exit_code
    assert CliRunner().invoke(platform, ["--platform", name]).exit_code == 0


def test_the_grace_that_counts_and_those_that_do_not_are_shown() -> None:
    env = {**_POD, "OUTLAST_NODE_CLASS": "gke-spot", "OUTLAST_GRACE": "10min", "OUTLAST_POD_GRACE": "600"}
    shown = json.loads(CliRunner().invoke(platform, ["--json"], env=env).stdout)
    assert (shown["platform"], shown["job"], shown["grace_seconds"]) == ("gke-spot", "train", 105)
    assert [known["seconds"] for known in shown["graces"]] == [600, 600, 105]
    said = CliRunner().invoke(platform, [], env=env)
    assert "OUTLAST_GRACE=600 s is more than a job gets here: 105 s" in said.stderr
    assert json.loads(said.stderr)["severity"] == "WARNING"


@pytest.mark.parametrize("job", ["[red]train", "[/]", "[link=x]y", "tr\udcffain", "a\x1b[31mb"])
def test_a_name_is_shown_as_it_is(job: str) -> None:
    said = CliRunner().invoke(platform, [], env={**_POD, "OUTLAST_JOB": job})
    assert said.exit_code == 0
    assert job.replace("\udcff", r"\udcff").replace("\x1b", r"\x1b") in said.stdout
    assert json.loads(CliRunner().invoke(platform, ["--json"], env={**_POD, "OUTLAST_JOB": job}).stdout)["job"] == job


def test_nonsense_leaves_with_78_and_names_the_variable() -> None:
    for name, value in (("OUTLAST_NODE_CLASS", "spot"), ("OUTLAST_POD_GRACE", "x"), ("JOB_COMPLETION_INDEX", "-1")):
        refused = CliRunner().invoke(main, ["platform"], env={**_POD, name: value})
        assert refused.exit_code == 78
        assert f"{name}='{value}'" in refused.stderr
    assert CliRunner().invoke(main, ["platform", "--platform", "mars"]).exit_code == 78


def test_each_platform_can_be_rehearsed_and_an_unknown_one_is_refused_before_anything_starts() -> None:
    assert all(platform_named(name).facts.procedure in PROCEDURES for name in PLATFORMS)
    refused = CliRunner().invoke(rehearse, ["--platform", "mars", "--", "true"])
    assert refused.exit_code == 2
    assert "platform 'mars' is not known" in refused.stderr


def test_a_rehearsal_kills_when_the_job_expects_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def grace_seconds(name: str, limits: Limits) -> float:
        request = Request(command=("true",), folder=tmp_path, platform=name)
        there = platform_named(name)
        procedure = procedure_on(name)
        return Site(request, limits, there, procedure, tmp_path, copies=None, isolated=False).grace_seconds

    assert grace_seconds("gke-gpu", Limits()) == 30
    assert grace_seconds("cloud-run", Limits(grace_seconds=3)) == 3
    monkeypatch.setenv("OUTLAST_POD_GRACE", "600")
    assert grace_seconds("gke-gpu", Limits()) == 600
    assert grace_seconds("gke-spot", Limits()) == 15
    assert grace_seconds("cloud-run", Limits()) == 10
    monkeypatch.setenv("OUTLAST_NODE_CLASS", "gke-spot")
    monkeypatch.setenv("SLURM_ARRAY_TASK_ID", "nonsense of another place")
    assert grace_seconds("gke-gpu", Limits()) == 600


@pytest.mark.parametrize("name", [name for name in PLATFORMS if platform_named(name).facts.procedure])
def test_what_is_left_of_another_place_does_not_reach_a_rehearsal(name: str) -> None:
    identity = Identity("rehearsal", "rehearsal", 0, 1, 2)
    elsewhere = Identity("other", "other", 3, 4, 5)
    there = platform_named(name)
    for other in PLATFORMS:
        found = environment_on(there, identity, {"HOME": "/h", **platform_named(other).environment(elsewhere)})
        assert found.items() == ({"HOME": "/h", "OUTLAST_PLATFORM": name} | there.environment(identity)).items()


def test_help_lists_only_what_is_proven() -> None:
    for command in ("rehearse", "run", "platform"):
        said = CliRunner().invoke(main, [command, "--help"]).stdout
        assert not {name for name in PLATFORMS if platform_named(name).facts.provisional and name in said}
    assert "[cloud-run|slurm|local]" in CliRunner().invoke(main, ["rehearse", "--help"]).stdout
