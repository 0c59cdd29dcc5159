"""Checks on what a job keeps, and who it is (CR014-CR020, CR022, CR026, CR027, CR032)."""

import re
from collections.abc import Iterator
from pathlib import PurePosixPath

from outlast.lint.cloud_run import rules_keeping as rules
from outlast.lint.cloud_run.evidence import (
    Setting,
    checkpoint_paths,
    interval_seconds,
    leads_out,
    mentions,
    settings_of,
    trains,
)
from outlast.lint.cloud_run.job import CloudRunJob, Volume, bytes_of, told_hours
from outlast.lint.known import Known
from outlast.lint.reading.yaml_nodes import Node
from outlast.lint.rule import ERROR, INFO, WARNING, Finding
from outlast.platforms.cloud_run import CloudRunPlatform
from outlast.platforms.cloud_run_limits import is_reserved

_SHARE_OF_GRACE = 0.8  # a save that needs the whole of it meets SIGKILL every other time
_RAREST_SECONDS = 15 * 60
_RAREST_SHARE = 0.1
_ADDRESS = re.compile(r"[^@\s]+@[^@\s]+\.gserviceaccount\.com")
_DEFAULT_ACCOUNT = re.compile(r"(\d+-compute@developer|[^@]+@appspot)\.gserviceaccount\.com")
_MEMBER = "serviceAccount:"
_KEEPS = re.compile(r"check_?point|ckpt", re.IGNORECASE)
_INDEX = "TASK_INDEX"


def check(job: CloudRunJob, known: Known) -> Iterator[Finding]:
    """All of them for one job."""
    yield from _mounts(job)
    yield from _places(job)
    yield from _read_only(job)
    yield from _sizes(job, known)
    yield from _regions(job, known)
    yield from _account(job)
    yield from _variables(job)
    yield from _tasks(job)
    yield from _intervals(job)


def _mounts(job: CloudRunJob) -> Iterator[Finding]:
    if job.open:
        return
    for mount, volume in job.mounts():
        named = mount.volume.is_set and not mount.volume.is_unknown and mount.volume.text
        if named and volume is None and not any(one.name.is_unknown for one in job.volumes):
            yield rules.NO_SUCH_VOLUME.at(mount.volume, f"there is no volume {mount.volume.text} to mount")


def _places(job: CloudRunJob) -> Iterator[Finding]:
    """Checkpoints that go to a lost folder, or a job with nowhere to put any."""
    if job.open:
        return
    paths = checkpoint_paths(job)
    training = trains(job)
    persisting = [one for one in job.volumes if one.persists]
    lost = [one for one in paths if not _is_kept(job, one)]
    for one in lost:
        where = "is in memory" if _holder(job, one) is not None else "is below no volume"
        told = f"{one.name} is {one.value.text}, which {where}: what is saved there ends with the attempt"
        yield rules.OUTSIDE_MOUNTS.at(one.value, told, severity=ERROR if training else WARNING)
    if persisting or lost or leads_out(job):
        return
    if training:
        told = f"{job.called} trains, but has no volume and no bucket to save to"
        yield rules.KEEPS_NOTHING.at(job.task, told)
    elif job.uses_gpu:
        told = f"{job.called} has a GPU, but no volume and no bucket to save to"
        yield rules.KEEPS_NOTHING.at(job.task, told, severity=INFO)


def _is_kept(job: CloudRunJob, setting: Setting) -> bool:
    """Whether a path is below a volume that persists; what is not known may be one."""
    if any(mount.path.is_unknown for mount, _ in job.mounts()):
        return True
    holder = _holder(job, setting)
    return holder is not None and holder.persists


def _holder(job: CloudRunJob, setting: Setting) -> Volume | None:
    """The volume that a path is on: that of the longest mount path above it."""
    path = PurePosixPath(setting.value.text)
    found = [
        (mount.path.text, volume)
        for mount, volume in job.mounts()
        if mount.path.text.startswith("/") and path.is_relative_to(PurePosixPath(mount.path.text))
    ]
    return max(found, key=lambda pair: len(pair[0]))[1] if found else None


def _read_only(job: CloudRunJob) -> Iterator[Finding]:
    paths = checkpoint_paths(job)
    told: set[tuple[int, int]] = set()
    for mount, volume in job.mounts():
        if volume is None or volume.read_only.truth is not True or volume.kind not in ("bucket", "nfs"):
            continue
        holds = any(_holder(job, one) is volume for one in paths)
        named = _KEEPS.search(volume.name.text) or _KEEPS.search(mount.path.text)
        place = (volume.read_only.line, volume.read_only.column)
        if (holds or named) and place not in told:
            told.add(place)
            yield rules.READ_ONLY.at(volume.read_only, f"checkpoints go to {mount.path.text}, which is read-only")


