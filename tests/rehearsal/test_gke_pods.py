"""What the emulated cluster does with pods, Jobs and nodes, by its Python API and with shells for programs."""

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from outlast.containers import processes
from outlast.emulate.kubernetes.cluster import Cluster
from outlast.emulate.kubernetes.fleet import Impossible
from outlast.emulate.kubernetes.problems import Refused

Json = dict[str, Any]
FOREVER = "trap 'exit 143' TERM; while :; do sleep 0.02; done"
DEAF = "trap '' TERM; while :; do sleep 0.02; done"


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(["cpu", "tpu"], speed=100) as opened:
        yield opened


def container(script: str, name: str = "main", **more: Any) -> Json:
    return {"name": name, "image": "busybox", "command": ["sh", "-c", script], **more}


def pod(cluster: Cluster, name: str, script: str, *, namespace: str = "default", **spec: Any) -> None:
    spec = {"containers": [container(script)], "restartPolicy": "Never", **spec}
    cluster.verbs.create("Pod", {"metadata": {"name": name}, "spec": spec}, namespace)


def job(cluster: Cluster, name: str, script: str, *, pods: Json | None = None, **spec: Any) -> None:
    template = {"spec": {"containers": [container(script)], "restartPolicy": "Never", **(pods or {})}}
    cluster.verbs.create("Job", {"metadata": {"name": name}, "spec": {"template": template, **spec}})


def wait_until(condition: Callable[[], Any], seconds: float = 30.0) -> Any:
    until = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < until, "it did not happen in time"
        time.sleep(0.01)
    return found


def phase(cluster: Cluster, name: str, namespace: str = "default") -> str | None:
    found = cluster.store.find("Pod", name, namespace)
    return found and found["status"]["phase"]


def condition(cluster: Cluster, name: str) -> Json | None:
    """The condition that a Job has ended with."""
    found = cluster.store.get("Job", name).get("status", {}).get("conditions", ())
    return next((one for one in found if one["type"] in ("Complete", "Failed")), None)


def lines(cluster: Cluster, name: str, of: str = "main") -> list[str]:
    log = cluster.logs.find(cluster.store.get("Pod", name, "default")["metadata"]["uid"], of)
    assert log is not None
    return [line.text for line in log.lines]


def test_init_containers_come_first_and_share_an_empty_folder(cluster: Cluster) -> None:
    mount = {"volumeMounts": [{"name": "shared", "mountPath": "/shared"}]}
    first = container("echo one > /shared/file; ls /shared", "first", **mount)
    second = container("cat /shared/file && exec false", "second", **mount)
    volumes = [{"name": "shared", "emptyDir": {}}]
    spec = {"volumes": volumes, "initContainers": [first], "containers": [second, container("true", "other")]}
    pod(cluster, "two-steps", "", **spec)
    wait_until(lambda: phase(cluster, "two-steps") == "Failed")
    assert (lines(cluster, "two-steps", "first"), lines(cluster, "two-steps", "second")) == (["file"], ["one"])
    pod(cluster, "no-start", "echo never", initContainers=[container("exit 3", "first")])
    wait_until(lambda: phase(cluster, "no-start") == "Failed")
    status = cluster.store.get("Pod", "no-start", "default")["status"]
    assert status["initContainerStatuses"][0]["state"]["terminated"]["exitCode"] == 3
    assert "waiting" in status["containerStatuses"][0]["state"]


def test_containers_are_started_again_in_place_where_the_policy_says_so(cluster: Cluster) -> None:
    volumes = {"volumes": [{"name": "v", "emptyDir": {}}]}
    script = "echo run >> /v/runs; [ $(wc -l < /v/runs) = 3 ]"
    main = container(script, volumeMounts=[{"name": "v", "mountPath": "/v"}])
    pod(cluster, "again", "", containers=[main], restartPolicy="OnFailure", **volumes)
    wait_until(lambda: phase(cluster, "again") == "Succeeded")
    status = cluster.store.get("Pod", "again", "default")["status"]["containerStatuses"][0]
    assert (status["restartCount"], status["lastState"]["terminated"]["exitCode"]) == (2, 1)


