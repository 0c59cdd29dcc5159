"""One template of pods with all that is known of it, as the rules get it."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from outlast.lint.known import Known
from outlast.lint.kubernetes.evidence import Evidence, evidence_of
from outlast.lint.kubernetes.fields import entries
from outlast.lint.kubernetes.manifest import Manifest
from outlast.lint.kubernetes.work import words_of
from outlast.lint.kubernetes.workloads import Pods, Workload
from outlast.lint.reading.yaml_nodes import Node
from outlast.lint.rule import At

# Kinds of volumes that outlive a pod.
LASTING = ("persistentVolumeClaim", "csi", "nfs", "azureFile", "cephfs", "glusterfs", "flexVolume")


@dataclass(frozen=True)
class Case:
    """Pods, the workload that they belong to, and the text's other objects; `known` is what the user has told."""

    pods: Pods
    workload: Workload
    manifest: Manifest
    known: Known

    @cached_property
    def evidence(self) -> Evidence:
        """What is known of the pods' nodes and of their work."""
        return evidence_of(self.pods, self.workload, self.manifest)

    @property
    def name(self) -> str:
        """The workload, and which of its templates."""
        return f"{self.workload.name}, {self.pods.part}" if self.pods.part else self.workload.name

    @property
    def whole(self) -> bool:
        """Whether what it does not say is not said elsewhere: no patch."""
        return not (self.pods.partial or self.workload.partial)

    @property
    def in_job(self) -> bool:
        """Whether the pods are those of a Job that stands alone, or that a CronJob makes."""
        return bool(self.pods.job) and self.workload.kind in ("Job", "CronJob")

    @property
    def is_batch(self) -> bool:
        """Whether work is done here that ends, and that would be lost with a pod."""
        ends = self.workload.ends or self.evidence.trains or self.evidence.works
        return ends and not self.workload.is_hook and not self.evidence.idles

    @property
    def keeps_something(self) -> bool:
        """Whether the pods write to a place that outlives them: a volume that is mounted for writing, or a bucket."""
        volumes = {one["name"].text for one in entries(self.pods.spec["volumes"]) if any(one[kind] for kind in LASTING)}
        for container in self.pods.containers:
            mounts = entries(container["volumeMounts"])
            if any(one["name"].text in volumes and one["readOnly"].truth is not True for one in mounts):
                return True
        texts = (word for container in self.pods.containers for word in words_of(container))
        return any("gs://" in word or "s3://" in word for word in texts)

    @property
    def matters(self) -> bool:
        """Such work, on accelerators, on machines that go away often, or a training."""
        return self.is_batch and self.evidence.is_costly


def cases_of(manifest: Manifest, known: Known) -> Iterator[Case]:
    """Each template of each workload."""
    for workload in manifest.workloads:
        for pods in workload.pods:
            yield Case(pods, workload, manifest, known)


def key_of(node: Node) -> At:
    """The line of a node's key, where something is missing below it."""
    return At(node.key_line or node.line)
