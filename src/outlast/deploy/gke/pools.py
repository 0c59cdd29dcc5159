"""The node pool of a job, as commands of gcloud.

Facts as of 2026-11-30. GKE, "Node system configuration": shutdownGracePeriodSeconds of a Spot pool is 0, 30 or 120,
from control plane 1.35.0-gke.1171000; gcloud checks the names in the file against those that it knows (528 does not
know these). "Spot VMs": on Standard the pool's taint is one's own to set. "Run flex-start VMs": no reservation, no
repair, from 0 nodes on. Names of pools have at most 40 characters.
"""

import re
from dataclasses import dataclass

import yaml

from outlast.deploy.description import Description
from outlast.deploy.gke.grace import LONG_SHUTDOWN_SECONDS
from outlast.deploy.gke.nodes import SPOT, Nodes
from outlast.deploy.tools import Tools
from outlast.platforms import gke_spot

SHUTDOWN_SETTING = "shutdownGracePeriodSeconds"
LEAST_VERSION = "1.35.0-gke.1171000"
_MOST_CHARACTERS = 40
_SUFFIX = "-pool"


@dataclass(frozen=True, slots=True)
class Cluster:
    """A cluster, by the words that gcloud wants."""

    name: str
    location: str
    project: str

    @property
    def words(self) -> tuple[str, ...]:
        return ("--cluster", self.name, *self.place)

    @property
    def place(self) -> tuple[str, ...]:
        return ("--location", self.location, "--project", self.project)

    @property
    def context(self) -> str:
        """The name that get-credentials gives it in the kubeconfig."""
        return f"gke_{self.project}_{self.location}_{self.name}"


def pool_name(description: Description) -> str:
    """The one that the description names, or one of the job's own."""
    return description.kubernetes.node_pool or f"{description.name[: _MOST_CHARACTERS - len(_SUFFIX)]}{_SUFFIX}"


def create_command(
    name: str, cluster: Cluster, nodes: Nodes, *, most_nodes: int, system_config: str | None = None
) -> tuple[str, ...]:
    """Makes the pool, empty; the autoscaler adds nodes when pods wait. `system_config`: the file's path."""
    hardware = nodes.hardware
    words = ["gcloud", "container", "node-pools", "create", name, *cluster.words]
    words += ["--machine-type", nodes.machine_type, "--workload-metadata", "GKE_METADATA"]
    if hardware.spot:
        words += ["--spot", "--node-taints", f"{SPOT}=true:NoSchedule"]
    if hardware.gpu is not None:
        words += ["--accelerator", f"type={hardware.gpu},count={hardware.gpus},gpu-driver-version=default"]
    words += ["--enable-autoscaling", "--num-nodes", "0"]
    if nodes.machines > 1:  # a slice of several machines comes and goes as one
        words += ["--tpu-topology", hardware.topology or "", "--max-nodes", str(nodes.machines)]
    else:
        words += ["--total-min-nodes", "0", "--total-max-nodes", str(most_nodes), "--location-policy", "ANY"]
    if hardware.flex_start:
        words += ["--flex-start", "--reservation-affinity", "none", "--no-enable-autorepair"]
        words += ["--enable-queued-provisioning"] if nodes.queued else []
    if system_config is not None:
        words += ["--system-config-from-file", system_config]
    return tuple(words)


def describe_command(name: str, cluster: Cluster) -> tuple[str, ...]:
    """Says whether the pool is there."""
    return ("gcloud", "container", "node-pools", "describe", name, *cluster.words, "--format", "value(name)")


def delete_command(name: str, cluster: Cluster) -> tuple[str, ...]:
    """Removes the pool and its nodes."""
    return ("gcloud", "container", "node-pools", "delete", name, *cluster.words, "--quiet")


def knows_shutdown_budget(cluster: Cluster, tools: Tools) -> bool:
    """Whether it can be set there: by the help of the installed gcloud, and by the cluster's version.

    What cannot be asked (no gcloud here, no login) is taken for a yes: another one will run this, or it will tell.
    """
    answer = tools.ask(("gcloud", "container", "node-pools", "create", "--help"))
    if answer.code == 0 and SHUTDOWN_SETTING not in answer.output:
        return False
    field = ("--format", "value(currentMasterVersion)")
    asked = tools.ask(("gcloud", "container", "clusters", "describe", cluster.name, *cluster.place, *field, "--quiet"))
    version = _numbers(asked.output) if asked.code == 0 else []
    return len(version) < len(_numbers(LEAST_VERSION)) or version >= _numbers(LEAST_VERSION)


def _numbers(version: str) -> list[int]:
    """[1, 35, 0, 1171000] of 1.35.0-gke.1171000."""
    return [int(one) for one in re.findall(r"\d+", version)]


def system_config() -> str:
    """The kubelet's settings that give pods on Spot nodes all the time there is."""
    for_pods = int(gke_spot.FACTS.longest_grace_seconds or 0)
    seconds = {
        SHUTDOWN_SETTING: LONG_SHUTDOWN_SECONDS,
        "shutdownGracePeriodCriticalPodsSeconds": LONG_SHUTDOWN_SECONDS - for_pods,
    }
    heading = f"# Pods on these Spot nodes get {for_pods} s to leave instead of {gke_spot.FACTS.grace_seconds:.0f}.\n"
    return heading + yaml.safe_dump({"kubeletConfig": seconds}, sort_keys=False)
