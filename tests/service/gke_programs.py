"""A cluster of the GKE emulator for tests, the real kubectl for it, and manifests of what runs there."""

import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import outlast
from outlast.emulate.kubernetes.cluster import Cluster
from outlast.emulate.kubernetes.images import Image

Json = dict[str, Any]
TRAINER = """
import sys, time
import numpy as np, outlast
state = {"w": np.zeros(1000)}
job = outlast.Job("/checkpoints", state=state, every="0.3s")
for step in job.steps(int(sys.argv[1])):
    state["w"] += step
    time.sleep(0.3 if job.attempt == 0 and step > 20 else 0.01)  # the first attempt lasts until it is interrupted
print("sum", int(state["w"].sum()), "resumed", job.resumed_from)
"""
JOB = """
apiVersion: batch/v1
kind: Job
metadata: {{name: {name}}}
spec:
  backoffLimit: 0
  completions: 1
  completionMode: {mode}
  podFailurePolicy:
    rules:
    - action: Ignore
      onPodConditions: [{{type: DisruptionTarget}}]
    - action: FailJob
      onExitCodes: {{operator: In, values: [78]}}
  template:
    metadata: {{annotations: {{gke-gcsfuse/volumes: "true"}}}}
    spec:
      restartPolicy: Never
      terminationGracePeriodSeconds: {grace}
      nodeSelector: {{cloud.google.com/gke-nodepool: {pool}}}
      containers:
      - name: main
        image: trainer:1
        args: ["{steps}"]
        env:
        - {{name: NODE_NAME, valueFrom: {{fieldRef: {{fieldPath: spec.nodeName}}}}}}
        - {{name: OUTLAST_NODE_CLASS, value: "{kinds}"}}
        - {{name: POD_NAME, valueFrom: {{fieldRef: {{fieldPath: metadata.name}}}}}}
        volumeMounts: [{{name: bucket, mountPath: /checkpoints}}]
        {resources}
      volumes:
      - name: bucket
        csi: {{driver: gcsfuse.csi.storage.gke.io, volumeAttributes: {{bucketName: {name}}}}}
---
"""


def training(name: str, pool: str, kinds: str, *, grace: int, steps: int, mode: str = "NonIndexed") -> str:
    """A Job of the trainer on one pool, whose nodes are told to be of these kinds."""
    resources = 'resources: {limits: {nvidia.com/gpu: "1"}}' if "gpu" in kinds else ""
    return JOB.format(name=name, pool=pool, kinds=kinds, grace=grace, steps=steps, mode=mode, resources=resources)


def shell(name: str, script: str, **spec: Any) -> Json:
    """A Job of one shell script."""
    container = {"name": "main", "image": "busybox", "command": ["sh", "-c", script]}
    pod = {"restartPolicy": "Never", "containers": [container], **spec.pop("pod", {})}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name},
        "spec": {"backoffLimit": 0, "template": {"spec": pod}, **spec},
    }


def holder() -> Json:
    """A Job beside the trainer on the GPU node that uses its whole grace, or until bucket gate has a file `open`."""
    script = "[ -e /gate/open ] && exit 0; trap '' TERM; until [ -e /gate/open ]; do sleep 0.05; done; exit 143"
    volume = {"csi": {"driver": "gcsfuse.csi.storage.gke.io", "volumeAttributes": {"bucketName": "gate"}}}
    pod = {
        "terminationGracePeriodSeconds": 3600,
        "nodeSelector": {"cloud.google.com/gke-nodepool": "gpu-pool"},
        "tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists"}],
        "volumes": [{"name": "gate", **volume}],
    }
    rules = [{"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget"}]}]
    job = shell("holder", script, pod=pod, podFailurePolicy={"rules": rules})
    job["spec"]["template"]["metadata"] = {"annotations": {"gke-gcsfuse/volumes": "true"}}
    mounts = [{"name": "gate", "mountPath": "/gate"}]
    job["spec"]["template"]["spec"]["containers"][0]["volumeMounts"] = mounts
    return job


def open_cluster(folder: Path, nodes: list[Any], *, speed: float) -> Cluster:
    """A cluster that has the trainer's image."""
    program = folder / "trainer.py"
    program.write_text(TRAINER)
    source = str(Path(outlast.__file__).parents[1])
    images = {"trainer:1": Image(entry_point=(sys.executable, str(program)), environment={"PYTHONPATH": source})}
    return Cluster(nodes, speed=speed, images=images)


class Kubectl:
    """The real one, led to a cluster."""

    def __init__(self, cluster: Cluster) -> None:
        found = shutil.which("kubectl")
        if found is None:
            pytest.skip("kubectl is not installed")
        self._command = [found, "--kubeconfig", str(cluster.kubeconfig)]

    def __call__(self, *words: str, given: str | None = None, fails: bool = False) -> str:
        """What it prints; its errors too where it is to fail."""
        command = [*self._command, *words]
        done = subprocess.run(command, input=given, capture_output=True, text=True, timeout=60, check=False)
        assert (done.returncode != 0) == fails, done.stderr
        return done.stderr if fails else done.stdout


class History:
    """Every state that the pods of a cluster have had."""

    def __init__(self, cluster: Cluster) -> None:
        self._seen: list[Json] = []
        self._cluster = cluster
        self._subscription = cluster.store.subscribe(lambda event: self._seen.append(event.object), "Pod", "default")

    def close(self) -> None:
        self._cluster.store.unsubscribe(self._subscription)

    def of(self, job: str) -> list[list[Json]]:
        """The states of each pod of a Job, in order."""
        found: dict[str, list[Json]] = {}
        for pod in list(self._seen):
            if pod["metadata"]["labels"].get("job-name") == job:
                found.setdefault(pod["metadata"]["uid"], []).append(pod)
        return list(found.values())

    def log(self, pod: Json) -> str:
        """What a pod's container wrote, also after the pod is gone."""
        log = self._cluster.logs.find(pod["metadata"]["uid"], "main")
        assert log is not None
        return "\n".join(line.text for line in log.lines)


def disruptions(pod: Json) -> list[str]:
    """The reasons of its conditions DisruptionTarget."""
    return [one["reason"] for one in pod["status"].get("conditions", ()) if one["type"] == "DisruptionTarget"]


def exit_code(pod: Json) -> int | None:
    """Of its first container."""
    for one in pod["status"].get("containerStatuses", ()):
        return one["state"].get("terminated", {}).get("exitCode")  # type: ignore[no-any-return]  # it is a manifest
    return None


def wait_until(condition: Callable[[], Any], seconds: float = 30.0) -> Any:
    """What the condition gives once that is true."""
    until = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < until, "it did not happen in time"
        time.sleep(0.02)
    return found