def _sizes(job: CloudRunJob, known: Known) -> Iterator[Finding]:
    if known.state_bytes is not None and any(one.kind == "bucket" for one in job.volumes):
        for container in job.containers:
            memory = bytes_of(container.memory)
            if memory is not None and memory < known.state_bytes:
                told = f"{container.memory.text} of memory for a checkpoint of {known.state_bytes / (1 << 30):.1f}Gi"
                yield rules.LITTLE_MEMORY.at(container.memory, told)
    usable = _SHARE_OF_GRACE * CloudRunPlatform.facts.grace_seconds
    matters = not job.partial and (job.uses_gpu or trains(job))
    if known.save_seconds is not None and known.save_seconds > usable and matters:
        told = f"a save takes {known.save_seconds:g} s, and Cloud Run waits {CloudRunPlatform.facts.grace_seconds:g} s"
        yield rules.SLOW_SAVE.at(job.place, told)


def _regions(job: CloudRunJob, known: Known) -> Iterator[Finding]:
    regions = {name: region.lower() for name, region in known.bucket_regions}
    if not job.region.is_set or job.region.is_unknown:
        return
    here = job.region.text.lower()
    for volume in job.volumes:
        there = regions.get(volume.bucket.text)
        if there is not None and there != here and not here.startswith(_continent(there)):
            told = f"the bucket {volume.bucket.text} is in {there}, the job in {here}"
            yield rules.FAR_BUCKET.at(volume.bucket, told)


def _continent(region: str) -> str:
    """What the regions of a multi-region begin with; a plain region has none."""
    return {"us": "us-", "eu": "europe-", "asia": "asia-"}.get(region, "no continent")


def _account(job: CloudRunJob) -> Iterator[Finding]:
    account = job.service_account
    if not account.is_set or account.text == "":
        if not job.partial and job.containers:
            told = f"{job.called} names no service account and runs as the project's default one"
            yield rules.ACCOUNT.at(job.task, told)
        return
    fault = fault_of_address(account)
    if fault is not None:
        yield rules.ACCOUNT.at(account, fault, severity=ERROR)
    elif not account.is_unknown and _DEFAULT_ACCOUNT.fullmatch(account.text):
        yield rules.ACCOUNT.at(account, f"{job.called} runs as {account.text}, the project's default account")


def fault_of_address(account: Node) -> str | None:
    """What is wrong with a service account's address; None where it may be right. A bare name is left alone."""
    text = account.text.strip()
    if text.startswith(_MEMBER):
        return f"{text} is a member of IAM; here stands the address alone, without {_MEMBER}"
    if account.is_unknown or "@" not in text or _ADDRESS.fullmatch(text):
        return None
    return f"{text} is no service account's address: it does not end with .iam.gserviceaccount.com"


def _variables(job: CloudRunJob) -> Iterator[Finding]:
    for container in job.containers:
        for name, _ in container.environment:
            if name.kind == "scalar" and is_reserved(name.text):
                yield rules.RESERVED.at(name, f"{name.text} is set by Cloud Run itself")


def _tasks(job: CloudRunJob) -> Iterator[Finding]:
    tasks = job.task_count
    if tasks is None or tasks < 2 or mentions(job, _INDEX):
        return
    for one in settings_of(job):
        place = one.value.text.startswith(("/", "gs://")) and not one.value.is_unknown
        if one.is_checkpoint and place and not one.name.upper().startswith("OUTLAST"):
            told = f"{tasks} tasks are given {one.value.text} for checkpoints; each needs a place of its own"
            yield rules.SAME_PLACE.at(one.value, told)


def _intervals(job: CloudRunJob) -> Iterator[Finding]:
    for one in settings_of(job):
        seconds = interval_seconds(one)
        if seconds is None:
            continue
        timeout = job.timeout_seconds
        if seconds > _RAREST_SECONDS:
            told = f"{one.name} is {told_hours(seconds)}: as much work is lost at each interruption"
            yield rules.RARE_SAVES.at(one.value, told)
        elif timeout is not None and seconds > _RAREST_SHARE * timeout:
            told = f"{one.name} is {told_hours(seconds)}, and an attempt ends after {told_hours(timeout)}"
            yield rules.RARE_SAVES.at(one.value, told)
