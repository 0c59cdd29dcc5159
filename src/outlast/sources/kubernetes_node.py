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
from collections.abc import Iterator, Mapping
from typing import Any, Protocol

from outlast.clock import Clock, Deadline
from outlast.ports import Disruption, Look, NoticeSource, SourceUnavailable
from outlast.settings import Surroundings
from outlast.sources.kubernetes_api import Forbidden, Json, KubernetesApi, NotFound
from outlast.sources.moments import moment_text, parse_moment

_ACTIVE_LABEL = "cloud.google.com/active-node-maintenance"
_ENDING_TAINT = "cloud.google.com/impending-node-termination"
_SCHEDULED_LABEL = "cloud.google.com/scheduled-maintenance-time"
_UPCOMING_ANNOTATION = "node.gke.io/upcoming-maintenance"
_PREEMPTING_CONDITION = "GCESpotPreempting"
_SHUTTING_DOWN = "node is shutting down"
_SPOT_LABELS = ("cloud.google.com/gke-spot", "cloud.google.com/gke-preemptible")
_TPU_LABEL, _GPU_LABEL = "cloud.google.com/gke-tpu-accelerator", "cloud.google.com/gke-accelerator"
_TPU_SECONDS, _GPU_SECONDS, _ORDINARY_SECONDS = 300.0, 3600.0, 60.0

# Set by the downward API, under the name that the manifest chose; the first is our own word.
_NODE_NAME_VARIABLES = ("OUTLAST_NODE_NAME", "NODE_NAME", "K8S_NODE_NAME", "KUBERNETES_NODE_NAME", "MY_NODE_NAME")
_POD_NAME_VARIABLES = ("POD_NAME", "MY_POD_NAME", "HOSTNAME")
_NAMESPACE_VARIABLES = ("POD_NAMESPACE", "MY_POD_NAMESPACE")
_POLL_SECONDS = 15.0  # where the node may be read and not watched
_SHORTEST_WATCH_SECONDS = 5.0


class Api(Protocol):
    """What is needed of KubernetesApi."""

    def namespace(self) -> str | None: ...
    def node(self, name: str) -> Json: ...
    def pod(self, name: str, namespace: str) -> Json: ...
    def watch_node(self, name: str, since: str) -> Iterator[tuple[str, Json]]: ...


class OwnNode:
    """The node that this pod is on: read first, then watched, and read again whenever the watch ends."""

    name = "kubernetes-node"

    def __init__(self, api: Api, env: Mapping[str, str], clock: Clock) -> None:
        self._api, self._env, self._clock = api, env, clock
        self._node_name: str | None = None
        self._env_names_it = True
        self._watch: Iterator[tuple[str, Json]] | None = None
        self._watched_since = 0.0
        self._may_watch = True
        self._maintenance = Maintenance(clock)
        self._seen: tuple[Disruption, ...] = ()

    def look(self) -> Look:
        """The node, or the next change of it."""
        if self._watch is None:
            return self._read()
        watch, self._watch = self._watch, None
        try:
            for kind, node in watch:
                if kind in ("ADDED", "MODIFIED"):
                    self._seen = self._judged(node, unbroken=True)
                    self._watch = watch
                    return Look(self._seen)
        except Forbidden:
            self._may_watch = False
            return Look(self._seen, _POLL_SECONDS)
        except SourceUnavailable:
            pass  # expired (410), cut, garbled: the node is read again, and a server that is out of order shows there
        # A server that ends each watch at once is not asked without pause.
        lasted = self._clock.monotonic_seconds() - self._watched_since
        return Look(self._seen, 0.0 if lasted >= _SHORTEST_WATCH_SECONDS else _SHORTEST_WATCH_SECONDS)

    def _read(self) -> Look:
        name = self._node_name or self._find_node_name()
        try:
            node = self._api.node(name)
        except Forbidden as error:
            raise SourceUnavailable(
                f"the pod may not read its node {name} (HTTP 403), so that maintenance announced there is not heard; "
                "SIGTERM is. Its service account needs the verbs get and watch on nodes",
                absent=True,
                told=True,
            ) from error
        except NotFound as error:
            # A variable of that name may mean something else; the pod itself knows.
            self._node_name, self._env_names_it = None, False
            raise SourceUnavailable(f"there is no node {name!r}", told=True) from error
        self._node_name = name
        self._seen = self._judged(node, unbroken=False)
        if not self._may_watch:
            return Look(self._seen, _POLL_SECONDS)
        self._watched_since = self._clock.monotonic_seconds()
        self._watch = self._api.watch_node(name, _text(_part(node, "metadata").get("resourceVersion")))
        return Look(self._seen)

    def _find_node_name(self) -> str:
        name = _first(self._env, _NODE_NAME_VARIABLES)
        if name is not None and self._env_names_it:
            return name
        pod = _first(self._env, _POD_NAME_VARIABLES)
        namespace = _first(self._env, _NAMESPACE_VARIABLES) or self._api.namespace()
        advice = "set NODE_NAME from spec.nodeName in its manifest (downward API)"
        if pod is None or namespace is None:
            raise SourceUnavailable(f"the pod's node is not known; {advice}", absent=True, told=True)
        try:
            found = _text(_part(self._api.pod(pod, namespace), "spec").get("nodeName"))
        except (Forbidden, NotFound) as error:
            why = f"the pod's node is not known: reading pod {namespace}/{pod} gives {error}; {advice}"
            raise SourceUnavailable(why, absent=True, told=True) from error
        if not found:
            raise SourceUnavailable(f"pod {namespace}/{pod} names no node")
        return found

    def _judged(self, node: Json, *, unbroken: bool) -> tuple[Disruption, ...]:
        seen = [self._maintenance.judge(node, unbroken=unbroken), scheduled(node), shutdown(node)]
        return tuple(one for one in seen if one is not None)


