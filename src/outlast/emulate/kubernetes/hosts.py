"""One node's machine: its Node object, its kubelet, its metadata server; switched on and off as a whole."""

from collections.abc import Callable
from contextlib import ExitStack, suppress
from typing import Any

from outlast.emulate import rfc3339
from outlast.emulate.kubernetes import conditions
from outlast.emulate.kubernetes.handler import MaintenanceHandler
from outlast.emulate.kubernetes.kubelet import Kubelet
from outlast.emulate.kubernetes.machines import Machine, new_node, ready_conditions
from outlast.emulate.kubernetes.problems import Refused
from outlast.emulate.kubernetes.recording import Recorder
from outlast.emulate.kubernetes.site import Site
from outlast.emulate.metadata.gce import GceMetadata

Json = dict[str, Any]


class Host:
    """A machine that is on from the beginning; `switch_on` puts another one of its name and kind in its place."""

    def __init__(self, site: Site, name: str, machine: Machine) -> None:
        self.site, self.name, self.machine = site, name, machine
        self.kubelet: Kubelet | None = None
        self.handler: MaintenanceHandler | None = None
        self.metadata = GceMetadata(scale=site.scale, machine_type=machine.machine_type, spot=machine.spot)
        self._stack = ExitStack()
        serving = self._stack.enter_context(self.metadata.serve())
        self._environment = GceMetadata.environment(serving.url)
        self._recorder = Recorder(site.store, "node-controller")
        self.switch_on()

    def switch_on(self) -> None:
        """The machine starts and registers its node, with none of what was said of an earlier one."""
        store = self.site.store
        self.metadata.restart()
        node = store.create(new_node(self.name, self.machine, store.timestamp()))
        self.kubelet = Kubelet(self.site, node, self._environment, self.machine.most_grace_seconds)
        if self.machine.has_accelerator:
            self.handler = MaintenanceHandler(self.site, self.name)
        self._take_lease(node)
        self._recorder.say(node, "RegisteredNode", f"Node {self.name} event: Registered Node {self.name} in Controller")

    def _take_lease(self, node: Json) -> None:
        """As a kubelet does; it is not renewed here, and nobody looks."""
        stamp = rfc3339.in_microseconds(self.site.store.now())
        owner = {"apiVersion": "v1", "kind": "Node", "name": self.name, "uid": node["metadata"]["uid"]}
        self.site.store.create(
            {
                "apiVersion": "coordination.k8s.io/v1",
                "kind": "Lease",
                "metadata": {"name": self.name, "namespace": "kube-node-lease", "ownerReferences": [owner]},
                "spec": {"holderIdentity": self.name, "leaseDurationSeconds": 40, "renewTime": stamp},
            }
        )

    def power_off(self) -> None:
        """Power is gone: SIGKILL to all, and nobody here tells the API server. A second time does nothing."""
        kubelet, self.kubelet = self.kubelet, None
        if kubelet is not None:
            kubelet.power_off()
        if self.handler is not None:
            self.handler.stop()

    def forget(self) -> None:
        """The node object goes, as there is no such machine any more."""
        with suppress(Refused):  # somebody else deleted it
            self.site.store.delete("Node", self.name)
        if self.handler is not None:
            self.handler.remove()
            self.handler = None

    def say_ready(self, ready: str, reason: str, message: str) -> None:
        """What the node's conditions say: "True", "False" or, for all of them, "Unknown"."""
        stamp = self.site.store.timestamp()
        new = ready_conditions(ready, stamp, reason, message)
        with suppress(Refused):  # it was deleted
            node = self.site.store.change("Node", self.name, "", lambda found: conditions.add(found, new))
            if ready != "True":
                self._recorder.say(node, "NodeNotReady", f"Node {self.name} status is now: NodeNotReady")

    def edit(self, change: Callable[[Json], None]) -> None:
        """Changes the node object, if it is there."""
        with suppress(Refused):
            self.site.store.change("Node", self.name, "", change)

    def close(self) -> None:
        """Ends all that runs for it."""
        self.power_off()
        self._stack.close()
