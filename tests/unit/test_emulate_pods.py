"""What emulated schedulers and kubelets work out from objects: places, phases, variables, command lines."""

from typing import Any

import pytest

from outlast.emulate.kubernetes import conditions, pod_states
from outlast.emulate.kubernetes.images import Image, ImageMissing, find_image
from outlast.emulate.kubernetes.machines import MACHINES, Machine, new_node
from outlast.emulate.kubernetes.pod_environment import ConfigError, variables
from outlast.emulate.kubernetes.pod_states import ContainerRecord
from outlast.emulate.kubernetes.pod_worker import seconds_to_its_end
from outlast.emulate.kubernetes.scheduling import choose
from outlast.emulate.kubernetes.taints import tolerates, with_defaults
from outlast.emulate.kubernetes.unsupported import unsupported_fields

Json = dict[str, Any]
STAMP = "2026-11-30T12:00:00Z"
NODES = [new_node(f"{kind}-node", MACHINES[kind], STAMP) for kind in ("cpu", "gpu", "spot", "tpu")]
GPU, TPU = {"nvidia.com/gpu": "1"}, {"google.com/tpu": "4"}
EVERYTHING = {"operator": "Exists"}


def pod(limits: Json | None = None, **spec: Any) -> Json:
    container = {"name": "main", "image": "i", "resources": {"limits": limits or {}}}
    spec.setdefault("tolerations", with_defaults((), limits or ()))
    return {
        "metadata": {"name": "p", "namespace": "default"},
        "spec": {"containers": [container], **spec},
        "status": {},
    }


def affinity(key: str, operator: str, *values: str) -> Json:
    terms = [{"matchExpressions": [{"key": key, "operator": operator, "values": list(values)}]}]
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}


PLACES = [
    (pod(), {"cpu-node", "spot-node"}),
    (pod(GPU), {"gpu-node"}),
    (pod({"nvidia.com/gpu": "2"}), set()),
    (pod(TPU), {"tpu-node"}),
    (pod(GPU, tolerations=[]), set()),
    (pod({"cpu": "5"}), set()),
    (pod({"cpu": "3500m", "memory": "16Gi"}), {"cpu-node", "spot-node"}),
    (pod({"memory": "17Gi"}), set()),
    (pod(nodeSelector={"cloud.google.com/gke-spot": "true"}), {"spot-node"}),
    (pod(nodeSelector={"cloud.google.com/gke-accelerator": "nvidia-l4"}), set()),
    (pod(tolerations=[EVERYTHING], nodeSelector={"cloud.google.com/gke-accelerator": "nvidia-l4"}), {"gpu-node"}),
    (pod(affinity=affinity("cloud.google.com/gke-spot", "DoesNotExist")), {"cpu-node"}),
    (pod(affinity=affinity("cloud.google.com/gke-nodepool", "In", "spot-pool", "x")), {"spot-node"}),
    (pod(affinity=affinity("cloud.google.com/gke-nodepool", "NotIn", "spot-pool")), {"cpu-node"}),
    (pod(affinity=affinity("number", "Gt", "3")), set()),
]  # fmt: skip


def test_a_pod_prefers_a_node_and_avoids_a_soft_taint() -> None:
    spot = affinity("cloud.google.com/gke-spot", "Exists")["nodeAffinity"]
    term = spot["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"][0]
    preferred = {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 5, "preference": term}]}
    assert choose(pod(affinity={"nodeAffinity": preferred}), NODES, [])[0] == "spot-node"
    soft = {**NODES[0], "spec": {"taints": [{"key": "k", "effect": "PreferNoSchedule"}]}}
    assert choose(pod(), [soft, NODES[2]], [])[0] == "spot-node"
    assert choose(pod(tolerations=[EVERYTHING]), [soft, NODES[2]], [])[0] == "cpu-node"


@pytest.mark.parametrize(("of", "places"), PLACES)
def test_a_pod_goes_to_a_node_that_it_selects_tolerates_and_fits_on(of: Json, places: set[str]) -> None:
    fitting = {node["metadata"]["name"] for node in NODES if choose(of, [node], [])[0] is not None}
    assert fitting == places
    chosen, why = choose(of, NODES, [])
    assert (chosen in places) if places else why.startswith("0/4 nodes are available: ")


def test_a_node_is_full_when_what_runs_there_has_asked_for_all_and_free_when_it_is_over() -> None:
    there = pod(GPU, nodeName="gpu-node")
    assert choose(pod(GPU), [NODES[1]], [there]) == (None, "0/1 nodes are available: 1 Insufficient nvidia.com/gpu.")
    there["status"]["phase"] = "Failed"
    assert choose(pod(GPU), [NODES[1]], [there])[0] == "gpu-node"


