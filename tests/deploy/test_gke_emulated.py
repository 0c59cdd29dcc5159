"""What `outlast deploy gke` makes, applied by the real kubectl to the GKE emulator: it survives what GKE does."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import outlast
from outlast.emulate.kubernetes.cluster import Cluster
from outlast.emulate.kubernetes.images import Image
from outlast.registry import open_store
from service import servers
from service.gke_programs import History, Kubectl, disruptions, exit_code, wait_until
from service.postgres_server import fresh_queue, fresh_table

Json = dict[str, Any]
STEPS, ITEMS = 60, 40
RESULT = f"sum {1000 * sum(range(STEPS))}"
TRAIN = f"""
import time
import numpy as np, outlast
state = {{"w": np.zeros(1000)}}
job = outlast.Job(state=state, every="0.3s")
for step in job.steps({STEPS}):
    state["w"] += step
    time.sleep(0.5 if job.attempt == 0 and step > 20 else 0.01)  # the first attempt lasts until it is interrupted
print("sum", int(state["w"].sum()), "resumed", job.resumed_from)
"""
LABEL = """
import time
def label(items):
    time.sleep(0.4)
    return [len(item.id) for item in items]
"""
NAMESPACE = "training"
ON_GPU = """
name: on-gpu
command: [python, train.py]
url: {bucket}/on-gpu
run_time: 1h
measured: {{save_time: 5s}}
image: trainer:1
hardware: {{gpu: nvidia-l4, gpus: 1}}
kubernetes: {{namespace: training}}
"""
ON_SPOT = """
name: on-spot
command: [python, train.py]
url: gs://ckpt/runs
access: mount
image: trainer:1
measured: {{save_time: 100ms}}
hardware: {{cpu: 500m, memory: 512Mi, spot: true}}
kubernetes: {{namespace: training}}
"""
WORKERS = """
name: workers
tasks: 2
batch: {{function: "label:label", queue: "{queue}", sink: "{sink}", chunk: 2}}
image: trainer:1
kubernetes: {{namespace: training}}
hardware: {{cpu: 500m, memory: 512Mi, spot: true}}
"""

# As people write one: 0 for "stopped", any failure fails the Job, and it tolerates a node that is about to go.
THEIRS = """\
apiVersion: batch/v1
kind: Job
metadata: {name: theirs, namespace: training}
spec:
  backoffLimit: 0
  template:
    metadata: {annotations: {team: vision}}
    spec:
      restartPolicy: OnFailure
      tolerations: [{operator: Exists}]   # why not
      nodeSelector: {cloud.google.com/gke-accelerator: nvidia-l4}
      containers:
        - name: main
          image: trainer:1
          command: [python, train.py]
          env: [{name: OUTLAST_EXIT_CODE, value: "0"}, {name: OUTLAST_URL, value: /theirs}]
          resources: {limits: {nvidia.com/gpu: 1}}
          volumeMounts: [{name: bucket, mountPath: /theirs}]
      volumes:
        - name: bucket
          csi: {driver: gcsfuse.csi.storage.gke.io, volumeAttributes: {bucketName: theirs}}
