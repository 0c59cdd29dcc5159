"""Cloud Run jobs in YAML: run.googleapis.com/v1 as `gcloud run jobs replace` takes it, and resources of API v2."""

from outlast.lint.cloud_run.job import CloudRunJob, Container, Form, Mount, Volume, missing
from outlast.lint.reading.yaml_nodes import Node
from outlast.platforms.cloud_run_limits import (
    ACCELERATOR,
    BUCKET_DRIVER,
    GPU,
    LAUNCH_STAGE,
    NO_ZONAL_REDUNDANCY,
    PREVIEW_STAGES,
)

GROUP = "run.googleapis.com/"
_LOCATION = "cloud.googleapis.com/location"


def is_job(document: Node) -> bool:
    """Whether it is a Job of Cloud Run, not one of Kubernetes."""
    return document["apiVersion"].text.startswith(GROUP) and document["kind"].text == "Job"


def is_resource(document: Node) -> bool:
    """Whether it is a job of API v2, as `gcloud --format=export` and Config Connector's spec never are."""
    inner = document.at("template", "template")
    return "containers" in inner and "apiVersion" not in document and ("timeout" in inner or "maxRetries" in inner)


def of_manifest(document: Node) -> CloudRunJob:
    """From run.googleapis.com/v1."""
    execution = document.at("spec", "template")
    task = execution.at("spec", "template", "spec")
    annotations = execution.at("metadata", "annotations")
    stage = document.at("metadata", "annotations", LAUNCH_STAGE)
    return CloudRunJob(
        form=Form.MANIFEST,
        place=document["kind"],
        task=task,
        name=document.at("metadata", "name"),
        timeout=task["timeoutSeconds"],
        retries=task["maxRetries"],
        tasks=execution.at("spec", "taskCount"),
        parallelism=execution.at("spec", "parallelism"),
        gpu_type=task.at("nodeSelector", ACCELERATOR),
        redundancy_off=annotations[NO_ZONAL_REDUNDANCY],
        service_account=task["serviceAccountName"],
        region=document.at("metadata", "labels", _LOCATION),
        preview=stage.is_unknown or stage.text in PREVIEW_STAGES,
        containers=tuple(_container(one) for one in task["containers"]),
        volumes=tuple(_volume(one) for one in task["volumes"]),
        partial=not task["containers"].elements,  # a patch, as Kustomize takes it
    )


def _container(node: Node) -> Container:
    limits = node.at("resources", "limits")
    return Container(
        node=node,
        image=node["image"],
        command=node["command"],
        arguments=node["args"],
        environment=tuple((one["name"], one["value"]) for one in node["env"]),
        mounts=tuple(Mount(one["name"], one["mountPath"]) for one in node["volumeMounts"]),
        cpu=limits["cpu"],
        memory=limits["memory"],
        gpus=limits[GPU],
        open=node["envFrom"].is_set,
    )


def _volume(node: Node) -> Volume:
    csi, nothing = node["csi"], missing(node)
    if csi:
        kind = "bucket" if csi["driver"].text == BUCKET_DRIVER else "unknown"
        read_only = csi["readOnly"] or csi.at("volumeAttributes", "readOnly")
        return Volume(node["name"], kind, read_only, csi.at("volumeAttributes", "bucketName"), node)
    for name, kind in (("nfs", "nfs"), ("emptyDir", "memory"), ("secret", "secret")):
        if name in node:
            return Volume(node["name"], kind, node[name]["readOnly"], nothing, node)
    return Volume(node["name"], "unknown", nothing, nothing, node)


def of_resource(document: Node) -> CloudRunJob:
    """From API v2."""
    execution = document["template"]
    task = execution["template"]
    return CloudRunJob(
        form=Form.API,
        place=execution,
        task=task,
        name=document["name"],
        timeout=task["timeout"],
        retries=task["maxRetries"],
        tasks=execution["taskCount"],
        parallelism=execution["parallelism"],
        gpu_type=task.at("nodeSelector", "accelerator"),
        redundancy_off=task["gpuZonalRedundancyDisabled"],
        service_account=task["serviceAccount"],
        region=missing(document),
        preview=document["launchStage"].text in PREVIEW_STAGES or document["launchStage"].is_unknown,
        containers=tuple(_container(one) for one in task["containers"]),
        volumes=tuple(_volume_of_resource(one) for one in task["volumes"]),
    )


def _volume_of_resource(node: Node) -> Volume:
    nothing = missing(node)
    for name, kind in (("gcs", "bucket"), ("nfs", "nfs"), ("emptyDir", "memory"), ("secret", "secret")):
        if name in node:
            inner = node[name]
            return Volume(node["name"], kind, inner["readOnly"], inner["bucket"], node)
    return Volume(node["name"], "other" if "cloudSqlInstance" in node else "unknown", nothing, nothing, node)
