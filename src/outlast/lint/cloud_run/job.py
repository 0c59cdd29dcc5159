"""A Cloud Run job as the rules see it: one model for manifests, gcloud command lines and Terraform.

Each setting is a node: it is set, missing (falsy; it stands where its parent does) or unknown (`is_unknown`).
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from itertools import islice

from outlast.lint.reading.yaml_nodes import Node
from outlast.lint.rule import Place

_MOST_MOUNTS = 200
_DURATION = re.compile(r"(?:\d+(?:\.\d+)?[wdhms])+|\d+(?:\.\d+)?")
_PART = re.compile(r"(\d+(?:\.\d+)?)([wdhms]?)")
_UNITS = {"w": 7 * 86400, "d": 86400, "h": 3600, "m": 60, "s": 1, "": 1}
_MEMORY = re.compile(r"(\d+(?:\.\d+)?)\s*([KMGT]i?|[kmgt])?[Bb]?")
_BYTES = {"": 1, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "Ki": 1 << 10, "Mi": 1 << 20, "Gi": 1 << 30, "Ti": 1 << 40}


class Form(StrEnum):
    """How a job is described."""

    MANIFEST = "manifest"
    API = "v2 resource"
    COMMAND = "command line"
    TERRAFORM = "Terraform"


@dataclass(frozen=True, slots=True)
class Mount:
    """Where a container sees a volume."""

    volume: Node
    path: Node


@dataclass(frozen=True, slots=True)
class Volume:
    """`kind`: "bucket", "nfs", "memory", "secret", "other" or "unknown". `node`: the whole of it."""

    name: Node
    kind: str
    read_only: Node
    bucket: Node
    node: Node

    @property
    def persists(self) -> bool:
        """Whether what is written there outlives the attempt; a volume of an unknown kind may."""
        return self.kind in ("bucket", "nfs", "unknown")


@dataclass(frozen=True, slots=True)
class Container:
    """One container. `open`: its variables, mounts or arguments come from elsewhere too (a file, a dynamic block)."""

    node: Node
    image: Node
    command: Node
    arguments: Node
    environment: tuple[tuple[Node, Node], ...]
    mounts: tuple[Mount, ...]
    cpu: Node
    memory: Node
    gpus: Node
    open: bool = False


@dataclass(frozen=True, slots=True)
class CloudRunJob:
    """A job. `partial`: what is not named is kept as it is (`jobs update`), so nothing is "unset".

    `task`: where a setting of the task that is not there would stand.
    `redundancy_off`: whether zonal redundancy of GPUs is switched off, as text "true" or "false".
    `preview`: it asks for a launch stage (BETA or ALPHA), by annotation or by gcloud's track.
    """

    form: Form
    place: Place
    task: Place
    name: Node
    timeout: Node
    retries: Node
    tasks: Node
    parallelism: Node
    gpu_type: Node
    redundancy_off: Node
    service_account: Node
    region: Node
    preview: bool
    containers: tuple[Container, ...]
    volumes: tuple[Volume, ...]
    partial: bool = False

    @property
    def called(self) -> str:
        """The job, for a message."""
        known = self.name.kind == "scalar" and not self.name.is_unknown and self.name.text
        return f"the job {self.name.text}" if known else "this job"

    @property
    def timeout_seconds(self) -> float | None:
        """Per attempt; None where it is not set or not known."""
        return seconds_of(self.timeout)

    @property
    def gpus(self) -> Node:
        """How many GPUs: of the first container that says so."""
        found = next((one.gpus for one in self.containers if one.gpus.is_set), None)
        return found if found is not None else missing(self.place)

    @property
    def uses_gpu(self) -> bool:
        """Whether it surely has one."""
        if self.gpus.is_set and not (self.gpus.is_unknown and self.gpu_type.is_set):
            return not self.gpus.is_unknown and self.gpus.text not in ("0", "")
        return self.gpu_type.is_set and self.gpu_type.text != ""

    @property
    def accelerator(self) -> str | None:
        """The GPU's type where it is known."""
        known = self.gpu_type.is_set and not self.gpu_type.is_unknown
        return self.gpu_type.text if known else None

    @property
    def task_count(self) -> int | None:
        """1 where it is not set; None where it is not known."""
        if not self.tasks.is_set:
            return None if self.partial else 1
        return self.tasks.number

    @property
    def open(self) -> bool:
        """Whether something of it is told elsewhere."""
        return self.partial or any(one.open for one in self.containers)

    def mounts(self) -> Iterator[tuple[Mount, Volume | None]]:
        """Every mount with its volume; None where there is none of that name."""
        volumes = {one.name.text: one for one in reversed(self.volumes)}
        for mount in islice((mount for one in self.containers for mount in one.mounts), _MOST_MOUNTS):
            yield mount, volumes.get(mount.volume.text)


def missing(place: Place) -> Node:
    """A setting that is not there."""
    return Node("missing", place.line, place.column)


def seconds_of(node: Node) -> float | None:
    """A duration as Cloud Run's tools write it: 43200, "43200s", 12h, 1h30m."""
    text = node.text.strip()
    if node.kind != "scalar" or node.is_unknown or not _DURATION.fullmatch(text):
        return None
    return sum(float(number) * _UNITS[unit] for number, unit in _PART.findall(text))


def bytes_of(node: Node) -> float | None:
    """An amount of memory: 512Mi, 16Gi, 2G; None where it is not known."""
    found = _MEMORY.fullmatch(node.text.strip()) if node.kind == "scalar" and not node.is_unknown else None
    if found is None:
        return None
    unit = found[2] or ""
    return float(found[1]) * _BYTES[unit if unit in _BYTES else unit.upper()]


def cpus_of(node: Node) -> float | None:
    """A number of CPUs: 4, "4000m", 0.5."""
    text = node.text.strip()
    if node.kind != "scalar" or node.is_unknown or not re.fullmatch(r"\d+(\.\d+)?m?", text):
        return None
    return float(text[:-1]) / 1000 if text.endswith("m") else float(text)


def told_hours(seconds: float) -> str:
    """A time for a message: "168 h", "90 min"."""
    if seconds >= 3600:
        return f"{seconds / 3600:g} h" if seconds % 3600 == 0 else f"{seconds / 3600:.1f} h"
    return f"{seconds / 60:g} min" if seconds % 60 == 0 else f"{seconds:g} s"
