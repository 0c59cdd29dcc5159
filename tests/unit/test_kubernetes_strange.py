"""Whatever a client sends to the emulated API server, it is done or refused with a status; nothing else comes out."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from outlast.emulate.kubernetes import budgets, patching, tables
from outlast.emulate.kubernetes.copying import copied
from outlast.emulate.kubernetes.problems import Refused
from outlast.emulate.kubernetes.store import Store
from outlast.emulate.kubernetes.verbs import How, Verbs, populate

STRANGE: list[Any] = [
    None,
    "",
    "x",
    "1",
    0,
    -1,
    2**40,
    1.5,
    True,
    [],
    {},
    [None],
    [{}],
    ["a", "a"],
    {"a": "b"},
    {"a": None},
]
POD = {
    "restartPolicy": "Never",
    "terminationGracePeriodSeconds": 30,
    "activeDeadlineSeconds": 60,
    "nodeSelector": {"a": "b"},
    "tolerations": [{"key": "a", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 3}],
    "affinity": {
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {
                "nodeSelectorTerms": [{"matchExpressions": [{"key": "a", "operator": "In", "values": ["b"]}]}]
            }
        }
    },
    "volumes": [{"name": "v", "configMap": {"name": "c"}}, {"name": "e", "emptyDir": {"sizeLimit": "1Gi"}}],
    "initContainers": [{"name": "first", "image": "x", "restartPolicy": "Always"}],
    "containers": [
        {
            "name": "main",
            "image": "x:1",
            "command": ["a"],
            "env": [
                {"name": "A", "value": "b"},
                {"name": "B", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}},
            ],
            "ports": [{"containerPort": 80, "name": "http"}],
            "resources": {"limits": {"cpu": "1", "nvidia.com/gpu": 1}, "requests": {"cpu": "500m"}},
            "volumeMounts": [{"name": "v", "mountPath": "/v"}],
            "livenessProbe": {"httpGet": {"port": 80, "path": "/"}, "periodSeconds": 5},
            "lifecycle": {"preStop": {"sleep": {"seconds": 1}}},
        }
    ],
}
META = {"name": "one", "labels": {"a": "b"}, "annotations": {"a": "b"}, "finalizers": ["a/b"], "generateName": "x-",
        "ownerReferences": [{"apiVersion": "v1", "kind": "ConfigMap", "name": "c", "uid": "u"}]}  # fmt: skip
RULES = [
    {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]},
    {"action": "FailJob", "onExitCodes": {"operator": "In", "values": [3, 4], "containerName": "main"}},
]
SELECTOR = {"matchLabels": {"a": "b"}, "matchExpressions": [{"key": "a", "operator": "In", "values": ["b"]}]}
SMALL = {"containers": [{"name": "main", "image": "x"}]}
OBJECTS: dict[str, dict[str, Any]] = {
    "Pod": {"metadata": META, "spec": POD},
    "Job": {
        "metadata": META,
        "spec": {
            "parallelism": 1,
            "completions": 2,
            "completionMode": "Indexed",
            "backoffLimitPerIndex": 1,
            "maxFailedIndexes": 1,
            "successPolicy": {"rules": [{"succeededCount": 1, "succeededIndexes": "0"}]},
            "podFailurePolicy": {"rules": RULES},
            "podReplacementPolicy": "Failed",
            "template": {"spec": {**SMALL, "restartPolicy": "Never"}},
        },
    },
    "DaemonSet": {
        "metadata": META,
        "spec": {"selector": SELECTOR, "template": {"metadata": {"labels": {"a": "b"}}, "spec": SMALL}},
    },
    "Node": {
        "metadata": META,
        "spec": {"taints": [{"key": "a", "value": "b", "effect": "NoSchedule"}], "unschedulable": True},
        "status": {
            "conditions": [{"type": "Ready", "status": "True"}],
            "addresses": [{"type": "InternalIP", "address": "10.0.0.1"}],
            "capacity": {"cpu": "1"},
        },
    },
    "PodDisruptionBudget": {"metadata": META, "spec": {"minAvailable": 1, "selector": SELECTOR}},
    "PersistentVolumeClaim": {
        "metadata": META,
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
    },
    "ConfigMap": {"metadata": META, "data": {"a": "b"}, "binaryData": {"c": "ZA=="}, "immutable": True},
    "Secret": {"metadata": META, "data": {"a": "ZA=="}, "stringData": {"c": "d"}, "type": "Opaque"},
    "Event": {
        "metadata": META,
        "involvedObject": {"kind": "Pod", "name": "p"},
        "count": 2,
        "firstTimestamp": "2026-11-30T12:00:00Z",
        "lastTimestamp": "2026-11-30T12:00:00Z",
        "source": {"component": "kubelet"},
        "reason": "Killing",
    },
    "Lease": {"metadata": META, "spec": {"holderIdentity": "n", "renewTime": "2026-11-30T12:00:00.000000Z"}},
    "PriorityClass": {"metadata": META, "value": 5, "globalDefault": False},
    "Namespace": {"metadata": META},
    "ServiceAccount": {"metadata": META, "secrets": [{"name": "s"}]},
}  # fmt: skip


def _changed(made: Any) -> Iterator[Any]:
    """Copies of a value with each part in turn left out or replaced by something strange."""
    parts = list(made.items()) if isinstance(made, dict) else list(enumerate(made)) if isinstance(made, list) else []
    for key, inner in parts:
        without = copied(made)
        del without[key]
        yield without
        for other in [*STRANGE, *_changed(inner)]:
            replaced = copied(made)
            replaced[key] = copied(other)
            yield replaced


def _done(call: Callable[[], Any], codes: set[int]) -> Any:
    """What the call returns, or None if it is refused."""
    try:
        return call()
    except Refused as refused:
        codes.add(refused.status()["code"])
        return None


@pytest.mark.parametrize("kind", OBJECTS)
def test_a_strange_object_is_made_or_refused(kind: str) -> None:
    store = Store()
    populate(store)
    verbs, how = Verbs(store), How(field_validation="Strict", manager="m")
    verbs.create("ConfigMap", {"metadata": {"name": "c"}})
    codes: set[int] = set()
    made = asked = 0
    for body in [OBJECTS[kind], *_changed(OBJECTS[kind])]:
        asked += 1
        answer = _done(lambda body=body: verbs.create(kind, body, how=how), codes)
        if answer is None:
            continue
        made += 1
        name, namespace = answer["metadata"]["name"], answer["metadata"].get("namespace", "")
        budgets.refresh(store)
        rows = tables.table(kind, store.listing(kind).objects, "1", now=store.now())["rows"]
        assert all(isinstance(cell, str | int) for row in rows for cell in row["cells"])
        read = store.get(kind, name, namespace)
        assert verbs.replace(kind, name, read, namespace) == read
        verbs.patch(kind, name, {"metadata": {"finalizers": None}}, patching.merge, namespace)
        verbs.delete(kind, name, namespace, {"gracePeriodSeconds": 0})
        assert store.find(kind, name, namespace) is None
    assert 0 < made < asked
    assert codes <= {400, 403, 404, 409, 422}


def test_a_strange_patch_is_done_or_refused() -> None:
    store = Store()
    populate(store)
    verbs, how = Verbs(store), How(dry_run=True, manager="m", force=True)
    job = verbs.create("Job", {"metadata": {"name": "one"}, "spec": OBJECTS["Job"]["spec"]})
    doors = [
        lambda body: verbs.patch("Job", "one", body, patching.merge, how=how),
        lambda body: verbs.patch("Job", "one", body, patching.strategic, how=how),
        lambda body: verbs.apply("Job", "one", body, how=how),
    ]
    codes: set[int] = set()
    done = 0
    patch = {"metadata": META, "spec": {"suspend": True, "podFailurePolicy": {"rules": RULES}}, "$patch": "merge"}
    pods = {"spec": {"template": {"spec": {"containers": POD["containers"], "volumes": POD["volumes"]}}}}
    for body in [*_changed(patch), *_changed(pods), *_changed({"spec": OBJECTS["Job"]["spec"]})]:
        done += sum(_done(lambda door=door, body=body: door(body), codes) is not None for door in doors)
    assert done
    assert codes == {400, 422}
    assert store.get("Job", "one") == job
