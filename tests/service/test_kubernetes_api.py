"""The emulated cluster's API, with the real kubectl and the official Python client over one server."""

import json
import os
import shutil
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import requests

from outlast.emulate.kubernetes.api import KubernetesApi
from outlast.emulate.kubernetes.kubeconfig import kubeconfig
from outlast.emulate.kubernetes.store import Store
from outlast.emulate.serving import Serving

HANDLER = {"name": "maintenance-handler"}
JOB = """
apiVersion: batch/v1
kind: Job
metadata:
  name: NAME
spec:
  backoffLimit: 3
  completions: 2
  completionMode: Indexed
  podFailurePolicy:
    rules:
    - action: Ignore
      onPodConditions: [{type: DisruptionTarget}]
  template:
    spec:
      restartPolicy: Never
      terminationGracePeriodSeconds: 25
      nodeSelector: {cloud.google.com/gke-spot: "true"}
      containers:
      - name: main
        image: python:3.11
        command: [python, train.py]
        resources: {limits: {nvidia.com/gpu: "1", memory: 2Gi}}
"""


class Desk:
    """One server, and the two tools that talk to it."""

    def __init__(self, folder: Path) -> None:
        if shutil.which("kubectl") is None:
            pytest.skip("needs kubectl")
        self.store = Store()
        self.api = KubernetesApi(self.store)
        self.verbs, self.logs = self.api.verbs, self.api.logs
        self.serving = Serving(self.api)
        self.url = self.serving.url
        self._config, self._cache = folder / "config", folder / "cache"
        self._config.write_text(kubeconfig(self.url))
        self._kubelet = self.store.watch("Pod")
        self._thread = threading.Thread(target=self._let_pods_go)
        self._thread.start()

    def _let_pods_go(self) -> None:
        for event in self._kubelet:
            meta = event.object["metadata"]
            if event.kind != "DELETED" and meta.get("deletionGracePeriodSeconds"):
                self.store.delete("Pod", meta["name"], meta["namespace"], grace_seconds=0, uid=meta["uid"])

    def close(self) -> None:
        self._kubelet.close()
        self._thread.join()
        self.serving.close()

    @contextmanager
    def start(self, *arguments: str, stdin: bool = False) -> "Iterator[subprocess.Popen[str]]":
        process = subprocess.Popen(
            ["kubectl", "--kubeconfig", str(self._config), "--cache-dir", str(self._cache), *arguments],
            stdin=subprocess.PIPE if stdin else subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env={name: value for name, value in os.environ.items() if name != "KUBECONFIG"},
        )
        with process:
            try:
                yield process
            finally:
                process.kill()  # where a test has failed, it would go on for ever

    def kubectl(self, command: str, *more: str, give: str | None = None, code: int = 0) -> str:
        with self.start(*command.split(), *more, stdin=give is not None) as process:
            said = process.communicate(give, timeout=60)[0]
        assert process.returncode == code, said
        return said

    def client(self, group="CoreV1Api"):
        import kubernetes

        found = kubernetes.config.new_client_from_config(str(self._config))
        return getattr(kubernetes.client, group)(found)

    def node(self, name: str) -> None:
        stamp = self.store.timestamp()
        ready = {"type": "Ready", "status": "True", "lastHeartbeatTime": stamp, "lastTransitionTime": stamp}
        facts = {
            "kubeletVersion": "v1.33.0-gke.1",
            "osImage": "COS",
            "kernelVersion": "6.6",
            "operatingSystem": "linux",
        }
        facts |= {"containerRuntimeVersion": "containerd://1.7", "architecture": "amd64"}
        facts |= dict.fromkeys(("bootID", "machineID", "systemUUID", "kubeProxyVersion"), "")
        capacity = {"cpu": "8", "memory": "32Gi", "nvidia.com/gpu": "1", "pods": "110"}
        status = {"conditions": [ready], "nodeInfo": facts, "capacity": capacity, "allocatable": capacity}
        status["addresses"] = [{"type": "InternalIP", "address": "10.0.0.1"}]
        self.verbs.create("Node", {"metadata": {"name": name, "labels": {"pool": "gpu"}}, "status": status})

    def pod(self, name: str, node: str, namespace="default", *, lines=(), containers=("main",), **meta) -> str:
        """A pod that runs; returns its uid."""
        spec = {"nodeName": node, "containers": [{"name": one, "image": "x:1"} for one in containers]}
        made = self.verbs.create("Pod", {"metadata": {"name": name, **meta}, "spec": spec}, namespace)
        stamp, uid = self.store.timestamp(), made["metadata"]["uid"]
        state = {"ready": True, "restartCount": 0, "image": "x:1", "imageID": "", "started": True}
        status = {
            "phase": "Running",
            "podIP": "10.1.0.1",
            "startTime": stamp,
            "conditions": [{"type": "Ready", "status": "True"}],
            "containerStatuses": [
                {"name": one, **state, "state": {"running": {"startedAt": stamp}}} for one in containers
            ],
        }
        self.store.change("Pod", name, namespace, lambda pod: pod["status"].update(status))
        for container in containers:
            self.logs.start(uid, container)
            for line in lines:
                self.logs.write(uid, container, line, at=self.store.now())
        return uid


