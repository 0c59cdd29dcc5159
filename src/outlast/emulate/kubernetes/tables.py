"""Objects as rows of a table, which is what `kubectl get` prints: the columns of each kind and what stands in them.

Kubernetes `pkg/printers/internalversion/printers.go`, 2026-11-30.
"""

from collections.abc import Callable
from datetime import datetime
from typing import Any, NamedTuple

from outlast.emulate.kubernetes.conditions import status_of
from outlast.emulate.kubernetes.pods import is_ready
from outlast.emulate.rfc3339 import parsed

Json = dict[str, Any]
Cell = str | int


_DAY, _YEAR = 86400, 365 * 86400
# A unit and the one below it, their names, and up to how many both stand, and up to how many the unit alone.
_SPANS = (
    (60, 1, "m", "s", 10, 180),
    (3600, 60, "h", "m", 8, 48),
    (_DAY, 3600, "d", "h", 8, 2 * 365),
    (_YEAR, _DAY, "y", "d", 8, 8),
)


class _Column(NamedTuple):
    name: str
    cell: Callable[[Json, datetime], Cell]
    wide: bool = False
    type: str = "string"


def duration(seconds: float) -> str:
    """A time span as kubectl prints it: "90s", "2m5s", "3h", "2d4h" (k8s.io/apimachinery `util/duration`)."""
    left = int(seconds)
    if left < -1:
        return "<invalid>"
    if left < 120:
        return f"{max(left, 0)}s"
    for unit, inner, name, inner_name, both_below, alone_below in _SPANS:
        if left < alone_below * unit:
            whole, rest = divmod(left, unit)
            return f"{whole}{name}" + (f"{rest // inner}{inner_name}" if whole < both_below and rest // inner else "")
    return f"{left // _YEAR}y"


def _since(stamp: str | None, now: datetime) -> str:
    return duration((now - parsed(stamp)).total_seconds()) if stamp else "<unknown>"


def _age(one: Json, now: datetime) -> str:
    return _since(one["metadata"].get("creationTimestamp"), now)


def _name(one: Json, _: datetime) -> str:
    return str(one["metadata"]["name"])


def _get(one: Json, *path: str, default: Any = None) -> Any:
    for part in path:
        one = one.get(part) or {}
    return one or default


def _at(*path: str, default: str = "<none>") -> Callable[[Json, datetime], Cell]:
    return lambda one, _: str(_get(one, *path, default=default))


def _number(*path: str) -> Callable[[Json, datetime], Cell]:
    return lambda one, _: int(_get(one, *path, default=0))


def _pairs(labels: Json | None) -> str:
    return ",".join(f"{key}={value}" for key, value in sorted((labels or {}).items())) or "<none>"


# Pods


def _sidecars(pod: Json) -> set[str]:
    """Init containers that run beside the others."""
    return {one["name"] for one in pod["spec"].get("initContainers") or [] if one.get("restartPolicy") == "Always"}


def _statuses(pod: Json) -> list[Json]:
    first = [one for one in _get(pod, "status", "initContainerStatuses", default=[]) if one["name"] in _sidecars(pod)]
    return first + list(_get(pod, "status", "containerStatuses", default=[]))


def _pod_ready(pod: Json, _: datetime) -> str:
    ready = sum(1 for one in _statuses(pod) if one.get("ready") and "running" in (one.get("state") or {}))
    return f"{ready}/{len(pod['spec'].get('containers') or []) + len(_sidecars(pod))}"


def pod_status(pod: Json, _: datetime) -> str:
    """What stands under STATUS: the phase, or the more telling reason of a container or of the deletion."""
    status = pod.get("status") or {}
    reason = status.get("reason") or status.get("phase", "Unknown")
    for condition in status.get("conditions") or []:
        if condition["type"] == "PodScheduled" and condition.get("reason") == "SchedulingGated":
            reason = "SchedulingGated"
    starting = _init_reason(pod)
    if starting:
        reason = starting
    else:
        for one in reversed(status.get("containerStatuses") or []):
            reason = _state_reason(one.get("state") or {}) or reason
        running = any("running" in (one.get("state") or {}) for one in status.get("containerStatuses") or [])
        if reason == "Completed" and running:
            reason = "Running" if is_ready(pod) else "NotReady"
    if "deletionTimestamp" in pod["metadata"]:
        if status.get("reason") == "NodeLost":
            return "Unknown"
        if status.get("phase") not in ("Succeeded", "Failed"):
            return "Terminating"
    return str(reason)


def _state_reason(state: Json) -> str:
    if waiting := state.get("waiting"):
        return str(waiting.get("reason", ""))
    if (ended := state.get("terminated")) is not None:
        if ended.get("reason"):
            return str(ended["reason"])
        return f"Signal:{ended['signal']}" if ended.get("signal") else f"ExitCode:{ended.get('exitCode', 0)}"
    return ""


def _init_reason(pod: Json) -> str:
    found = _get(pod, "status", "initContainerStatuses", default=[])
    for number, one in enumerate(found):
        state = one.get("state") or {}
        ended = state.get("terminated")
        if (ended is not None and ended.get("exitCode") == 0) or (one["name"] in _sidecars(pod) and one.get("started")):
            continue
        if ended is not None:
            return f"Init:{_state_reason(state)}"
        waiting = (state.get("waiting") or {}).get("reason")
        if waiting and waiting != "PodInitializing":
            return f"Init:{waiting}"
        return f"Init:{number}/{len(pod['spec'].get('initContainers') or [])}"
    return ""


def _pod_restarts(pod: Json, now: datetime) -> str:
    found = _statuses(pod)
    count = sum(one.get("restartCount", 0) for one in found)
    ends = [_get(one, "lastState", "terminated", "finishedAt") for one in found]
    last = max((stamp for stamp in ends if stamp), default=None)
    return f"{count} ({_since(last, now)} ago)" if count and last else str(count)


# Nodes


def _node_status(node: Json, _: datetime) -> str:
    ready = status_of(node, "Ready")
    words = ["Unknown" if ready is None else "Ready" if ready == "True" else "NotReady"]
    return ",".join(words + (["SchedulingDisabled"] if node["spec"].get("unschedulable") else []))


def _node_roles(node: Json, _: datetime) -> str:
    start = "node-role.kubernetes.io/"
    found = [label.removeprefix(start) for label in node["metadata"].get("labels") or {} if label.startswith(start)]
    return ",".join(sorted(found)) or "<none>"


def _node_address(kind: str) -> Callable[[Json, datetime], Cell]:
    def cell(node: Json, _: datetime) -> str:
        found = [one["address"] for one in _get(node, "status", "addresses", default=[]) if one["type"] == kind]
        return str(found[0]) if found else "<none>"

    return cell


# Jobs and daemon sets


def _job_status(job: Json, _: datetime) -> str:
    met = {one["type"] for one in _get(job, "status", "conditions", default=[]) if one["status"] == "True"}
    if "Complete" in met:
        return "Complete"
    if "Failed" in met:
        return "Failed"
    if "deletionTimestamp" in job["metadata"]:
        return "Terminating"
    for name in ("Suspended", "FailureTarget", "SuccessCriteriaMet"):
        if name in met:
            return name
    return "Running"


def _job_completions(job: Json, _: datetime) -> str:
    done, wanted = _get(job, "status", "succeeded", default=0), job["spec"].get("completions")
    if wanted is not None:
        return f"{done}/{wanted}"
    parallel = job["spec"].get("parallelism", 0)
    return f"{done}/1 of {parallel}" if parallel > 1 else f"{done}/1"


def _job_duration(job: Json, now: datetime) -> str:
    start, end = _get(job, "status", "startTime"), _get(job, "status", "completionTime")
    if not start:
        return ""
    return duration(((parsed(end) if end else now) - parsed(start)).total_seconds())


def _template(of: str) -> Callable[[Json, datetime], Cell]:
    return lambda one, _: ",".join(
        container.get(of, "") for container in _get(one, "spec", "template", "spec", "containers", default=[])
    )


def _selector(one: Json, _: datetime) -> str:
    return _pairs(_get(one, "spec", "selector", "matchLabels"))


# Events


def _event_seen(event: Json, now: datetime) -> str:
    stamp = event.get("lastTimestamp") or event.get("eventTime") or event.get("firstTimestamp")
    seen = _since(stamp, now)
    count, first = event.get("count", 0), event.get("firstTimestamp")
    return f"{seen} (x{count} over {_since(first, now)})" if count > 1 and first else seen


def _event_object(event: Json, _: datetime) -> str:
    about = event.get("involvedObject") or {}
    return f"{about.get('kind', '').lower()}/{about.get('name', '')}"


def _event_source(event: Json, _: datetime) -> str:
    source = event.get("source") or {}
    return ", ".join(one for one in (source.get("component"), source.get("host")) if one)


_AGE = _Column("Age", _age)
_NAME = _Column("Name", _name)
_TEMPLATE = (
    _Column("Containers", _template("name"), wide=True),
    _Column("Images", _template("image"), wide=True),
    _Column("Selector", _selector, wide=True),
)

COLUMNS: dict[str, tuple[_Column, ...]] = {
    "Pod": (
        _NAME,
        _Column("Ready", _pod_ready),
        _Column("Status", pod_status),
        _Column("Restarts", _pod_restarts),
        _AGE,
        _Column("IP", _at("status", "podIP"), wide=True),
        _Column("Node", _at("spec", "nodeName"), wide=True),
        _Column("Nominated Node", _at("status", "nominatedNodeName"), wide=True),
        _Column("Readiness Gates", lambda *_: "<none>", wide=True),
    ),
    "Node": (
        _NAME,
        _Column("Status", _node_status),
        _Column("Roles", _node_roles),
        _AGE,
        _Column("Version", _at("status", "nodeInfo", "kubeletVersion", default="")),
        _Column("Internal-IP", _node_address("InternalIP"), wide=True),
        _Column("External-IP", _node_address("ExternalIP"), wide=True),
        _Column("OS-Image", _at("status", "nodeInfo", "osImage", default="<unknown>"), wide=True),
        _Column("Kernel-Version", _at("status", "nodeInfo", "kernelVersion", default="<unknown>"), wide=True),
        _Column(
            "Container-Runtime", _at("status", "nodeInfo", "containerRuntimeVersion", default="<unknown>"), wide=True
        ),
    ),
    "Job": (
        _NAME,
        _Column("Status", _job_status),
        _Column("Completions", _job_completions),
        _Column("Duration", _job_duration),
        _AGE,
        *_TEMPLATE,
    ),
    "DaemonSet": (
        _NAME,
        _Column("Desired", _number("status", "desiredNumberScheduled"), type="integer"),
        _Column("Current", _number("status", "currentNumberScheduled"), type="integer"),
        _Column("Ready", _number("status", "numberReady"), type="integer"),
        _Column("Up-to-date", _number("status", "updatedNumberScheduled"), type="integer"),
        _Column("Available", _number("status", "numberAvailable"), type="integer"),
        _Column("Node Selector", lambda one, _: _pairs(_get(one, "spec", "template", "spec", "nodeSelector"))),
        _AGE,
        *_TEMPLATE,
    ),
    "Event": (
        _Column("Last Seen", _event_seen),
        _Column("Type", _at("type", default="")),
        _Column("Reason", _at("reason", default="")),
        _Column("Object", _event_object),
        _Column("Subobject", _at("involvedObject", "fieldPath", default=""), wide=True),
        _Column("Source", _event_source, wide=True),
        _Column("Message", lambda one, _: str(one.get("message", "")).strip()),
        _Column("First Seen", lambda one, now: _since(one.get("firstTimestamp"), now), wide=True),
        _Column("Count", lambda one, _: int(one.get("count", 1)), wide=True),
        _Column("Name", _name, wide=True),
    ),
    "Namespace": (_NAME, _Column("Status", _at("status", "phase")), _AGE),
    "ConfigMap": (
        _NAME,
        _Column("Data", lambda one, _: len(one.get("data") or {}) + len(one.get("binaryData") or {}), type="integer"),
        _AGE,
    ),
    "Secret": (
        _NAME,
        _Column("Type", _at("type")),
        _Column("Data", lambda one, _: len(one.get("data") or {}), type="integer"),
        _AGE,
    ),
    "ServiceAccount": (_NAME, _Column("Secrets", lambda one, _: len(one.get("secrets") or []), type="integer"), _AGE),
    "PersistentVolumeClaim": (
        _NAME,
        _Column("Status", _at("status", "phase")),
        _Column("Volume", _at("spec", "volumeName", default="")),
        _Column("Capacity", _at("status", "capacity", "storage", default="")),
        _Column("Access Modes", lambda one, _: _modes(_get(one, "status", "accessModes", default=[]))),
        _Column("StorageClass", _at("spec", "storageClassName", default="")),
        _AGE,
        _Column("VolumeMode", _at("spec", "volumeMode", default=""), wide=True),
    ),
    "Lease": (_NAME, _Column("Holder", _at("spec", "holderIdentity", default="")), _AGE),
    "PodDisruptionBudget": (
        _NAME,
        _Column("Min Available", _at("spec", "minAvailable", default="N/A")),
        _Column("Max Unavailable", _at("spec", "maxUnavailable", default="N/A")),
        _Column("Allowed Disruptions", _number("status", "disruptionsAllowed"), type="integer"),
        _AGE,
    ),
    "PriorityClass": (
        _NAME,
        _Column("Value", _number("value"), type="integer"),
        _Column("Global-Default", lambda one, _: str(bool(one.get("globalDefault"))).lower(), type="boolean"),
        _AGE,
        _Column("PreemptionPolicy", _at("preemptionPolicy", default=""), wide=True),
    ),
}


def _modes(modes: list[str]) -> str:
    short = {"ReadWriteOnce": "RWO", "ReadOnlyMany": "ROX", "ReadWriteMany": "RWX", "ReadWriteOncePod": "RWOP"}
    return ",".join(short.get(mode, mode) for mode in modes)


def table(kind: str, objects: list[Json], version: str, *, now: datetime, include: str = "Metadata") -> Json:
    """A `Table` of meta.k8s.io/v1; `include` says how much of each object goes along: None, Metadata or Object."""
    columns = COLUMNS[kind]
    return {
        "kind": "Table",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": {"resourceVersion": version},
        "columnDefinitions": [
            {
                "name": one.name,
                "type": one.type,
                "format": "name" if one.name == "Name" else "",
                "description": one.name,
                "priority": 1 if one.wide else 0,
            }
            for one in columns
        ],
        "rows": [
            {"cells": [column.cell(one, now) for column in columns], "object": _included(one, include)}
            for one in objects
        ],
    }


def _included(one: Json, include: str) -> Json | None:
    if include == "None":
        return None
    return one if include == "Object" else partial_metadata(one)


def partial_metadata(one: Json) -> Json:
    """An object's metadata alone."""
    return {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": one["metadata"]}
