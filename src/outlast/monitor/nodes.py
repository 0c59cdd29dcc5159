"""The disrupted nodes of a cluster: who is on them, what would be lost, how much time is left, what handlers say."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from outlast.errors import SettingsError
from outlast.monitor.nodes_advice import HANDLER_LABELS, kubectl_commands, logs_address, logs_query
from outlast.monitor.nodes_cluster import Cluster, ClusterRefused
from outlast.monitor.nodes_losses import AtRisk, Losses
from outlast.monitor.nodes_pods import PodMarks, pod_marks
from outlast.monitor.nodes_signs import NodeMarks, marks_of
from outlast.registry import platform_named
from outlast.sources.kubernetes_api import Json

RIGHTS = "it takes get and list on nodes and pods, and get on pods/log; kubectl auth can-i list nodes tells"
_RECENT_SECONDS = 3600.0  # pods that a disruption ended are shown for so long
_MOST_ASKED_ALONE = 20  # of more nodes than these, all pods are listed at once
_MOST_LOGS, _LOG_LINES = 5, 12
_OVER = ("Succeeded", "Failed")
_URGENCY = {"ending": 0, "lost": 1, "draining": 2, "planned": 3, "calm": 4}
PodState = Literal["being ended", "on the node", "waiting", "ended"]


@dataclass(frozen=True, slots=True)
class PodSight:
    """A pod, how long it has (None: nobody has begun to end it, or nobody knows), and what it would lose."""

    marks: PodMarks
    state: PodState
    seconds_left: float | None = None
    grace_seconds: float = 0.0
    at_risk: tuple[AtRisk, ...] = ()

    @property
    def is_ours(self) -> bool:
        return bool(self.marks.runs_outlast)


@dataclass(frozen=True, slots=True)
class NodeSight:
    """A node that is going or soon to go. `seconds_left`: until its pods may be gone, or until what is planned begins;
    None where that is not known, which `longest_seconds` may bound."""

    marks: NodeMarks
    seconds_left: float | None = None
    pods: tuple[PodSight, ...] = ()

    @property
    def is_disrupted(self) -> bool:
        """Now, and not only planned."""
        return self.marks.state not in ("planned", "calm")


@dataclass(frozen=True, slots=True)
class HandlerSight:
    """A maintenance-handler pod, and its last lines where its node is disrupted."""

    namespace: str
    name: str
    node: str
    phase: str
    lines: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ClusterSight:
    """What a cluster showed at a moment, `at` on its own clock.

    `nodes`: disrupted ones and planned ones, the most urgent first. `waiting`: pods with outlast that have no node.
    `ended`: such that a disruption ended within the last hour. `problems`: what could not be seen, and what would do.
    """

    cluster: str
    context: str | None
    at: float
    nodes_in_all: int
    nodes: tuple[NodeSight, ...]
    waiting: tuple[PodSight, ...] = ()
    ended: tuple[PodSight, ...] = ()
    handlers: tuple[HandlerSight, ...] = ()
    problems: tuple[str, ...] = ()

    @property
    def logs_query(self) -> str:
        return logs_query(self.cluster)

    @property
    def logs_address(self) -> str | None:
        return logs_address(self.cluster)

    @property
    def commands(self) -> list[str]:
        """kubectl's, for the nodes that are shown."""
        names = [one.marks.name for one in self.nodes]
        handlers = [(one.namespace, one.name) for one in self.handlers if one.node in names]
        return kubectl_commands(self.context, nodes=names, handlers=handlers)

    def later(self, seconds: float) -> "ClusterSight":
        """The same, so many seconds after it was seen: what is left has become less."""
        nodes = tuple(
            replace(node, seconds_left=_less(node.seconds_left, seconds), pods=tuple(_later(node.pods, seconds)))
            for node in self.nodes
        )
        return replace(self, nodes=nodes)

    def endangered(self, *, soon_seconds: float) -> list[PodSight]:
        """Pods with outlast on nodes that are disrupted now, or will be within so many seconds."""
        near = [
            one
            for one in self.nodes
            if one.is_disrupted or (one.seconds_left is not None and one.seconds_left <= soon_seconds)
        ]
        return [pod for node in near for pod in node.pods if pod.is_ours]


def survey(cluster: Cluster, *, losses: Losses, namespace: str | None = None, logs: bool = True) -> ClusterSight:
    """Looks at the cluster once. `namespace` None: all of them, else the context's own where that is not allowed.

    Raises SettingsError where the nodes may not be read or nobody is logged in, ClusterUnreachable where the cluster
    does not answer; what else may not be read is a problem of what is seen.
    """
    return _Survey(cluster, losses, namespace).look(logs=logs)