"""


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Cluster]:
    image = tmp_path / "image"
    image.mkdir()
    (image / "train.py").write_text(TRAIN)
    (image / "label.py").write_text(LABEL)
    environment = {
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "PYTHONPATH": str(Path(outlast.__file__).parents[1]),
        "STORAGE_EMULATOR_HOST": servers.gcs_server(),
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    images = {"trainer:1": Image(working_folder=image)}
    nodes = [*["gpu"] * 4, *["spot"] * 3]  # some are left for those that come back
    with Cluster(nodes, speed=6, images=images, environment=environment) as opened_cluster:
        monkeypatch.setenv("KUBECONFIG", str(opened_cluster.kubeconfig))
        monkeypatch.setenv("STORAGE_EMULATOR_HOST", environment["STORAGE_EMULATOR_HOST"])
        yield opened_cluster


def outlast_deploy(description: Path | None, *words: str, code: int = 0) -> str:
    """What `outlast deploy gke` prints, with the real kubectl."""
    program = [sys.executable, "-c", "from outlast.cli.main import main; main()"]
    done = subprocess.run(
        [*program, "deploy", "gke", *([] if description is None else [str(description)]), *words],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == code, done.stderr
    return done.stdout + done.stderr


class Lives(History):
    """Every state of the pods of namespace training."""

    def __init__(self, cluster: Cluster) -> None:
        self._seen: list[Json] = []
        self._cluster = cluster
        self._subscription = cluster.store.subscribe(lambda event: self._seen.append(event.object), "Pod", NAMESPACE)

    def running(self, job: str) -> list[str]:
        """The nodes where it runs now."""
        last = [states[-1] for states in self.of(job)]
        return [pod["spec"]["nodeName"] for pod in last if pod["status"]["phase"] == "Running"]


def test_what_is_generated_survives_maintenance_and_reclaims_and_can_be_removed(
    cluster: Cluster, tmp_path: Path
) -> None:
    kubectl, queue, sink = Kubectl(cluster), fresh_queue(), fresh_table()
    outlast.Queue(queue).publish({f"item-{number}": {} for number in range(ITEMS)})
    bucket = f"gs://{servers.BUCKET}/{tmp_path.name}"
    lives, names = Lives(cluster), ["on-gpu", "on-spot", "workers"]
    for name, text in zip(names, (ON_GPU, ON_SPOT, WORKERS), strict=True):
        (tmp_path / f"{name}.yaml").write_text(text.format(bucket=bucket, queue=queue, sink=sink))
        said = outlast_deploy(tmp_path / f"{name}.yaml", "--apply", "--yes")
        assert "at worst" in said
    (tmp_path / "theirs.yaml").write_text(THEIRS)
    patch = ("--patch", str(tmp_path / "theirs.yaml"), "--set", "measured.save_time=5s", "--set", "url=gs://theirs")
    by_hand = outlast_deploy(None, *patch, "--out", str(tmp_path / "patched"), code=1)
    assert "by hand" in by_hand
    assert "serviceAccountName" in by_hand
    kubectl("apply", "--filename", str(tmp_path / "patched" / "theirs.yaml"))
    names.append("theirs")

    wait_until(lambda: any("/commits/" in one.name for one in open_store(bucket).list("")))
    for kept in ("ckpt", "theirs"):
        wait_until(lambda kept=kept: list(cluster.bucket(kept).rglob("commits/*.json")))
    wait_until(lambda: outlast.Queue(queue).stats().done > 0)
    ended = {lives.running(name)[0] for name in names}
    procedures = [cluster.maintain(node) if "gpu" in node else cluster.reclaim(node) for node in sorted(ended)]
    jobs = [f"job/{name}" for name in names]
    kubectl("wait", "--namespace", NAMESPACE, "--for=condition=complete", *jobs, "--timeout=60s")

    for name in names:
        pods = [states[-1] for states in lives.of(name)]
        cut = [pod for pod in pods if disruptions(pod) or exit_code(pod) == 143]
        assert cut, f"{name} was not interrupted"
        # 137: what a Spot node leaves is 2.5 s here, which a busy machine may need to start a thread
        codes = {exit_code(pod) for pod in pods} - {None}  # a reclaim may meet a pod before its container has begun
        assert 0 in codes
        assert codes <= ({0, 143} if name in ("on-gpu", "theirs") else {0, 137, 143}), name
        assert "failed" not in cluster.store.get("Job", name, NAMESPACE)["status"], name
    for name in ("on-gpu", "on-spot", "theirs"):
        last = lives.log(lives.of(name)[-1][-1])
        assert RESULT in last
        assert "resumed None" not in last, [lives.log(states[-1]) for states in lives.of(name)]
    assert outlast.Queue(queue).stats().done == ITEMS
    assert {procedure.kind for procedure in procedures} == {"maintenance", "reclaim"}
    lives.close()

    kubectl("delete", "job", "theirs", "--namespace", NAMESPACE)
    for name in names[:-1]:
        outlast_deploy(tmp_path / f"{name}.yaml", "--teardown", "--yes")
    assert cluster.store.listing("Job").objects == []
    left = [one["metadata"]["name"] for one in cluster.store.listing("ServiceAccount", NAMESPACE).objects]
    assert left == ["default"], "the namespace was made, and stays: others may use it"
