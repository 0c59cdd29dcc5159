"""`outlast nodes --platform cloud-run` with the real gcloud: executions, attempts, preemptions, what is at risk."""

import json
import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from gke_programs import wait_until

import outlast
from outlast.cli.main import main
from outlast.containers.container import can_isolate
from outlast.emulate.cloud_run.images import Image
from outlast.emulate.cloud_run.server import CloudRun

pytestmark = [
    pytest.mark.skipif(shutil.which("gcloud") is None, reason="needs gcloud"),
    pytest.mark.skipif(not can_isolate(), reason="needs PID namespaces"),
]

REGION = "us-central1"
TRAIN = """
import time
import outlast
state = {"n": 0}
job = outlast.Job(state=state, every=outlast.Steps(5))
for step in job.steps(100_000):
    state["n"] += 1
    time.sleep(0.02)
"""
JOB: dict[str, Any] = {
    "apiVersion": "run.googleapis.com/v1",
    "kind": "Job",
    "metadata": {"name": "train"},
    "spec": {
        "template": {
            "spec": {
                "template": {
                    "spec": {
                        "maxRetries": 1,
                        "nodeSelector": {"run.googleapis.com/accelerator": "nvidia-l4"},
                        "containers": [
                            {
                                "image": "example/train",
                                "env": [{"name": "OUTLAST_URL", "value": "/checkpoints/digits"}],
                                "resources": {"limits": {"cpu": "8", "memory": "32Gi", "nvidia.com/gpu": "1"}},
                                "volumeMounts": [{"name": "ckpt", "mountPath": "/checkpoints"}],
                            }
                        ],
                        "volumes": [
                            {
                                "name": "ckpt",
                                "csi": {
                                    "driver": "gcsfuse.run.googleapis.com",
                                    "volumeAttributes": {"bucketName": "ckpt"},
                                },
                            }
                        ],
                    }
                }
            }
        }
    },
}


class Desk:
    """The command, with gcloud led to the emulator."""

    def __init__(self, cloud: CloudRun, bucket: Path) -> None:
        self.cloud, self.bucket = cloud, bucket
        self._env = {**cloud.gcloud_environment(), "COLUMNS": "120"}

    def run(self, *words: str) -> Result:
        place = ("--region", REGION, "--at", f"gs://ckpt={self.bucket}")
        return CliRunner().invoke(main, ["nodes", "--platform", "cloud-run", *place, *words], env=self._env)


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Desk]:
    folder, bucket = tmp_path_factory.mktemp("image"), tmp_path_factory.mktemp("bucket")
    (folder / "task.py").write_text(TRAIN)
    images = {"example/train": Image(folder, (sys.executable, "task.py"))}
    environment = {"PYTHONPATH": str(Path(outlast.__file__).parents[1]), "PATH": os.environ["PATH"]}
    with CloudRun(folder=folder, images=images, buckets={"ckpt": bucket}, environment=environment) as cloud:
        cloud.deploy(JOB, region=REGION)
        yield Desk(cloud, bucket)


def test_an_execution_that_was_preempted_shows_its_attempts_and_what_is_at_risk(desk: Desk) -> None:
    execution = desk.cloud.execute("train", region=REGION)
    wait_until(lambda: list(desk.bucket.rglob("commits/*.json")))
    assert desk.cloud.maintain(execution.name) == [0]
    wait_until(lambda: execution.state.tasks[0].attempt == 1 and execution.state.tasks[0].state == "Running")
    told = desk.run("--job", "train", "--check", "--json")
    assert told.exit_code == 1, told.output
    sight = json.loads(told.stdout)
    assert sight["problems"] == []
    (seen,) = sight["executions"]
    assert (seen["name"], seen["job"], seen["state"], seen["in_trouble"]) == (execution.name, "train", "running", True)
    assert (seen["urls"], seen["retried_tasks"]) == (["gs://ckpt/digits"], 1)
    (task,) = seen["tasks"]
    assert (task["index"], task["state"], task["attempts"], task["most_attempts"]) == (0, "running", 2, 2)
    assert task["last_exit"] == 143
    (risk,) = task["at_risk"]
    assert (risk["what"], risk["problem"]) == ("train / run-1 / task 0", "")
    assert risk["checkpoint_step"] is not None
    (preemption,) = seen["preemptions"]
    assert preemption["task"] == 0
    assert "INSTANCE_PREEMPTED" in preemption["message"]
    desk.cloud.cancel(execution.name)
    assert execution.wait(60)
    text = desk.run("--execution", execution.name, "--check")
    assert text.exit_code == 0, "it is cancelled: nobody needs to look"
    assert f"execution {execution.name} of job train in {REGION}: cancelled" in text.stdout
    assert "preempted at " in text.stdout
    assert "gcloud run jobs executions tasks list" in text.stdout


def test_what_gcloud_refuses_is_told_with_what_may_help(desk: Desk) -> None:
    refused = desk.run("--execution", "train-zzzzz")
    assert refused.exit_code == 78
    assert "there is no such execution" in refused.stderr
    nowhere = CliRunner().invoke(
        main,
        ["nodes", "--platform", "cloud-run"],
        env={**desk.cloud.gcloud_environment(), "CLOUDSDK_RUN_REGION": "", "CLOUDSDK_PROXY_PORT": "9"},
    )
    assert nowhere.exit_code == 78
    assert "gcloud run jobs executions list" in nowhere.stderr
    assert "--region" in nowhere.stderr
