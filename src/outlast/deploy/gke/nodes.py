"""What kind of node a job's hardware means on GKE: its platforms, labels, taints, resources and machine.

Facts as of 2026-11-30. GKE, "Spot VMs": label cloud.google.com/gke-spot=true; in Autopilot the toleration is added.
"About flex-start": label cloud.google.com/gke-flex-start=true, up to 7 days for a machine; queued provisioning taints
its nodes cloud.google.com/gke-queued:NoSchedule. "GPUs in GKE": label cloud.google.com/gke-accelerator, taint
nvidia.com/gpu=present:NoSchedule. "Plan TPUs in GKE": labels gke-tpu-accelerator and gke-tpu-topology, resource
google.com/tpu, which accelerator and machine each version is. "Manage node disruption for GPUs and TPUs": a node that
is about to go has the taint cloud.google.com/impending-node-termination, which a pod must not tolerate; the last also
says that host maintenance ends pods on nodes with accelerators only.
"""

import math
import re
from dataclasses import dataclass
from typing import Any

from outlast.deploy.description import BadSetting, Hardware
from outlast.platforms import gke_gpu, gke_spot, gke_tpu, kubernetes
from outlast.ports import PlatformFacts

Json = dict[str, Any]
SPOT, FLEX_START = "cloud.google.com/gke-spot", "cloud.google.com/gke-flex-start"
GPU_LABEL, GPU_RESOURCE = "cloud.google.com/gke-accelerator", "nvidia.com/gpu"
TPU_LABEL, TPU_TOPOLOGY = "cloud.google.com/gke-tpu-accelerator", "cloud.google.com/gke-tpu-topology"
TPU_RESOURCE, QUEUED = "google.com/tpu", "cloud.google.com/gke-queued"
# Taints of nodes that are about to go. A pod that tolerates one is started where it is ended at once.
ENDING_TAINTS = ("cloud.google.com/impending-node-termination", "cloud.google.com/maintenance-window-started")
FLEX_START_SECONDS = 7 * 24 * 3600.0  # the longest that such a machine lives

_TPUS = {  # version: accelerator, machine with N chips ("{}"), the numbers of chips that one machine has
    "v4": ("tpu-v4-podslice", "ct4p-hightpu-{}t", (4,)),
    "v5e": ("tpu-v5-lite-podslice", "ct5lp-hightpu-{}t", (1, 4, 8)),
    "v5p": ("tpu-v5p-slice", "ct5p-hightpu-{}t", (4,)),
    "v6e": ("tpu-v6e-slice", "ct6e-standard-{}t", (1, 4, 8)),
}
_GPUS = {  # accelerator: number of GPUs to machine
    "nvidia-l4": {1: "g2-standard-8", 2: "g2-standard-24", 4: "g2-standard-48", 8: "g2-standard-96"},
    "nvidia-tesla-t4": {1: "n1-standard-8", 2: "n1-standard-16", 4: "n1-standard-32"},
    "nvidia-tesla-a100": {1: "a2-highgpu-1g", 2: "a2-highgpu-2g", 4: "a2-highgpu-4g", 8: "a2-highgpu-8g"},
    "nvidia-a100-80gb": {1: "a2-ultragpu-1g", 2: "a2-ultragpu-2g", 4: "a2-ultragpu-4g", 8: "a2-ultragpu-8g"},
    "nvidia-h100-80gb": {1: "a3-highgpu-1g", 2: "a3-highgpu-2g", 4: "a3-highgpu-4g", 8: "a3-highgpu-8g"},
    "nvidia-h100-mega-80gb": {8: "a3-megagpu-8g"},
    "nvidia-h200-141gb": {8: "a3-ultragpu-8g"},
    "nvidia-b200": {8: "a4-highgpu-8g"},
}
_CHIPS = re.compile(r"-(\d+)t$")  # at the end of a machine's name
_PLAIN_MACHINE = "n2-standard-4"
_CPU_PER_GPU, _MEMORY_PER_GPU = 4, 16  # cores and GiB: the least with which an L4 makes sense
_SMALL = {"cpu": "1", "memory": "4Gi"}
_SCRATCH = "2Gi"


