"""Cloud Run jobs in Terraform: google_cloud_run_v2_job."""

from dataclasses import replace

from outlast.lint.cloud_run.job import CloudRunJob, Container, Form, Mount, Volume, missing
from outlast.lint.reading.hcl import Block
from outlast.lint.reading.yaml_nodes import Node
from outlast.platforms.cloud_run_limits import GPU, PREVIEW_STAGES

RESOURCE = "google_cloud_run_v2_job"
_VOLUMES = (
    ("gcs", "bucket"), ("nfs", "nfs"), ("empty_dir", "memory"), ("secret", "secret"), ("cloud_sql_instance", "other"),
)  # fmt: skip


def job_of(block: Block) -> CloudRunJob:
    """From its resource."""
    body, execution = block.body, block.body["template"]
    task = execution["template"]
    stage = body["launch_stage"]
    containers = [_container(one) for one in task["containers"].several]
    elsewhere = any(task[name].is_unknown for name in ("volumes", "containers", "node_selector"))
    return CloudRunJob(
        form=Form.TERRAFORM,
        place=body,
        task=task,
        name=body["name"],
        timeout=task["timeout"],
        retries=task["max_retries"],
        tasks=execution["task_count"],
        parallelism=execution["parallelism"],
        gpu_type=task.at("node_selector", "accelerator"),
        redundancy_off=task["gpu_zonal_redundancy_disabled"],
        service_account=task["service_account"],
        region=body["location"],
        preview=stage.text in PREVIEW_STAGES or stage.is_unknown,
        containers=tuple(replace(one, open=one.open or elsewhere) for one in containers),
        volumes=tuple(_volume(one) for one in task["volumes"].several),
        partial=not containers,
    )


def _container(node: Node) -> Container:
    limits = node.at("resources", "limits")
    variables = node["env"].several
    return Container(
        node=node,
        image=node["image"],
        command=node["command"],
        arguments=node["args"],
        environment=tuple((one["name"], one["value"] or one["value_source"]) for one in variables),
        mounts=tuple(Mount(one["name"], one["mount_path"]) for one in node["volume_mounts"].several),
        cpu=limits["cpu"],
        memory=limits["memory"],
        gpus=limits[GPU],
        open=any(node[name].is_unknown for name in ("env", "volume_mounts", "args", "command", "resources")),
    )


def _volume(node: Node) -> Volume:
    nothing = missing(node)
    for name, kind in _VOLUMES:
        if name in node:
            inner = node[name]
            return Volume(node["name"], kind, inner["read_only"], inner["bucket"], node)
    return Volume(node["name"], "unknown", nothing, nothing, node)
