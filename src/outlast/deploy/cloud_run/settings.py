"""What a description comes to on Cloud Run: every default filled in, and refused here what Cloud Run would refuse."""

import hashlib
import math
from dataclasses import dataclass

from outlast.clock import format_duration
from outlast.deploy.description import BadSetting, Description
from outlast.deploy.exposure import Exposure
from outlast.emulate.quantities import amount
from outlast.platforms.cloud_run import CloudRunPlatform
from outlast.platforms.cloud_run_limits import (
    ADVISED_GPU_SIZE,
    GPU_MINIMUM,
    MAX_GPUS,
    MAX_TASKS,
    MEMORY_FOR_CPUS,
    is_reserved,
    longest_timeout_seconds,
    needs_preview,
)

_FACTS = CloudRunPlatform.facts
_DAY = 86400
_SPARE_RETRIES = 2  # for failures of the program itself, beside the interruptions that are expected
_COPIES_OF_STATE = 3  # the training's own, the copy that is saved beside it, and the file that a mounted bucket stages
_CPUS, _MEMORY = "2", "4Gi"
_GIB, _MIB = 1 << 30, 1 << 20
_MOST_ACCOUNT = 30  # letters of a service account's name; 6 at least


@dataclass(frozen=True, slots=True, kw_only=True)
class CloudRunJob:
    """A job, with nothing left open.

    `notes` are for the reader: what was chosen for them, and why. `warnings`: what may keep it from its end.
    """

    name: str
    project: str
    region: str
    command: tuple[str, ...]
    env: tuple[tuple[str, str], ...]
    cpu: str
    memory: str
    gpu: str | None
    tasks: int
    parallelism: int | None
    timeout_seconds: int
    retries: int
    bucket: str | None
    prefix: str
    mount_path: str | None
    service_account: str
    makes_account: bool
    builder: str
    repository: str
    makes_repository: bool
    preview: bool
    exposure: Exposure
    notes: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()

    @property
    def host(self) -> str:
        return f"{self.region}-docker.pkg.dev"


def settle(described: Description) -> CloudRunJob:
    """The job. Raises BadSetting, with the key, for what Cloud Run does not have or take."""
    check_hardware(described)
    notes: list[str] = []
    warnings: list[str] = []
    gpu = described.hardware.gpu
    timeout = _timeout(described, notes)
    retries = _retries(described, timeout, warnings)
    mounted = described.bucket is not None and described.access != "native"
    cpu, memory = _size(described, notes, warnings, mounted=mounted)
    project, region = _given(described.project, "project"), _given(described.region, "region")
    own = described.service_account
    _check_url(described)
    return CloudRunJob(
        name=described.name,
        project=project,
        region=region,
        command=described.full_command,
        env=_variables(described, timeout, mounted=mounted),
        cpu=cpu,
        memory=memory,
        gpu=gpu,
        tasks=described.tasks,
        parallelism=described.parallelism,
        timeout_seconds=timeout,
        retries=retries,
        bucket=described.bucket,
        prefix=described.prefix,
        mount_path=described.mount_path.rstrip("/") if mounted else None,
        service_account=own or account_of(described.name, "job", project),
        makes_account=own is None,
        builder=account_of(described.name, "build", project),
        repository=described.repository or described.name,
        makes_repository=described.repository is None,
        preview=needs_preview(timeout, gpu=gpu is not None),
        exposure=Exposure(
            timeout_seconds=timeout,
            retries=retries,
            tasks=described.tasks,
            gpus=described.hardware.gpus,
            price=described.price_per_gpu_hour,
            currency=described.currency,
        ),
        notes=tuple(notes),
        warnings=tuple(warnings),
    )


def wanted_retries(run_seconds: float, timeout_seconds: float) -> int:
    """Enough for the interruptions and timeouts to expect in a run of that length, and some spare; 10 at most."""
    interruptions = math.ceil(run_seconds / _FACTS.mean_seconds_between_interruptions)
    timeouts = math.ceil(run_seconds / timeout_seconds) - 1
    return min(interruptions + timeouts + _SPARE_RETRIES, _FACTS.max_retries or 0)


def account_of(job: str, what: str, project: str) -> str:
    """The address of the service account that is made for a job, shortened where a name may not be as long."""
    name = f"{job}-{what}"
    if len(name) > _MOST_ACCOUNT:
        digest = hashlib.sha256(job.encode()).hexdigest()[:6]
        name = f"{job[: _MOST_ACCOUNT - len(what) - 8].rstrip('-')}-{digest}-{what}"
    if ":" in project:  # example.com:my-project has the address my-project.example.com
        domain, _, project = project.partition(":")
        project = f"{project}.{domain}"
    return f"{name.ljust(6, '0')}@{project}.iam.gserviceaccount.com"


def check_hardware(described: Description) -> None:
    """Raises BadSetting for what Cloud Run has for nobody."""
    hardware = described.hardware
    for name in ("spot", "flex_start", "tpu", "machine_type"):
        if getattr(hardware, name):
            raise BadSetting(f"hardware.{name}", "Cloud Run jobs have no such thing; leave it out, or deploy to gke")
    if hardware.gpu is not None and hardware.gpu not in GPU_MINIMUM:
        raise BadSetting("hardware.gpu", f"{hardware.gpu!r} is none of Cloud Run's: {', '.join(GPU_MINIMUM)}")
    if hardware.gpus > MAX_GPUS:
        raise BadSetting("hardware.gpus", f"a task of Cloud Run has at most {MAX_GPUS}, not {hardware.gpus}")
    if described.tasks > MAX_TASKS:
        raise BadSetting("tasks", f"{described.tasks} are more than the {MAX_TASKS} that Cloud Run takes")
    reserved = [name for name, _ in described.env if is_reserved(name)]
    if reserved:
        raise BadSetting("env", f"{reserved[0]} is set by Cloud Run itself; leave it out")


