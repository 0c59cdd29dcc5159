"""Kinds of machines that GKE nodes run on, and the Node object that such a machine makes.

Facts as of 2026-11-30. GKE, "Spot VMs": label cloud.google.com/gke-spot=true; 30 s of graceful shutdown, the first 15
of them for ordinary pods. "GPUs in GKE": label cloud.google.com/gke-accelerator, taint
nvidia.com/gpu=present:NoSchedule.
"TPUs in GKE": labels gke-tpu-accelerator and gke-tpu-topology, resource google.com/tpu. "Node system configuration":
shutdownGracePeriodSeconds of Spot pools is 0, 30 or 120. "Manage node disruption for GPUs and TPUs": notice of 60 min
and 5 min. Topology, sizes and names are those of one sample of each kind.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from outlast.emulate.serving import LOOPBACK
from outlast.platforms import gke_labels

Json = dict[str, Any]
NODE_ADDRESS = LOOPBACK  # all nodes and pods are this machine
VERSION = "v1.33.5-gke.1125000"
REGION, ZONE = "us-central1", "us-central1-a"
_SHUTDOWN_SECONDS = (0, 30, 120)


@dataclass(frozen=True, slots=True)
class Machine:
    """One kind of machine, and the pool of nodes that it makes.

    `shutdown_seconds`: the kubelet's whole graceful shutdown, of which `critical_seconds` are for critical system pods.
    `notice_seconds`: how long before its host's maintenance it is told.
    """

    pool: str
    machine_type: str
    cpus: int
    memory: str
    spot: bool = False
    gpu: str = ""
    gpus: int = 0
    tpu: str = ""
    tpus: int = 0
    topology: str = ""
    shutdown_seconds: int = 30
    critical_seconds: int = 15
    notice_seconds: float = 60.0

    def __post_init__(self) -> None:
        if self.shutdown_seconds not in _SHUTDOWN_SECONDS:
            raise ValueError(f"shutdownGracePeriodSeconds is one of {_SHUTDOWN_SECONDS}, not {self.shutdown_seconds}")
        if self.shutdown_seconds and not 0 <= self.critical_seconds < self.shutdown_seconds:
            raise ValueError("shutdownGracePeriodCriticalPodsSeconds is less than shutdownGracePeriodSeconds")

    @property
    def has_accelerator(self) -> bool:
        """Whether GKE runs a maintenance handler on it."""
        return bool(self.gpus or self.tpus)

    @property
    def most_grace_seconds(self) -> float | None:
        """The most that an ordinary pod gets when the machine is taken; None where only its own grace is known."""
        if self.spot:
            return float(self.shutdown_seconds - self.critical_seconds) if self.shutdown_seconds else None
        return self.notice_seconds if self.has_accelerator else None


_CPU = Machine("default-pool", "n2-standard-4", cpus=4, memory="16Gi")
_GPU = Machine("gpu-pool", "g2-standard-8", cpus=8, memory="32Gi", gpu="nvidia-l4", gpus=1, notice_seconds=3600.0)
_TPU = Machine(
    "tpu-pool",
    "ct5lp-hightpu-4t",
    cpus=112,
    memory="192Gi",
    tpu="tpu-v5-lite-podslice",
    tpus=4,
    topology="2x2",
    notice_seconds=300.0,
)
MACHINES: Mapping[str, Machine] = {
    "cpu": _CPU,
    "gpu": _GPU,
    "tpu": _TPU,
    "spot": replace(_CPU, pool="spot-pool", spot=True),
    "gpu-spot": replace(_GPU, pool="gpu-spot-pool", spot=True),
    "tpu-spot": replace(_TPU, pool="tpu-spot-pool", spot=True),
}


def new_node(name: str, machine: Machine, stamp: str) -> Json:
    """The Node object of a machine that has just become ready."""
    labels = {
        "beta.kubernetes.io/arch": "amd64",
        "beta.kubernetes.io/instance-type": machine.machine_type,
        "beta.kubernetes.io/os": "linux",
        "cloud.google.com/gke-nodepool": machine.pool,
        "cloud.google.com/gke-os-distribution": "cos",
        "cloud.google.com/gke-provisioning": "spot" if machine.spot else "standard",
        "cloud.google.com/machine-family": machine.machine_type.partition("-")[0],
        "kubernetes.io/arch": "amd64",
        "kubernetes.io/hostname": name,
        "kubernetes.io/os": "linux",
        "node.kubernetes.io/instance-type": machine.machine_type,
        "topology.kubernetes.io/region": REGION,
        "topology.kubernetes.io/zone": ZONE,
    }
    taints, resources = [], {"cpu": str(machine.cpus), "memory": machine.memory, "pods": "110"}
    resources["ephemeral-storage"] = "100Gi"
    if machine.spot:
        labels[gke_labels.SPOT] = "true"
    if machine.gpus:
        labels |= {
            "cloud.google.com/gke-accelerator": machine.gpu,
            "cloud.google.com/gke-accelerator-count": str(machine.gpus),
        }
        taints.append({"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"})
        resources["nvidia.com/gpu"] = str(machine.gpus)
    if machine.tpus:
        labels |= {
            "cloud.google.com/gke-tpu-accelerator": machine.tpu,
            "cloud.google.com/gke-tpu-topology": machine.topology,
        }
        taints.append({"key": "google.com/tpu", "value": "present", "effect": "NoSchedule"})
        resources["google.com/tpu"] = str(machine.tpus)
    spec: Json = {"providerID": f"gce://emulated/{ZONE}/{name}", **({"taints": taints} if taints else {})}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels},
        "spec": spec,
        "status": _status(name, resources, stamp),
    }


def _status(name: str, resources: dict[str, str], stamp: str) -> Json:
    return {
        "capacity": dict(resources),
        "allocatable": dict(resources),
        "addresses": [{"type": "InternalIP", "address": NODE_ADDRESS}, {"type": "Hostname", "address": name}],
        "conditions": ready_conditions("True", stamp),
        "nodeInfo": {
            "machineID": name,
            "systemUUID": name,
            "bootID": f"{name}-{stamp}",
            "kernelVersion": "6.6.93+",
            "osImage": "Container-Optimized OS from Google",
            "containerRuntimeVersion": "containerd://2.0.4",
            "kubeletVersion": VERSION,
            "kubeProxyVersion": VERSION,
            "operatingSystem": "linux",
            "architecture": "amd64",
        },
    }


_KINDS = {
    "MemoryPressure": ("KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
    "DiskPressure": ("KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
    "PIDPressure": ("KubeletHasSufficientPID", "kubelet has sufficient PID available"),
}


def ready_conditions(ready: str, stamp: str, reason: str = "KubeletReady", message: str = "") -> list[Json]:
    """The conditions of a node; `ready` is "True", "False", or "Unknown", which then holds of all."""
    rows = {kind: ("False", *why) for kind, why in _KINDS.items()}
    if ready == "Unknown":
        rows = dict.fromkeys(_KINDS, ("Unknown", reason, message))
    rows["Ready"] = (ready, reason, message or "kubelet is posting ready status")
    return [
        {
            "type": kind,
            "status": status,
            "reason": why,
            "message": text,
            "lastHeartbeatTime": stamp,
            "lastTransitionTime": stamp,
        }
        for kind, (status, why, text) in rows.items()
    ]
