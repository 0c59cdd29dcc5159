"""The GKE emulator with the real kubectl: maintenance, Spot reclaim and host errors as documented, and Jobs through them."""

import json
import re
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from gke_programs import History, Kubectl, disruptions, exit_code, open_cluster, shell, training, wait_until
from outlast.emulate.kubernetes.cluster import Cluster
from outlast.emulate.kubernetes.machines import MACHINES

STEPS = 150
RESULT = f"sum {1000 * sum(range(STEPS))}"
GPU, SPOT, CPU = "gke-gpu-pool-0", "gke-spot-pool-0", "gke-default-pool-0"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    spot = replace(MACHINES["spot"], shutdown_seconds=120)
    with open_cluster(tmp_path_factory.mktemp("gke"), ["gpu", spot, "cpu"], speed=60) as opened:
        yield opened


@pytest.fixture(scope="module")
def kubectl(cluster: Cluster) -> Kubectl:
    return Kubectl(cluster)


def test_jobs_survive_maintenance_and_reclaim_and_a_host_error(cluster: Cluster, kubectl: Kubectl) -> None:
    history = History(cluster)
    manifests = (
        training("on-gpu", "gpu-pool", grace=60, steps=STEPS, gpu=True),
        training("on-spot", "spot-pool", grace=105, steps=STEPS, mode="Indexed"),
        training("on-cpu", "default-pool", grace=30, steps=STEPS),
    )
    kubectl("apply", "-f", "-", given="".join(manifests))
    for name in ("on-gpu", "on-spot", "on-cpu"):
        wait_until(lambda name=name: list(cluster.bucket(name).rglob("*.json")))
    procedures = [cluster.maintain(GPU), cluster.reclaim(SPOT), cluster.host_error(CPU)]
    _monitor(cluster, kubectl)
    assert all(procedure.wait(60) for procedure in procedures)
    after = kubectl("describe", "node", GPU)
    assert "active-node-maintenance" not in after
    assert "impending-node-termination" not in after
    kubectl("wait", "--for=condition=complete", "job", "--all", "--timeout=60s")
    fates = {}
    for name in ("on-gpu", "on-spot", "on-cpu"):
        first, second = history.of(name)
        last = [pod for pod in first if pod["status"]["phase"] == "Failed"][-1]
        fates[name] = (disruptions(last), last["status"].get("reason"), "deletionTimestamp" in last["metadata"])
        assert RESULT in history.log(second[-1])
        assert "resumed None" not in history.log(second[-1])
        assert "failed" not in cluster.store.get("Job", name)["status"]
        if name != "on-cpu":
            assert exit_code(last) == 143
    history.close()
    assert fates == {
        "on-gpu": (["EvictionByEvictionAPI"], None, True),
        "on-spot": (["TerminationByKubelet"], "Terminated", False),
        "on-cpu": (["DeletionByPodGC"], None, False),
    }
    heard = history.log(history.of("on-gpu")[0][-1])
    assert "maintenance of the" in heard, heard
    assert RESULT in kubectl("logs", "job/on-gpu")


def _monitor(cluster: Cluster, kubectl: Kubectl) -> None:
    """The monitoring steps of "Manage GKE node disruption for GPUs and TPUs"."""
    wait_until(lambda: "taints" in str(cluster.fleet.last(GPU).trace) or len(cluster.fleet.last(GPU).trace) > 3)
    listed = kubectl("get", "pods", "-l", "name=maintenance-handler", "-A", "-o", "wide")
    row = next(line for line in listed.splitlines() if GPU in line)
    name = row.split()[1]
    described = kubectl("describe", "node", GPU)
    assert re.search(r"cloud.google.com/active-node-maintenance=true", described)
    assert "cloud.google.com/impending-node-termination:NoSchedule" in described
    logged = kubectl("logs", "-n=kube-system", name)
    assert "TERMINATE_ON_HOST_MAINTENANCE" in logged
    assert "Applied node label" in logged
    assert "Evicting pod default/" in logged