def _given(said: str | None, key: str) -> str:
    if said is None:
        raise BadSetting(key, f"it is missing; write {key} into the description, or give --{key}")
    return said


def _check_url(described: Description) -> None:
    if described.url is not None and "://" not in described.url:
        raise BadSetting(
            "url",
            f"{described.url!r} is a folder of the container, which is memory and gone with it; give gs://BUCKET/…",
        )


def _timeout(described: Description, notes: list[str]) -> int:
    """Of one attempt. A run that takes longer than the most goes on in the next attempt."""
    gpu = described.hardware.gpu is not None
    most = longest_timeout_seconds(gpu=gpu)
    said, run = described.timeout_seconds, described.run_seconds
    if said is not None:
        if said > most:
            what = "with a GPU " if gpu else ""
            raise BadSetting("timeout", f"{format_duration(said)} is more than Cloud Run gives {what}({most} s)")
        timeout = math.ceil(said)
    elif run is not None:
        timeout = min(most, math.ceil((run * 1.25 + 600) / 60) * 60)
        notes.append(f"timeout {format_duration(timeout)}: the run time, a quarter more and 10 min, at most {most} s")
    else:
        timeout = most if gpu else _DAY
        notes.append(f"timeout {format_duration(timeout)}, as no run_time is described")
    if needs_preview(timeout, gpu=gpu):
        notes.append("more than 1 h with a GPU is in Preview (launch stage BETA), and may be refused")
    return timeout


def _retries(described: Description, timeout: int, warnings: list[str]) -> int:
    most = _FACTS.max_retries or 0
    run = described.run_seconds or timeout
    wanted = wanted_retries(run, timeout)
    said = described.retries
    if said is not None and said > most:
        raise BadSetting("retries", f"{said} are more than the {most} that Cloud Run takes")
    if said == 0:
        raise BadSetting("retries", f"with 0 the first interruption is the end of the job; give {wanted}")
    retries = wanted if said is None else said
    if retries < wanted:
        warnings.append(
            f"{retries} retries are less than the {wanted} that the interruptions to expect and "
            f"{_SPARE_RETRIES} failures need"
        )
    if run > timeout * (retries + 1):
        warnings.append(
            f"the run takes {format_duration(run)}, and one execution lasts {format_duration(timeout * (retries + 1))} "
            "at most: execute the job again to go on, it resumes"
        )
    return retries


def _size(described: Description, notes: list[str], warnings: list[str], *, mounted: bool) -> tuple[str, str]:
    """CPUs and memory that Cloud Run takes together, with room for the saves."""
    hardware = described.hardware
    cpu, memory = ADVISED_GPU_SIZE[hardware.gpu] if hardware.gpu else (_CPUS, _MEMORY)
    cpu, chosen = hardware.cpu or cpu, hardware.memory or memory
    state = described.measured.state_bytes
    needed = 0 if state is None else (state * (_COPIES_OF_STATE if mounted else _COPIES_OF_STATE - 1)) + _GIB
    if hardware.memory is None and hardware.cpu is None and hardware.gpu is None:
        fitting = [cpus for cpus, (_, most) in MEMORY_FOR_CPUS.items() if cpus >= int(_CPUS) and most * _MIB >= needed]
        cpu = str(fitting[0] if fitting else max(MEMORY_FOR_CPUS))
    if hardware.memory is None and amount(chosen) < needed:
        chosen = f"{math.ceil(needed / _GIB)}Gi"
        notes.append(f"memory {chosen}: room for the state, the copy that is saved, and the file that the mount stages")
    elif amount(chosen) < needed:
        warnings.append(f"memory {chosen} has no room for {_COPIES_OF_STATE} times the state: saves may end the task")
    _check_size(described, cpu, chosen)
    return cpu, chosen


def _check_size(described: Description, cpu: str, memory: str) -> None:
    gpu, cpus, size = described.hardware.gpu, float(amount(cpu)), float(amount(memory))
    if gpu is not None:
        least_cpus, least_gib = GPU_MINIMUM[gpu]
        if cpus < least_cpus:
            raise BadSetting("hardware.cpu", f"{gpu} needs at least {least_cpus} CPUs, not {cpu}")
        if size < least_gib * _GIB:
            raise BadSetting("hardware.memory", f"{gpu} needs at least {least_gib}Gi, not {memory}")
    if cpus in MEMORY_FOR_CPUS:
        least, most = MEMORY_FOR_CPUS[int(cpus)]
        if not least * _MIB <= size <= most * _MIB:
            raise BadSetting("hardware.memory", f"with {cpu} CPUs it is {least}Mi to {most}Mi, not {memory}")
    elif gpu is None or cpus < max(MEMORY_FOR_CPUS):
        counts = ", ".join(map(str, MEMORY_FOR_CPUS))
        raise BadSetting("hardware.cpu", f"a task has one of {counts} CPUs, not {cpu}")


def _variables(described: Description, timeout: int, *, mounted: bool) -> tuple[tuple[str, str], ...]:
    """The user's own beat ours."""
    ours = {"OUTLAST_TIMEOUT": f"{timeout}s"}
    if described.url is not None:
        ours["OUTLAST_URL"] = described.mounted_folder if mounted else described.url
    return tuple({**ours, **dict(described.env)}.items())