def test_a_command_that_does_not_exist_is_told_as_a_runtime_does(cluster: Cluster) -> None:
    pod(cluster, "no-command", "", containers=[{"name": "main", "image": "i", "command": ["no-such-command"]}])
    wait_until(lambda: phase(cluster, "no-command") == "Failed")
    state = cluster.store.get("Pod", "no-command", "default")["status"]["containerStatuses"][0]["state"]["terminated"]
    assert (state["reason"], state["exitCode"]) == ("StartError", 128)
    assert "no-such-command: command not found" in state["message"]
    pod(cluster, "no-image", "", containers=[{"name": "main", "image": "nobody-knows:1"}])
    waiting = wait_until(
        lambda: [
            one["state"]["waiting"]
            for one in cluster.store.get("Pod", "no-image", "default")["status"].get("containerStatuses", ())
            if one["state"].get("waiting", {}).get("reason") == "ErrImagePull"
        ]
    )
    assert "nobody-knows:1" in waiting[0]["message"]
    cluster.verbs.delete("Pod", "no-image", "default")
    pod(cluster, "no-word", "", containers=[{"name": "main", "image": "i", "command": ["echo", "a\0b"]}])
    wait_until(lambda: "CreateContainerError" in str(cluster.store.get("Pod", "no-word", "default")["status"]))
    cluster.verbs.delete("Pod", "no-word", "default")


def test_a_pod_has_its_own_time_limit_and_a_grace_after_it(cluster: Cluster) -> None:
    pod(cluster, "limited", DEAF, activeDeadlineSeconds=10, terminationGracePeriodSeconds=20)
    begin = time.monotonic()
    wait_until(lambda: phase(cluster, "limited") == "Failed")
    assert time.monotonic() - begin >= 0.3
    status = cluster.store.get("Pod", "limited", "default")["status"]
    assert status["reason"] == "DeadlineExceeded"
    assert status["containerStatuses"][0]["state"]["terminated"]["exitCode"] == 137
    # One that leaves with 0 has not done its work all the same.
    job(cluster, "over", FOREVER.replace("143", "0"), pods={"activeDeadlineSeconds": 10}, backoffLimit=0)
    assert wait_until(lambda: condition(cluster, "over"))["reason"] == "BackoffLimitExceeded"


def test_what_a_pod_has_of_its_own_goes_with_it(cluster: Cluster) -> None:
    """Its memory and devices; and files as they were given, with the messages that containers leave."""
    cluster.verbs.create("Secret", {"metadata": {"name": "bytes"}, "data": {"key": "/wD+Cg=="}})
    volumes = [
        {"name": "s", "secret": {"secretName": "bytes", "defaultMode": 0o400}},
        {"name": "e", "emptyDir": {}},
    ]
    mounts = [
        {"name": "s", "mountPath": "/s/key", "subPath": "key"},
        {"name": "e", "mountPath": "/mine", "subPathExpr": "$(WHO)"},
        {"name": "e", "mountPath": "/all"},
    ]
    script = (
        "od -An -tx1 /s/key; stat -c %a /s/key; echo x > /mine/file; ls /all; "
        "ls -d /dev/shm/* /dev/outlast-left 2> /dev/null; "
        "for folder in /dev/shm /dev; do echo x > $folder/outlast-left; done; exit 3"
    )
    environment = [{"name": "WHO", "value": "me"}]
    for name, policy in (("own-1", "File"), ("own-2", "FallbackToLogsOnError")):
        main = container(script, volumeMounts=mounts, env=environment, terminationMessagePolicy=policy)
        other = container("echo so > /dev/termination-log; exit 3", "other")
        pod(cluster, name, "", containers=[main, other], volumes=volumes)
        wait_until(lambda name=name: phase(cluster, name) == "Failed")
        assert lines(cluster, name) == [" ff 00 fe 0a", "400", "me"]
    said = [
        one["state"]["terminated"].get("message")
        for name in ("own-1", "own-2")
        for one in cluster.store.get("Pod", name, "default")["status"]["containerStatuses"]
    ]
    assert said == [None, "so\n", " ff 00 fe 0a\n400\nme\n", "so\n"]
    assert not Path("/dev/outlast-left").exists()
    assert not Path("/dev/termination-log").exists()


def test_a_deletion_by_force_kills_at_once(cluster: Cluster) -> None:
    pod(cluster, "forced", DEAF, terminationGracePeriodSeconds=3600)
    wait_until(lambda: phase(cluster, "forced") == "Running")
    cluster.verbs.delete("Pod", "forced", "default")
    assert phase(cluster, "forced") == "Running"
    cluster.verbs.delete("Pod", "forced", "default", {"gracePeriodSeconds": 0})
    assert phase(cluster, "forced") is None
    wait_until(lambda: "forced" not in cluster.fleet.host("gke-default-pool-0").kubelet.running())


