"""The doctor's questions about a cluster, asked with the real kubectl of an emulated one."""

import json
import os
import shutil
from pathlib import Path

import pytest
from doctor_desk import GKE, URL

from outlast.deploy.description_file import read_description
from outlast.deploy.doctor import clusters, node_pools
from outlast.deploy.doctor.cases import Case
from outlast.deploy.doctor.programs import RealPrograms
from outlast.emulate.kubernetes.cluster import Cluster

pytestmark = pytest.mark.skipif(shutil.which("kubectl") is None, reason="needs kubectl")


def _case(folder: Path, kubeconfig: Path, text: str) -> Case:
    env = {"PATH": os.environ["PATH"], "HOME": str(folder), "KUBECONFIG": str(kubeconfig)}
    described = read_description(text.format(url=URL).replace("cluster: training, ", ""))
    return Case(described=described, programs=RealPrograms(env), env=env, folder=folder)


def test_the_real_kubectl_tells_what_the_doctor_wants_to_know(tmp_path: Path) -> None:
    with Cluster(["gpu"], speed=100) as cluster:
        case = _case(tmp_path, Path(cluster.kubeconfig), GKE)
        (context,), (namespace,) = clusters.context(case), clusters.namespace(case)
        assert context.state == "ok", context
        assert "Kubernetes v1." in context.why
        assert (namespace.state, namespace.mend) == ("unknown", "kubectl create namespace training"), namespace
        (nodes,) = node_pools.nodes(case)
        assert nodes.state == "ok", nodes
        assert "gke-gpu-pool-0" in nodes.why
        spot = GKE.replace("hardware: {{gpu", "hardware: {{spot: true, gpu").replace("gke-gpu", "gke-spot")
        (none,) = node_pools.nodes(_case(tmp_path, Path(cluster.kubeconfig), spot))
        assert none.state == "unknown"
        assert "no node has cloud.google.com/gke-spot=true" in none.why
        jobset = clusters.kinds(case)[0]
        assert (jobset.state, "no jobset.x-k8s.io" in jobset.why) == ("bad", True), jobset


def test_the_real_kubectl_without_a_cluster_is_understood(tmp_path: Path) -> None:
    (context,) = clusters.context(_case(tmp_path, tmp_path / "none", GKE))
    assert (context.state, "knows no cluster" in context.why) == ("bad", True), context


def test_a_cluster_that_is_away_is_unknown_and_told(tmp_path: Path) -> None:
    config = {
        "apiVersion": "v1", "kind": "Config", "current-context": "away", "users": [{"name": "u", "user": {}}],
        "clusters": [{"name": "c", "cluster": {"server": "http://127.0.0.1:9"}}],
        "contexts": [{"name": "away", "context": {"cluster": "c", "user": "u"}}],
    }  # fmt: skip
    (tmp_path / "config").write_text(json.dumps(config))
    (context,) = clusters.context(_case(tmp_path, tmp_path / "config", GKE))
    assert (context.state, "reaches no server" in context.why) == ("unknown", True), context
