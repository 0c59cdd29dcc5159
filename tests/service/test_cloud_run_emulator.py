"""The tutorial for resilient GPU jobs, step by step, with the real gcloud against the emulated Cloud Run."""

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from outlast.containers.container import can_isolate
from outlast.emulate.cloud_run.images import Image
from outlast.emulate.cloud_run.server import CloudRun
from outlast.emulate.scale import TimeScale

pytestmark = [
    pytest.mark.skipif(shutil.which("gcloud") is None, reason="needs gcloud"),
    pytest.mark.skipif(not can_isolate(), reason="needs PID namespaces"),
]

# A job of outlast in NumPy, which starts at once. What it comes to tells of every step.
_TRAIN = """
import os, pathlib, sys, time
import numpy as np
import outlast

state = {"sum": np.zeros(4), "rng": np.random.default_rng(7)}
job = outlast.Job("/checkpoints", state=state, every="0.2s")
print("Resuming from step", job.resumed_from, flush=True)
for step in job.steps(60):
    state["sum"] += state["rng"].standard_normal(4)
    time.sleep(0.03)
result = pathlib.Path("/checkpoints/results")
result.mkdir(exist_ok=True)
(result / os.environ["CLOUD_RUN_EXECUTION"]).write_text(repr(state["sum"].tolist()))
print("Task completed successfully.")
"""


def _uninterrupted() -> list[float]:
    """What the job comes to without an interruption."""
    total, rng = np.zeros(4), np.random.default_rng(7)
    for _ in range(60):
        total += rng.standard_normal(4)
    return list(total.tolist())


_HANGS = """
import signal, sys, time
signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
print("begun", flush=True)
time.sleep(60)
"""
_MANIFEST = """
apiVersion: run.googleapis.com/v1
kind: Job
metadata:
  name: replaced
  annotations:
    run.googleapis.com/launch-stage: BETA
spec:
  template:
    metadata:
      annotations:
        run.googleapis.com/gpu-zonal-redundancy-disabled: 'true'
        run.googleapis.com/execution-environment: gen2
    spec:
      taskCount: 2
      parallelism: 1
      template:
        spec:
          maxRetries: 1
          timeoutSeconds: '43200'
          serviceAccountName: gpu-job-sa@demo.iam.gserviceaccount.com
          nodeSelector:
            run.googleapis.com/accelerator: nvidia-l4
          containers:
          - image: example/hangs
            resources:
              limits: {cpu: '8', memory: 32Gi, nvidia.com/gpu: '1'}
            volumeMounts:
            - {name: ckpt, mountPath: /checkpoints}
          volumes:
          - name: ckpt
            csi:
              driver: gcsfuse.run.googleapis.com
              readOnly: false
              volumeAttributes: {bucketName: gpu-checkpoints}
"""
_REGION = ("--region", "us-central1")
_GPU = ("--gpu", "1", "--gpu-type", "nvidia-l4")
_BUCKET = (
    "--add-volume=name=checkpoint-volume,type=cloud-storage,bucket=gpu-checkpoints",
    "--add-volume-mount=volume=checkpoint-volume,mount-path=/checkpoints",
)


class Desk:
    """gcloud, led to the emulator; the bucket's folder."""

    def __init__(self, cloud: CloudRun, bucket: Path) -> None:
        self.cloud, self.bucket = cloud, bucket
        self._environment = {**os.environ, **cloud.gcloud_environment(), "CLOUDSDK_CORE_DISABLE_COLOR": "true"}

    def gcloud(self, *words: str, code: int = 0, region: bool = True) -> str:
        """What gcloud prints, both outputs; a test fails when it leaves with another code."""
        command = ["gcloud", *words, *(_REGION if region else ())]
        done = subprocess.run(command, env=self._environment, capture_output=True, text=True, check=False, timeout=120)
        assert done.returncode == code, f"{command} left with {done.returncode}:\n{done.stdout}\n{done.stderr}"
        return done.stdout + done.stderr

    def newest(self, job: str) -> str:
        """The name of a job's newest execution."""
        names = [name for name in self.cloud.executions() if name.startswith(job)]
        return names[-1]

    def wait_for(self, text: str, execution: str) -> None:
        """Until a line of the log of an execution holds the text."""
        give_up = time.monotonic() + 30
        while not any(text in str(entry) and execution in str(entry) for entry in self.cloud.log_entries()):
            assert time.monotonic() < give_up, f"no {text!r} in {self.cloud.log_entries()}"
            time.sleep(0.01)


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Desk]:
    folder, bucket = tmp_path_factory.mktemp("image"), tmp_path_factory.mktemp("bucket")
    (folder / "task.py").write_text(_TRAIN)
    (folder / "hangs.py").write_text(_HANGS)
    images = {
        "example/train": Image(folder, (sys.executable, "task.py")),
        "example/hangs": Image(folder, (sys.executable, "hangs.py")),
    }
    environment = {name: os.environ[name] for name in ("PATH", "PYTHONPATH") if name in os.environ}
    buckets = {"gpu-checkpoints": bucket}
    with CloudRun(folder=folder, images=images, buckets=buckets, environment=environment, scale=TimeScale(4)) as cloud:
        yield Desk(cloud, bucket)