@pytest.fixture(scope="module")
def desk(tmp_path_factory):
    made = Desk(tmp_path_factory.mktemp("kubectl"))
    yield made
    made.close()


def test_the_monitoring_of_disrupted_nodes_with_kubectl(desk):
    desk.node("gpu-1")
    handler = desk.verbs.create(
        "DaemonSet",
        {
            "metadata": HANDLER,
            "spec": {
                "selector": {"matchLabels": HANDLER},
                "template": {"metadata": {"labels": HANDLER}, "spec": {"containers": [{"name": "h", "image": "x"}]}},
            },
        },
        "kube-system",
    )
    owner = {"apiVersion": "apps/v1", "kind": "DaemonSet", "controller": True, **HANDLER}
    owner["uid"] = handler["metadata"]["uid"]
    desk.pod(
        "maintenance-handler-x", "gpu-1", "kube-system", lines=["watching"], labels=HANDLER, ownerReferences=[owner]
    )
    desk.pod("train-0", "gpu-1", lines=["step 1"])
    wide = desk.kubectl("get pods -l name=maintenance-handler -A -o wide").splitlines()
    assert wide[0].split()[:8] == ["NAMESPACE", "NAME", "READY", "STATUS", "RESTARTS", "AGE", "IP", "NODE"]
    assert wide[1].split()[:5] == ["kube-system", "maintenance-handler-x", "1/1", "Running", "0"]
    assert len(wide) == 2
    assert desk.kubectl("logs -n=kube-system maintenance-handler-x") == "watching\n"
    assert desk.kubectl("taint nodes gpu-1 cloud.google.com/impending-node-termination=:NoSchedule") == (
        "node/gpu-1 tainted\n"
    )
    assert desk.kubectl("label node gpu-1 cloud.google.com/active-node-maintenance=ONGOING") == "node/gpu-1 labeled\n"
    described = desk.kubectl("describe node gpu-1")
    assert "cloud.google.com/active-node-maintenance=ONGOING" in described
    assert "Taints:             cloud.google.com/impending-node-termination:NoSchedule" in described
    assert "Non-terminated Pods:          (2 in total)" in described
    desk.kubectl("label node gpu-1 cloud.google.com/active-node-maintenance-")
    desk.kubectl("taint nodes gpu-1 cloud.google.com/impending-node-termination:NoSchedule-")
    node = json.loads(desk.kubectl("get node gpu-1 -o json"))
    assert node["metadata"]["labels"] == {"pool": "gpu"}
    assert "taints" not in node["spec"]
    assert "SchedulingDisabled" not in desk.kubectl("get nodes -o wide")
    assert "daemonset.apps/maintenance-handler" in desk.kubectl("get all -n kube-system")
    drained = desk.kubectl("drain gpu-1 --ignore-daemonsets --force")
    assert "pod/train-0 evicted\nnode/gpu-1 drained\n" in drained
    assert "Ready,SchedulingDisabled" in desk.kubectl("get nodes")
    assert "uncordoned" in desk.kubectl("uncordon gpu-1")
    assert desk.kubectl("get pods -A -o jsonpath={.items[*].metadata.name}") == "maintenance-handler-x"


