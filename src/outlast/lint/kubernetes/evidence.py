"""What a manifest gives away about the nodes of its pods, and about the work they do."""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from outlast.lint.kubernetes.fields import entries
from outlast.lint.kubernetes.manifest import Manifest
from outlast.lint.kubernetes.work import idles, serves, trains, words_in, words_of, works
from outlast.lint.kubernetes.workloads import Pods, Workload
from outlast.lint.reading.yaml_nodes import Node
from outlast.platforms import gke_labels

# Labels of nodes, and the values by which pods ask for machines that may be taken back. GKE, "Spot VMs"; Amazon EKS,
# "Managed node groups"; Karpenter, "Scheduling"; AKS, "Add a Spot node pool" (2026-11-30).
AKS_SPOT = "kubernetes.azure.com/scalesetpriority"
_SPOT = {
    gke_labels.SPOT: ("true",),
    gke_labels.PREEMPTIBLE: ("true",),
    gke_labels.PROVISIONING: ("spot", "preemptible"),
    "eks.amazonaws.com/capacityType": ("SPOT",),
    "karpenter.sh/capacity-type": ("spot",),
    AKS_SPOT: ("spot",),
}
COMPUTE_CLASS = "cloud.google.com/compute-class"
SPOT_LABELS = tuple(_SPOT)
_OF_GKE = ("cloud.google.com/", "gke-gcsfuse/", "networking.gke.io/", "node.gke.io/", "iam.gke.io/")
_GKE_DRIVERS = ("storage.gke.io",)
TPU_LABELS = ("cloud.google.com/gke-tpu-accelerator", "cloud.google.com/gke-tpu-topology")
GPU_LABELS = ("cloud.google.com/gke-accelerator", "cloud.google.com/gke-gpu-accelerator")
_TPU_RESOURCE = "google.com/tpu"
_GPU_RESOURCE = re.compile(
    r"(nvidia|amd|gpu\.intel)\.com/(gpu|mig-.+|i915|xe)(\.shared)?|.*\.com/(pgpu|vgpu)"
    r"|aws\.amazon\.com/neuron\w*|habana\.ai/gaudi"
)
# Labels and taints by which other clouds' and operators' nodes with GPUs are chosen.
_GPU_SIGNS = ("nvidia.com/", "k8s.amazonaws.com/accelerator", "amd.com/gpu")


@dataclass(frozen=True, slots=True)
class Wish:
    """A label that pods want of their nodes. `must`: not only preferred."""

    key: str
    values: tuple[str, ...]
    node: Node
    must: bool = True


@dataclass(frozen=True, slots=True)
class Evidence:
    """What is known of one template's pods; each is the node that says so, or None.

    `gpu`, `tpu`: they use one; `gpu_sign`: they are placed where GPUs are. `maybe_spot`: they may run on machines that
    are taken back. `spot`: they run on machines that may be taken back, and on no others. `on_gke`.
    `trains`: their command trains a model. `idles`: it does nothing, as in samples and tests.
    `works`: it takes items from a queue. `serves`: it answers clients. `wishes`: labels that their nodes should have.
    """

    gpu: Node | None
    gpu_sign: Node | None
    tpu: Node | None
    spot: Wish | None
    maybe_spot: bool
    flex_start: Wish | None
    on_gke: bool
    trains: bool
    idles: bool
    works: bool
    serves: bool
    wishes: tuple[Wish, ...]

    @property
    def accelerator(self) -> Node | None:
        """A GPU or a TPU."""
        return self.gpu or self.tpu

    @property
    def is_costly(self) -> bool:
        """Whether lost work would matter: an accelerator, a model in training, or machines that go away often."""
        return not self.idles and (self.trains or self.is_exposed)

    @property
    def is_exposed(self) -> bool:
        """Whether the pods' machines are maintained with an end, or taken back: accelerators, Spot."""
        return any(one is not None for one in (self.accelerator, self.gpu_sign, self.spot)) or self.maybe_spot

    @property
    def gke_spot(self) -> bool:
        """Whether the Spot nodes are GKE's."""
        return self.spot is not None and self.spot.key.startswith("cloud.google.com/")

    def wish(self, *keys: str) -> Wish | None:
        """The first wish for one of some labels."""
        return next((one for one in self.wishes if one.key in keys), None)


