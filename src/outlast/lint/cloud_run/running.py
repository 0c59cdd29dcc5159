"""Checks on time, attempts, tasks and hardware (CR001-CR012, CR023, CR024)."""

import math
from collections.abc import Iterator

from outlast.lint.cloud_run import rules_running as rules
from outlast.lint.cloud_run.evidence import trains
from outlast.lint.cloud_run.job import CloudRunJob, Container, Form, bytes_of, cpus_of, told_hours
from outlast.lint.known import Known
from outlast.lint.rule import ERROR, INFO, WARNING, Finding
from outlast.platforms.cloud_run import CloudRunPlatform
from outlast.platforms.cloud_run_limits import (
    DEFAULT_TIMEOUT_SECONDS,
    GPU_MINIMUM,
    MAX_GPUS,
    MAX_TIMEOUT_SECONDS,
    longest_timeout_seconds,
    needs_preview,
)

_FACTS = CloudRunPlatform.facts
_MOST_RETRIES = 10 if _FACTS.max_retries is None else _FACTS.max_retries
_GIB = 1 << 30
_COMFORTABLE = 16 * _GIB  # for an L4; below it a checkpoint that is staged in memory hardly fits
_LEAST_TOLD_HOURS = 1.0


def check(job: CloudRunJob, known: Known) -> Iterator[Finding]:
    """All of them for one job."""
    yield from _timeout(job)
    yield from _retries(job)
    yield from _exposure(job, known)
    yield from _gpu(job)
    for container in job.containers:
        yield from _size(job, container)
    yield from _parallelism(job)


def _timeout(job: CloudRunJob) -> Iterator[Finding]:
    seconds = job.timeout_seconds
    if seconds is None:
        if not job.timeout.is_set and not job.partial and (job.uses_gpu or trains(job)):
            minutes = DEFAULT_TIMEOUT_SECONDS // 60
            yield rules.NO_TIMEOUT.at(
                job.task, f"{job.called} sets no task timeout: each attempt ends after {minutes} min"
            )
        return
    longest = longest_timeout_seconds(gpu=job.uses_gpu)
    if seconds > longest and job.uses_gpu:
        told = f"{job.called} has a GPU and a task timeout of {told_hours(seconds)}; the most is {told_hours(longest)}"
        yield rules.GPU_TIMEOUT.at(job.timeout, told)
    elif seconds > MAX_TIMEOUT_SECONDS:
        told = f"the task timeout of {told_hours(seconds)} is above the maximum of {told_hours(MAX_TIMEOUT_SECONDS)}"
        yield rules.LONGEST.at(job.timeout, told)
    elif needs_preview(seconds, gpu=job.uses_gpu) and not job.preview and not job.partial:
        told = (
            f"{told_hours(seconds)} with a GPU is a Preview feature: it needs the launch stage BETA, and may be refused"
        )
        yield rules.GPU_PREVIEW.at(job.timeout, told)


def _retries(job: CloudRunJob) -> Iterator[Finding]:
    number = job.retries.number
    if number is None:
        return
    if not 0 <= number <= _MOST_RETRIES:
        yield rules.TOO_MANY_RETRIES.at(job.retries, f"{number} retries; Cloud Run allows 0 to {_MOST_RETRIES}")
    elif number == 0:
        yield _no_retry(job)
    elif job.uses_gpu:
        yield from _few_retries(job, number)


def _no_retry(job: CloudRunJob) -> Finding:
    if job.uses_gpu:
        told = f"{job.called} has a GPU and no retries: the first maintenance fails it for good"
        return rules.NO_RETRY.at(job.retries, told)
    return rules.NO_RETRY.at(
        job.retries, f"{job.called} has no retries: the first crash or timeout fails it", severity=INFO
    )


def _few_retries(job: CloudRunJob, number: int) -> Iterator[Finding]:
    """Only for long tasks: a short one seldom meets the maintenance."""
    seconds, mean = job.timeout_seconds, _FACTS.mean_seconds_between_interruptions
    if seconds is None or not needs_preview(seconds, gpu=True):
        return
    expected = math.ceil(seconds / mean)
    if number < expected + 1:
        told = f"{_counted(number, 'retry', 'retries')} for {told_hours(seconds)}"
        told += f": {_counted(expected, 'interruption is', 'interruptions are')} likely, and faults use retries, too"
        yield rules.FEW_RETRIES.at(job.retries, told)


