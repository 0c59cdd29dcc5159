"""What marks a node as going, gone or soon to go, and how much time that leaves.

Facts as of 2026-11-29. GKE's marks and windows: see `outlast.sources.kubernetes_node`. Kubernetes, "Taints and
tolerations": node.kubernetes.io/unreachable, …/not-ready, …/out-of-service and …/unschedulable; "API: ManagedFields":
who set a field, and when they last did. The cluster autoscaler and Karpenter mark what they remove with the taints
ToBeDeletedByClusterAutoscaler and karpenter.sh/disrupted (seen in the sources of controllers that read them).
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from outlast.platforms import gke_labels
from outlast.registry import platform_named
from outlast.sources.kubernetes_api import Json, part, parts, text
from outlast.sources.kubernetes_node import (
    ACTIVE_LABEL,
    maintenance_signs,
    node_classes,
    scheduled_at,
    shutdown,
    window_seconds,
)
from outlast.sources.moments import moment_text, parse_moment

NodeState = Literal["ending", "lost", "draining", "planned", "calm"]
_TAKEN_AWAY = ("ToBeDeletedByClusterAutoscaler", "karpenter.sh/disrupted")
_LABEL_SECONDS = 60.0  # GKE marks the node "within 60 s" of the notice
_PREEMPTING = "GCESpotPreempting"


@dataclass(frozen=True, slots=True)
class NodeMarks:
    """What a node's own object says. Moments are seconds since the epoch, on the cluster's clock.

    `state`: "ending" (its machine is being taken away), "lost" (it does not answer), "draining" (it is cordoned, or an
    autoscaler removes it), "planned", "calm". `ends_at`: when its pods may be gone. `longest_seconds`: where nobody
    can say when it began, how long the whole takes at most. `starts_at`: when what is planned begins.
    """

    name: str
    state: NodeState
    signs: tuple[str, ...] = ()
    classes: tuple[str, ...] = ()
    ends_at: float | None = None
    longest_seconds: float | None = None
    starts_at: float | None = None


def marks_of(node: Json) -> NodeMarks:
    """Reads one node."""
    name = text(part(node, "metadata").get("name"))
    labels = part(node, "metadata", "labels")
    classes = tuple(node_classes(labels))
    going = shutdown(node)
    if going is not None:
        return NodeMarks(name, "ending", (going.reason,), classes, ends_at=_shut_down_by(node, classes))
    if signs := maintenance_signs(node):
        window, began = window_seconds(labels), _marked_at(node)
        ends = None if window is None or began is None else began + window - _LABEL_SECONDS
        return NodeMarks(name, "ending", tuple(signs), classes, ends, window if ends is None else None)
    if lost := tuple(_lost(node)):
        return NodeMarks(name, "lost", lost, classes)
    if draining := tuple(_draining(node)):
        return NodeMarks(name, "draining", draining, classes)
    at = scheduled_at(node)
    planned = [] if at is None else [f"maintenance is scheduled at {moment_text(at)}"]
    planned += [f"taint {gke_labels.WINDOW_STARTED}" for one in _taints(node) if one == gke_labels.WINDOW_STARTED]
    return NodeMarks(name, "planned" if planned else "calm", tuple(planned), classes, starts_at=at)


def _taints(node: Json) -> list[str]:
    return [text(one.get("key")) for one in parts(node, "spec", "taints")]


def _lost(node: Json) -> Iterator[str]:
    ready = next((one for one in parts(node, "status", "conditions") if one.get("type") == "Ready"), None)
    if ready is not None and ready.get("status") != "True":
        since = text(ready.get("lastTransitionTime"))
        why = text(ready.get("message")) or text(ready.get("reason"))
        yield f"not ready{f' since {since}' if since else ''}{f': {why}' if why else ''}"
    for key in _taints(node):
        if key in ("node.kubernetes.io/unreachable", "node.kubernetes.io/out-of-service"):
            yield f"taint {key}"


def _draining(node: Json) -> Iterator[str]:
    yield from (f"taint {key}" for key in _taints(node) if key in _TAKEN_AWAY)
    if part(node, "spec").get("unschedulable") is True:
        yield "cordoned"


def _shut_down_by(node: Json, classes: tuple[str, ...]) -> float | None:
    """A Spot node leaves ordinary pods so many seconds from the moment that its condition names."""
    grace = min((platform_named(one).facts.grace_seconds for one in classes), default=None)
    for condition in parts(node, "status", "conditions"):
        if condition.get("type") in ("Ready", _PREEMPTING) and condition.get("status") != "Unknown":
            began = parse_moment(condition.get("lastTransitionTime"))
            is_it = (condition["type"] == _PREEMPTING) == (condition.get("status") == "True")
            if is_it and began is not None and grace is not None:
                return began + grace
    return None


def _marked_at(node: Json) -> float | None:
    """When the label of maintenance was set, by the record of who set which field; None without one."""
    moments = []
    for entry in parts(node, "metadata", "managedFields"):
        labelled = f"f:{ACTIVE_LABEL}" in part(entry, "fieldsV1", "f:metadata", "f:labels")
        at = parse_moment(entry.get("time")) if labelled else None
        moments += [] if at is None else [at]
    return min(moments, default=None)