def test_the_tutorial_deploy_execute_maintenance_retry_resumed_succeeded(desk: Desk) -> None:
    service_account = ("--service-account", "gpu-job-sa@demo.iam.gserviceaccount.com")
    limits = ("--task-timeout", "12h", "--max-retries", "3")
    deployed = desk.gcloud(
        "beta", "run", "jobs", "deploy", "gpu-resilient-job", "--image", "example/train", *_GPU, *limits,
        *service_account, *_BUCKET,
    )  # fmt: skip
    assert "has successfully been deployed" in deployed

    started = desk.gcloud("run", "jobs", "execute", "gpu-resilient-job")
    assert "has successfully started running." in started
    execution = desk.newest("gpu-resilient-job")
    desk.wait_for("Resuming from step None", execution)
    time.sleep(0.5)
    assert desk.cloud.maintain(execution) == [0]
    assert desk.cloud.execution(execution).wait(60)

    described = desk.gcloud("run", "jobs", "executions", "describe", execution)
    assert "1 task completed successfully" in described
    assert "Execution completed successfully in" in described
    of_execution = ("--execution", execution)
    tasks = json.loads(desk.gcloud("run", "jobs", "executions", "tasks", "list", *of_execution, "--format=json"))
    assert [(task["status"]["index"], task["status"]["retried"]) for task in tasks] == [(0, 1)]

    # What gcloud 528 reads of the log: text, and of stdout and stderr only. It fails at structured entries.
    only_text = "--log-filter=textPayload:*"
    read = desk.gcloud("beta", "run", "jobs", "executions", "logs", "read", execution, only_text)
    lines = [line.split(" ", 2)[2] for line in read.splitlines()]
    assert lines[0] == "Resuming from step None"
    assert lines[-1] == "Task completed successfully."
    resumed = next(line for line in lines[1:] if line.startswith("Resuming from step"))
    assert int(resumed.split()[-1]) > 0
    everything = desk.gcloud(
        "logging", "read", f'labels."run.googleapis.com/execution_name"={execution}', "--order=asc",
        "--format=value(textPayload,jsonPayload.message)", region=False,
    )  # fmt: skip
    in_order = ["Resuming from step None", "INSTANCE_PREEMPTED", "SIGTERM", "Container called exit(143)", resumed]
    positions = [everything.index(text) for text in [*in_order, "Task completed", "Container called exit(0)"]]
    assert positions == sorted(positions), everything

    assert (desk.bucket / "results" / execution).read_text() == repr(_uninterrupted())


def test_a_manifest_is_replaced_executed_with_overrides_and_cancelled(desk: Desk, tmp_path: Path) -> None:
    manifest = tmp_path / "job.yaml"
    manifest.write_text(_MANIFEST.replace("maxRetries: 1", "maxRetries: 1\n          timeoutSecs: 5"))
    refused = desk.gcloud("run", "jobs", "replace", str(manifest), code=1)
    assert "timeoutSecs" in refused
    manifest.write_text(_MANIFEST)
    desk.gcloud("run", "jobs", "replace", str(manifest))
    manifest.write_text(_MANIFEST.replace("maxRetries: 1", "maxRetries: 11"))
    refused = desk.gcloud("run", "jobs", "replace", str(manifest), code=1)
    assert "maxRetries: should be between 0 and 10, not 11" in refused, "by the server: gcloud takes any number"
    manifest.write_text(_MANIFEST.replace("maxRetries: 1", "maxRetries: 2"))
    desk.gcloud("run", "jobs", "replace", str(manifest))

    overrides = ("--update-env-vars", "A=1", "--tasks", "3", "--task-timeout", "1h")
    desk.gcloud("run", "jobs", "execute", "replaced", *overrides)
    execution = desk.newest("replaced")
    desk.wait_for("begun", execution)
    spec = desk.cloud.execution(execution).spec
    task = spec["template"]["spec"]
    assert (spec["taskCount"], spec["parallelism"], task["maxRetries"], task["timeoutSeconds"]) == (3, 1, 2, 3600)
    assert task["containers"][0]["env"] == [{"name": "A", "value": "1"}]

    assert "Cancelled execution" in desk.gcloud("run", "jobs", "executions", "cancel", execution)
    counted = "--format=value(status.cancelledCount)"
    assert desk.gcloud("run", "jobs", "executions", "list", "--job", "replaced", counted).strip() == "3"
    assert "Deleted job" in desk.gcloud("run", "jobs", "delete", "replaced")


def test_a_timeout_is_told_as_a_failure_though_the_program_leaves_with_0(desk: Desk) -> None:
    limits = ("--task-timeout", "2s", "--max-retries", "1")
    desk.gcloud("run", "jobs", "deploy", "slow", "--image", "example/hangs", *limits)
    assert "The execution failed." in desk.gcloud("run", "jobs", "execute", "slow", "--wait", code=1)
    execution = desk.newest("slow")
    described = desk.gcloud("run", "jobs", "executions", "describe", execution)
    assert (
        f"Task {execution}-task0 failed with exit code: 0 and message: The configured timeout was reached." in described
    )
    assert "1 task failed to complete" in described
