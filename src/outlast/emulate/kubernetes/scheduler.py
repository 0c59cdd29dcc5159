"""Binds pods to nodes, and claims to their folders."""

from contextlib import suppress
from typing import Any

from outlast.emulate.kubernetes import conditions
from outlast.emulate.kubernetes.pod_volumes import claims_of
from outlast.emulate.kubernetes.pods import is_deleted, is_over
from outlast.emulate.kubernetes.problems import Refused
from outlast.emulate.kubernetes.recording import Recorder
from outlast.emulate.kubernetes.scheduling import choose
from outlast.emulate.kubernetes.store import Store

Json = dict[str, Any]
_NAME = "default-scheduler"


class Scheduler:
    """All pods of a store that have no node yet; `step` tries each once. A change of the store is what makes it try."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._recorder = Recorder(store, _NAME)

    def step(self) -> float | None:
        """Binds what can be bound now."""
        self._bind_claims()
        pods, nodes = self._store.listing("Pod").objects, self._store.listing("Node").objects
        for pod in pods:
            if pod["spec"].get("nodeName") or is_over(pod) or is_deleted(pod):
                continue
            if pod["spec"].get("schedulerName", _NAME) != _NAME:
                continue
            node, why = self._choose(pod, nodes, pods)
            self._write(pod, node, why)
            if node is not None:
                pod["spec"]["nodeName"] = node  # it takes room from the next one
        return None

    def _choose(self, pod: Json, nodes: list[Json], pods: list[Json]) -> tuple[str | None, str]:
        namespace = pod["metadata"]["namespace"]
        for claim in claims_of(pod):
            found = self._store.find("PersistentVolumeClaim", claim, namespace)
            if found is None:
                why = f'0/{len(nodes)} nodes are available: persistentvolumeclaim "{claim}" not found.'
                return None, why
            if "ReadWriteOncePod" in found["spec"].get("accessModes", ()):
                return None, "the emulator has no claims of access mode ReadWriteOncePod"
            if found["spec"].get("accessModes") == ["ReadWriteOnce"]:
                users = {_node_of(one) for one in pods if claim in claims_of(one) and not is_over(one)} - {""}
                nodes = [node for node in nodes if not users or node["metadata"]["name"] in users]
        return choose(pod, nodes, pods)

    def _write(self, pod: Json, node: str | None, why: str) -> None:
        stamp, meta = self._store.timestamp(), pod["metadata"]
        condition = {"type": "PodScheduled", "lastProbeTime": None, "lastTransitionTime": stamp}
        if node is None:
            condition |= {"status": "False", "reason": "Unschedulable", "message": why}
        else:
            condition |= {"status": "True"}

        def edit(found: Json) -> None:
            if found["metadata"]["uid"] != meta["uid"] or found["spec"].get("nodeName"):
                return
            if node is not None:
                found["spec"]["nodeName"] = node
            conditions.add(found, [condition])

        with suppress(Refused):  # it was deleted meanwhile
            self._store.change("Pod", meta["name"], meta["namespace"], edit)
        if node is not None:
            message = f"Successfully assigned {meta['namespace']}/{meta['name']} to {node}"
            self._recorder.say(pod, "Scheduled", message)
        elif why not in [one.get("message") for one in pod.get("status", {}).get("conditions", ())]:
            self._recorder.say(pod, "FailedScheduling", why, kind="Warning")

    def _bind_claims(self) -> None:
        for claim in self._store.listing("PersistentVolumeClaim").objects:
            if claim.get("status", {}).get("phase") == "Bound":
                continue
            meta = claim["metadata"]

            def edit(found: Json, uid: str = meta["uid"]) -> None:
                found["spec"].setdefault("volumeName", f"pvc-{uid}")
                asked = found["spec"].get("resources", {}).get("requests", {})
                modes = found["spec"].get("accessModes", [])
                found["status"] = {"phase": "Bound", "accessModes": modes, "capacity": asked}

            with suppress(Refused):  # it was deleted meanwhile
                self._store.change("PersistentVolumeClaim", meta["name"], meta["namespace"], edit)


def _node_of(pod: Json) -> str:
    return str(pod["spec"].get("nodeName") or "")
