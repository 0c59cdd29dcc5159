"""`outlast deploy gke --apply` with a cluster: everything is made once, whatever kills it, and removed, and no more."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from deploy import gke_world
from deploy.gcloud_world import gcloud_in, world_in
from outlast.emulate.kubernetes.cluster import Cluster

WORLD = Path(gke_world.__file__)
DESCRIPTION = """\
name: train-digits
command: [python, train.py]
source: app
url: gs://example-bucket/train-digits
access: mount
hardware: {gpu: nvidia-l4, spot: true}
measured: {save_time: 20s}
run_time: 2d
price_per_gpu_hour: 0.5
project: example-project
region: europe-west4
kubernetes: {cluster: c1, location: europe-west4-a}
"""
ALL = {
    "apis": 6, "buckets": 1, "accounts": 2, "bindings": 5, "repositories": 1, "objects": 1, "images": 1, "features": 2,
    "pools": 1,
}  # fmt: skip
STAYS = {"apis": 6, "features": 2}  # nothing of this is billed, and others may use it by now


class Desk:
    """The command in a folder of its own, with a gcloud of its own and the cluster's kubectl."""

    def __init__(self, folder: Path, cluster: Cluster) -> None:
        self.folder, self.cloud = folder / "here", folder / "cloud"
        (self.folder / "app").mkdir(parents=True)
        (self.folder / "app" / "train.py").write_text("print(1)\n")
        (self.folder / "outlast.yaml").write_text(DESCRIPTION)
        program = gcloud_in(self.cloud)
        program.write_text(f'#!/bin/sh\nexec {sys.executable} -S {WORLD} {self.cloud} "$@"\n')
        config = yaml.safe_load(cluster.kubeconfig.read_text())
        there = {**config["contexts"][0], "name": "gke_example-project_europe-west4-a_c1"}
        kubeconfig = folder / "kubeconfig"
        kubeconfig.write_text(yaml.safe_dump({**config, "contexts": [there], "current-context": ""}))
        path = f"{program.parent}{os.pathsep}{os.environ['PATH']}"
        self.environment = {**os.environ, "PATH": path, "KUBECONFIG": str(kubeconfig)}

    def outlast(self, *words: str, code: int | None = 0) -> str:
        """What the command prints, both outputs."""
        done = subprocess.run(
            [sys.executable, "-c", "from outlast.cli.main import main; main()", "deploy", "gke", *words],
            cwd=self.folder,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )
        assert code is None or done.returncode == code, f"{done.returncode}:\n{done.stdout}\n{done.stderr}"
        return done.stdout + done.stderr

    def there(self) -> dict[str, int]:
        """How many of each kind are there."""
        return {kind: len(found) for kind, found in world_in(self.cloud).items() if kind != "calls" and found}


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with Cluster(["cpu"]) as opened:  # no node has a GPU: what is made waits
        yield opened


def test_everything_is_made_once_whatever_kills_it_and_removed_and_nothing_else(
    cluster: Cluster, tmp_path: Path
) -> None:
    desk = Desk(tmp_path, cluster)
    refused = desk.outlast("--apply", code=78)
    assert "nobody can answer here; give --yes" in refused
    assert desk.there() == {}
    (desk.cloud / "KILL").write_text("13+")  # after a change of the cloud, before its record
    desk.outlast("--apply", "--yes", code=None)
    assert not (desk.cloud / "KILL").exists()
    said = desk.outlast("--apply", "--yes")
    assert "at worst: 1 x nvidia-l4 for" in said
    assert "USD" in said
    assert desk.there() == ALL
    calls = [one for one in world_in(desk.cloud)["calls"] if "container clusters" not in one]
    assert len(calls) == len(set(calls)), "something was done twice"
    assert len([one for one in world_in(desk.cloud)["calls"] if "clusters update" in one]) == 2
    config = world_in(desk.cloud)["pools"]["train-digits-pool"]
    job = cluster.store.get("Job", "train-digits", "default")
    pod = job["spec"]["template"]["spec"]
    assert ("shutdownGracePeriodSeconds: 120" in (config or "")) == (pod["terminationGracePeriodSeconds"] == 105)
    assert list(world_in(desk.cloud)["images"]) == [pod["containers"][0]["image"]]
    account = cluster.store.get("ServiceAccount", "train-digits", "default")
    assert account["metadata"]["annotations"]["iam.gke.io/gcp-service-account"] in world_in(desk.cloud)["accounts"]

    other = {**world_in(desk.cloud), "pools": {**world_in(desk.cloud)["pools"], "of-a-colleague": None}}
    (desk.cloud / "world.json").write_text(json.dumps(other))
    removed = desk.outlast("--teardown", "--yes")
    assert desk.there() == {**STAYS, "pools": 1}, removed
    assert cluster.store.find("Job", "train-digits", "default") is None
    assert cluster.store.find("ServiceAccount", "train-digits", "default") is None
    assert "nothing that deployments of train-digits made is left" in desk.outlast("--teardown", "--yes")
