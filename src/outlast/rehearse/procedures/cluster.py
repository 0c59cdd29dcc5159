"""A pod's view of its cluster: the API server with its node and itself, and the service account that may read them.

The store, the API and the nodes are those of the emulated cluster (`outlast.emulate.kubernetes`), which also runs whole
Jobs; here the rehearsal is the kubelet of one pod. What is done to the node, and in which order, is that emulator's
account of "Manage GKE node disruption for GPUs and TPUs" and of kubelet's graceful shutdown.
"""

import secrets
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from outlast.containers.container import Mount
from outlast.emulate.kubernetes import conditions
from outlast.emulate.kubernetes.api import KubernetesApi
from outlast.emulate.kubernetes.machines import MACHINES, new_node, ready_conditions
from outlast.emulate.kubernetes.pods import GRACE_SECONDS
from outlast.emulate.kubernetes.procedures import mark_for_maintenance
from outlast.emulate.kubernetes.service_account import ServiceAccount
from outlast.emulate.kubernetes.store import Store
from outlast.emulate.names import random_suffix
from outlast.emulate.scale import TimeScale
from outlast.emulate.serving import LOOPBACK, Serving
from outlast.rehearse.words import Machine, Settings

_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")  # Kubernetes, "Accessing the API from a Pod"


@dataclass(frozen=True, slots=True)
class Pod:
    """One pod on a node of its own, as it and its node stand in the API server."""

    store: Store
    name: str
    node: str
    scale: TimeScale
    environment: Mapping[str, str]
    mounts: tuple[Mount, ...]

    def mark_for_maintenance(self) -> None:
        """The node's label and taint."""
        self.store.change("Node", self.node, "", mark_for_maintenance)

    def shut_down(self) -> None:
        """The kubelet says that its node is shutting down."""
        new = ready_conditions("False", self.store.timestamp(), "KubeletNotReady", "node is shutting down")
        self.store.change("Node", self.node, "", lambda node: conditions.add(node, new))

    def delete(self, grace_seconds: float) -> None:
        """The pod is being deleted, with so many seconds of the platform as its grace: whole ones here, 1 at least."""
        self.store.delete("Pod", self.name, "default", grace_seconds=max(1, round(self.scale.here(grace_seconds))))


def open_pod(kind: str) -> Callable[[Settings, TimeScale], AbstractContextManager[Machine]]:
    """What opens a pod on a node of that kind (see MACHINES), in a cluster of its own."""

    @contextmanager
    def opened(given: Settings, scale: TimeScale) -> Iterator[Machine]:
        store, which = Store(), MACHINES[kind]
        api = KubernetesApi(store)
        node = f"gke-{which.pool}-{secrets.token_hex(4)}"
        name = f"rehearsal-{random_suffix()}"  # as a Job names its pods
        store.create(new_node(node, which, store.timestamp()))
        grace = int(given.get("pod-grace", GRACE_SECONDS))
        store.create(_pod(name, node, max(1, round(scale.here(grace))), store.timestamp()))
        with tempfile.TemporaryDirectory(prefix="outlast-account-") as folder:
            files = Path(folder) / "serviceaccount"
            account = ServiceAccount(files, may_read=True)
            with Serving(account.guard(api), certificate=account.certificate) as serving:
                environment = {
                    "KUBERNETES_SERVICE_HOST": LOOPBACK,
                    "KUBERNETES_SERVICE_PORT": str(serving.port),
                    "HOSTNAME": name,
                    "POD_NAME": name,  # by the downward API, as the how-to on notices has it
                }
                yield Pod(store, name, node, scale, environment, (Mount(files, _ACCOUNT, read_only=True),))

    return opened


def _pod(name: str, node: str, grace_seconds: int, stamp: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "labels": {"job-name": "rehearsal"}},
        "spec": {
            "nodeName": node,
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": grace_seconds,
            "containers": [{"name": "main", "image": "rehearsal"}],
        },
        "status": {"phase": "Running", "podIP": LOOPBACK, "podIPs": [{"ip": LOOPBACK}], "startTime": stamp},
    }
