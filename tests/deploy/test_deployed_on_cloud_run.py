"""What is deployed to Cloud Run, with the real gcloud on the emulated Cloud Run: it takes it, and the job survives."""

import os
import random
import shutil
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from outlast.containers.container import can_isolate
from outlast.deploy.apply import Applying
from outlast.deploy.cloud_run.patch import patch
from outlast.deploy.cloud_run.steps import plan_for
from outlast.deploy.description_file import load_description
from outlast.deploy.plan import Plan
from outlast.deploy.record import opened
from outlast.deploy.teardown import tear_down
from outlast.deploy.tools import InstalledTools
from outlast.emulate.cloud_run.dockerfiles import read_start
from outlast.emulate.cloud_run.images import Image
from outlast.emulate.cloud_run.server import CloudRun
from outlast.emulate.scale import TimeScale

pytestmark = [
    pytest.mark.skipif(shutil.which("gcloud") is None, reason="needs gcloud"),
    pytest.mark.skipif(not can_isolate(), reason="needs PID namespaces"),
]
_DESCRIPTION = """\
name: train-digits
command: [python, train.py]
source: .
url: gs://example-bucket/train-digits
hardware: {gpu: nvidia-l4}
run_time: 2d
env: {SEED: 7, CRASH: 1}
project: example-project
region: europe-west4
"""
# Each attempt waits where it is to be interrupted: how long gcloud takes to return does not matter.
_TRAIN = """
import json, os, pathlib, random, time
import outlast

random.seed(int(os.environ["SEED"]))
attempt = int(os.environ["CLOUD_RUN_TASK_ATTEMPT"])
job = outlast.Job(state={"sum": 0.0}, every="0.1s")
for step in job.steps(60):
    job.state["sum"] += random.random()
    if step == 5 and attempt == 0:
        print("in step 5", flush=True)
        while not job.stopping:
            time.sleep(0.01)
    if step == 30 and attempt == 1 and "CRASH" in os.environ:
        print("in step 30", flush=True)
        time.sleep(100)
    time.sleep(0.01)
result = pathlib.Path(os.environ["OUTLAST_URL"], "result.json")
result.write_text(json.dumps(job.state["sum"]))
"""


def _uninterrupted() -> float:
    drawn = random.Random(7)
    total = 0.0
    for _ in range(60):
        total += drawn.random()
    return total


class Cloud:
    """The emulated Cloud Run, where the image of the description is there as if it had been built."""

    def __init__(self, emulated: CloudRun, plan: Plan, source: Path, bucket: Path) -> None:
        self.emulated, self.plan, self.source, self.bucket = emulated, plan, source, bucket

    def of(self, *steps: str) -> Plan:
        """The plan with only those steps."""
        return replace(self.plan, steps=tuple(step for step in self.plan.steps if step.name in steps))

    def apply(self, plan: Plan) -> None:
        with opened(self.source, plan.target, plan.name) as record:
            Applying(plan, record, InstalledTools(self.source / "made"), self.source / "made", print).run()

    def wait_for(self, text: str, execution: str) -> None:
        give_up = time.monotonic() + 120
        while not any(text in str(entry) and execution in str(entry) for entry in self.emulated.log_entries()):
            assert time.monotonic() < give_up, f"no {text!r} in {self.emulated.log_entries()}"
            time.sleep(0.01)


@pytest.fixture(scope="module")
def cloud(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cloud]:
    source, bucket = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("bucket")
    (source / "outlast.yaml").write_text(_DESCRIPTION)
    (source / "train.py").write_text(_TRAIN)
    plan = plan_for(load_description(folder=source), source / "made")
    steps = {step.name: step for step in plan.steps}
    start = read_start(steps["dockerfile"].files[0].text)
    (source / "made").mkdir()
    programs = tmp_path_factory.mktemp("bin")
    outlast = programs / "outlast"
    outlast.write_text(f'#!/bin/sh\nexec {sys.executable} -c "from outlast.cli.main import main; main()" "$@"\n')
    outlast.chmod(0o755)
    environment = {name: os.environ[name] for name in ("PYTHONPATH",) if name in os.environ}
    environment["PATH"] = os.pathsep.join([str(programs), str(Path(sys.executable).parent), os.environ["PATH"]])
    image = steps["image"].makes[0].name
    images = {image: Image(source, start.entry_point, start.arguments)}
    scale = TimeScale(4)
    with (
        CloudRun(
            folder=source, images=images, buckets={"example-bucket": bucket}, environment=environment, scale=scale
        ) as emulated,
        pytest.MonkeyPatch.context() as variables,
    ):
        for name, value in emulated.gcloud_environment().items():
            variables.setenv(name, value)
        yield Cloud(emulated, plan, source, bucket)


def test_the_generated_job_is_taken_by_the_real_gcloud_and_survives_its_interruptions(cloud: Cloud) -> None:
    plan = cloud.of("job", "execution")
    cloud.apply(plan)
    (execution,) = cloud.emulated.executions()
    cloud.wait_for("in step 5", execution)
    assert cloud.emulated.maintain(execution) == [0]
    cloud.wait_for("in step 30", execution)
    assert cloud.emulated.crash(execution) == [0]
    running = cloud.emulated.execution(execution)
    assert running.wait(120)
    assert running.state.succeeded
    assert [one.end.exit_code for one in running.attempts] == [143, 137, 0]
    assert (cloud.bucket / "train-digits" / "result.json").read_text() == repr(_uninterrupted())

    with opened(cloud.source, plan.target, plan.name) as record:
        owned = [(one.made.kind, one.made.name) for one in record.owned()]
        assert owned == [("job", "train-digits in europe-west4"), ("execution", execution)]
        removal = tear_down(record, InstalledTools(cloud.source / "made"), print)
    assert (removal.failed, len(removal.removed)) == ((), 2)
    assert cloud.emulated.executions() == []


_THEIRS = """\
apiVersion: run.googleapis.com/v1
kind: Job
metadata:
  name: theirs
spec:
  template:
    spec:
      template:
        spec:
          maxRetries: 0          # never again
          timeoutSeconds: 604800
          nodeSelector: {run.googleapis.com/accelerator: nvidia-l4}
          containers:
          - image: IMAGE
            command: [sh, -c, "python train.py"]
            env:
            - {name: SEED, value: '7'}
            resources:
              limits: {cpu: '8', memory: 32Gi, nvidia.com/gpu: '1'}
"""


def test_a_patched_manifest_is_taken_and_survives_what_it_did_not(cloud: Cloud) -> None:
    steps = {step.name: step for step in cloud.plan.steps}
    theirs = _THEIRS.replace("IMAGE", steps["image"].makes[0].name)
    described = load_description(folder=cloud.source, arguments={"url": "gs://example-bucket/theirs"}).description
    found = patch(theirs, "job.yaml", described)
    assert found.by_hand == ()
    assert "maxRetries: 6          # never again" in found.text
    tools = InstalledTools(cloud.source)
    where = ("--region", "europe-west4", "--project", "example-project", "--quiet")
    for text, code in ((theirs, 1), (found.text, 0)):
        (cloud.source / "job.yaml").write_text(text)
        assert tools.ask(("gcloud", "run", "jobs", "replace", "job.yaml", *where)).code == code
    execution = cloud.emulated.execute("theirs", project="example-project", region="europe-west4")
    cloud.wait_for("in step 5", execution.name)
    assert cloud.emulated.maintain(execution.name) == [0]
    assert execution.wait(120)
    assert [one.end.exit_code for one in execution.attempts] == [143, 0]
    assert yaml.safe_load((cloud.bucket / "theirs" / "result.json").read_text()) == _uninterrupted()