def evidence_of(pods: Pods, workload: Workload, manifest: Manifest) -> Evidence:
    """What the template, its workload and the other objects of the text tell."""
    wishes = tuple(_wishes(pods.spec))
    tpu = amount_of(pods, is_tpu) or _label(wishes, TPU_LABELS)
    return Evidence(
        gpu=amount_of(pods, is_gpu) or _label(wishes, GPU_LABELS),
        tpu=tpu,
        gpu_sign=_gpu_sign(pods, wishes),
        spot=_spot_of(wishes),
        maybe_spot=_may_be_spot(pods, wishes),
        flex_start=next((one for one in wishes if one.key == gke_labels.FLEX_START and "true" in one.values), None),
        on_gke=tpu is not None or _on_gke(pods, workload, manifest, wishes),
        trains=trains(list(words_in(workload.spec["entrypoint"])))
        or any(trains(words_of(one)) for one in pods.containers),
        works=any(works(words_of(one)) for one in pods.containers),
        serves=any(serves(words_of(one)) or one["ports"].is_set for one in pods.containers),
        idles=bool(pods.containers) and all(idles(one) for one in pods.containers),
        wishes=wishes,
    )


def is_gpu(resource: str) -> bool:
    """Whether a resource's name is that of GPUs, or of shares of them."""
    return _GPU_RESOURCE.fullmatch(resource) is not None


def is_tpu(resource: str) -> bool:
    """Whether it is that of TPUs."""
    return resource == _TPU_RESOURCE


def amount_of(pods: Pods, is_one: Callable[[str], bool]) -> Node | None:
    """An amount of some resource that a container asks for; one of 0 is none."""
    for container in pods.all_containers:
        for place in ("limits", "requests"):
            for name, amount in container.at("resources", place).fields.items():
                if is_one(name) and amount.number != 0:
                    return amount
    return None


def _label(wishes: tuple[Wish, ...], keys: tuple[str, ...]) -> Node | None:
    return next((one.node for one in wishes if one.key in keys and one.must), None)


def _wishes(spec: Node) -> Iterator[Wish]:
    for key, value in spec["nodeSelector"].fields.items():
        yield Wish(key, (value.text,), value)
    affinity = spec.at("affinity", "nodeAffinity")
    terms = list(entries(affinity.at("requiredDuringSchedulingIgnoredDuringExecution", "nodeSelectorTerms")))
    for term in terms:
        yield from _wishes_in(term, must=len(terms) == 1)
    for one in entries(affinity["preferredDuringSchedulingIgnoredDuringExecution"]):
        yield from _wishes_in(one["preference"], must=False)


def _wishes_in(term: Node, *, must: bool) -> Iterator[Wish]:
    for one in entries(term["matchExpressions"]):
        if one["operator"].text == "In":
            yield Wish(one["key"].text, tuple(one["values"].texts), one["key"], must)
        elif one["operator"].text == "Exists":
            yield Wish(one["key"].text, tuple(_SPOT.get(one["key"].text, ())), one["key"], must)


def _spot_of(wishes: tuple[Wish, ...]) -> Wish | None:
    """A wish that only machines fulfil which may be taken back."""
    for one in wishes:
        spot = _SPOT.get(one.key)
        if spot and one.must and one.values and all(value in spot for value in one.values):
            return one
    return None


def _may_be_spot(pods: Pods, wishes: tuple[Wish, ...]) -> bool:
    """Whether they tolerate Spot's taint, prefer such machines, or name a class of them."""
    if any(one["key"].text in _SPOT for one in entries(pods.spec["tolerations"])):
        return True
    named = any("spot" in value.lower() for one in wishes if one.key == COMPUTE_CLASS for value in one.values)
    return named or any(one.key in _SPOT and set(one.values) & set(_SPOT[one.key]) for one in wishes)


def _gpu_sign(pods: Pods, wishes: tuple[Wish, ...]) -> Node | None:
    for one in wishes:
        if one.key.startswith(_GPU_SIGNS):
            return one.node
    for toleration in entries(pods.spec["tolerations"]):
        if toleration["key"].text == "nvidia.com/gpu":
            return toleration["key"]
    runtime = pods.spec["runtimeClassName"]
    return runtime if runtime.text == "nvidia" else None


def _on_gke(pods: Pods, workload: Workload, manifest: Manifest, wishes: tuple[Wish, ...]) -> bool:
    keys = [
        *pods.annotations.fields,
        *workload.annotations.fields,
        *(one.key for one in wishes),
        *(one["key"].text for one in entries(pods.spec["tolerations"])),
    ]
    if any(key.startswith(_OF_GKE) for key in keys):
        return True
    drivers = (one.at("csi", "driver").text for one in entries(pods.spec["volumes"]))
    return any(driver.endswith(_GKE_DRIVERS) for driver in drivers) or manifest.on_gke
