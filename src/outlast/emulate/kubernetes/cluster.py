"""A GKE cluster on this machine: its API, its controllers and its nodes, for tests, for `rehearse` and on its own."""

import os
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

from outlast.containers.container import can_isolate
from outlast.emulate.kubernetes.api import KubernetesApi
from outlast.emulate.kubernetes.clock import PlatformClock
from outlast.emulate.kubernetes.control import with_control
from outlast.emulate.kubernetes.controllers import Controllers
from outlast.emulate.kubernetes.fleet import Fleet
from outlast.emulate.kubernetes.images import Image
from outlast.emulate.kubernetes.job_controller import JobController
from outlast.emulate.kubernetes.kubeconfig import kubeconfig
from outlast.emulate.kubernetes.machines import MACHINES, Machine
from outlast.emulate.kubernetes.node_lifecycle import NodeLifecycle
from outlast.emulate.kubernetes.pod_logs import LogBook
from outlast.emulate.kubernetes.procedures import Procedure
from outlast.emulate.kubernetes.scheduler import Scheduler
from outlast.emulate.kubernetes.service_account import ServiceAccount
from outlast.emulate.kubernetes.site import Site
from outlast.emulate.kubernetes.store import Store
from outlast.emulate.kubernetes.unsupported import refuse_unsupported
from outlast.emulate.kubernetes.verbs import Verbs
from outlast.emulate.scale import TimeScale
from outlast.emulate.serving import LOOPBACK, Serving

_KEPT = ("PATH", "LANG", "LC_ALL")  # of this machine's variables; an image has its own PATH
# What a run here says nothing about; for verdicts.
NOT_EXERCISED = (
    "the bucket: a folder has stronger promises",
    "limits of CPU and memory, and the GPU",
    "the image, and users in containers",
    "the network of pods, rights and quotas",
    "how long nodes and containers take to start",
)


class CannotEmulate(RuntimeError):
    """This machine does not allow what containers need."""


class Cluster:
    """Use as a context manager, or `close` it.

    `nodes`: kinds of machines (see `MACHINES`: cpu, spot, gpu, gpu-spot, tpu, tpu-spot), or machines, one for each
    node, which are named gke-POOL-0, -1, …. `speed`: how many seconds of the platform pass in one second here; a pod's
    outlast is told so by OUTLAST_GRACE, another program is not. `images`: what the names of images stand for.
    `environment`: variables of all containers. `buckets`: folders that stand for buckets of Cloud Storage; other
    buckets, and claims, are kept in `folder` (buckets/NAME, claims/NAMESPACE_NAME), and without one end with the
    cluster. `pods_may_read`: whether the pods' service account may get and watch nodes and pods.

    `verbs` does what a client would do over HTTP; `store` holds the objects, `logs` what containers wrote, `fleet` the
    nodes; `not_exercised` says in words what a run here shows nothing of.

    Raises CannotEmulate where no PID namespaces are allowed.
    """

    not_exercised = NOT_EXERCISED

    def __init__(
        self,
        nodes: Sequence[str | Machine] = ("cpu",),
        *,
        speed: float = 1.0,
        images: Mapping[str, Image] | None = None,
        environment: Mapping[str, str] | None = None,
        buckets: Mapping[str, Path] | None = None,
        folder: Path | None = None,
        port: int = 0,
        pods_may_read: bool = True,
    ) -> None:
        machines = named([MACHINES[one] if isinstance(one, str) else one for one in nodes])
        if not can_isolate():
            raise CannotEmulate("pods need PID and mount namespaces, which this machine does not allow")
        scale = TimeScale(speed)
        with ExitStack() as stack:
            temporary = Path(tempfile.mkdtemp(prefix="outlast-gke-"))
            stack.callback(shutil.rmtree, temporary, ignore_errors=True)
            self.store, self.logs = Store(), LogBook()
            self.verbs = Verbs(self.store, also=refuse_unsupported)
            api = KubernetesApi(self.store, self.logs, self.verbs)
            kept = {name: os.environ[name] for name in _KEPT if name in os.environ}
            variables = {**kept, **(environment or {})}
            site = Site(self.store, self.logs, folder or temporary, scale, images or {}, variables, buckets or {})
            account = ServiceAccount(site.account, may_read=pods_may_read)
            for_pods = stack.enter_context(Serving(account.guard(api), certificate=account.certificate))
            site = replace(site, api=(LOOPBACK, for_pods.port))
            clock = PlatformClock(scale)
            steps = (
                Scheduler(self.store).step,
                JobController(self.store, clock).step,
                NodeLifecycle(self.store, clock).step,
            )
            stack.callback(Controllers(self.store, steps, scale).close)
            self.fleet = Fleet(site, machines)
            stack.callback(self.fleet.close)
            serving = stack.enter_context(Serving(with_control(api, self.fleet), port=port))
            self.url, self.bucket = serving.url, site.bucket
            self.kubeconfig = temporary / "kubeconfig"
            self.kubeconfig.write_text(kubeconfig(serving.url))
            self._stack = stack.pop_all()

    def __enter__(self) -> "Cluster":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Ends all pods, and stops serving."""
        self._stack.close()

    def maintain(self, node: str) -> Procedure:
        """Begins maintenance of a node's host. Raises fleet.Impossible, as the others do, where that cannot be."""
        return self.fleet.begin(node, "maintenance")

    def reclaim(self, node: str) -> Procedure:
        """Takes a Spot machine back."""
        return self.fleet.begin(node, "reclaim")

    def host_error(self, node: str) -> Procedure:
        """The node's machine is gone, without notice."""
        return self.fleet.begin(node, "host-error")

    def partition(self, node: str) -> Procedure:
        """The node is cut off for 7 min, and runs on."""
        return self.fleet.begin(node, "partition")


def named(machines: Sequence[Machine]) -> dict[str, Machine]:
    """A node's name for each machine: its pool and a number."""
    found: dict[str, Machine] = {}
    for machine in machines:
        number = sum(one.pool == machine.pool for one in found.values())
        found[f"gke-{machine.pool}-{number}"] = machine
    return found
