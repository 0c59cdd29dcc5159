"""The pod that runs a job on GKE: its command, what it is told, where it may go, how long it may take to leave.

Facts as of 2026-11-30. GKE, "Cloud Storage FUSE CSI driver": the annotation gke-gcsfuse/volumes: "true", without which
no sidecar is injected; mount options are gcsfuse's. Cluster autoscaler, FAQ: cluster-autoscaler.kubernetes.io/
safe-to-evict: "false" keeps a pod's node. Kubernetes, "Jobs": the labels of a Job's pods.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

from outlast.deploy.description import Description
from outlast.deploy.gke.explained import Why
from outlast.deploy.gke.grace import Grace
from outlast.deploy.gke.nodes import Nodes
from outlast.platforms import gke_spot, variables
from outlast.ports import NODE_CLASS, POD_GRACE

Json = dict[str, Any]
CONTAINER = "main"
GCSFUSE_DRIVER, GCSFUSE_ANNOTATION = "gcsfuse.csi.storage.gke.io", "gke-gcsfuse/volumes"
RUN = ("outlast", "run")
_VOLUME = "checkpoints"
_SAFE_TO_EVICT = "cluster-autoscaler.kubernetes.io/safe-to-evict"
_STAGING = "gke-gcsfuse/ephemeral-storage-limit"
_LEAST_STAGING_BYTES = 5 * 2**30  # what the sidecar has unless told
# For `outlast lint`, which sees the manifest and not the pool.
_EXCUSE = "\noutlast: ignore[K010] the node pool has this shutdown budget"
JOB_UID = "batch.kubernetes.io/controller-uid"
JOBSET_UID = "jobset.sigs.k8s.io/jobset-uid"


@dataclass(frozen=True)
class Pod:
    """The pods of one job. `account`: the Kubernetes service account. `tasks`: what the completion index counts up to.

    `execution` is the label of a pod that names the object which started it. `interrupted_code`: the exit code of an
    interrupted attempt, where the controller wants another than Kubernetes Jobs do; None leaves it. `more`: further
    variables. `keep_node`: whether the autoscaler is asked to leave the node alone.
    """

    description: Description
    nodes: Nodes
    grace: Grace
    image: str
    account: str
    execution: str | None = JOB_UID
    tasks: int = 1
    interrupted_code: int | None = None
    more: tuple[Json, ...] = ()
    ports: tuple[Json, ...] = ()
    keep_node: bool = True
    restart_policy: str = "Never"

    @cached_property
    def is_mounted(self) -> bool:
        return self.description.access == "mount"

    @property
    def template(self) -> Json:
        """For a Job, a JobSet's Job or a Deployment."""
        metadata: Json = {"labels": {"app.kubernetes.io/name": self.description.name}}
        if annotations := self._annotations():
            metadata["annotations"] = annotations
        spec: Json = {"restartPolicy": self._restart_policy(), "serviceAccountName": self.account}
        spec["terminationGracePeriodSeconds"] = Why(self.grace.seconds, f"Between SIGTERM and SIGKILL: {self._why()}")
        if selector := self.nodes.selector:
            spec["nodeSelector"] = selector
        if tolerations := self.nodes.tolerations:
            why = "Each by its key. A toleration without one, or of impending-node-termination, would start the pod on "
            spec["tolerations"] = Why(tolerations, f"{why}a node that is about to go.")
        spec["containers"] = [self._container()]
        if self.is_mounted:
            spec["volumes"] = [self._volume()]
        return {"metadata": metadata, "spec": spec}

    def _why(self) -> str:
        found = self.grace.reason if self.grace.warning is None else f"{self.grace.reason}. Mind: {self.grace.warning}"
        return f"{found}.{_EXCUSE if self.grace.long_shutdown else ''}"

    def _restart_policy(self) -> Any:
        if self.restart_policy != "Never":
            return self.restart_policy
        return Why(self.restart_policy, "podFailurePolicy needs it; and each attempt is a pod whose end can be read.")

    def _annotations(self) -> Json:
        found: Json = {}
        if self.is_mounted:
            found[GCSFUSE_ANNOTATION] = Why("true", "Without it no sidecar mounts the bucket.")
            size = self.description.measured.state_bytes
            if size is not None and 2 * size > _LEAST_STAGING_BYTES:
                gibibytes = -(-2 * size // 2**30)
                found[_STAGING] = Why(f"{gibibytes}Gi", "What cannot be streamed is staged here: two checkpoints.")
        if self.keep_node and not self.nodes.hardware.spot:
            found[_SAFE_TO_EVICT] = Why("false", "The autoscaler does not end an attempt to tidy up.")
        return found

    def _container(self) -> Json:
        command = [*RUN, *self._limit(), "--", *self.description.full_command]
        why = "`outlast run` is process 1: it hears SIGTERM, passes it on, and leaves with the code the Job is to see."
        found: Json = {"name": CONTAINER, "image": self.image, "command": Why(command, why)}
        found["env"] = [*self._told(), *({"name": name, "value": value} for name, value in self.description.env)]
        if self.ports:
            found["ports"] = list(self.ports)
        memory = "Memory: limit and request are equal, so that nobody else's use ends this pod."
        found["resources"] = Why(self.nodes.resources, memory)
        if self.is_mounted:
            found["volumeMounts"] = [{"name": _VOLUME, "mountPath": self.description.mount_path}]
        return found

    def _limit(self) -> tuple[str, ...]:
        """An attempt's limit, before which outlast leaves with its state saved; Kubernetes has one for all together."""
        seconds = self.description.timeout_seconds
        return () if seconds is None else ("--timeout", f"{seconds:g}s")

    def _told(self) -> list[Json]:
        """What a pod cannot find out by itself."""
        kinds = ",".join(one.name for one in self.nodes.kinds)
        told: list[Any] = []
        if self.description.url is not None:
            url = self.description.mounted_folder if self.is_mounted else self.description.url
            told.append({"name": "OUTLAST_URL", "value": url})
        told.append({"name": NODE_CLASS, "value": kinds})
        told.append({"name": POD_GRACE, "value": str(self.grace.seconds)})
        if self.grace.long_shutdown:
            longer = {"name": "OUTLAST_GRACE", "value": f"{self.grace.seconds}s"}
            usual = f"{gke_spot.FACTS.grace_seconds:g} s"
            told.append(Why(longer, f"Of the pool's shutdown budget; without this outlast would reckon with {usual}."))
        if self.interrupted_code is not None:
            code = {"name": "OUTLAST_EXIT_CODE", "value": str(self.interrupted_code)}
            why = "A Deployment starts its pods again whatever their code is; another one is only noise in its status."
            told.append(Why(code, why))
        told.append({"name": variables.TOLD.job, "value": self.description.name})
        if self.execution is not None:
            told.append({"name": variables.TOLD.execution, **_field(f"metadata.labels['{self.execution}']")})
            told.append({"name": variables.TOLD.tasks, "value": str(self.tasks)})
        told.append({"name": "POD_NAME", **_field("metadata.name")})
        told.append({"name": "NODE_NAME", **_field("spec.nodeName")})
        return [*told, *self.more]

    def _volume(self) -> Json:
        options = Why("implicit-dirs,metadata-cache:ttl-secs:0", "What another attempt wrote is seen at once.")
        attributes = {"bucketName": self.description.bucket, "mountOptions": options}
        return {"name": _VOLUME, "csi": {"driver": GCSFUSE_DRIVER, "volumeAttributes": attributes}}


def _field(path: str) -> Json:
    return {"valueFrom": {"fieldRef": {"fieldPath": path}}}
