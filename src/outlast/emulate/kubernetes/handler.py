"""The maintenance handler of a node: a system pod without a process, which keeps a log of what is done to the node.

Facts as of 2026-11-30. GKE, "Manage node disruption for GPUs and TPUs": a node-level component gpu-maintenance-handler
on all nodes with GPUs or TPUs; its pods are found by `-l name=maintenance-handler`, in kube-system; "when a maintenance
event is detected, the pod records a message, applies the labels, and eviction begins". What its lines say is not
documented: these are the emulator's own, in the form of Google's logging library.
"""

from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

from outlast.emulate.kubernetes.job_pods import owner_reference
from outlast.emulate.kubernetes.machines import NODE_ADDRESS
from outlast.emulate.kubernetes.pods import GRACE_SECONDS
from outlast.emulate.kubernetes.problems import Refused
from outlast.emulate.kubernetes.site import Site

Json = dict[str, Any]
NAMESPACE, SET_NAME, CONTAINER = "kube-system", "gpu-maintenance-handler", "maintenance-handler"
LABELS = {"name": "maintenance-handler", "k8s-app": "maintenance-handler"}
_IMAGE = "gke.gcr.io/maintenance-handler"


class MaintenanceHandler:
    """The handler's pod on one node."""

    def __init__(self, site: Site, node: str) -> None:
        self._site, self._node = site, node
        made = site.store.create(_pod(node, daemon_set(site), site.store.timestamp()))
        self.name, self._uid = made["metadata"]["name"], made["metadata"]["uid"]
        site.logs.start(self._uid, CONTAINER)
        self.log(f"Watching instance/maintenance-event of node {node}")

    def log(self, message: str, level: str = "I") -> None:
        """Adds a line to the pod's log."""
        at = datetime.now(UTC)
        self._site.logs.write(self._uid, CONTAINER, f"{level}{at:%m%d %H:%M:%S.%f}       1 {message}", at=at)

    def stop(self) -> None:
        """The machine is gone: nothing more is logged."""
        self._site.logs.end(self._uid, CONTAINER)

    def remove(self) -> None:
        """The node is gone, and the pod with it."""
        with suppress(Refused):  # somebody deleted it
            self._site.store.delete("Pod", self.name, NAMESPACE, grace_seconds=0, uid=self._uid)


def daemon_set(site: Site) -> Json:
    """The handlers' DaemonSet, made when the first of them starts."""
    found = site.store.find("DaemonSet", SET_NAME, NAMESPACE)
    if found is not None:
        return found
    template = {"metadata": {"labels": LABELS}, "spec": _spec(None)}
    return site.store.create(
        {
            "apiVersion": "apps/v1",
            "kind": "DaemonSet",
            "metadata": {"name": SET_NAME, "namespace": NAMESPACE, "labels": LABELS},
            "spec": {"selector": {"matchLabels": LABELS}, "template": template},
            "status": {},
        }
    )


def is_handler(pod: Json) -> bool:
    """Whether it is such a pod: it has no process."""
    meta = pod["metadata"]
    return bool(meta.get("namespace") == NAMESPACE and meta.get("labels", {}).get("name") == CONTAINER)


def _spec(node: str | None) -> Json:
    return {
        "containers": [{"name": CONTAINER, "image": _IMAGE}],
        "priorityClassName": "system-node-critical",
        "restartPolicy": "Always",
        "terminationGracePeriodSeconds": GRACE_SECONDS,
        "tolerations": [{"operator": "Exists"}],
        **({"nodeName": node} if node else {}),
    }


def _pod(node: str, owner: Json, stamp: str) -> Json:
    status = {"name": CONTAINER, "image": _IMAGE, "imageID": _IMAGE, "restartCount": 0, "ready": True, "started": True}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "generateName": f"{SET_NAME}-",
            "namespace": NAMESPACE,
            "labels": LABELS,
            "ownerReferences": [owner_reference(owner, "apps/v1", "DaemonSet")],
        },
        "spec": _spec(node),
        "status": {
            "phase": "Running",
            "startTime": stamp,
            "podIP": NODE_ADDRESS,
            "podIPs": [{"ip": NODE_ADDRESS}],
            "hostIP": NODE_ADDRESS,
            "conditions": [
                {"type": kind, "status": "True", "lastProbeTime": None, "lastTransitionTime": stamp}
                for kind in ("PodScheduled", "Initialized", "ContainersReady", "Ready")
            ],
            "containerStatuses": [{**status, "lastState": {}, "state": {"running": {"startedAt": stamp}}}],
        },
    }
