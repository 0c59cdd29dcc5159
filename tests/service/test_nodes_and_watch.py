"""`outlast nodes` and `outlast watch` through a whole maintenance: before, planned, notice, eviction, after."""

import json
import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from gke_programs import wait_until
from kubernetes import client, config
from terminal import Terminal

import outlast
from outlast.cli.main import main
from outlast.containers.container import can_isolate
from outlast.emulate.kubernetes.cluster import Cluster
from outlast.emulate.kubernetes.images import Image

pytestmark = pytest.mark.skipif(not can_isolate(), reason="needs PID namespaces")

NODE, PLANNED = "gke-gpu-pool-0", "cloud.google.com/scheduled-maintenance-time"
# Its thirteenth step takes until the gate is open, so that there is time to look at a pod that is being ended.
TRAINER = """
import pathlib, time
import outlast
state = {"n": 0}
job = outlast.Job("/checkpoints/train", state=state, every=outlast.Steps(5))
for step in job.steps(100_000):
    state["n"] += 1
    time.sleep(0.02)
    while step == 12 and not pathlib.Path("/gate/open").exists():
        time.sleep(0.02)
"""
FUSE = "gcsfuse.csi.storage.gke.io"
JOB: dict[str, Any] = {
    "apiVersion": "batch/v1",
    "kind": "Job",
    "metadata": {"name": "train"},
    "spec": {
        "backoffLimit": 0,
        "podFailurePolicy": {"rules": [{"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget"}]}]},
        "template": {
            "metadata": {"annotations": {"gke-gcsfuse/volumes": "true"}},
            "spec": {
                "restartPolicy": "Never",
                "terminationGracePeriodSeconds": 3000,
                "nodeSelector": {"cloud.google.com/gke-nodepool": "gpu-pool"},
                "containers": [
                    {
                        "name": "main",
                        "image": "trainer:1",
                        "env": [
                            {"name": "OUTLAST_JOB", "value": "train"},
                            {"name": "OUTLAST_URL", "value": "/checkpoints/train"},
                        ],
                        "resources": {"limits": {"nvidia.com/gpu": "1"}},
                        "volumeMounts": [
                            {"name": "bucket", "mountPath": "/checkpoints"},
                            {"name": "gate", "mountPath": "/gate"},
                        ],
                    }
                ],
                "volumes": [
                    {"name": one, "csi": {"driver": FUSE, "volumeAttributes": {"bucketName": name}}}
                    for one, name in (("bucket", "ckpt"), ("gate", "gate"))
                ],
            },
        },
    },
}