def test_a_job_is_applied_changed_waited_for_and_deleted_with_kubectl(desk):
    manifest = JOB.replace("NAME", "applied")
    assert desk.kubectl("apply -f -", give=manifest) == "job.batch/applied created\n"
    assert desk.kubectl("apply -f -", give=manifest.replace("backoffLimit: 3", "backoffLimit: 9")) == (
        "job.batch/applied configured\n"
    )
    job = json.loads(desk.kubectl("get job applied -o json"))
    assert job["spec"]["backoffLimit"] == 9
    assert job["spec"]["podReplacementPolicy"] == "Failed"
    assert job["metadata"]["generation"] == 2
    assert job["spec"]["template"]["spec"]["containers"][0]["resources"]["requests"]["nvidia.com/gpu"] == "1"
    other = manifest.replace("python:3.11", "python:3.12")
    assert "spec.template: Invalid value: " in desk.kubectl("apply -f -", give=other, code=1)
    known = len(desk.store._subscribers)
    with desk.start("wait", "--for=condition=complete", "job/applied", "--timeout=60s") as waiting:
        _until(lambda: len(desk.store._subscribers) > known)
        done = {
            "conditions": [{"type": "Complete", "status": "True"}],
            "succeeded": 2,
            "startTime": "2026-11-30T12:00:00Z",
        }
        done["completionTime"] = "2026-11-30T12:02:05Z"
        desk.store.change("Job", "applied", "", lambda made: made.update(status=done))
        assert waiting.communicate(timeout=30)[0] == "job.batch/applied condition met\n"
    row = desk.kubectl("get jobs -o wide").splitlines()[1].split()
    assert row[:4] == ["applied", "Complete", "2/2", "2m5s"]
    described = desk.kubectl("describe job applied")
    assert "Pods Statuses:" in described
    assert "2 Succeeded" in described
    assert desk.kubectl("delete job applied") == 'job.batch "applied" deleted\n'
    assert "NotFound" in desk.kubectl("get job applied", code=1)


def test_an_apply_on_the_server_side_tells_whose_field_it_would_change(desk):
    manifest = JOB.replace("NAME", "owned")
    assert desk.kubectl("apply --server-side -f -", give=manifest) == "job.batch/owned serverside-applied\n"
    desk.kubectl("patch job owned --type=merge -p", '{"spec":{"backoffLimit":8}}')
    said = desk.kubectl("apply --server-side -f -", give=manifest, code=1)
    assert 'Apply failed with 1 conflict: conflict with "kubectl-patch" using batch/v1: .spec.backoffLimit' in said
    desk.kubectl("apply --server-side --force-conflicts -f -", give=manifest)
    assert desk.store.get("Job", "owned")["spec"]["backoffLimit"] == 3
    desk.store.delete("Job", "owned")


