"""What one execution has of its own: the overrides of `jobs execute`."""

import copy
from collections.abc import Mapping
from typing import Any

from outlast.emulate.cloud_run.jobs import Job
from outlast.emulate.cloud_run.limits import check_timeout, check_variables, has_gpu
from outlast.emulate.cloud_run.refusals import invalid, not_emulated
from outlast.platforms.cloud_run_limits import MAX_TASKS


def overridden(job: Job, overrides: Mapping[str, Any]) -> dict[str, Any]:
    """The ExecutionSpec of an execution. Raises Refused for an override that Cloud Run does not take."""
    spec: dict[str, Any] = copy.deepcopy(job.document["spec"]["template"]["spec"])
    task = spec["template"]["spec"]
    if "taskCount" in overrides:
        count = overrides["taskCount"]
        if not 1 <= count <= MAX_TASKS:
            raise invalid("overrides.taskCount", f"should be between 1 and {MAX_TASKS}, not {count}.")
        spec["taskCount"] = count
        if spec.get("parallelism", 0) > count:
            spec["parallelism"] = count
    if "timeoutSeconds" in overrides:
        seconds = overrides["timeoutSeconds"]
        check_timeout(seconds, "overrides.timeoutSeconds", gpu=has_gpu(task), stage=job.launch_stage)
        task["timeoutSeconds"] = seconds
    for number, override in enumerate(overrides.get("containerOverrides", [])):
        _override_container(task["containers"], override, f"overrides.containerOverrides[{number}]")
    return spec


def _override_container(containers: list[dict[str, Any]], override: Mapping[str, Any], at: str) -> None:
    container, name = containers[0], override.get("name")
    if name and name != container.get("name"):
        raise invalid(f"{at}.name", f"there is no container '{name}'.")
    variables = override.get("env", [])
    check_variables(variables, f"{at}.env")
    if any("valueFrom" in one for one in variables):
        raise not_emulated(f"{at}.env: secrets are not here.")
    named = {one["name"]: one for one in container.get("env", [])}
    if variables:
        container["env"] = list((named | {one["name"]: one for one in variables}).values())
    if override.get("clearArgs"):
        if override.get("args"):
            raise invalid(f"{at}.clearArgs", "cannot go with args.")
        container.pop("args", None)
    elif override.get("args"):
        container["args"] = override["args"]