class Maintenance:
    """Whether maintenance of the node is under way, and until when it leaves the machine alone."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
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
        window = _window_seconds(_part(node, "metadata", "labels"))
        if window is None or calm_at is None or calm_at + window <= self._clock.monotonic_seconds():
            return None
        return Deadline(calm_at + window)


def maintenance_signs(node: Json) -> list[str]:
    """What says that maintenance is under way, in words; empty if nothing does."""
    signs = []
    active = _text(_part(node, "metadata", "labels").get(_ACTIVE_LABEL))
    if active and active.lower() != "false":
        signs.append(f"label {_ACTIVE_LABEL}={active}")
    if any(taint.get("key") == _ENDING_TAINT for taint in _parts(node, "spec", "taints")):
        signs.append(f"taint {_ENDING_TAINT}")
    if _upcoming(node).get("maintenance_status") == "ONGOING":
        signs.append(f"annotation {_UPCOMING_ANNOTATION}: ONGOING")
    return signs


def scheduled(node: Json) -> Disruption | None:
    """Maintenance that is planned: advice."""
    if maintenance_signs(node):
        return None
    at = parse_moment(_part(node, "metadata", "labels").get(_SCHEDULED_LABEL))
    upcoming = _upcoming(node)
    if at is None and upcoming.get("maintenance_status") == "PENDING":
        at = parse_moment(upcoming.get("window_start_time"))
    if at is None:
        return None
    return Disruption("scheduled", f"maintenance of the node is scheduled at {moment_text(at)}", "advisory")


def shutdown(node: Json) -> Disruption | None:
    """The machine has begun to shut down."""
    for condition in _parts(node, "status", "conditions"):
        kind, status = condition.get("type"), condition.get("status")
        if kind == "Ready" and status != "True" and _SHUTTING_DOWN in _text(condition.get("message")):
            return Disruption("shutdown", "the node is shutting down", "final")
        if kind == _PREEMPTING_CONDITION and status == "True":
            return Disruption("shutdown", "the Spot node is preempted", "final")
    return None


def _window_seconds(labels: Mapping[str, Any]) -> float | None:
    """How long the machine stays after maintenance is announced; None where only the platform's grace is known."""
    if any(_text(labels.get(label)) == "true" for label in _SPOT_LABELS):
        return None
    if labels.get(_TPU_LABEL):
        return _TPU_SECONDS
    return _GPU_SECONDS if labels.get(_GPU_LABEL) else _ORDINARY_SECONDS


def _upcoming(node: Json) -> dict[str, Any]:
    text = _part(node, "metadata", "annotations").get(_UPCOMING_ANNOTATION)
    try:
        said = json.loads(text) if isinstance(text, str) else {}
    except (ValueError, RecursionError):
        return {}
    return said if isinstance(said, dict) else {}


def _part(thing: Json, *names: str) -> dict[str, Any]:
    """A part of an object; empty where it is missing or something else."""
    for name in names:
        part = thing.get(name)
        thing = part if isinstance(part, dict) else {}
    return thing


def _parts(thing: Json, name: str, listed: str) -> list[dict[str, Any]]:
    parts = _part(thing, name).get(listed)
    return [part for part in parts if isinstance(part, dict)] if isinstance(parts, list) else []


def _text(value: object) -> str:
    """A short text; empty for anything else."""
    return value.strip()[:253] if isinstance(value, str) and value.isprintable() else ""


def _first(env: Mapping[str, str], names: tuple[str, ...]) -> str | None:
    return next((env[name].strip() for name in names if env.get(name, "").strip()), None)


def kubernetes_node_sources(surroundings: Surroundings) -> list[NoticeSource]:
    """The one of the pod's own node; raises SourceUnavailable without the client or a service account."""
    return [OwnNode(KubernetesApi(surroundings.env), surroundings.env, surroundings.clock)]