def test_what_kubectl_creates_without_a_manifest_comes_as_protobuf(desk):
    desk.kubectl("create namespace crew")
    desk.kubectl("create serviceaccount robot -n crew")
    desk.kubectl("create configmap settings --from-literal=a=b -n crew")
    desk.kubectl("create pdb most --selector=app=x --max-unavailable=30% -n crew")
    desk.kubectl("create job hello --image=python:3.11 -n crew -- echo hello")
    assert desk.store.get("ConfigMap", "settings", "crew")["data"] == {"a": "b"}
    assert desk.store.get("PodDisruptionBudget", "most", "crew")["spec"] == {
        "maxUnavailable": "30%",
        "selector": {"matchLabels": {"app": "x"}},
    }
    pod = desk.store.get("Job", "hello", "crew")["spec"]["template"]["spec"]
    assert pod["containers"][0]["command"] == ["echo", "hello"]
    assert pod["restartPolicy"] == "Never"
    assert {one["metadata"]["name"] for one in desk.store.listing("ServiceAccount", "crew").objects} == {
        "default",
        "robot",
    }
    said = desk.kubectl("create job big --image=x -n crew --dry-run=server -o name")
    assert said == "job.batch/big\n"
    assert desk.kubectl("delete namespace crew") == 'namespace "crew" deleted\n'
    assert desk.store.listing("Job", "crew").objects == []


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("backoffLimit", "backofLimit", 'strict decoding error: unknown field "spec.backofLimit"'),
        ("command:", "comand:", 'unknown field "spec.template.spec.containers[0].comand"'),
        ("backoffLimit: 3", 'backoffLimit: "3"', "Go struct field JobSpec.spec.backoffLimit of type int32"),
        ("restartPolicy: Never", "restartPolicy: Always", "spec.template.spec.restartPolicy: Required value: valid v"),
        ("name: NAME", "name: Not_A_Name", "metadata.name: Invalid value: "),
        ("memory: 2Gi", "memory: 2GiB", "quantities must match the regular expression"),
        ("kind: Job", "kind: CronJob", 'no matches for kind "CronJob" in version "batch/v1"'),
    ],
)
def test_a_manifest_with_a_mistake_is_refused_and_kubectl_says_why(desk, old, new, said):
    assert old in JOB
    assert said in desk.kubectl("create -f -", give=JOB.replace(old, new).replace("NAME", "mistaken"), code=1)
    assert desk.store.listing("Job").objects == []


def test_logs_are_followed_until_the_container_ends(desk):
    uid = desk.pod("speaker", "gpu-9", lines=["one", "two"], containers=("main", "side"))
    with desk.start("logs", "-f", "speaker", "-c", "main", "--tail=1", "--timestamps") as following:
        assert following.stdout.readline().endswith("Z two\n")
        desk.logs.write(uid, "main", "three", at=desk.store.now())
        assert following.stdout.readline().endswith("Z three\n")
        desk.logs.end(uid, "main")
        assert following.communicate(timeout=30)[0] == ""
    assert following.returncode == 0
    asked = requests.get(f"{desk.url}/api/v1/namespaces/default/pods/speaker/log")
    assert asked.json()["message"] == "a container name must be specified for pod speaker, choose one of: [main side]"
    wrong = requests.get(f"{desk.url}/api/v1/namespaces/default/pods/speaker/log?container=main&sinceTime=noon")
    assert (wrong.status_code, "'noon' is no time" in wrong.json()["message"]) == (400, True)
    desk.store.delete("Pod", "speaker", grace_seconds=0)


def test_a_budget_forbids_an_eviction_until_there_are_enough(desk):
    desk.verbs.create("PodDisruptionBudget", {"metadata": {"name": "keep"}, "spec": _budget("kept")})
    desk.pod("kept-0", "gpu-9", labels={"app": "kept"})
    where, body = f"{desk.url}/api/v1/namespaces/default/pods/kept-0/eviction", {"metadata": {"name": "kept-0"}}
    refused = requests.post(where, json=body)
    assert refused.status_code == 429
    assert "retry-after" not in refused.headers  # with it, kubectl would ask again and again by itself
    assert refused.json()["message"] == "Cannot evict pod as it would violate the pod's disruption budget."
    causes = refused.json()["details"]["causes"]
    assert causes[0]["message"] == "The disruption budget keep needs 1 healthy pods and has 1 currently"
    assert desk.kubectl("get pdb").splitlines()[1].split()[:4] == ["keep", "1", "N/A", "0"]
    desk.pod("kept-1", "gpu-9", labels={"app": "kept"})
    assert requests.post(f"{where}?dryRun=All", json=body).status_code == 201
    for wrong in ([], {"metadata": []}, {"deleteOptions": {"gracePeriodSeconds": "now"}}, {"metadata": {"name": "p"}}):
        assert requests.post(where, json=wrong).json()["reason"] == "BadRequest"
    watch = desk.store.watch("Pod", fields="metadata.name=kept-0", since=desk.store.version)
    assert requests.post(where, json=body).status_code == 201
    marked, deleted = watch.next_within(30).object, watch.next_within(30).object
    assert marked["status"]["conditions"][-1]["reason"] == "EvictionByEvictionAPI"
    assert "deletionTimestamp" not in marked["metadata"]
    assert deleted["metadata"]["deletionGracePeriodSeconds"] == 30
    desk.store.delete("PodDisruptionBudget", "keep")