def _counted(number: int, one: str, several: str) -> str:
    return f"{number:,} {one if number == 1 else several}"


def _exposure(job: CloudRunJob, known: Known) -> Iterator[Finding]:
    seconds, tasks = job.timeout_seconds, job.task_count
    retries = job.retries.number if job.retries.is_set else (None if job.partial else _FACTS.default_retries)
    if seconds is None or tasks is None or retries is None or not job.uses_gpu:
        return
    hours = seconds / 3600 * (retries + 1) * tasks
    if hours > _LEAST_TOLD_HOURS:
        parts = f"{told_hours(seconds)} x {_counted(retries + 1, 'attempt', 'attempts')}"
        parts += f" x {tasks} tasks" if tasks > 1 else ""
        told = f"at worst {job.called} is billed {_counted(round(hours), 'GPU hour', 'GPU hours')}: {parts}"
        yield rules.EXPOSURE.at(job.timeout, told, severity=WARNING if hours > known.exposure_hours else INFO)


def _gpu(job: CloudRunJob) -> Iterator[Finding]:
    number = job.gpus.number
    if number is not None and not 0 <= number <= MAX_GPUS:
        yield rules.NO_GPU_COUNT.at(
            job.gpus, f"{job.called} asks for {number} GPUs; an instance has {MAX_GPUS} at most"
        )
    if job.partial:
        return
    typed = job.gpu_type.is_set and job.gpu_type.text != ""
    counted = job.gpus.is_set
    # The provider's own example of Terraform sets the node selector alone.
    if typed and not counted and job.form is not Form.TERRAFORM and not job.gpu_type.is_unknown:
        flag = "--gpu 1" if job.form is Form.COMMAND else "the limit nvidia.com/gpu"
        yield rules.NO_GPU_COUNT.at(
            job.gpu_type, f"{job.called} names {job.gpu_type.text}, but does not ask for one: {flag} is missing"
        )
    if not job.uses_gpu:
        return
    if counted and not typed:
        yield rules.NO_GPU_TYPE.at(job.gpus, f"{job.called} asks for a GPU, but not for which")
    if not job.redundancy_off.is_set:
        told = f"{job.called} leaves zonal redundancy of its GPU on"
        yield rules.REDUNDANCY.at(job.gpu_type if typed else job.gpus, told)


def _size(job: CloudRunJob, container: Container) -> Iterator[Finding]:
    """What is not set gets a default that fits."""
    if not container.gpus.is_set and (len(job.containers) > 1 or not job.uses_gpu):
        return
    if not job.uses_gpu:
        return
    kind = job.accelerator or "nvidia-l4"
    if kind not in GPU_MINIMUM:
        return
    least_cpus, least_gib = GPU_MINIMUM[kind]
    cpus, memory = cpus_of(container.cpu), bytes_of(container.memory)
    if cpus is not None and cpus < least_cpus:
        told = f"{container.cpu.text} CPUs beside a GPU of type {kind}; it needs {least_cpus}"
        yield rules.SMALL_FOR_GPU.at(container.cpu, told)
    if memory is not None and memory < least_gib * _GIB:
        told = f"{container.memory.text} of memory beside a GPU of type {kind}; it needs {least_gib}Gi"
        yield rules.SMALL_FOR_GPU.at(container.memory, told, severity=ERROR)
    elif memory is not None and memory < _COMFORTABLE:
        told = (
            f"{container.memory.text} of memory beside a GPU of type {kind}; 16Gi are the documented minimum for work"
        )
        yield rules.SMALL_FOR_GPU.at(container.memory, told, severity=WARNING)


def _parallelism(job: CloudRunJob) -> Iterator[Finding]:
    tasks, parallelism = job.task_count, job.parallelism.number
    if tasks is None:
        return
    if parallelism is not None and parallelism > tasks:
        said = f"{tasks} task{'s' if tasks != 1 else ''}" + ("" if job.tasks.is_set else " by default")
        told = (
            f"{parallelism} tasks at once, but there is {said}"
            if tasks == 1
            else f"{parallelism} tasks at once of {said}"
        )
        yield rules.TOO_PARALLEL.at(job.parallelism, told, severity=ERROR if job.tasks.is_set else WARNING)
    unlimited = not job.parallelism.is_set or parallelism == 0
    if unlimited and tasks > 1 and job.uses_gpu and not job.partial:
        yield rules.ALL_AT_ONCE.at(job.tasks, f"{tasks} tasks with a GPU start at once, as parallelism is not set")
