"""The jobs that are deployed: created, replaced, shown, deleted, each with its generation and its resource version."""

import copy
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from outlast.emulate import rfc3339
from outlast.emulate.cloud_run.execution import Execution, Place
from outlast.emulate.cloud_run.images import Images
from outlast.emulate.cloud_run.limits import settle_job
from outlast.emulate.cloud_run.messages import written
from outlast.emulate.cloud_run.objects import API_VERSION, condition, reference_to
from outlast.emulate.cloud_run.refusals import Refused, invalid, not_emulated
from outlast.emulate.cloud_run.volumes import check_volumes

_CONTAINER = "spec.template.spec.template.spec.containers[0]"
# Fields of a container that change what runs, and that nothing here would heed.
_NOT_EMULATED = ("startupProbe", "livenessProbe", "readinessProbe", "envFrom", "securityContext", "ports")
# Annotations of Cloud Run that a job may carry without its run here being another one.
_KNOWN_ANNOTATIONS = {
    "binary-authorization",
    "binary-authorization-breakglass",
    "client-name",
    "client-version",
    "creator",
    "description",
    "encryption-key",
    "execution-environment",
    "gpu-zonal-redundancy-disabled",
    "lastModifier",
    "launch-stage",
    "network-interfaces",
    "operation-id",
    "threat-detection",
    "user-image",
    "vpc-access-connector",
    "vpc-access-egress",
}
_GROUP = "run.googleapis.com/"


@dataclass(slots=True)
class Job:
    """A deployed job. `document`: apiVersion, kind, metadata and the settled spec."""

    place: Place
    document: dict[str, Any]
    executions: int = 0
    latest: Execution | None = None
    started_by_token: Execution | None = None

    @property
    def name(self) -> str:
        return str(self.document["metadata"]["name"])

    @property
    def launch_stage(self) -> str:
        return str(self.document["metadata"].get("annotations", {}).get(_GROUP + "launch-stage", "GA"))

    @property
    def task(self) -> dict[str, Any]:
        """The job's TaskSpec."""
        found: dict[str, Any] = self.document["spec"]["template"]["spec"]["template"]["spec"]
        return found

    def shown(self) -> dict[str, Any]:
        """The job as the API shows it."""
        generation = self.document["metadata"]["generation"]
        ready, message = self._ready()
        changed = rfc3339.parsed(self.document["metadata"]["creationTimestamp"])
        status: dict[str, Any] = {
            "observedGeneration": generation,
            "conditions": [condition("Ready", ready, message, changed)],
            "executionCount": self.executions,
        }
        if self.latest is not None:
            status["latestCreatedExecution"] = reference_to(self.latest)
        return written("Job", self.document) | {"status": status}

    def _ready(self) -> tuple[str, str]:
        """A job that was deployed with a token is ready when the execution has started, or is complete."""
        waited_for, spec = self.started_by_token, self.document["spec"]
        if waited_for is None or "startExecutionToken" in spec:
            return "True", ""
        with waited_for.lock:
            if not waited_for.state.over:
                return "Unknown", "Waiting for execution to complete."
            return ("True", "") if waited_for.state.succeeded else ("False", "Execution failed.")


def check_deployment(
    document: dict[str, Any], place: Place, images: Images, buckets: Mapping[str, Path]
) -> dict[str, Any]:
    """The settled spec of a job that is deployed. Raises Refused."""
    for field, expected in (("apiVersion", API_VERSION), ("kind", "Job")):
        if document.get(field) != expected:
            raise invalid(field, f"should be {expected}, not {document.get(field)}.")
    metadata = document.get("metadata", {})
    if metadata.get("namespace", place.project) != place.project:
        raise invalid("metadata.namespace", f"should be {place.project}, not {metadata['namespace']}.")
    spec = settle_job({**document, "metadata": metadata})
    for told in (metadata, spec["template"]["metadata"]):
        _check_annotations(told.get("annotations", {}))
    task = spec["template"]["spec"]["template"]["spec"]
    if len(task["containers"]) > 1:
        raise not_emulated("a job of several containers cannot be run here.")
    _check_container(task["containers"][0])
    images.find(task["containers"][0], _CONTAINER)
    check_volumes(task, buckets)
    return spec


def _check_annotations(annotations: Mapping[str, str]) -> None:
    if _GROUP + "cloudsql-instances" in annotations:
        raise not_emulated(f"metadata.annotations[{_GROUP}cloudsql-instances]: the sockets of Cloud SQL are not here.")
    for name in annotations:
        if name.startswith(_GROUP) and name.removeprefix(_GROUP) not in _KNOWN_ANNOTATIONS:
            raise invalid(f"metadata.annotations[{name}]", "is no annotation of a Cloud Run job that is known here.")


def _check_container(container: Mapping[str, Any]) -> None:
    for name in _NOT_EMULATED:
        if container.get(name):
            raise not_emulated(f"{_CONTAINER}.{name} cannot be heeded here.")
    for variable in container.get("env", []):
        if "valueFrom" in variable:
            raise not_emulated(f"{_CONTAINER}.env: {variable.get('name')} comes from a secret, which are not here.")


def new_job(document: dict[str, Any], spec: dict[str, Any], place: Place) -> Job:
    """A job that did not exist."""
    now = rfc3339.in_microseconds(datetime.now(UTC))
    given = document["metadata"]
    metadata = {
        **{name: given[name] for name in ("name", "annotations", "labels") if name in given},
        "namespace": place.project,
        "uid": str(uuid.uuid4()),
        "generation": 1,
        "resourceVersion": "1",
        "creationTimestamp": now,
    }
    _mark(metadata, place, now)
    return Job(place, {"apiVersion": API_VERSION, "kind": "Job", "metadata": metadata, "spec": spec})


def replace_job(job: Job, document: dict[str, Any], spec: dict[str, Any]) -> None:
    """Takes the new spec, labels and annotations. Raises Refused when somebody else was quicker."""
    given, ours = document.get("metadata", {}), job.document["metadata"]
    asked, current = given.get("resourceVersion"), ours["resourceVersion"]
    if asked not in (None, "", current):
        raise Refused(
            "ABORTED",
            f"Conflict for resource '{job.name}': version '{asked}' was specified but current version is '{current}'.",
        )
    changed = spec != job.document["spec"]
    metadata = {**ours, "resourceVersion": str(int(current) + 1), "generation": ours["generation"] + changed}
    for name in ("annotations", "labels"):
        metadata[name] = dict(given.get(name, {}))
    _mark(metadata, job.place, rfc3339.in_microseconds(datetime.now(UTC)))
    job.document = {**job.document, "metadata": metadata, "spec": copy.deepcopy(spec)}


def _mark(metadata: dict[str, Any], place: Place, now: str) -> None:
    metadata["labels"] = {
        **metadata.get("labels", {}),
        "cloud.googleapis.com/location": place.region,
        "run.googleapis.com/lastUpdatedTime": now,
    }
    metadata["annotations"] = {**metadata.get("annotations", {}), "run.googleapis.com/lastModifier": "you@example.com"}
