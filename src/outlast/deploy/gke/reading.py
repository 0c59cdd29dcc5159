"""What a manifest that exists has in it: the pods of Jobs, CronJobs, JobSets and PyTorchJobs, and their kind of node.

Facts as of 2026-11-30. Kubeflow training operator, kubeflow.org/v1: pytorchReplicaSpecs, whose container is named
"pytorch". GKE: the labels of `outlast.platforms.gke_labels` and of `outlast.deploy.gke.nodes`.
"""

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from outlast.deploy.gke import nodes
from outlast.deploy.plain_data import at, list_at, scalar_text, text_at
from outlast.deploy.yaml_edits import Path
from outlast.errors import SettingsError
from outlast.platforms import gke_gpu, gke_labels, gke_spot, gke_tpu, kubernetes
from outlast.ports import PlatformFacts

Json = dict[str, Any]
Controller = Literal["Job", "JobSet", "PyTorchJob"]
_SPOT = (gke_labels.SPOT, gke_labels.PREEMPTIBLE)  # GKE ends both alike; "false" is neither
_MOST_PODS = 30
_REPLICAS = "pytorchReplicaSpecs"


@dataclass(frozen=True, slots=True)
class Found:
    """One pod template: the document it is in, the path of what starts the pods, and that of the template.

    `controller` starts the pods: a Job (also of a CronJob), a JobSet's Job, a PyTorchJob's replica. `top` is the path
    of the object that was written, with its kind and name.
    """

    document: int
    controller: Controller
    top: Path
    starter: Path
    template: Path

    @property
    def pod(self) -> Path:
        """The path of the pod's spec."""
        return (*self.template, "spec")


def find_pods(documents: list[Any], file: str) -> list[Found]:
    """All pod templates that can be made to survive, in their order.

    Raises SettingsError for a document with very many: each change reads its document again.
    """
    found = []
    for number, one in enumerate(documents):
        pods = list(itertools.islice(_in(one, number, ()), _MOST_PODS + 1))
        if len(pods) > _MOST_PODS:
            raise SettingsError(f"{file}: more than {_MOST_PODS} jobs in one document; give each its own, between ---")
        found += pods
    return found


def _in(made: Any, document: int, top: Path) -> Iterator[Found]:
    kind, spec = text_at(made, ("kind",)), at(made, ("spec",))
    if kind == "List":
        for number, one in enumerate(list_at(made, ("items",))):
            if text_at(one, ("kind",)) != "List":  # kubectl takes no list in a list
                yield from _in(one, document, ("items", number))
    elif kind == "Job" and not is_cloud_run(made):
        yield Found(document, "Job", top, (*top, "spec"), (*top, "spec", "template"))
    elif kind == "CronJob":
        job = (*top, "spec", "jobTemplate", "spec")
        yield Found(document, "Job", top, job, (*job, "template"))
    elif kind == "JobSet":
        for number, _ in enumerate(list_at(spec, ("replicatedJobs",))):
            job = (*top, "spec", "replicatedJobs", number, "template", "spec")
            yield Found(document, "JobSet", top, job, (*job, "template"))
    elif kind == "PyTorchJob":
        replicas = at(spec, (_REPLICAS,))
        for name in replicas if isinstance(replicas, Mapping) else ():
            replica = (*top, "spec", _REPLICAS, str(name))
            yield Found(document, "PyTorchJob", top, replica, (*replica, "template"))


def is_cloud_run(made: Any) -> bool:
    """Whether it is a job of Cloud Run, whose kind has the same name."""
    return text_at(made, ("apiVersion",)).startswith("run.googleapis.com/")


def main_container(pod: Any) -> int | None:
    """The place of the program's container: the only one, one with accelerators, the first. None: there is none."""
    containers = list_at(pod, ("containers",))
    if not containers:
        return None
    for number, one in enumerate(containers):
        limits = at(one, ("resources", "limits"))
        if isinstance(limits, Mapping) and {nodes.GPU_RESOURCE, nodes.TPU_RESOURCE} & set(limits):
            return number
    return 0


def kinds_of(pod: Any) -> tuple[PlatformFacts, ...]:
    """The platforms that the pod's nodes are, as far as it says so; the one with the least grace first."""
    labels = _labels(pod)
    limits = [at(one, ("resources", "limits")) for one in list_at(pod, ("containers",))]
    asked = {str(name) for one in limits if isinstance(one, Mapping) for name in one}
    tolerated = {text_at(one, ("key",)) for one in list_at(pod, ("tolerations",))}
    found = []
    provisioning = labels.get(gke_labels.PROVISIONING)
    by_name = any(labels.get(one, "").lower() == "true" or one in tolerated for one in _SPOT)
    if by_name or provisioning in ("spot", "preemptible"):
        found.append(gke_spot.FACTS)
    if nodes.GPU_LABEL in labels or (nodes.GPU_RESOURCE in asked and _is_of_gke(labels)):
        found.append(gke_gpu.FACTS)
    if nodes.TPU_LABEL in labels or nodes.TPU_RESOURCE in asked:
        found.append(gke_tpu.FACTS)
    return tuple(found) or (kubernetes.FACTS,)


def _is_of_gke(labels: Mapping[str, str]) -> bool:
    return any(label.startswith("cloud.google.com/") for label in labels)


def _labels(pod: Any) -> dict[str, str]:
    """The labels that the pod's node must have, by selector or by affinity."""
    selector = at(pod, ("nodeSelector",))
    labels = selector.items() if isinstance(selector, Mapping) else ()
    found = {str(key): scalar_text(value) for key, value in labels}
    required = ("affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution", "nodeSelectorTerms")
    for term in list_at(pod, required):
        for one in list_at(term, ("matchExpressions",)):
            if text_at(one, ("operator",)) in ("In", "Exists"):
                found[text_at(one, ("key",))] = scalar_text((list_at(one, ("values",)) or ["true"])[0])
    return found
