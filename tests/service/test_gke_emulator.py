"""The GKE emulator with the real kubectl: maintenance, Spot reclaim, host errors, drains, and Jobs through them."""

import json
import re
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from gke_programs import History, Kubectl, disruptions, exit_code, holder, open_cluster, shell, training, wait_until

from outlast.emulate.kubernetes.cluster import Cluster
from outlast.emulate.kubernetes.machines import MACHINES

STEPS = 120
RESULT = f"sum {1000 * sum(range(STEPS))}"
GPU, SPOT, CPU = "gke-gpu-pool-0", "gke-spot-pool-0", "gke-default-pool-0"

READER = """
import json, os, ssl, urllib.error, urllib.request
account = "/var/run/secrets/kubernetes.io/serviceaccount"
server = f"https://{os.environ['KUBERNETES_SERVICE_HOST']}:{os.environ['KUBERNETES_SERVICE_PORT']}"
trusted = ssl.create_default_context(cafile=f"{account}/ca.crt")
def ask(path, method="GET"):
    token = {"Authorization": "Bearer " + open(f"{account}/token").read()}
    request = urllib.request.Request(server + path, headers=token, method=method)
    return json.load(urllib.request.urlopen(request, context=trusted))
node = "/api/v1/nodes/" + os.environ["NODE"]
print(ask(node)["metadata"]["name"])
for path, method in (("/api/v1/namespaces/default/secrets", "GET"), (node, "DELETE")):
    try:
        ask(path, method)
    except urllib.error.HTTPError as refused:
        print(refused.code)
"""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    spot = replace(MACHINES["spot"], shutdown_seconds=120)
    with open_cluster(tmp_path_factory.mktemp("gke"), ["gpu", spot, "cpu"], speed=30) as opened:
        yield opened


@pytest.fixture(scope="module")
def kubectl(cluster: Cluster) -> Kubectl:
    return Kubectl(cluster)


def test_jobs_survive_maintenance_and_reclaim_and_a_host_error(cluster: Cluster, kubectl: Kubectl) -> None:
    history = History(cluster)
    manifests = (
        training("on-gpu", "gpu-pool", "gke-gpu", grace=240, steps=STEPS),
        training("on-spot", "spot-pool", "gke-spot", grace=105, steps=STEPS, mode="Indexed"),
        training("on-cpu", "default-pool", "kubernetes", grace=30, steps=STEPS),
    )
    kubectl("apply", "-f", "-", given="".join(manifests) + json.dumps(holder()))
    for name in ("on-gpu", "on-spot", "on-cpu"):
        wait_until(lambda name=name: list(cluster.bucket(name).rglob("commits/*.json")))
    wait_until(lambda: cluster.fleet.host(GPU).metadata.timeline._waiting)  # the trainer watches for notices
    procedures = [cluster.maintain(GPU), cluster.reclaim(SPOT), cluster.host_error(CPU)]
    wait_until(lambda: "Evicting" in str(procedures[0].trace))
    _monitor(kubectl)
    (cluster.bucket("gate") / "open").touch()
    assert all(procedure.wait(60) for procedure in procedures)
    after = kubectl("describe", "node", GPU)
    assert "active-node-maintenance" not in after
    assert "impending-node-termination" not in after
    kubectl("wait", "--for=condition=complete", "job", "--all", "--timeout=45s")
    fates = {}
    for name in ("on-gpu", "on-spot", "on-cpu"):
        first, second = history.of(name)
        last = next(pod for pod in first if pod["status"]["phase"] == "Failed")
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
    assert "TERMINATE_ON_HOST_MAINTENANCE" in history.log(history.of("on-gpu")[0][-1])
    assert RESULT in kubectl("logs", "job/on-gpu")


def _monitor(kubectl: Kubectl) -> None:
    """The monitoring steps of "Manage GKE node disruption for GPUs and TPUs"."""
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


def test_an_exit_code_that_needs_a_human_fails_the_job_at_once(cluster: Cluster, kubectl: Kubectl) -> None:
    rules = [{"action": "FailJob", "onExitCodes": {"operator": "In", "values": [78]}}]
    human = shell("human", "exit 78", backoffLimit=6, podFailurePolicy={"rules": rules})
    retried = shell("retried", "exit 75", backoffLimit=2, podFailurePolicy={"rules": rules})
    kubectl("apply", "-f", "-", given=json.dumps({"apiVersion": "v1", "kind": "List", "items": [human, retried]}))
    kubectl("wait", "--for=condition=failed", "job/human", "job/retried", "--timeout=30s")
    status = {name: cluster.store.get("Job", name)["status"] for name in ("human", "retried")}
    assert {name: (one["failed"], one["conditions"][-1]["reason"]) for name, one in status.items()} == {
        "human": (1, "PodFailurePolicy"),
        "retried": (3, "BackoffLimitExceeded"),
    }
    assert "exit code 78 matching FailJob rule at index 0" in kubectl("describe", "job", "human")


