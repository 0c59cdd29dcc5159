"""What a job may ask for, checked when it is deployed, and the defaults that are filled in.

The numbers and their sources are in `outlast.platforms.cloud_run_limits`.
"""

import re
from collections.abc import Sequence
from typing import Any

from outlast.emulate.cloud_run.refusals import Refused, invalid
from outlast.emulate.quantities import amount
from outlast.platforms.cloud_run import CloudRunPlatform
from outlast.platforms.cloud_run_limits import (
    ACCELERATOR,
    DEFAULT_GPU_SIZE,
    DEFAULT_SIZE,
    DEFAULT_TIMEOUT_SECONDS,
    GPU,
    GPU_MINIMUM,
    LAUNCH_STAGE,
    MAX_CONTAINERS,
    MAX_TASKS,
    MAX_VARIABLES,
    MEMORY_FOR_CPUS,
    PREVIEW_STAGES,
    is_reserved,
    longest_timeout_seconds,
    needs_preview,
)

_MEBIBYTE = 1 << 20
_NAME = re.compile(r"[a-z]([a-z0-9-]{0,61}[a-z0-9])?")
_VARIABLE = re.compile(r"[^=\0]+")
_TASK = "spec.template.spec.template.spec"
_FACTS = CloudRunPlatform.facts


def has_gpu(task: dict[str, Any]) -> bool:
    """Whether a task, by its TaskSpec, has a GPU: then it is not moved at maintenance but ended."""
    return any(container["resources"]["limits"].get(GPU) == "1" for container in task["containers"])


def settle_job(job: dict[str, Any]) -> dict[str, Any]:
    """The spec of a job with every default filled in. Raises Refused for what Cloud Run does not take."""
    name = job["metadata"].get("name", "")
    if not _NAME.fullmatch(name):
        raise invalid(
            "metadata.name",
            f"Resource name '{name}' must use only lowercase letters, digits and dashes, begin with a letter, not end "
            "with a dash, and have at most 63 characters.",
        )
    spec = job.get("spec", {})
    template = spec.get("template", {})
    stage = job["metadata"].get("annotations", {}).get(LAUNCH_STAGE, "GA")
    settled = {"metadata": template.get("metadata", {}), "spec": settle_execution(template.get("spec", {}), stage)}
    return {**spec, "template": settled}


def settle_execution(spec: dict[str, Any], stage: str) -> dict[str, Any]:
    """An ExecutionSpec with every default filled in."""
    tasks = spec.get("taskCount", 1)
    if not 1 <= tasks <= MAX_TASKS:
        raise invalid("spec.template.spec.taskCount", f"should be between 1 and {MAX_TASKS}, not {tasks}.")
    parallelism = spec.get("parallelism", 0)
    if not 0 <= parallelism <= tasks:
        raise invalid(
            "spec.template.spec.parallelism", f"should be between 0 and the {tasks} tasks, not {parallelism}."
        )
    task = _settle_task(spec.get("template", {}).get("spec", {}), stage)
    settled: dict[str, Any] = {"taskCount": tasks, "template": {"spec": task}}
    return {**settled, "parallelism": parallelism} if parallelism else settled


def _settle_task(task: dict[str, Any], stage: str) -> dict[str, Any]:
    containers = task.get("containers", [])
    if not 1 <= len(containers) <= MAX_CONTAINERS:
        raise invalid(f"{_TASK}.containers", f"should have 1 to {MAX_CONTAINERS} containers, not {len(containers)}.")
    retries = task.get("maxRetries", _FACTS.default_retries)
    most = _FACTS.max_retries
    if not 0 <= retries <= (retries if most is None else most):
        raise invalid(f"{_TASK}.maxRetries", f"should be between 0 and {most}, not {retries}.")
    accelerator = _accelerator(task)
    settled = [_settle_container(one, number, accelerator) for number, one in enumerate(containers)]
    found = {**task, "maxRetries": retries, "containers": settled}
    timeout = found.setdefault("timeoutSeconds", DEFAULT_TIMEOUT_SECONDS)
    check_timeout(timeout, f"{_TASK}.timeoutSeconds", gpu=has_gpu(found), stage=stage)
    if accelerator is not None and not has_gpu(found):
        raise invalid(f"{_TASK}.nodeSelector", f"names {accelerator}, but no container has a limit {GPU}: '1'.")
    return found


def check_timeout(seconds: int, field: str, *, gpu: bool, stage: str) -> None:
    """Raises Refused for a task timeout that Cloud Run does not take."""
    most = longest_timeout_seconds(gpu=gpu)
    if not 1 <= seconds <= most:
        with_gpu = " for a task with a GPU" if gpu else ""
        raise invalid(field, f"should be between 1 and {most} seconds{with_gpu}, not {seconds}.")
    if needs_preview(seconds, gpu=gpu) and stage not in PREVIEW_STAGES:
        raise Refused(
            "INVALID_ARGUMENT",
            "The feature 'GPU tasks of more than 1 hour' is not supported in the declared launch stage on resource "
            f"'job'. Set the annotation {LAUNCH_STAGE} to BETA.",
            field=field,
        )