def _budget(app):
    return {"minAvailable": 1, "selector": {"matchLabels": {"app": app}}}


def test_kubectl_get_watches_as_a_table(desk):
    known = len(desk.store._subscribers)
    with desk.start("get", "pods", "-w", "--output-watch-events", "-l", "app=seen") as watching:
        _until(lambda: len(desk.store._subscribers) > known)
        desk.pod("seen", "gpu-9", labels={"app": "seen"})
        desk.store.change("Pod", "seen", "", lambda pod: pod["status"].update(phase="Failed", reason="Terminated"))
        desk.store.delete("Pod", "seen", grace_seconds=0)
        lines = [watching.stdout.readline().split() for _ in range(5)]
    assert lines[0][:4] == ["EVENT", "NAME", "READY", "STATUS"]
    assert [line[0:4:3] for line in lines[1:]] == [
        ["ADDED", "Pending"],
        ["MODIFIED", "Running"],
        ["MODIFIED", "Terminated"],
        ["DELETED", "Terminated"],
    ]


def test_the_official_client_makes_lists_watches_patches_evicts_and_deletes(desk):
    import kubernetes

    core, batch = desk.client(), desk.client("BatchV1Api")
    container = kubernetes.client.V1Container(name="main", image="python:3.11", command=["true"])
    pod_spec = kubernetes.client.V1PodSpec(restart_policy="Never", containers=[container])
    spec = kubernetes.client.V1JobSpec(template=kubernetes.client.V1PodTemplateSpec(spec=pod_spec), backoff_limit=2)
    meta = kubernetes.client.V1ObjectMeta(generate_name="by-client-")
    job = batch.create_namespaced_job("default", kubernetes.client.V1Job(metadata=meta, spec=spec))
    name = job.metadata.name
    assert job.spec.template.spec.termination_grace_period_seconds == 30
    assert batch.list_namespaced_job("default", label_selector="a!=b").items[0].metadata.name == name
    since = batch.list_namespaced_job("default").metadata.resource_version
    batch.patch_namespaced_job(name, "default", {"spec": {"suspend": True}})
    batch.delete_namespaced_job(name, "default", propagation_policy="Foreground")
    watch = kubernetes.watch.Watch()
    seen = []
    for event in watch.stream(batch.list_namespaced_job, "default", resource_version=since, timeout_seconds=30):
        seen.append((event["type"], event["object"].spec.suspend))
        if event["type"] == "DELETED":
            watch.stop()
    assert seen == [("MODIFIED", True), ("DELETED", True)]
    desk.pod("evicted", "gpu-9", lines=["said"])
    assert core.read_namespaced_pod_log("evicted", "default") == "said\n"
    eviction = kubernetes.client.V1Eviction(metadata=kubernetes.client.V1ObjectMeta(name="evicted"))
    core.create_namespaced_pod_eviction("evicted", "default", eviction)
    _until(lambda: desk.store.find("Pod", "evicted") is None)
    with pytest.raises(kubernetes.client.ApiException) as refused:
        core.read_namespaced_pod("evicted", "default")
    assert refused.value.status == 404
    assert json.loads(refused.value.body)["details"] == {"name": "evicted", "kind": "pods"}