def test_a_taint_of_no_execute_evicts_who_does_not_tolerate_it(cluster: Cluster) -> None:
    taint = {"key": "flaky", "effect": "NoExecute"}
    tolerating = {"key": "flaky", "operator": "Exists", "effect": "NoExecute"}
    job(cluster, "evicted", FOREVER, podReplacementPolicy="Failed")
    pod(cluster, "stays", FOREVER, tolerations=[tolerating])
    pod(cluster, "stays-a-while", FOREVER, tolerations=[{**tolerating, "tolerationSeconds": 60}])
    names = wait_until(
        lambda: _running_of(cluster, "evicted") if phase(cluster, "stays-a-while") == "Running" else None
    )
    seen: list[Json] = []
    heard = cluster.store.subscribe(lambda event: seen.append(event.object), "Pod", "default")
    begin = time.monotonic()
    node = "gke-default-pool-0"
    cluster.store.change("Node", node, "", lambda found: found["spec"].update(taints=[taint]))
    wait_until(lambda: phase(cluster, names[0]) is None)
    wait_until(lambda: phase(cluster, "stays-a-while") is None)
    assert time.monotonic() - begin >= 0.6
    assert phase(cluster, "stays") == "Running"
    cluster.store.unsubscribe(heard)
    of_job = [one for one in seen if one["metadata"]["name"] == names[0]]
    reasons = {one["reason"] for found in of_job for one in found["status"]["conditions"] if "reason" in one}
    assert "DeletionByTaintManager" in reasons
    cluster.store.change("Node", node, "", lambda found: found["spec"].pop("taints", None))
    cluster.verbs.delete("Job", "evicted", "default")
    cluster.verbs.delete("Pod", "stays", "default", {"gracePeriodSeconds": 0})


def _running_of(cluster: Cluster, name: str) -> list[str]:
    found = cluster.store.listing("Pod", "default", labels=f"job-name={name}").objects
    return [one["metadata"]["name"] for one in found if one["status"]["phase"] == "Running"]


def test_a_suspended_job_ends_its_pods_and_goes_on_later(cluster: Cluster) -> None:
    job(cluster, "paused", FOREVER, backoffLimit=0)
    wait_until(lambda: _running_of(cluster, "paused"))
    cluster.store.change("Job", "paused", "default", lambda found: found["spec"].update(suspend=True))
    wait_until(lambda: not cluster.store.listing("Pod", "default", labels="job-name=paused").objects)
    status = cluster.store.get("Job", "paused", "default")["status"]
    assert ("failed" in status, status["conditions"][0]["reason"]) == (False, "JobSuspended")
    cluster.store.change("Job", "paused", "default", lambda found: found["spec"].update(suspend=False))
    wait_until(lambda: _running_of(cluster, "paused"))
    cluster.verbs.delete("Job", "paused", "default", {"propagationPolicy": "Foreground"})
    wait_until(lambda: cluster.store.find("Job", "paused", "default") is None)
    assert cluster.store.listing("Pod", "default", labels="job-name=paused").objects == []


def test_a_finished_job_goes_when_its_time_is_over(cluster: Cluster) -> None:
    job(cluster, "short-lived", "exit 0", ttlSecondsAfterFinished=30)
    wait_until(lambda: (condition(cluster, "short-lived") or {}).get("type") == "Complete")
    assert cluster.store.listing("Pod", "default", labels="job-name=short-lived").objects
    wait_until(lambda: cluster.store.find("Job", "short-lived", "default") is None)
    assert not cluster.store.listing("Pod", "default", labels="job-name=short-lived").objects


def test_a_pod_waits_until_a_node_has_room_for_it(cluster: Cluster) -> None:
    big = {"containers": [container("sleep 0.3", resources={"requests": {"cpu": "3"}})]}
    job(cluster, "queued", "", pods=big, completions=3, parallelism=3)
    wait_until(lambda: (condition(cluster, "queued") or {}).get("type") == "Complete")
    pod(cluster, "too-big", "true", containers=[container("true", resources={"requests": {"cpu": "5"}})])
    found = wait_until(lambda: cluster.store.get("Pod", "too-big", "default")["status"].get("conditions"))
    assert "1 Insufficient cpu" in found[0]["message"]
    assert "1 node(s) had untolerated taint {google.com/tpu: present}" in found[0]["message"]
    cluster.verbs.delete("Pod", "too-big", "default")