def _accelerator(task: dict[str, Any]) -> str | None:
    selector = task.get("nodeSelector", {})
    for name, value in selector.items():
        if name != ACCELERATOR:
            raise invalid(f"{_TASK}.nodeSelector", f"'{name}' is not supported; only {ACCELERATOR} is.")
        if value not in GPU_MINIMUM:
            raise invalid(f"{_TASK}.nodeSelector", f"'{value}' is no accelerator: {', '.join(GPU_MINIMUM)}.")
    found: str | None = selector.get(ACCELERATOR)
    return found


def _settle_container(container: dict[str, Any], number: int, accelerator: str | None) -> dict[str, Any]:
    at = f"{_TASK}.containers[{number}]"
    if not container.get("image"):
        raise invalid(f"{at}.image", "an image is required.")
    check_variables(container.get("env", []), f"{at}.env")
    asked = container.get("resources", {}).get("limits", {})
    gpus = asked.get(GPU, "0")
    if gpus not in ("0", "1"):
        raise invalid(f"{at}.resources.limits[{GPU}]", f"should be 0 or 1, not {gpus}.")
    gpu = (accelerator or "nvidia-l4") if gpus == "1" else None
    limits = {**(DEFAULT_GPU_SIZE[gpu] if gpu else DEFAULT_SIZE), **asked}
    _check_size(limits, f"{at}.resources.limits", gpu)
    return {**container, "resources": {**container.get("resources", {}), "limits": limits}}


def check_variables(variables: Sequence[dict[str, Any]], at: str) -> None:
    """Raises Refused for variables that a container may not be given."""
    names = [one.get("name", "") for one in variables]
    if len(names) > MAX_VARIABLES:
        raise invalid(at, f"should have at most {MAX_VARIABLES} variables, not {len(names)}.")
    reserved = [name for name in names if is_reserved(name)]
    if reserved:
        raise invalid(
            at,
            f"The following reserved env names were provided: {', '.join(reserved)}. These values are automatically "
            "set by the system.",
        )
    for name in names:
        if not _VARIABLE.fullmatch(name) or names.count(name) > 1:
            raise invalid(at, f"'{name}' is no name of a variable, or is there twice.")


def _check_size(limits: dict[str, str], at: str, gpu: str | None) -> None:
    unknown = set(limits) - {"cpu", "memory", GPU}
    if unknown:
        raise invalid(at, f"'{sorted(unknown)[0]}' is not supported.")
    cpus, memory = (_read_amount(limits[name], name, at) for name in ("cpu", "memory"))
    if gpu is None and cpus not in MEMORY_FOR_CPUS:
        raise invalid(f"{at}.cpu", f"Invalid value specified for cpu: '{limits['cpu']}'. Use 1, 2, 4, 6 or 8.")
    if gpu is not None:
        _check_gpu_minimum(gpu, cpus, memory, at)
    if cpus in MEMORY_FOR_CPUS:
        least, most = MEMORY_FOR_CPUS[int(cpus)]
        if not least <= memory / _MEBIBYTE <= most:
            raise invalid(
                f"{at}.memory",
                f"Invalid value specified for memory. For {cpus:.1f} CPU, memory must be between {_shown(least)} and "
                f"{_shown(most)} inclusive.",
            )


def _read_amount(text: str, name: str, at: str) -> float:
    try:
        return float(amount(text))
    except ValueError:
        raise invalid(f"{at}.{name}", f"Invalid value specified for {name}: '{text}'.") from None


def _check_gpu_minimum(gpu: str, cpus: float, memory: float, at: str) -> None:
    least_cpus, least_memory = GPU_MINIMUM[gpu]
    if cpus < least_cpus:
        raise invalid(f"{at}.cpu", f"A task with {gpu} needs at least {least_cpus} CPUs, not {cpus:g}.")
    if cpus not in MEMORY_FOR_CPUS and least_cpus <= max(MEMORY_FOR_CPUS):
        raise invalid(f"{at}.cpu", f"Invalid value specified for cpu with {gpu}: {cpus:g}. Use 4, 6 or 8.")
    if memory < least_memory * 1024 * _MEBIBYTE:
        raise invalid(f"{at}.memory", f"A task with {gpu} needs at least {least_memory}Gi of memory.")


def _shown(mebibytes: int) -> str:
    return f"{mebibytes // 1024}Gi" if mebibytes % 1024 == 0 else f"{mebibytes}Mi"