class _Survey:
    """One look."""

    def __init__(self, cluster: Cluster, losses: Losses, namespace: str | None) -> None:
        self._cluster, self._losses, self._namespace = cluster, losses, namespace
        self._problems: list[str] = []
        self._at_risk: dict[tuple[str, str], tuple[AtRisk, ...]] = {}

    def look(self, *, logs: bool) -> ClusterSight:
        every = self._nodes()
        now = self._cluster.now()
        marked = [one for one in map(marks_of, every) if one.state != "calm"]
        marked.sort(key=lambda one: (_URGENCY[one.state], one.starts_at or 0.0, one.name))
        on_them = self._pods_on([one.name for one in marked])
        ours = [one for one in on_them if one.runs_outlast]
        risks = self._losses([one.worksite for one in ours])
        self._at_risk = {(one.namespace, one.name): risk for one, risk in zip(ours, risks, strict=True)}
        nodes = tuple(self._node(one, on_them, now) for one in marked)
        waiting = [self._pod(one, "waiting", now) for one in self._in_phase("Pending") if not one.node]
        ended = [one for one in self._in_phase("Failed") if one.disrupted and _is_recent(one, now)]
        return ClusterSight(
            cluster=self._cluster.name,
            context=self._cluster.context,
            at=now,
            nodes_in_all=len(every),
            nodes=nodes,
            waiting=tuple(waiting),
            ended=tuple(PodSight(one, "ended") for one in ended),
            handlers=tuple(self._handlers({one.name for one in marked if one.state != "planned"}, logs=logs)),
            problems=tuple(dict.fromkeys(self._problems)),
        )

    def _nodes(self) -> list[Json]:
        try:
            return self._cluster.nodes()
        except ClusterRefused as refused:
            raise SettingsError(f"cluster {self._cluster.name}: may not {refused}; {RIGHTS}") from refused

    def _node(self, marks: NodeMarks, on_them: Sequence[PodMarks], now: float) -> NodeSight:
        at = marks.ends_at if marks.ends_at is not None else marks.starts_at
        left = None if at is None else max(0.0, at - now)
        here = [one for one in on_them if one.node == marks.name]
        pods = [self._pod(one, "being ended" if one.ends_at else "on the node", now, marks) for one in here]
        pods.sort(key=lambda one: (not one.is_ours, one.marks.namespace, one.marks.name))
        return NodeSight(marks, left, tuple(pods))

    def _pod(self, marks: PodMarks, state: PodState, now: float, node: NodeMarks | None = None) -> PodSight:
        left = None if marks.ends_at is None else max(0.0, marks.ends_at - now)
        longest = [platform_named(one).facts.longest_grace_seconds for one in (node.classes if node else ())]
        grace = min([marks.grace_seconds, *(one for one in longest if one is not None)])
        at_risk = self._at_risk.get((marks.namespace, marks.name), ())
        return PodSight(marks, state, left, grace, at_risk)

    # --- which pods ---

    def _pods_on(self, nodes: Sequence[str]) -> list[PodMarks]:
        if len(nodes) > _MOST_ASKED_ALONE:
            return [pod for pod in self._pods("") if pod.node in nodes and pod.phase not in _OVER]
        found = [pod for node in nodes for pod in self._pods(f"spec.nodeName={node}")]
        return [pod for pod in found if pod.phase not in _OVER]

    def _in_phase(self, phase: str) -> list[PodMarks]:
        return [one for one in self._pods(f"status.phase={phase}") if one.runs_outlast]

    def _pods(self, fields: str) -> list[PodMarks]:
        """In the namespace that was asked for; where all are too much, in that of the context from now on."""
        try:
            return [pod_marks(one) for one in self._listed(fields)]
        except ClusterRefused as refused:
            if not refused.forbidden or self._namespace is not None:
                self._problems.append(f"may not {refused}; {RIGHTS}")
                return []
            self._namespace = self._cluster.namespace
            self._problems.append(f"may not {refused}; so only namespace {self._namespace} was looked at")
            return self._pods(fields)

    def _listed(self, fields: str) -> list[Json]:
        return self._cluster.pods(namespace=self._namespace, fields=fields)

    # --- the handlers ---

    def _handlers(self, disrupted: set[str], *, logs: bool) -> Iterator[HandlerSight]:
        try:
            found = [pod_marks(one) for one in self._cluster.pods(labels=HANDLER_LABELS)]
        except ClusterRefused as refused:
            self._problems.append(f"may not look for maintenance handlers: {refused}")
            return
        read = 0
        for one in sorted(found, key=lambda pod: (pod.node not in disrupted, pod.node)):
            sight = HandlerSight(one.namespace, one.name, one.node, one.phase)
            if logs and one.node in disrupted and read < _MOST_LOGS:
                sight = replace(sight, lines=tuple(self._lines(one)))
                read += 1
            yield sight

    def _lines(self, handler: PodMarks) -> list[str]:
        try:
            return self._cluster.log(handler.name, handler.namespace, lines=_LOG_LINES)
        except ClusterRefused as refused:
            self._problems.append(f"cannot {refused}")
            return []


def _later(pods: Sequence[PodSight], seconds: float) -> Iterator[PodSight]:
    for pod in pods:
        risks = tuple(risk.later(seconds) for risk in pod.at_risk)
        yield replace(pod, seconds_left=_less(pod.seconds_left, seconds), at_risk=risks)


def _less(left: float | None, seconds: float) -> float | None:
    return None if left is None else max(0.0, left - seconds)


def _is_recent(pod: PodMarks, now: float) -> bool:
    return pod.disrupted_at is None or now - pod.disrupted_at <= _RECENT_SECONDS
