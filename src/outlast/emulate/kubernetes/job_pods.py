"""The pods of a Job, made from its template.

Facts as of 2026-11-30. Kubernetes, "Jobs": the labels batch.kubernetes.io/job-name and controller-uid (and the older
ones without prefix); the finalizer batch.kubernetes.io/job-tracking; for Indexed Jobs the annotation and label
batch.kubernetes.io/job-completion-index, the variable JOB_COMPLETION_INDEX and the host name JOB-INDEX. Names end in
five letters of k8s.io/apimachinery, util/rand.
"""

import copy
from collections.abc import Mapping
from typing import Any

from outlast.emulate.kubernetes.job_indexes import INDEX
from outlast.emulate.names import SUFFIX_LETTERS

Json = dict[str, Any]
TRACKING = "batch.kubernetes.io/job-tracking"
_INDEX_VARIABLE = "JOB_COMPLETION_INDEX"
_LONGEST_PREFIX = 63 - SUFFIX_LETTERS  # of a generated name


def job_labels(job: Json) -> dict[str, str]:
    """What every pod of the Job is labelled with, under the new names and the old."""
    name, uid = job["metadata"]["name"], job["metadata"]["uid"]
    return {
        "batch.kubernetes.io/controller-uid": uid,
        "batch.kubernetes.io/job-name": name,
        "controller-uid": uid,
        "job-name": name,
    }


def new_pod(job: Json, index: int | None = None, annotations: Mapping[str, str] | None = None) -> Json:
    """A pod of the Job, which is named when it is made; `index` for an Indexed Job."""
    template = copy.deepcopy(job["spec"]["template"])
    own, spec = template.get("metadata", {}), template["spec"]
    name = job["metadata"]["name"]
    prefix = f"{name}-"
    labels = {**own.get("labels", {}), **job_labels(job)}
    notes = {**own.get("annotations", {}), **(annotations or {})}
    if index is not None:
        end = f"-{index}-"
        prefix = name[: _LONGEST_PREFIX - len(end)] + end  # the index stays in it, however long the Job's name is
        labels[INDEX] = notes[INDEX] = str(index)
        spec["hostname"] = f"{name}-{index}"
        for container in (*spec.get("initContainers", ()), *spec["containers"]):
            _tell_index(container)
    metadata = {
        "generateName": prefix,
        "namespace": job["metadata"]["namespace"],
        "labels": labels,
        "annotations": notes,
        "finalizers": [TRACKING],
        "ownerReferences": [owner_reference(job, "batch/v1", "Job")],
    }
    if not notes:
        del metadata["annotations"]
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec, "status": {"phase": "Pending"}}


def owner_reference(owner: Json, version: str, kind: str) -> Json:
    """What an object says of the controller that made it."""
    return {
        "apiVersion": version,
        "kind": kind,
        "name": owner["metadata"]["name"],
        "uid": owner["metadata"]["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }


def _tell_index(container: Json) -> None:
    variables = container.setdefault("env", [])
    if all(one["name"] != _INDEX_VARIABLE for one in variables):
        field = {"fieldPath": f"metadata.labels['{INDEX}']"}
        variables.append({"name": _INDEX_VARIABLE, "valueFrom": {"fieldRef": field}})
