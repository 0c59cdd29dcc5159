"""The commands of `outlast deploy gke` in the real gcloud: each is taken, and asks GKE for what it should."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from deploy.gke_api import LOCATION, GkeApi, gcloud_environment, gke_api
from outlast.deploy.apply import Applying
from outlast.deploy.description_file import Described, read_description
from outlast.deploy.gke import pools
from outlast.deploy.gke.target import GkeTarget
from outlast.deploy.plan import Plan
from outlast.deploy.record import opened
from outlast.deploy.teardown import tear_down
from outlast.deploy.tools import InstalledTools
from outlast.installed_sdk import InstalledSdk

BASE = f"""
name: train
command: [python, train.py]
image: europe-west4-docker.pkg.dev/example-project/example/train:1
url: gs://example-checkpoints/runs
access: mount
project: example-project
region: europe-west4
kubernetes: {{cluster: c1, location: {LOCATION}}}
"""
HARDWARE = {
    "spot": "hardware: {gpu: nvidia-l4, gpus: 1, spot: true}\n",
    "flex-start": "hardware: {gpu: nvidia-h100-80gb, gpus: 8, flex_start: true}\n",
    "tpu": "hardware: {tpu: v5e, topology: 4x4, spot: true}\n",
}


@pytest.fixture
def api(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[GkeApi]:
    if shutil.which("gcloud") is None:
        pytest.skip("gcloud is not installed")
    with gke_api("c1") as served:
        for name, value in gcloud_environment(served, tmp_path).items():
            monkeypatch.setenv(name, value)
        yield served


def plan_of(hardware: str, folder: Path) -> Plan:
    return GkeTarget(Described(read_description(BASE + HARDWARE[hardware]), folder, None), files=folder).plan()


def test_the_cluster_gets_its_features_and_its_pool_and_the_pool_alone_is_removed(api: GkeApi, tmp_path: Path) -> None:
    plan = plan_of("spot", tmp_path)
    on_cluster = ("workload-identity", "credentials", "node-pool")  # each call takes more than a second
    plan = replace(plan, steps=tuple(step for step in plan.steps if step.name in on_cluster))
    assert len(plan.steps) == len(on_cluster)
    with opened(tmp_path, "gke", "train") as record:
        Applying(plan, record, InstalledTools(tmp_path), tmp_path, print).run()
    assert api.cluster["workloadIdentityConfig"] == {"workloadPool": "example-project.svc.id.goog"}
    pool = api.pools["train-pool"]
    assert pool["initialNodeCount"] == 0
    assert pool["autoscaling"] == {
        "enabled": True, "locationPolicy": "ANY", "totalMinNodeCount": 0, "totalMaxNodeCount": 1,
    }  # fmt: skip
    config = pool["config"]
    assert (config["machineType"], config["spot"]) == ("g2-standard-8", True)
    assert config["taints"] == [{"key": "cloud.google.com/gke-spot", "value": "true", "effect": "NO_SCHEDULE"}]
    assert config["workloadMetadataConfig"] == {"mode": "GKE_METADATA"}
    assert config["accelerators"][0]["acceleratorType"] == "nvidia-l4"
    assert f"current-context: {CLUSTER.context}\n" in Path(os.environ["KUBECONFIG"]).read_text()
    with opened(tmp_path, "gke", "train") as record:
        removal = tear_down(record, InstalledTools(tmp_path), print)
    assert removal.removed == ("node pool train-pool",)
    assert api.pools == {}
    assert "workloadIdentityConfig" in api.cluster


@pytest.mark.parametrize("hardware", ["flex-start", "tpu"])
def test_a_pool_of_other_hardware_is_taken_too(hardware: str, api: GkeApi, tmp_path: Path) -> None:
    step = next(step for step in plan_of(hardware, tmp_path).steps if step.name == "node-pool")
    subprocess.run(step.commands[0].argv, check=True, stdin=subprocess.DEVNULL, capture_output=True, timeout=60)
    pool: dict[str, Any] = api.pools["train-pool"]
    if hardware == "tpu":
        assert pool["placementPolicy"]["tpuTopology"] == "4x4"
        assert pool["config"]["machineType"] == "ct5lp-hightpu-4t"
    else:
        assert pool["config"]["flexStart"] is True
        assert pool["management"]["autoRepair"] is False
        assert pool["config"]["reservationAffinity"] == {"consumeReservationType": "NO_RESERVATION"}


CLUSTER = pools.Cluster("c1", LOCATION, "example-project")


def test_the_installed_gcloud_is_asked_whether_it_can_set_a_shutdown_budget(tmp_path: Path) -> None:
    if InstalledSdk().version != "528.0.0":
        pytest.skip("it is known of gcloud 528.0.0 only")
    assert not pools.knows_shutdown_budget(CLUSTER, InstalledTools(tmp_path))


@pytest.mark.parametrize(
    ("knows", "version", "expected"),
    [
        (True, "1.35.0-gke.1171000", True),
        (True, "1.36.2-gke.1000", True),
        (True, "1.34.9-gke.2000000", False),
        (True, "1.35.0-gke.99", False),
        (False, "1.36.2-gke.1000", False),
        (True, None, True),
    ],
)
def test_a_gcloud_and_a_cluster_that_are_too_old_are_told_from_others(
    knows: bool, version: str | None, expected: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    helps = f"{pools.SHUTDOWN_SETTING}  0, 30 or 120" if knows else "cpuManagerPolicy"
    says = "exit 1" if version is None else f"echo {version}"
    program = tmp_path / "gcloud"
    program.write_text(f'#!/bin/sh\ncase "$*" in *--help) echo "{helps}";; *) {says};; esac\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    assert pools.knows_shutdown_budget(CLUSTER, InstalledTools(tmp_path)) is expected


@pytest.mark.parametrize("hardware", HARDWARE)
def test_every_flag_is_listed_in_the_installed_gcloud(hardware: str, tmp_path: Path) -> None:
    sdk = InstalledSdk()
    if sdk.path is None:
        pytest.skip("gcloud is not installed")
    plan = plan_of(hardware, tmp_path)
    undoing = [command for step in plan.steps for made in step.makes for command in made.undo]
    commands = [command for step in plan.steps for command in step.commands]
    for command in [*commands, *undoing]:
        if command.argv[0] == "gcloud":
            assert sdk.problems(command.argv) == []
