"""What a server's admission says of a new object and adds to it: namespaces, accounts, priorities, a job's own labels.

Kubernetes `plugin/pkg/admission` and the strategies of `pkg/registry`, 2026-11-30.
"""

from typing import Any

from outlast.emulate.kubernetes import defaulting
from outlast.emulate.kubernetes.copying import copied
from outlast.emulate.kubernetes.findings import shown
from outlast.emulate.kubernetes.kinds import BY_NAME, Kind
from outlast.emulate.kubernetes.problems import Cause, forbidden, invalid, not_found
from outlast.emulate.kubernetes.store import Store

Json = dict[str, Any]

HIGHEST_OF_USERS = 1_000_000_000  # priorities above are the system's


def admit(store: Store, made: Json) -> None:
    """What the admission plugins and the strategies of creation say and add."""
    kind, meta = BY_NAME[made["kind"]], made["metadata"]
    if kind.namespaced:
        home = store.find("Namespace", meta["namespace"])
        if home is None:
            raise not_found(BY_NAME["Namespace"], meta["namespace"])
        if "deletionTimestamp" in home["metadata"]:
            why = f"unable to create new content in namespace {meta['namespace']} because it is being terminated"
            raise forbidden(kind, meta.get("name", ""), why)
    match made["kind"]:
        case "Pod":
            _admit_pod(store, made)
        case "Job":
            if not made["spec"].get("manualSelector") and made["spec"].get("selector"):
                why = f"{shown(made['spec']['selector'])}: `selector` not auto-generated"
                raise invalid(kind, meta.get("name", ""), [Cause("spec.selector", "Invalid value", why)])
            if meta.get("name"):
                defaulting.own_pods(made)
        case "PriorityClass" if made.get("value", 0) > HIGHEST_OF_USERS:
            why = f"maximum allowed value of a user defined priority is {HIGHEST_OF_USERS}"
            raise forbidden(kind, meta.get("name", ""), why)


def _admit_pod(store: Store, made: Json) -> None:
    kind, spec, meta = BY_NAME["Pod"], made["spec"], made["metadata"]
    name, namespace = meta.get("name", ""), meta["namespace"]
    account = spec.get("serviceAccountName", "default")
    if store.find("ServiceAccount", account, namespace) is None:
        why = f'error looking up service account {namespace}/{account}: serviceaccount "{account}" not found'
        raise forbidden(kind, name, why)
    wanted = spec.get("priorityClassName")
    found = _priority_class(store, wanted)
    if wanted and found is None:
        raise forbidden(kind, name, f"no PriorityClass with name {wanted} was found")
    if found and not wanted:
        spec["priorityClassName"] = found["metadata"]["name"]
    priority = found["value"] if found else 0
    if "priority" in spec and spec["priority"] != priority:
        why = f"the integer value of priority ({spec['priority']}) must not be provided in pod spec; priority "
        raise forbidden(kind, name, f"{why}admission controller computed {priority} from the given PriorityClass name")
    preemption = found["preemptionPolicy"] if found else "PreemptLowerPriority"
    defaulting.admit_pod(made, priority=priority, preemption=preemption)


def _priority_class(store: Store, name: str | None) -> Json | None:
    if name:
        return store.find("PriorityClass", name)
    return next((one for one in store.listing("PriorityClass").objects if one.get("globalDefault")), None)


def admit_change(kind: Kind, old: Json, made: Json) -> None:
    """What a write may not take away: a pod's place and what creation gave it."""
    if kind.name == "Pod":
        for name in ("enableServiceLinks", "priority", "preemptionPolicy", "serviceAccountName", "serviceAccount"):
            if name in old["spec"]:
                made["spec"].setdefault(name, old["spec"][name])
    if kind.name == "Job" and "selector" in old["spec"]:
        made["spec"].setdefault("selector", copied(old["spec"]["selector"]))
        labels = made["spec"]["template"]["metadata"].setdefault("labels", {})
        for name, value in (old["spec"]["template"]["metadata"].get("labels") or {}).items():
            if name.endswith(("controller-uid", "job-name")):
                labels.setdefault(name, value)
