"""The pod's own Kubernetes node: labels, taints, an annotation and conditions that say that it will go.

Facts as of 2026-11-29. "Manage GKE node disruption for GPUs and TPUs": within 60 s of the notice the node gets the
label cloud.google.com/active-node-maintenance ("true" there, "ONGOING" in Google's own tools: any value counts but an
empty one and "false") and the taint cloud.google.com/impending-node-termination; both go when it is over; 60 min for
GPUs, 5 min for TPUs. "Manage the GKE cluster upgrade life cycle": cloud.google.com/scheduled-maintenance-time, an
epoch. node.gke.io/upcoming-maintenance (maintenance_status PENDING or ONGOING) and the condition GCESpotPreempting are
seen in the wild, not documented. Ready=False with "node is shutting down" is kubelet's word at a graceful node
shutdown. What is only scheduled stops nothing: when it begins, one of the others says so, and the pods get SIGTERM.
"""

import json
from collections.abc import Mapping
from functools import partial
from typing import Any

from outlast.clock import Clock, Deadline
from outlast.disruptions import Disruption, Look, NoticeSource, SourceUnavailable
from outlast.ports import NODE_CLASS
from outlast.settings import Surroundings
from outlast.sources.kubernetes_api import Forbidden, Json, KubernetesApi, NotFound, part, parts, text
from outlast.sources.kubernetes_pod import OwnPod, first_of, is_own, own_pod
from outlast.sources.kubernetes_watch import WatchedObject
from outlast.sources.moments import moment_text, parse_moment
from outlast.sources.time_limit import TimeLimitSource

ACTIVE_LABEL = "cloud.google.com/active-node-maintenance"
_ENDING_TAINT = "cloud.google.com/impending-node-termination"
_SCHEDULED_LABEL = "cloud.google.com/scheduled-maintenance-time"
_UPCOMING_ANNOTATION = "node.gke.io/upcoming-maintenance"
_PREEMPTING_CONDITION = "GCESpotPreempting"
_SHUTTING_DOWN = "node is shutting down"
_SPOT_LABELS = ("cloud.google.com/gke-spot", "cloud.google.com/gke-preemptible")
_ACCELERATOR_LABELS = {
    "gke-tpu": "cloud.google.com/gke-tpu-accelerator",
    "gke-gpu": "cloud.google.com/gke-accelerator",
}
_WINDOW_SECONDS, _ORDINARY_SECONDS = {"gke-tpu": 300.0, "gke-gpu": 3600.0}, 60.0

# Set by the downward API, under the name that the manifest chose; the first is our own word.
_NODE_NAME_VARIABLES = ("OUTLAST_NODE_NAME", "NODE_NAME", "K8S_NODE_NAME", "KUBERNETES_NODE_NAME", "MY_NODE_NAME")


class OwnNode:
    """The node that this pod is on."""

    name = "kubernetes-node"

    def __init__(self, api: KubernetesApi, env: Mapping[str, str], clock: Clock, speed: float = 1.0) -> None:
        self._api, self._env, self._clock = api, env, clock
        self._watched: WatchedObject | None = None
        self._node_name = ""
        self._env_names_it = True
        self._maintenance = Maintenance(clock, speed)
        self._seen: tuple[Disruption, ...] = ()
        self._told: dict[str, str] = {}

    def look(self) -> Look:
        """The node, or the next change of it."""
        if self._watched is None:
            self._watched = self._find()
        try:
            sight = self._watched.look()
        except Forbidden as error:
            raise SourceUnavailable(
                f"the pod may not read its node {self._node_name} (HTTP 403), so that maintenance announced there is "
                "not heard; SIGTERM is. Its service account needs the verbs get and watch on nodes",
                absent=True,
                told=True,
            ) from error
        except NotFound as error:
            # A variable of that name may mean something else; the pod itself knows.
            self._watched, self._env_names_it = None, False
            raise SourceUnavailable(f"there is no node {self._node_name!r}", told=True) from error
        if sight.thing is not None:
            node = sight.thing
            found = [self._maintenance.judge(node, unbroken=sight.unbroken), scheduled(node), shutdown(node)]
            self._seen = tuple(one for one in found if one is not None)
            self._told = {NODE_CLASS: ",".join(node_classes(part(node, "metadata", "labels")))}
        return Look(self._seen, sight.again_seconds, self._told)

    def _find(self) -> WatchedObject:
        name = self._node_name = self._find_name()
        return WatchedObject(name, partial(self._api.node, name), partial(self._api.watch_node, name), self._clock)

    def _find_name(self) -> str:
        named = first_of(self._env, _NODE_NAME_VARIABLES)
        if named is not None and self._env_names_it:
            return named
        advice = "set NODE_NAME from spec.nodeName in its manifest (downward API)"
        pod, namespace = own_pod(self._api, self._env)
        if pod is None or namespace is None:
            raise SourceUnavailable(f"the pod's node is not known; {advice}", absent=True, told=True)
        try:
            found = self._api.pod(pod, namespace)
        except (Forbidden, NotFound) as error:
            why = f"the pod's node is not known: reading pod {namespace}/{pod} gives {error}; {advice}"
            raise SourceUnavailable(why, absent=True, told=True) from error
        name = text(part(found, "spec").get("nodeName"))
        if not name or not is_own(found, self._api, self._env):
            raise SourceUnavailable(f"pod {namespace}/{pod} is another one, or names no node; {advice}", told=True)
        return name


