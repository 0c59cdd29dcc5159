"""The manifest of a Cloud Run job, as `gcloud run jobs replace` takes it."""

from typing import Any

import yaml

from outlast.deploy.cloud_run.settings import CloudRunJob
from outlast.platforms.cloud_run_limits import (
    ACCELERATOR,
    BUCKET_DRIVER,
    EXECUTION_ENVIRONMENT,
    GPU,
    LAUNCH_STAGE,
    NO_ZONAL_REDUNDANCY,
)

VOLUME = "checkpoints"
MADE_BY = ("made-by", "outlast")
"""A label that tells the jobs of deployments from those that people have written, of the same name."""
_HEAD = """\
# Written by `outlast deploy cloud-run`; yours to change. Deploy it with `gcloud run jobs replace`.
# {exposure}
"""


def manifest(job: CloudRunJob, image: str) -> str:
    """The text of the file."""
    head = "".join(
        _HEAD.format(exposure=line) if not n else f"# {line}\n" for n, line in enumerate(job.exposure.lines())
    )
    return head + yaml.safe_dump(as_object(job, image), sort_keys=False, default_flow_style=False, width=110)


def as_object(job: CloudRunJob, image: str) -> dict[str, Any]:
    """The manifest as plain data."""
    metadata: dict[str, Any] = {"name": job.name, "labels": dict([MADE_BY])}
    if job.preview:
        metadata["annotations"] = {LAUNCH_STAGE: "BETA"}
    annotations = {EXECUTION_ENVIRONMENT: "gen2"}
    if job.gpu is not None:
        annotations[NO_ZONAL_REDUNDANCY] = "true"  # its quota is another, and so is its price
    execution: dict[str, Any] = {"taskCount": job.tasks}
    if job.parallelism is not None:
        execution["parallelism"] = job.parallelism
    execution["template"] = {"spec": _task(job, image)}
    return {
        "apiVersion": "run.googleapis.com/v1",
        "kind": "Job",
        "metadata": metadata,
        "spec": {"template": {"metadata": {"annotations": annotations}, "spec": execution}},
    }


def _task(job: CloudRunJob, image: str) -> dict[str, Any]:
    task: dict[str, Any] = {
        "maxRetries": job.retries,
        "timeoutSeconds": str(job.timeout_seconds),
        "serviceAccountName": job.service_account,
    }
    limits = {"cpu": job.cpu, "memory": job.memory}
    if job.gpu is not None:
        task["nodeSelector"] = {ACCELERATOR: job.gpu}
        limits[GPU] = "1"
    container: dict[str, Any] = {
        "image": image,
        # Said here too, so that the image's own entry point cannot put a shell in between.
        "command": ["outlast", "run", "--"],
        "args": list(job.command),
        "env": [{"name": name, "value": value} for name, value in job.env],
        "resources": {"limits": limits},
    }
    task["containers"] = [container]
    if job.mount_path is not None:
        container["volumeMounts"] = [{"name": VOLUME, "mountPath": job.mount_path}]
        csi = {"driver": BUCKET_DRIVER, "readOnly": False, "volumeAttributes": {"bucketName": job.bucket}}
        task["volumes"] = [{"name": VOLUME, "csi": csi}]
    return task