class Desk:
    """Somebody on call: the commands, and the official client, led to a cluster."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster, self.store = cluster, cluster.bucket("ckpt") / "train"
        self._env = {"KUBECONFIG": str(cluster.kubeconfig), "COLUMNS": "120"}
        self.api = client.CoreV1Api(config.new_client_from_config(str(cluster.kubeconfig)))

    def run(self, *words: str) -> Result:
        return CliRunner().invoke(main, words, env=self._env)

    def nodes(self, *words: str, code: int = 0) -> dict[str, Any]:
        """What `outlast nodes --json` tells."""
        done = self.run("nodes", "--at", f"gs://ckpt={self.cluster.bucket('ckpt')}", "--json", *words)
        assert done.exit_code == code, done.output
        found: dict[str, Any] = json.loads(done.stdout)
        return found

    def live(self) -> Terminal:
        """The live view in a terminal, which is left by the test."""
        words = ("watch", str(self.store), "--nodes", "--at", f"gs://ckpt={self.cluster.bucket('ckpt')}")
        command = [sys.executable, "-c", "from outlast.cli.main import main; main()", *words]
        return Terminal(command, lines=40, columns=180, env={**self._env, "NO_COLOR": "1", "COLUMNS": "180"})

    def watch(self) -> str:
        done = self.run(
            "watch", str(self.store), "--nodes", "--at", f"gs://ckpt={self.cluster.bucket('ckpt')}", "--once"
        )
        assert done.exit_code == 0, done.output
        return done.stdout

    def shell(self, command: str) -> str:
        done = subprocess.run(
            ["bash", "-c", command],
            env={**os.environ, **self._env},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.returncode == 0, (command, done.stderr)
        return done.stdout


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Desk]:
    folder = tmp_path_factory.mktemp("nodes")
    (folder / "trainer.py").write_text(TRAINER)
    source = str(Path(outlast.__file__).parents[1])
    image = Image(entry_point=(sys.executable, str(folder / "trainer.py")), environment={"PYTHONPATH": source})
    with Cluster(["gpu", "cpu"], speed=60, images={"trainer:1": image}) as cluster:
        yield Desk(cluster)


def test_a_whole_maintenance_is_seen_from_before_it_to_after_it(desk: Desk) -> None:
    batch = client.BatchV1Api(desk.api.api_client)
    batch.create_namespaced_job("default", JOB)
    wait_until(lambda: len(list(desk.store.rglob("commits/*.json"))) > 1)
    with desk.live() as terminal:
        at = terminal.wait_for("2 nodes, 0 disrupted, 0 planned", after=terminal.wait_for("task 0  running"))
        _through_it(desk, terminal, at)
        terminal.press("q")
        assert terminal.end() == 0


def _through_it(desk: Desk, terminal: Terminal, at: int) -> None:
    calm = desk.nodes("--check")
    assert (calm["nodes_in_all"], calm["nodes"], calm["problems"]) == (2, [], [])
    _planned(desk)
    at = terminal.wait_for("begins in", after=terminal.wait_for(f"{NODE}  planned", after=at))
    desk.api.patch_node(NODE, {"metadata": {"labels": {PLANNED: None}}})
    new_machine = _held_back(desk)
    procedure = desk.cluster.maintain(NODE)
    wait_until(lambda: "Evicting pod default/train" in str(procedure.trace))
    _noticed(desk)
    terminal.wait_for("NOTICE", after=at)
    at = terminal.wait_for("being ended", after=terminal.wait_for(f"{NODE}  ending", after=at))
    (desk.cluster.bucket("gate") / "open").touch()
    wait_until(lambda: len(desk.api.list_node().items) == 1)
    wait_until(lambda: desk.api.list_namespaced_pod("default", field_selector="status.phase=Pending").items)
    gone = desk.nodes("--check")
    assert (gone["nodes_in_all"], gone["nodes"]) == (1, [])
    assert [pod["owner"] for pod in gone["waiting"]] == ["job/train"]
    assert "nodes are available" in gone["waiting"][0]["waits_for"]
    at = terminal.wait_for("waiting for a node", after=at)
    new_machine.set()
    assert procedure.wait(60)
    at = terminal.wait_for("attempts IR", after=at)
    assert "attempts IR" in desk.watch()
    after = desk.nodes("--check")
    assert (after["nodes_in_all"], after["nodes"], after["waiting"]) == (2, [], [])


def _held_back(desk: Desk) -> threading.Event:
    """Lets the new machine come when that is set, so that there is time to look at the cluster without it."""
    host, wanted = desk.cluster.fleet.host(NODE), threading.Event()
    switch_on = host.switch_on

    def later() -> None:
        wanted.wait(60)
        switch_on()

    host.switch_on = later  # type: ignore[method-assign]  # of this one host
    return wanted


def _planned(desk: Desk) -> None:
    """Maintenance that begins in half an hour: endangered soon, and not within a minute."""
    desk.api.patch_node(NODE, {"metadata": {"labels": {PLANNED: str(int(time.time()) + 1800)}}})
    planned = desk.nodes("--check", "--soon", "1min")
    (node,) = planned["nodes"]
    assert (node["state"], node["disrupted"]) == ("planned", False)
    assert 1700 < node["seconds_left"] <= 1800
    (pod,) = (one for one in node["pods"] if one["runs_outlast"])
    assert (pod["state"], pod["grace_seconds"], pod["urls"]) == ("on the node", 3000, ["gs://ckpt/train"])
    (risk,) = pod["at_risk"]
    assert (risk["state"], risk["problem"]) == ("running", "")
    assert risk["risk_seconds"] > 0
    assert risk["checkpoint_step"] % 5 == 0
    desk.nodes("--check", code=1)


def _noticed(desk: Desk) -> None:
    seen = desk.nodes("--check", code=1)
    (node,) = seen["nodes"]
    assert (node["name"], node["state"], node["disrupted"]) == (NODE, "ending", True)
    assert node["classes"] == ["gke-gpu"]
    assert node["signs"] == [
        "label cloud.google.com/active-node-maintenance=true",
        "taint cloud.google.com/impending-node-termination",
    ]
    (pod,) = (one for one in node["pods"] if one["runs_outlast"])
    assert (pod["state"], pod["disrupted"]) == ("being ended", "EvictionByEvictionAPI")
    assert 0 < pod["seconds_left"] <= 3000
    assert pod["at_risk"][0]["checkpoint_step"] is not None
    (handler,) = (one for one in seen["handlers"] if one["node"] == NODE)
    assert any("Evicting pod default/train" in line for line in handler["lines"])
    text = desk.run("nodes", "--no-stores").stdout
    assert 'resource.labels.container_name="maintenance-handler"' in text
    if shutil.which("kubectl"):
        said = [desk.shell(line.strip().removeprefix("$ ")) for line in text.splitlines() if line.startswith("  $ ")]
        assert [NODE in one for one in said] == [True] * len(said)
        assert len(said) == 3