def test_a_cordoned_or_ending_node_gets_no_pod() -> None:
    cordoned = {**NODES[0], "spec": {"unschedulable": True}}
    assert "1 node(s) were unschedulable" in choose(pod(), [cordoned], [])[1]
    key = "cloud.google.com/impending-node-termination"
    ending = {**NODES[0], "spec": {"taints": [{"key": key, "effect": "NoSchedule"}]}}
    assert f"1 node(s) had untolerated taint {{{key}: }}" in choose(pod(), [ending], [])[1]


@pytest.mark.parametrize(
    ("toleration", "tolerated"),
    [
        ({"operator": "Exists"}, True),
        ({"key": "k", "operator": "Exists"}, True),
        ({"key": "k", "value": "v"}, True),
        ({"key": "k", "value": "w"}, False),
        ({"key": "k"}, False),
        ({"key": "k", "value": "v", "effect": "NoSchedule"}, False),
        ({"key": "k", "operator": "Exists", "effect": "NoExecute"}, True),
        ({"key": "other", "operator": "Exists"}, False),
    ],
)
def test_tolerations_match_key_value_and_effect(toleration: Json, tolerated: bool) -> None:
    assert tolerates(toleration, {"key": "k", "value": "v", "effect": "NoExecute"}) is tolerated


@pytest.mark.parametrize(
    ("sleeps", "grace", "ends"), [(0, 30, (0, 30)), (10, 30, (10, 30)), (30, 20, (20, 22)), (5, 0, (0, 0))]
)
def test_a_pre_stop_is_a_part_of_its_containers_grace_and_leaves_two_seconds(
    sleeps: int, grace: int, ends: tuple[int, int]
) -> None:
    hook = {"lifecycle": {"preStop": {"sleep": {"seconds": sleeps}}}} if sleeps else {}
    assert seconds_to_its_end(hook, grace) == ends


def records(*states: int | str) -> list[ContainerRecord]:
    """A code for a container that has ended, "running" or "waiting" for others."""
    found = []
    for number, state in enumerate(states):
        record = ContainerRecord(f"c{number}", "i")
        if isinstance(state, int):
            record.state = pod_states.terminated(state, STAMP, STAMP, "")
        else:
            record.state = {state: {}}
        found.append(record)
    return found


@pytest.mark.parametrize(
    ("states", "policy", "ending", "phase"),
    [
        (["waiting"], "Never", False, "Pending"),
        (["running", 1], "Never", False, "Running"),
        ([0, 0], "Never", False, "Succeeded"),
        ([0, 143], "Never", False, "Failed"),
        ([0, 0], "OnFailure", False, "Succeeded"),
        ([1], "OnFailure", False, "Running"),
        ([0], "Always", False, "Running"),
        ([0], "Always", True, "Succeeded"),  # so says a kubelet since 1.27, though nothing was finished
        ([143], "OnFailure", True, "Failed"),
        (["waiting"], "Never", True, "Failed"),
        (["running"], "Never", True, "Running"),
    ],
)
def test_the_phase_of_a_pod_follows_from_its_containers(
    states: list[int | str], policy: str, ending: bool, phase: str
) -> None:
    assert pod_states.phase(records(*states), policy, ending=ending) == phase


def test_a_condition_keeps_the_time_at_which_its_status_changed() -> None:
    old = [{"type": "Ready", "status": "True", "lastTransitionTime": "before"}]
    new = pod_states.conditions("Running", records("running"), initialized=True, stamp="now")
    merged = {one["type"]: (one["status"], one["lastTransitionTime"]) for one in conditions.merged(old, new)}
    assert (merged["Ready"], merged["ContainersReady"]) == (("True", "before"), ("True", "now"))