@dataclass(frozen=True, slots=True)
class Nodes:
    """The nodes that a description asks for. `queued`: through a Kueue queue. `autopilot`: GKE makes the nodes."""

    hardware: Hardware
    autopilot: bool = False
    queued: bool = False

    @property
    def kinds(self) -> tuple[PlatformFacts, ...]:
        """The platforms that such a node is, the one with the least grace first."""
        found = [gke_spot.FACTS] if self.hardware.spot else []
        if self.hardware.gpu is not None:
            found.append(gke_gpu.FACTS)
        if self.hardware.tpu is not None:
            found.append(gke_tpu.FACTS)
        return tuple(found) or (kubernetes.FACTS,)

    @property
    def between_seconds(self) -> float:
        """The mean time between interruptions."""
        return 1.0 / sum(1.0 / one.mean_seconds_between_interruptions for one in self.kinds)

    @property
    def has_accelerator(self) -> bool:
        return self.hardware.gpu is not None or self.hardware.tpu is not None

    @property
    def selector(self) -> dict[str, str]:
        found = {SPOT: "true"} if self.hardware.spot else {}
        if self.hardware.flex_start:
            found[FLEX_START] = "true"
        if self.hardware.gpu is not None:
            found[GPU_LABEL] = self.hardware.gpu
        if self.hardware.tpu is not None:
            found[TPU_LABEL] = self.tpu_accelerator
            found[TPU_TOPOLOGY] = self.hardware.topology or ""
        return found

    @property
    def tolerations(self) -> list[Json]:
        """Of the taints that such nodes have from the start, each by its key, and of no other."""
        if self.autopilot:
            return []
        found: list[Json] = []
        if self.hardware.spot:
            found.append({"key": SPOT, "operator": "Equal", "value": "true", "effect": "NoSchedule"})
        if self.hardware.flex_start and self.queued:
            found.append({"key": QUEUED, "operator": "Exists", "effect": "NoSchedule"})
        for resource, much in ((GPU_RESOURCE, self.hardware.gpus), (TPU_RESOURCE, self.tpu_chips)):
            if much:
                found.append({"key": resource, "operator": "Exists", "effect": "NoSchedule"})
        return found

    @property
    def resources(self) -> Json:
        """Requests and limits of one pod."""
        hardware = self.hardware
        many = hardware.gpus or self.tpu_chips
        usual = {"cpu": str(_CPU_PER_GPU * many), "memory": f"{_MEMORY_PER_GPU * many}Gi"} if many else _SMALL
        memory = hardware.memory or usual["memory"]
        requests = {"cpu": hardware.cpu or usual["cpu"], "memory": memory, "ephemeral-storage": _SCRATCH}
        limits = {"memory": memory}
        if hardware.gpus:
            limits[GPU_RESOURCE] = str(hardware.gpus)
        if self.tpu_chips:
            limits[TPU_RESOURCE] = str(self.tpu_chips)
            requests[TPU_RESOURCE] = str(self.tpu_chips)
        return {"requests": requests, "limits": limits}

    @property
    def tpu_accelerator(self) -> str:
        version = self.hardware.tpu or ""
        if version in _TPUS:
            return _TPUS[version][0]
        if any(version == accelerator for accelerator, _, _ in _TPUS.values()):
            return version
        raise BadSetting("hardware.tpu", f"{version!r} is not one of {', '.join(_TPUS)}")

    @property
    def tpu_chips(self) -> int:
        """The chips of one machine, and so of one pod; 0 without TPUs."""
        if self.hardware.tpu is None:
            return 0
        said = _CHIPS.search(self.hardware.machine_type or "")
        if said is not None:
            return int(said[1])
        sizes = next(sizes for one, _, sizes in _TPUS.values() if one == self.tpu_accelerator)
        chips = self._chips_of_slice()
        return chips if chips in sizes else 4

    @property
    def machines(self) -> int:
        """How many machines one slice of TPUs has; 1 otherwise."""
        return max(1, self._chips_of_slice() // self.tpu_chips) if self.tpu_chips else 1

    @property
    def machine_type(self) -> str:
        """Raises BadSetting where it has to be said, since none is known that has just these GPUs."""
        hardware = self.hardware
        if hardware.machine_type is not None:
            return hardware.machine_type
        if hardware.tpu is not None:
            pattern = next(machine for one, machine, _ in _TPUS.values() if one == self.tpu_accelerator)
            return pattern.format(self.tpu_chips)
        if hardware.gpu is None:
            return _PLAIN_MACHINE
        known = _GPUS.get(hardware.gpu, {}).get(hardware.gpus)
        if known is None:
            raise BadSetting("hardware.machine_type", f"say which machine has {hardware.gpus} of {hardware.gpu}")
        return known

    def _chips_of_slice(self) -> int:
        try:
            return math.prod(int(one) for one in (self.hardware.topology or "").split("x"))
        except ValueError:
            why = f"{self.hardware.topology!r} is no topology, such as 2x4 or 2x2x2"
            raise BadSetting("hardware.topology", why) from None