def test_a_drain_gives_each_pod_its_grace_and_believes_its_exit_code(cluster: Cluster, kubectl: Kubectl) -> None:
    on_spot = {"nodeSelector": {"cloud.google.com/gke-spot": "true"}}
    scripts = {
        "says-done": "trap 'exit 0' TERM; while :; do sleep 0.05; done",  # and the platform records success
        "leaves": "trap 'exit 143' TERM; while :; do sleep 0.05; done",
        "deaf": "trap '' TERM; while :; do sleep 0.05; done",
    }
    history = History(cluster)
    jobs = [shell(name, script, pod=on_spot, podReplacementPolicy="Failed") for name, script in scripts.items()]
    kubectl("apply", "-f", "-", given=json.dumps({"apiVersion": "v1", "kind": "List", "items": jobs}))
    wait_until(lambda: all(of and of[0][-1]["status"]["phase"] == "Running" for of in map(history.of, scripts)))
    kubectl("drain", SPOT)
    assert "SchedulingDisabled" in kubectl("get", "node", SPOT)
    kubectl("uncordon", SPOT)
    kubectl("wait", "--for=condition=failed", "job/leaves", "job/deaf", "--timeout=30s")
    kubectl("wait", "--for=condition=complete", "job/says-done", "--timeout=30s")
    history.close()
    codes = {
        name: [exit_code(pod) for pod in history.of(name)[0] if exit_code(pod) is not None][-1] for name in scripts
    }
    assert codes == {"says-done": 0, "leaves": 143, "deaf": 137}
    assert "ignore" in kubectl("drain", GPU, fails=True)  # the maintenance handler is of a DaemonSet
    kubectl("uncordon", GPU)


def test_what_is_written_beside_the_volumes_is_lost_and_a_claim_outlives_its_pod(
    cluster: Cluster, kubectl: Kubectl, tmp_path: Path
) -> None:
    script = (
        f"set -e; cat /claim/* 2>/dev/null || true; echo kept > /claim/file; echo lost > {tmp_path}/file; echo $NAME"
    )
    claim = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "claim"},
        "spec": {"accessModes": ["ReadWriteMany"], "resources": {"requests": {"storage": "1Gi"}}},
    }
    jobs = []
    for name in ("first", "second"):
        job = shell(name, script, pod={"volumes": [{"name": "c", "persistentVolumeClaim": {"claimName": "claim"}}]})
        container = job["spec"]["template"]["spec"]["containers"][0]
        container["volumeMounts"] = [{"name": "c", "mountPath": "/claim"}]
        container["env"] = [{"name": "POD", "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels['job-name']"}}}]
        container["env"].append({"name": "NAME", "value": "I am $(POD) at $$(POD)"})
        jobs.append(job)
    kubectl("apply", "-f", "-", given=json.dumps({"apiVersion": "v1", "kind": "List", "items": [claim, jobs[0]]}))
    kubectl("wait", "--for=condition=complete", "job/first", "--timeout=30s")
    kubectl("apply", "-f", "-", given=json.dumps(jobs[1]))
    kubectl("wait", "--for=condition=complete", "job/second", "--timeout=30s")
    assert kubectl("logs", "job/first").splitlines() == ["I am first at $(POD)"]
    assert kubectl("logs", "job/second").splitlines() == ["kept", "I am second at $(POD)"]
    assert not (tmp_path / "file").exists()


def test_a_pod_reads_its_node_by_its_service_account_and_nothing_else(cluster: Cluster, kubectl: Kubectl) -> None:
    job = shell("reader", "", pod={"nodeSelector": {"cloud.google.com/gke-spot": "true"}})
    container = job["spec"]["template"]["spec"]["containers"][0]
    container["env"] = [{"name": "NODE", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}}]
    container["command"] = [sys.executable, "-c", READER]
    kubectl("apply", "-f", "-", given=json.dumps(job))
    kubectl("wait", "--for=condition=complete", "job/reader", "--timeout=30s")
    assert kubectl("logs", "job/reader").splitlines() == [SPOT, "403", "403"]


def test_what_is_not_done_here_is_refused(cluster: Cluster, kubectl: Kubectl) -> None:
    probed = shell("probed", "true")
    container = probed["spec"]["template"]["spec"]["containers"][0]
    container["livenessProbe"] = {"exec": {"command": ["true"]}}
    said = kubectl("apply", "-f", "-", given=json.dumps(probed), fails=True)
    assert "the emulator does not do what these fields ask for: spec.containers[0].livenessProbe" in said
    for path, code in (
        (f"nodes/{CPU}/maintenance", 409),
        (f"nodes/{GPU}/reclaim", 409),
        ("nodes/none/host-error", 404),
        (f"nodes/{CPU}/earthquake", 404),
    ):
        with pytest.raises(urllib.error.HTTPError) as refused:
            _post(f"{cluster.url}/emulator/{path}")
        assert refused.value.code == code
        refused.value.close()


def test_the_command_serves_a_cluster_that_is_driven_over_http(tmp_path: Path) -> None:
    config = tmp_path / "config"
    command = [
        sys.executable,
        "-c",
        "from outlast.cli.main import main; main()",
        "emulate",
        "gke",
        "--nodes",
        "spot",
        "--speed",
        "200",
    ]
    served = subprocess.Popen([*command, "--kubeconfig", "config"], stdout=subprocess.PIPE, text=True, cwd=tmp_path)
    try:
        assert served.stdout is not None
        url = served.stdout.readline().split()[-1]
        assert served.stdout.readline() == f"export KUBECONFIG={config}\n"
        assert url in config.read_text()
        assert _post(f"{url}/emulator/nodes/{SPOT}/reclaim")["procedure"]["kind"] == "reclaim"
        wait_until(lambda: _get(f"{url}/emulator")["nodes"][SPOT]["procedure"]["over"])
        done = [one["what"] for one in _get(f"{url}/emulator")["nodes"][SPOT]["procedure"]["done"]]
        assert done[:2] == ["preempted is TRUE", "the node is shutting down"]
    finally:
        served.terminate()
        served.communicate(timeout=20)
    assert served.returncode == 0


def _post(url: str) -> Any:
    with urllib.request.urlopen(urllib.request.Request(url, method="POST"), timeout=10) as answer:
        return json.load(answer)


def _get(url: str) -> Any:
    with urllib.request.urlopen(url, timeout=10) as answer:
        return json.load(answer)
