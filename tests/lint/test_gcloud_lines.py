"""A gcloud command line is taken apart as gcloud does it, and is a job with the same settings as a manifest."""

import pytest

from outlast.lint.cloud_run.gcloud import GcloudCommand, find_command, job_of
from outlast.lint.cloud_run.job import CloudRunJob, bytes_of, cpus_of, seconds_of
from outlast.lint.reading.shell import read_shell
from outlast.lint.reading.yaml_nodes import Node


def _command(text: str) -> GcloudCommand:
    found = [find_command(line) for _, line in read_shell(text).commands()]
    [command] = [one for one in found if one is not None]
    return command


def _job(text: str) -> CloudRunJob:
    job = job_of(_command(text))
    assert job is not None
    return job


def test_track_command_names_and_flags_are_told_apart() -> None:
    command = _command("gcloud --project p beta run jobs deploy train --image=i --gpu 1 --async --args=a,b -q")
    assert (command.track, command.path) == ("beta", ("run", "jobs", "deploy"))
    assert [word.text for word in command.names] == ["train"]
    assert [flag.name for flag in command.flags] == ["--project", "--image", "--gpu", "--async", "--args", "-q"]
    assert command.value("--gpu").text == "1"
    assert command.complete


def test_lists_may_have_a_delimiter_of_their_own_and_come_in_parts() -> None:
    job = _job("gcloud run jobs create j --image i --args='^@^-c@echo a,b' --args=more --set-env-vars A=1,B=2")
    [container] = job.containers
    assert [one.text for one in container.arguments] == ["-c", "echo a,b", "more"]
    assert [(name.text, value.text) for name, value in container.environment] == [("A", "1"), ("B", "2")]


def test_an_open_value_keeps_what_is_known_of_it() -> None:
    job = _job('gcloud run jobs create j --image i --set-env-vars "BUCKET=$B,LEVEL=3" --max-retries $R')
    pairs = {name.text: value for name, value in job.containers[0].environment}
    assert pairs["BUCKET"].is_unknown
    assert pairs["LEVEL"].text == "3"
    assert job.retries.is_unknown
    assert job.retries.number is None


def test_each_container_has_its_own_flags() -> None:
    job = _job(
        "gcloud run jobs create j --tasks 2 --container a --image i --gpu 1 --memory 16Gi"
        " --container b --image k --memory 1Gi"
    )
    assert [one.memory.text for one in job.containers] == ["16Gi", "1Gi"]
    assert job.uses_gpu
    assert not job.containers[1].gpus


def test_a_volume_and_its_mount_belong_together() -> None:
    job = _job(
        "gcloud run jobs deploy j --add-volume=name=c,type=cloud-storage,bucket=b,readonly=true"
        " --add-volume-mount volume=c,mount-path=/c"
    )
    [(mount, volume)] = job.mounts()
    assert volume is not None
    assert (mount.path.text, volume.kind, volume.bucket.text, volume.read_only.truth) == ("/c", "bucket", "b", True)


@pytest.mark.parametrize("text", ["gcloud run jobs delete j", "gcloud run deploy s --image i", "gcloud run jobs list"])
def test_other_commands_are_no_jobs(text: str) -> None:
    assert job_of(_command(text)) is None


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("3600", 3600), ("3600s", 3600), ("12h", 43200), ("1h30m", 5400), ("7d", 604800), ("x", None), ("$T", None)],
)
def test_durations_are_read_in_every_form(text: str, seconds: float | None) -> None:
    assert seconds_of(Node("scalar", 1, 1, text=text)) == seconds


@pytest.mark.parametrize(
    ("text", "expected"), [("512Mi", 512 << 20), ("16Gi", 16 << 30), ("2G", 2e9), ("16g", 16e9), ("much", None)]
)
def test_amounts_of_memory_are_read_in_every_form(text: str, expected: float | None) -> None:
    assert bytes_of(Node("scalar", 1, 1, text=text)) == expected


@pytest.mark.parametrize(("text", "expected"), [("8", 8), ("4000m", 4), ("0.5", 0.5), ("many", None)])
def test_numbers_of_cpus_are_read_in_every_form(text: str, expected: float | None) -> None:
    assert cpus_of(Node("scalar", 1, 1, text=text)) == expected
