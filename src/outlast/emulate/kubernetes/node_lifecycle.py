"""What the control plane does about nodes: taints of those that are lost, evictions by taint, pods without a node.

Facts as of 2026-11-30. Kubernetes, "Nodes": a node that has not been heard of for node-monitor-grace-period (50 s since
1.32) is Unknown, and tainted node.kubernetes.io/unreachable; a cordoned one node.kubernetes.io/unschedulable. "Taints
and tolerations": a pod that does not tolerate a NoExecute taint is deleted, one that does so for some seconds after
those. Disruptions: DeletionByTaintManager, DeletionByPodGC. k8s.io/kubernetes pkg/controller/podgc: pods of a node that
is gone are deleted after 40 s.
"""

from collections.abc import Callable
from contextlib import suppress
from typing import Any

from outlast.emulate.kubernetes import conditions
from outlast.emulate.kubernetes.clock import PlatformClock
from outlast.emulate.kubernetes.pods import is_deleted, is_over
from outlast.emulate.kubernetes.problems import Refused
from outlast.emulate.kubernetes.recording import Recorder
from outlast.emulate.kubernetes.store import Store
from outlast.emulate.kubernetes.taints import UNSCHEDULABLE, set_taints, tolerates

Json = dict[str, Any]
QUARANTINE_SECONDS = 40.0


class NodeLifecycle:
    """All nodes of a store, and the pods on them; `step` looks at each once."""

    def __init__(self, store: Store, clock: PlatformClock) -> None:
        self._store, self._clock = store, clock
        self._evictor = Recorder(store, "taint-eviction-controller")
        self._since: dict[tuple[str, str], float] = {}  # pod's uid, taint's key or "": when it was first seen there

    def step(self) -> float | None:
        """Does what is to be done now; returns after how many of the platform's seconds it is due again."""
        nodes = {node["metadata"]["name"]: node for node in self._store.listing("Node").objects}
        for node in nodes.values():
            self._cordon(node)
        seen: set[tuple[str, str]] = set()
        waits = [self._judge(pod, nodes, seen) for pod in self._store.listing("Pod").objects]
        self._since = {key: at for key, at in self._since.items() if key in seen}
        return min((seconds for seconds in waits if seconds is not None), default=None)

    def _judge(self, pod: Json, nodes: dict[str, Json], seen: set[tuple[str, str]]) -> float | None:
        name, uid = pod["spec"].get("nodeName"), pod["metadata"]["uid"]
        if not name:
            return None
        if name not in nodes:
            seen.add((uid, ""))
            return self._once(self._first_seen(uid, "") + QUARANTINE_SECONDS, lambda: self._collect(pod))
        if is_over(pod) or is_deleted(pod):
            return None
        waits = []
        for taint in nodes[name]["spec"].get("taints", ()):
            if taint["effect"] != "NoExecute":
                continue
            seen.add((uid, taint["key"]))
            seconds = _tolerated_seconds(pod, taint)
            if seconds is not None:
                at = self._first_seen(uid, taint["key"]) + seconds
                waits.append(self._once(at, lambda: self._evict(pod)))
        return min((seconds for seconds in waits if seconds is not None), default=None)

    def _first_seen(self, uid: str, key: str) -> float:
        return self._since.setdefault((uid, key), self._clock.now())

    def _once(self, at: float, act: Callable[[], None]) -> float | None:
        left = at - self._clock.now()
        if left > 0:
            return left
        act()
        return None

    def _evict(self, pod: Json) -> None:
        message = "Taint manager: deleting due to NoExecute taint"
        self._doom(pod, "DeletionByTaintManager", message)
        self._evictor.say(pod, "TaintManagerEviction", "Marking for deletion Pod " + _full_name(pod))
        with suppress(Refused):  # it is gone
            self._store.delete("Pod", pod["metadata"]["name"], pod["metadata"]["namespace"], uid=pod["metadata"]["uid"])

    def _collect(self, pod: Json) -> None:
        """A pod whose node is gone: nobody else will say that it has ended."""
        meta = pod["metadata"]
        if not is_over(pod):
            self._doom(pod, "DeletionByPodGC", "PodGC: node no longer exists", phase="Failed")
        if is_deleted(pod) and meta["deletionGracePeriodSeconds"] == 0 and meta.get("finalizers"):
            return  # deleted before; its Job will count it
        with suppress(Refused):  # it is gone
            self._store.delete("Pod", meta["name"], meta["namespace"], grace_seconds=0, uid=meta["uid"])

    def _doom(self, pod: Json, reason: str, message: str, *, phase: str | None = None) -> None:
        condition = conditions.disruption(reason, message, self._store.timestamp())

        def edit(found: Json) -> None:
            conditions.add(found, [condition])
            if phase is not None:
                found["status"]["phase"] = phase

        with suppress(Refused):  # it is gone
            self._store.change("Pod", pod["metadata"]["name"], pod["metadata"]["namespace"], edit)

    def _cordon(self, node: Json) -> None:
        taints = node["spec"].get("taints", [])
        others = [one for one in taints if one["key"] != UNSCHEDULABLE["key"]]
        wanted = [*others, UNSCHEDULABLE] if node["spec"].get("unschedulable") else others
        if [one["key"] for one in wanted] != [one["key"] for one in taints]:
            with suppress(Refused):  # it is gone
                self._store.change("Node", node["metadata"]["name"], "", lambda found: set_taints(found, wanted))


def _tolerated_seconds(pod: Json, taint: Json) -> float | None:
    """How long the pod may stay; None for ever, 0 for not at all."""
    matching = [one for one in pod["spec"].get("tolerations", ()) if tolerates(one, taint)]
    if not matching:
        return 0.0
    limited = [one["tolerationSeconds"] for one in matching if one.get("tolerationSeconds") is not None]
    return float(max(0, min(limited))) if limited else None


def _full_name(pod: Json) -> str:
    return f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"