def test_variables_come_from_fields_and_objects_and_refer_to_earlier_ones() -> None:
    objects = {
        ("ConfigMap", "c"): {"kind": "ConfigMap", "data": {"A": "1", "b": "2"}},
        ("Secret", "s"): {"kind": "Secret", "data": {"key": "c2VjcmV0"}},
    }
    of = pod({"memory": "1Gi"}, nodeName="n")
    of["metadata"] |= {"labels": {"app.kubernetes.io/name": "x"}, "uid": "u"}
    container: Json = {
        **of["spec"]["containers"][0],
        "envFrom": [{"configMapRef": {"name": "c"}, "prefix": "P_"}],
        "env": [
            {"name": "NODE", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}},
            {"name": "LABEL", "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels['app.kubernetes.io/name']"}}},
            {"name": "MEMORY", "valueFrom": {"resourceFieldRef": {"resource": "limits.memory", "divisor": "1Mi"}}},
            {"name": "CPUS", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu"}}},
            {"name": "SECRET", "valueFrom": {"secretKeyRef": {"name": "s", "key": "key"}}},
            {"name": "OPTIONAL", "valueFrom": {"configMapKeyRef": {"name": "none", "key": "k", "optional": True}}},
            {"name": "BOTH", "value": "$(NODE)-$(P_A)-$(UNKNOWN)-$$(NODE)"},
        ],
    }
    found = variables(of, container, {"PATH": "/bin"}, lambda kind, name: objects.get((kind, name)), {"cpu": "3920m"})
    assert found == {
        "PATH": "/bin", "P_A": "1", "P_b": "2", "NODE": "n", "LABEL": "x", "MEMORY": "1024",
        "CPUS": "4", "SECRET": "secret",
        "BOTH": "n-1-$(UNKNOWN)-$(NODE)",
    }  # fmt: skip


@pytest.mark.parametrize(
    "source",
    [
        {"fieldRef": {"fieldPath": "spec.unknown"}},
        {"configMapKeyRef": {"name": "none", "key": "k"}},
        {"fileKeyRef": {"path": "p"}},
    ],
)
def test_a_variable_of_nothing_is_an_error(source: Json) -> None:
    container = {"name": "main", "env": [{"name": "X", "valueFrom": source}]}
    with pytest.raises(ConfigError):
        variables(pod(), container, {}, lambda kind, name: None)


def test_command_and_args_replace_what_the_image_has_as_in_kubernetes() -> None:
    images = {"i": Image(entry_point=("run",), arguments=("default",))}
    given: list[tuple[Json, tuple[str, ...]]] = [
        ({}, ("run", "default")),
        ({"args": ["a"]}, ("run", "a")),
        ({"command": ["c"]}, ("c",)),
        ({"command": ["c"], "args": ["a"]}, ("c", "a")),
    ]
    for words, expected in given:
        assert find_image({"image": "i", **words}, images).command_of(words) == expected
    unknown = {"image": "unknown", "command": ["c"]}
    assert find_image(unknown, images).command_of(unknown) == ("c",)
    with pytest.raises(ImageMissing, match="unknown"):
        find_image({"image": "unknown", "args": ["a"]}, images)


def test_what_could_change_a_pods_fate_and_is_not_done_is_named() -> None:
    hook = {"preStop": {"exec": {"command": ["x"]}, "sleep": {"seconds": 1}}, "postStart": {}}
    spec = {
        "containers": [{"name": "main", "image": "i", "lifecycle": hook, "startupProbe": {}}],
        "affinity": {"nodeAffinity": {}, "podAffinity": {}},
        "shareProcessNamespace": True,
        "volumes": [
            {"name": "a", "nfs": {}},
            {"name": "b", "hostPath": {"path": "/x", "type": "Socket"}},
            {"name": "c", "csi": {"driver": "d"}},
            {
                "name": "e",
                "csi": {
                    "driver": "gcsfuse.csi.storage.gke.io",
                    "volumeAttributes": {"bucketName": "b", "mountOptions": "implicit-dirs,only-dir=x"},
                },
            },
        ],
    }
    assert sorted(unsupported_fields(spec)) == [
        "spec.affinity.podAffinity",
        "spec.containers[0].lifecycle.postStart",
        "spec.containers[0].lifecycle.preStop.exec",
        "spec.containers[0].startupProbe",
        "spec.shareProcessNamespace",
        "spec.volumes[0].nfs",
        "spec.volumes[1].hostPath.type: Socket",
        "spec.volumes[2].csi.driver: d",
        "spec.volumes[3].csi.volumeAttributes.mountOptions: only-dir=x",
    ]


def test_the_grace_on_a_spot_node_is_what_its_pool_leaves_to_ordinary_pods() -> None:
    spot = MACHINES["spot"]
    assert (spot.shutdown_seconds, spot.critical_seconds, spot.most_grace_seconds) == (30, 15, 15)
    with pytest.raises(ValueError, match="shutdownGracePeriodSeconds is one of"):
        Machine("p", "t", cpus=1, memory="1Gi", spot=True, shutdown_seconds=60)
    with pytest.raises(ValueError, match="less than"):
        Machine("p", "t", cpus=1, memory="1Gi", spot=True, shutdown_seconds=30, critical_seconds=30)