def test_a_watch_from_a_forgotten_version_gets_the_error_that_clients_answer_by_listing_again(desk):
    desk.store.compact()
    query = "watch=1&resourceVersion=1&timeoutSeconds=1"
    lines = requests.get(f"{desk.url}/api/v1/pods?{query}").text.splitlines()
    assert [json.loads(line)["type"] for line in lines] == ["ERROR"]
    assert json.loads(lines[0])["object"]["code"] == 410
    version = desk.store.version
    query = f"watch=1&sendInitialEvents=true&resourceVersion={version}&resourceVersionMatch=NotOlderThan"
    lines = requests.get(
        f"{desk.url}/api/v1/namespaces?{query}&allowWatchBookmarks=true&timeoutSeconds=1"
    ).text.splitlines()
    kinds = [json.loads(line)["type"] for line in lines]
    assert kinds[:5] == ["ADDED"] * 4 + ["BOOKMARK"]
    assert json.loads(lines[4])["object"]["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}


@pytest.mark.parametrize(
    ("method", "path", "body", "code", "message"),
    [
        ("GET", "/api/v1/services", None, 404, "the server could not find the requested resource"),
        ("GET", "/apis/apps/v1/deployments", None, 404, "the server could not find the requested resource"),
        ("PUT", "/api/v1/nodes", {}, 405, "the server does not allow this method on the requested resource"),
        ("POST", "/api/v1/namespaces/default/pods/p/exec", {}, 400, "the emulator does not have pods/exec"),
        ("POST", "/api/v1/namespaces/nowhere/configmaps", {"metadata": {"name": "c"}}, 404, '"nowhere" not found'),
        ("GET", "/api/v1/pods?fieldSelector=spec.x=1", None, 400, "field label not supported: spec.x"),
        ("GET", "/api/v1/pods?labelSelector=a(b", None, 400, "unable to parse requirement"),
        ("GET", "/api/v1/pods?labelSelector=a=@@", None, 400, 'values[a]: Invalid value: "@@"'),
        ("POST", "/api/v1/namespaces/default/configmaps", {"data": {"a": "\ud800"}}, 400, "surrogates not allowed"),
        ("POST", "/api/v1/nodes?dryRun=Some", {"metadata": {"name": "n"}}, 400, 'supported values: "All"'),
        ("DELETE", "/api/v1/namespaces/kube-system", None, 403, "this namespace may not be deleted"),
    ],
)
def test_what_is_not_there_or_makes_no_sense_is_refused_with_a_status(desk, method, path, body, code, message):
    answer = requests.request(method, desk.url + path, json=body)
    assert answer.status_code == code
    assert answer.json()["kind"] == "Status"
    assert message in answer.json()["message"]


def test_unknown_fields_are_dropped_with_a_warning_for_clients_that_do_not_ask_to_be_strict(desk):
    body = {"metadata": {"name": "loose"}, "data": {"a": "b"}, "dota": {}}
    where = f"{desk.url}/api/v1/namespaces/default/configmaps"
    answer = requests.post(where, json=body)
    assert answer.status_code == 201
    assert "dota" not in answer.json()
    assert answer.headers["warning"] == '299 - "unknown field \\"dota\\""'
    strict = requests.put(f"{where}/loose?fieldValidation=Strict", json=body)
    assert strict.status_code == 400
    assert 'strict decoding error: unknown field "dota"' in strict.json()["message"]
    gone = requests.delete(where, params={"labelSelector": "!a"}).json()
    assert [one["metadata"]["name"] for one in gone["items"]] == ["loose"]
    assert desk.store.find("ConfigMap", "loose") is None


def test_a_namespace_goes_when_what_is_in_it_has_gone(desk):
    desk.verbs.create("Namespace", {"metadata": {"name": "team"}})
    held = {"metadata": {"name": "held", "finalizers": ["a/b"]}}
    desk.verbs.create("ConfigMap", held, "team")
    requests.delete(f"{desk.url}/api/v1/namespaces/team").raise_for_status()
    assert desk.store.get("Namespace", "team")["status"]["phase"] == "Terminating"
    late = requests.post(f"{desk.url}/api/v1/namespaces/team/configmaps", json={"metadata": {"name": "late"}})
    assert late.status_code == 403
    desk.store.change("ConfigMap", "held", "team", lambda made: made["metadata"].update(finalizers=[]))
    assert desk.store.find("Namespace", "team") is None
    assert desk.store.find("ServiceAccount", "default", "team") is None


def _until(true) -> None:
    give_up = time.monotonic() + 30
    while not true():
        assert time.monotonic() < give_up
        time.sleep(0.01)
