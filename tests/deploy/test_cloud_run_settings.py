"""What a description comes to on Cloud Run: what is derived, what is refused, what it can cost."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from outlast.deploy.cloud_run.dockerfile import dockerfile, is_ours
from outlast.deploy.cloud_run.manifest import manifest
from outlast.deploy.cloud_run.settings import CloudRunJob, account_of, settle
from outlast.deploy.cloud_run.steps import plan_for
from outlast.deploy.description import BadSetting
from outlast.deploy.description_file import Argument, Described, description_from
from outlast.deploy.exposure import Exposure
from outlast.emulate.cloud_run.dockerfiles import read_start
from outlast.installed_sdk import InstalledSdk

_LEAST: dict[str, Argument] = {
    "name": "train", "command": ["python", "train.py"], "image": "example/train", "url": "gs://example-bucket/a/b",
    "project": "example-project", "region": "europe-west4",
}  # fmt: skip


def _job(**settings: str) -> CloudRunJob:
    return settle(description_from({**_LEAST, **{name.replace("__", "."): said for name, said in settings.items()}}))


def _task(job: CloudRunJob) -> dict[str, Any]:
    made = yaml.safe_load(manifest(job, "example/train"))
    found: dict[str, Any] = made["spec"]["template"]["spec"]["template"]["spec"]
    return found


@pytest.mark.parametrize(
    ("settings", "timeout", "retries", "preview"),
    [
        ({}, 86400, 3, False),
        ({"hardware__gpu": "nvidia-l4"}, 43200, 3, True),
        ({"hardware__gpu": "nvidia-l4", "run_time": "30min"}, 2880, 3, False),
        ({"hardware__gpu": "nvidia-l4", "run_time": "2d"}, 43200, 6, True),  # 1 interruption, 3 timeouts, 2 to spare
        ({"hardware__gpu": "nvidia-l4", "run_time": "60d"}, 43200, 10, True),
        ({"run_time": "2d"}, 216600, 3, False),
        ({"timeout": "1h", "retries": "4"}, 3600, 4, False),
    ],
)
def test_timeout_and_retries_are_for_the_run_that_is_described(
    settings: dict[str, str], timeout: int, retries: int, preview: bool
) -> None:
    job = _job(**settings)
    assert (job.timeout_seconds, job.retries, job.preview) == (timeout, retries, preview)
    task = _task(job)
    assert (task["timeoutSeconds"], task["maxRetries"]) == (str(timeout), retries)
    stage = yaml.safe_load(manifest(job, "i"))["metadata"].get("annotations", {})
    assert stage == ({"run.googleapis.com/launch-stage": "BETA"} if preview else {})


def test_a_run_that_one_execution_cannot_end_is_told() -> None:
    job = _job(hardware__gpu="nvidia-l4", run_time="60d")
    assert any("execute the job again to go on, it resumes" in note for note in job.warnings)


@pytest.mark.parametrize(
    ("settings", "cpu", "memory"),
    [
        ({}, "2", "4Gi"),
        ({"hardware__gpu": "nvidia-l4"}, "8", "32Gi"),
        ({"hardware__gpu": "nvidia-rtx-pro-6000"}, "20", "80Gi"),
        ({"measured__state_size": "4Gi"}, "4", "13Gi"),  # thrice the state, for a mount stages it, and 1 GiB
        ({"measured__state_size": "4Gi", "access": "native"}, "4", "9Gi"),
        ({"hardware__cpu": "6", "hardware__memory": "24Gi"}, "6", "24Gi"),
    ],
)
def test_the_size_has_room_for_the_saves(settings: dict[str, str], cpu: str, memory: str) -> None:
    job = _job(**settings)
    assert (job.cpu, job.memory) == (cpu, memory)


@pytest.mark.parametrize(
    ("settings", "key", "said"),
    [
        ({"hardware__spot": "true"}, "hardware.spot", "no such thing"),
        ({"hardware__gpu": "nvidia-t4"}, "hardware.gpu", "nvidia-l4, nvidia-rtx-pro-6000"),
        ({"hardware__gpu": "nvidia-l4", "hardware__gpus": "2"}, "hardware.gpus", "at most 1"),
        ({"hardware__gpu": "nvidia-l4", "timeout": "168h"}, "timeout", "43200 s"),
        ({"timeout": "169h"}, "timeout", "604800 s"),
        ({"retries": "0"}, "retries", "the first interruption is the end"),
        ({"retries": "11"}, "retries", "more than the 10"),
        ({"hardware__gpu": "nvidia-l4", "hardware__memory": "4Gi"}, "hardware.memory", "at least 8Gi"),
        ({"hardware__cpu": "3"}, "hardware.cpu", "one of 1, 2, 4, 6, 8"),
        ({"hardware__cpu": "1", "hardware__memory": "8Gi"}, "hardware.memory", "512Mi to 4096Mi"),
        ({"tasks": "10001"}, "tasks", "more than the 10000"),
        ({"project": ""}, "project", "--project"),
        ({"region": ""}, "region", "--region"),
        ({"url": "/data"}, "url", "is memory"),
        ({"measured__state_size": "40Gi"}, "hardware.memory", "with 8 CPUs"),
    ],
)
def test_what_cloud_run_would_refuse_is_refused_here(settings: dict[str, str], key: str, said: str) -> None:
    with pytest.raises(BadSetting, match=said) as caught:
        _job(**settings)
    assert caught.value.key == key


def test_checkpoints_are_on_the_mounted_bucket_or_at_its_url() -> None:
    mounted, native = _task(_job()), _task(_job(access="native"))
    assert {"name": "OUTLAST_URL", "value": "/checkpoints/a/b"} in mounted["containers"][0]["env"]
    assert mounted["volumes"][0]["csi"]["volumeAttributes"] == {"bucketName": "example-bucket"}
    assert {"name": "OUTLAST_URL", "value": "gs://example-bucket/a/b"} in native["containers"][0]["env"]
    assert "volumes" not in native


@pytest.mark.parametrize("command", ["python train.py --name 'a \"b\"'", "python -c 'print($HOME)'"])
def test_the_image_starts_the_command_itself_without_a_shell(command: str) -> None:
    described = description_from(
        {**_LEAST, "command": command, "requirements": "needs it.txt", "packages": ["a>=1,<2"]}
    )
    text = dockerfile(described, described.requirements)
    start = read_start(text)
    assert start.entry_point == ("outlast", "run", "--")
    assert start.arguments == described.command
    assert is_ours(text)
    assert not is_ours(text.replace("slim", "alpine"))
    own = dockerfile(description_from({**_LEAST, "packages": ["outlast[torch] @ git+https://host.example/outlast"]}))
    assert own.count('"outlast') == 2, "the package once, and the entry point"


@pytest.mark.parametrize("name", ["a", "a" * 63, "train-" + "x" * 30, "a-b-c"])
def test_account_names_fit_and_differ(name: str) -> None:
    found = [account_of(name, what, "example-project").partition("@")[0] for what in ("job", "build")]
    assert all(6 <= len(one) <= 30 for one in found)
    assert found[0] != found[1]
    assert account_of(f"{name[:-1]}y", "job", "example-project") != account_of(
        f"{name[:-1]}z", "job", "example-project"
    )


def test_the_worst_case_is_timeout_times_attempts_times_tasks() -> None:
    gpu = Exposure(timeout_seconds=43200, retries=3, tasks=2, gpus=1, price=0.67)
    assert gpu.lines() == (
        "worst case of one execution: 12 h x 4 attempts x 2 tasks x 1 GPU = 96 GPU hours",
        "at 0.67 USD each: 64.32 USD",
    )
    assert Exposure(timeout_seconds=3600, retries=0, tasks=1).lines() == (
        "worst case of one execution: 60 min x 1 attempts x 1 task = 1 task hours",
    )


def test_a_batch_without_a_bucket_has_a_bucket_for_its_sources_only(tmp_path: Path) -> None:
    settings: dict[str, Argument] = {
        **_LEAST, "command": "", "image": "", "url": "", "source": ".", "batch.function": "work:infer",
        "batch.queue": "pubsub://example-project/items", "batch.sink": "postgresql://db.example/results",
    }  # fmt: skip
    described = Described(description_from(settings), tmp_path, None)
    steps = {step.name: step for step in plan_for(described, tmp_path / "made").steps}
    assert steps["bucket"].makes[0].name == "gs://example-project-outlast"
    assert "role" not in steps
    assert "volumes" not in _task(settle(described.description))


@pytest.mark.skipif(InstalledSdk().path is None, reason="needs gcloud")
def test_the_installed_gcloud_has_every_command_and_flag_of_a_plan(tmp_path: Path) -> None:
    described = Described(description_from({**_LEAST, "image": "", "source": "."}), tmp_path, None)
    sdk = InstalledSdk()
    every = [argv for step in plan_for(described, tmp_path / "made").steps for argv in step.every_argv()]
    assert len(every) > 30
    assert [problem for argv in every for problem in sdk.problems(argv)] == []