def test_maintenance_ends_workloads_before_system_pods_and_all_by_the_end_of_the_notice(cluster: Cluster) -> None:
    node = "gke-tpu-pool-0"
    on_node = {"nodeSelector": {"kubernetes.io/hostname": node}, "tolerations": [{"operator": "Exists"}]}
    pod(cluster, "slow", DEAF, terminationGracePeriodSeconds=3600, **on_node)
    pod(cluster, "quick", FOREVER, **on_node)
    pod(cluster, "system", FOREVER, namespace="kube-system", **on_node)
    wait_until(
        lambda: (
            {phase(cluster, "slow"), phase(cluster, "quick"), phase(cluster, "system", "kube-system")} == {"Running"}
        )
    )
    procedure = cluster.maintain(node)
    with pytest.raises(Impossible, match="is under way"):
        cluster.host_error(node)
    assert procedure.wait(30)
    moments = {what: seconds for seconds, what in procedure.trace}
    evicted = [what for what in moments if what.startswith("Evicting")]
    assert [what.split()[2] for what in evicted] == ["default/quick", "default/slow", "kube-system/system"]
    assert "slow with a grace of 299 s" in evicted[1]  # of the 5 min of a machine with TPUs
    labelled = moments["Applied node label cloud.google.com/active-node-maintenance=true"]
    assert labelled < 60
    assert moments[evicted[2]] - moments[evicted[1]] >= 299
    assert "active-node-maintenance" not in str(cluster.store.get("Node", node))


@pytest.mark.parametrize(("policy", "most"), [("TerminatingOrFailed", 2), ("Failed", 1)])
def test_a_node_that_is_cut_off_runs_on_beside_the_successor_of_its_pod_unless_the_job_waits(
    policy: str, most: int
) -> None:
    nodes = ("gke-default-pool-0", "gke-default-pool-1")
    with Cluster(["cpu", "cpu"], speed=200) as two:
        job(two, "twice", FOREVER, backoffLimit=6, podReplacementPolicy=policy)
        first = wait_until(lambda: _running_of(two, "twice"))[0]
        cut_off = two.store.get("Pod", first, "default")["spec"]["nodeName"]
        procedure, alive = two.partition(cut_off), 0
        while not procedure.over.is_set():
            alive = max(alive, sum(len(two.fleet.host(node).kubelet.running()) for node in nodes))
            time.sleep(0.02)
        assert alive == most
        wait_until(lambda: phase(two, first) is None)  # it got SIGTERM once its node was back
        wait_until(lambda: len(_running_of(two, "twice")) == 1)


def test_no_process_outlives_the_cluster() -> None:
    with Cluster(["spot"], speed=1) as short:
        job(short, "endless", DEAF, parallelism=2, completions=2)
        wait_until(lambda: len(_running_of(short, "endless")) == 2)
        ours = set(_shells())
        assert len(ours) >= 2
        short.reclaim("gke-spot-pool-0")
        wait_until(lambda: short.store.get("Node", "gke-spot-pool-0")["status"]["conditions"][-1]["status"] == "False")
        begin = time.monotonic()
    assert time.monotonic() - begin < 10
    assert not ours & set(_shells())


def _shells() -> list[int]:
    me = int(Path("/proc/self").readlink().name)
    found = [(pid, processes.look_at(pid)) for pid in processes.descendants(me)]
    return [pid for pid, one in found if one is not None and not one.ended and "trap" in one.command]


def test_a_volume_that_is_missing_keeps_a_pod_waiting_and_says_why(cluster: Cluster) -> None:
    csi = {"driver": "gcsfuse.csi.storage.gke.io", "volumeAttributes": {"bucketName": "b"}}
    cluster.verbs.create("Secret", {"metadata": {"name": "keyless", "namespace": "default"}, "stringData": {"a": "b"}})
    for name, volume, why in (
        ("no-sidecar", {"csi": csi}, 'lacks annotation gke-gcsfuse/volumes: "true"'),
        ("no-config", {"configMap": {"name": "nothing"}}, 'configmap "nothing" not found'),
        ("no-key", {"secret": {"secretName": "keyless", "items": [{"key": "k", "path": "p"}]}}, "secret key: k"),
    ):
        main = container("true", volumeMounts=[{"name": "v", "mountPath": "/v"}])
        pod(cluster, name, "", containers=[main], volumes=[{"name": "v", **volume}])
        fields = f"involvedObject.name={name},reason=FailedMount"
        events = wait_until(lambda fields=fields: cluster.store.listing("Event", "default", fields=fields).objects)
        assert why in events[0]["message"]
        assert phase(cluster, name) == "Pending"
        cluster.verbs.delete("Pod", name, "default")


def test_a_kind_of_job_that_is_not_done_here_is_refused(cluster: Cluster) -> None:
    policy = {"rules": [{"succeededIndexes": "0"}]}
    with pytest.raises(Refused, match=r"spec\.successPolicy"):
        job(cluster, "policy", "true", completions=2, completionMode="Indexed", successPolicy=policy)