class Maintenance:
    """Whether maintenance of the node is under way, and until when it leaves the machine alone."""

    def __init__(self, clock: Clock, speed: float = 1.0) -> None:
        self._clock, self._speed = clock, speed
        self._calm_at: float | None = None
        self._announced: Disruption | None = None

    def judge(self, node: Json, *, unbroken: bool) -> Disruption | None:
        """`unbroken`: no change of the node since the last look can have been missed."""
        now, signs = self._clock.monotonic_seconds(), maintenance_signs(node)
        if not signs:
            self._calm_at, self._announced = now, None
            return None
        if self._announced is None:
            calm_at = now if unbroken and self._calm_at is not None else self._calm_at
            reason = f"maintenance of the node ({', '.join(signs)})"
            self._announced = Disruption("maintenance", reason, "advance", self._deadline(node, calm_at))
        return self._announced

    def _deadline(self, node: Json, calm_at: float | None) -> Deadline | None:
        """The window from its beginning on; None where that may have been long ago, or the node is a Spot machine."""
        window = window_seconds(part(node, "metadata", "labels"))
        window = None if window is None else window / self._speed
        if window is None or calm_at is None or calm_at + window <= self._clock.monotonic_seconds():
            return None
        return Deadline(calm_at + window)


def maintenance_signs(node: Json) -> list[str]:
    """What says that maintenance is under way, in words; empty if nothing does."""
    signs = []
    active = text(part(node, "metadata", "labels").get(ACTIVE_LABEL))
    if active and active.lower() != "false":
        signs.append(f"label {ACTIVE_LABEL}={active}")
    if any(taint.get("key") == _ENDING_TAINT for taint in parts(node, "spec", "taints")):
        signs.append(f"taint {_ENDING_TAINT}")
    if _upcoming(node).get("maintenance_status") == "ONGOING":
        signs.append(f"annotation {_UPCOMING_ANNOTATION}: ONGOING")
    return signs


def node_classes(labels: Mapping[str, Any]) -> list[str]:
    """The platforms that a node of GKE is one of, by the labels that GKE gives it."""
    accelerators = (name for name, label in _ACCELERATOR_LABELS.items() if labels.get(label))
    return [*(["gke-spot"] if _is_spot(labels) else []), *accelerators]


def _is_spot(labels: Mapping[str, Any]) -> bool:
    return any(text(labels.get(label)) == "true" for label in _SPOT_LABELS)


def scheduled(node: Json) -> Disruption | None:
    """Maintenance that is planned: advice."""
    if maintenance_signs(node):
        return None
    at = scheduled_at(node)
    if at is None:
        return None
    return Disruption("scheduled", f"maintenance of the node is scheduled at {moment_text(at)}", "advisory")


def scheduled_at(node: Json) -> float | None:
    """When maintenance is planned to begin, in seconds since the epoch; None where nothing says so."""
    at = parse_moment(part(node, "metadata", "labels").get(_SCHEDULED_LABEL))
    upcoming = _upcoming(node)
    if at is None and upcoming.get("maintenance_status") == "PENDING":
        at = parse_moment(upcoming.get("window_start_time"))
    return at


def shutdown(node: Json) -> Disruption | None:
    """The machine has begun to shut down."""
    for condition in parts(node, "status", "conditions"):
        kind, status = condition.get("type"), condition.get("status")
        if kind == "Ready" and status != "True" and _SHUTTING_DOWN in text(condition.get("message")):
            return Disruption("shutdown", "the node is shutting down", "final")
        if kind == _PREEMPTING_CONDITION and status == "True":
            return Disruption("shutdown", "the Spot node is preempted", "final")
    return None


def window_seconds(labels: Mapping[str, Any]) -> float | None:
    """How long the machine stays after maintenance is announced; None where only the platform's grace is known."""
    if _is_spot(labels):
        return None
    return min((_WINDOW_SECONDS[name] for name in node_classes(labels)), default=_ORDINARY_SECONDS)


def _upcoming(node: Json) -> dict[str, Any]:
    annotation = part(node, "metadata", "annotations").get(_UPCOMING_ANNOTATION)
    try:
        said = json.loads(annotation) if isinstance(annotation, str) else {}
    except (ValueError, RecursionError):
        return {}
    return said if isinstance(said, dict) else {}


def kubernetes_node_sources(surroundings: Surroundings) -> list[NoticeSource]:
    """The pod's own node, the pod itself and its time limit; raises SourceUnavailable without client or account."""
    api, env, clock = KubernetesApi(surroundings.env), surroundings.env, surroundings.clock
    pod = OwnPod(api, env, clock)
    limit = TimeLimitSource(lambda: pod.time_limit, clock, name=f"{pod.name} activeDeadlineSeconds")
    return [OwnNode(api, env, clock, surroundings.speed), pod, limit]
