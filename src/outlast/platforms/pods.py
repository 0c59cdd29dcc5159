"""What the pods of all Kubernetes platforms have in common: how they are told apart, who they are, and their grace.

A pod is told little. Its Job, the completions of that, its grace and the kind of its node come from the manifest, in
variables: `OUTLAST_NODE_CLASS` names the platforms that the node is one of, `OUTLAST_POD_GRACE` repeats
terminationGracePeriodSeconds, and `outlast.platforms.variables.TOLD` says who the pod is.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from outlast.clock import parse_duration
from outlast.errors import SettingsError
from outlast.firmware import Firmware
from outlast.platforms import gke_gpu, gke_spot, gke_tpu, kubernetes
from outlast.platforms.variables import Said, count_in, read_identity, text_in, told_environment
from outlast.ports import NODE_CLASS, POD_GRACE, Identity, KnownGrace, PlatformFacts

_INDEX = "JOB_COMPLETION_INDEX"  # set by the controller of an Indexed Job (Kubernetes, Jobs, 2026-11-29)
_IN_A_CLUSTER = "KUBERNETES_SERVICE_HOST"  # set in every pod (Kubernetes, Service, 2026-11-29)
# Set by GKE's admission webhook in pods with TPUs; JAX recognises them by it (jax 0.10, cloud_tpu_cluster.py).
_TPU_HOSTS = "TPU_WORKER_HOSTNAMES"
_FACTS = {facts.name: facts for facts in (gke_spot.FACTS, gke_gpu.FACTS, gke_tpu.FACTS, kubernetes.FACTS)}
# A Job names its pods NAME-xxxxx, a ReplicaSet NAME-HASH-xxxxx, in these letters (k8s.io/apimachinery, util/rand).
_OF_A_JOB = re.compile(r"(?P<job>.+)-[bcdfghjklmnpqrstvwxz2456789]{5}")
_OF_A_REPLICA_SET = re.compile(r".+-[bcdfghjklmnpqrstvwxz2456789]{9,10}-[bcdfghjklmnpqrstvwxz2456789]{5}")


@dataclass(frozen=True, slots=True)
class PodPlatform:
    """A pod of a Job on nodes of one kind, which a variable named `sign` gives away where no class is told."""

    facts: PlatformFacts
    sign: str | None = None

    def detect(self, env: Mapping[str, str], firmware: Firmware) -> bool:
        """In a cluster, and the node's classes name this platform. Raises SettingsError for a class that is unknown."""
        if not env.get(_IN_A_CLUSTER):
            return False
        classes = node_classes(env)
        if classes:
            return self.facts.name in classes
        return self.sign is not None and bool(env.get(self.sign))

    def identity(self, env: Mapping[str, str]) -> Identity:
        """The completion index is the task. The Job is what the manifest tells, else what the pod's name says."""
        told = read_identity(env, task=count_in(env, _INDEX))
        if told.job is not None:
            return told
        return read_identity(env, task=count_in(env, _INDEX), job=Said("HOSTNAME", _job_of_hostname(env)))

    def environment(self, identity: Identity) -> dict[str, str]:
        indexed = {_INDEX: str(identity.task)} if identity.tasks > 1 else {}
        return {
            _IN_A_CLUSTER: "10.0.0.1",
            "KUBERNETES_SERVICE_PORT": "443",
            NODE_CLASS: self.facts.name,
            **indexed,
            **told_environment(identity),
        }

    def graces(self, env: Mapping[str, str]) -> tuple[KnownGrace, ...]:
        """The pod's own grace, and the limits of every kind that the node is said to be."""
        told = text_in(env, POD_GRACE).value
        if told is None:
            known = [*kubernetes.FACTS.known_graces()]
        else:
            seconds = parse_duration(told, setting=POD_GRACE)
            known = [KnownGrace(seconds, f"{POD_GRACE}: the pod's terminationGracePeriodSeconds")]
        for facts in self._kinds(env):
            known += (grace for grace in facts.known_graces() if not _is_the_pods(grace))
        return tuple(known)

    def _kinds(self, env: Mapping[str, str]) -> list[PlatformFacts]:
        named = [_FACTS[name] for name in node_classes(env)]
        return named if self.facts in named else [self.facts, *named]


def node_classes(env: Mapping[str, str]) -> tuple[str, ...]:
    """What OUTLAST_NODE_CLASS says, in its order: one or more platforms, with commas between.

    Raises SettingsError for a name that is none: a Spot node that is not known as one has less grace than is thought.
    """
    text = text_in(env, NODE_CLASS).value or ""
    classes = tuple(part.strip() for part in text.split(",") if part.strip())
    for name in classes:
        if name not in _FACTS:
            raise SettingsError(
                f"{NODE_CLASS}={text!r}: {name!r} is no kind of node; there are {', '.join(_FACTS)} "
                "(more than one with commas between)"
            )
    return classes


def _is_the_pods(grace: KnownGrace) -> bool:
    """Whether this is the pod's own default again, which counts only where the pod's grace is not told."""
    return grace.gives_way and grace.seconds == kubernetes.FACTS.grace_seconds


def _job_of_hostname(env: Mapping[str, str]) -> str | None:
    """The Job in a pod's host name: JOB-INDEX for an Indexed Job, JOB-xxxxx for another; None for other names."""
    name, index = env.get("HOSTNAME", "").strip(), count_in(env, _INDEX).value
    if index is not None:
        job = name.removesuffix(f"-{index}")
        return job if job and job != name else None
    match = None if _OF_A_REPLICA_SET.fullmatch(name) else _OF_A_JOB.fullmatch(name)
    return match["job"] if match else None


def gke_spot_pods() -> PodPlatform:
    """Pods on Spot nodes of GKE."""
    return PodPlatform(gke_spot.FACTS)


def gke_gpu_pods() -> PodPlatform:
    """Pods on nodes of GKE with GPUs."""
    return PodPlatform(gke_gpu.FACTS)


def gke_tpu_pods() -> PodPlatform:
    """Pods on nodes of GKE with TPUs."""
    return PodPlatform(gke_tpu.FACTS, sign=_TPU_HOSTS)


def pods() -> PodPlatform:
    """Pods anywhere else."""
    return PodPlatform(kubernetes.FACTS, sign=_IN_A_CLUSTER)
