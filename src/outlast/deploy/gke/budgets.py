"""How often a job's pods may fail, how long it may run in all, and what that costs at worst.

Facts as of 2026-11-30. Kubernetes, "Jobs": activeDeadlineSeconds counts from the Job's start over all its pods, also
while they wait for a node, and beats backoffLimit; when it is reached the Job has failed and its pods get SIGTERM.
"""

import math
from dataclasses import dataclass

from outlast.clock import format_duration
from outlast.deploy.description import Description
from outlast.deploy.gke.nodes import FLEX_START_SECONDS, Nodes
from outlast.platforms import kubernetes

_START_SECONDS = 600.0  # a new machine, its drivers, the image, the checkpoint: after each interruption
_OVERHEAD = 1.25  # saves, and work that is done again
_ROOM = 2.0
_WAITING_SECONDS = 24 * 3600.0  # for capacity, in all


@dataclass(frozen=True, slots=True, kw_only=True)
class Exposure:
    """What a deployment may use at worst: `units` of a `kind` (GPUs, TPU chips, pods) for `hours`; None: no end.

    `more`: what may come on top of it. `price` is of one unit's hour.
    """

    hours: float | None
    units: int
    kind: str
    price: float | None = None
    currency: str = "USD"
    more: str = ""

    @property
    def unit_hours(self) -> float | None:
        return None if self.hours is None else self.hours * self.units

    @property
    def text(self) -> str:
        """For people, before they are asked."""
        what = f"{self.units} x {self.kind}"
        if self.hours is None or self.unit_hours is None:
            return f"{what}, and nothing ends it by itself{self.more}"
        sums = f"{what} for {format_duration(self.hours * 3600)} at most = {self.unit_hours:,.0f} hours"
        money = "" if self.price is None else f", {self.price * self.unit_hours:,.2f} {self.currency}"
        return f"{sums}{money}{self.more}"


def failures_allowed(description: Description, nodes: Nodes) -> int:
    """The back-off limit: the usual one, and room for sudden ends that nobody recognises as disruptions."""
    if description.retries is not None:
        return description.retries
    return kubernetes.FACTS.default_retries + math.ceil(
        interruptions(description, nodes) * (1.0 - kubernetes.FACTS.notice_share)
    )


def interruptions(description: Description, nodes: Nodes) -> float:
    """How many a run of the expected length will meet; 0 where its length is not known."""
    return (description.run_seconds or 0.0) / nodes.between_seconds


def deadline_seconds(description: Description, nodes: Nodes) -> int | None:
    """The whole job's limit, generous: a checkpoint outlives it, so it protects the bill and loses no work."""
    if description.run_seconds is None:
        return None
    turns = math.ceil(description.tasks / (description.parallelism or description.tasks))
    working = description.run_seconds * _OVERHEAD + interruptions(description, nodes) * _START_SECONDS + _START_SECONDS
    waiting = FLEX_START_SECONDS if nodes.hardware.flex_start else _WAITING_SECONDS
    return math.ceil((working * turns * _ROOM + waiting) / 3600) * 3600


def exposure(description: Description, nodes: Nodes, *, pods: int, ends: bool = True, restarts: int = 0) -> Exposure:
    """What so many pods at a time may use; `ends`: whether there is a limit; `restarts`: of the whole, each with it."""
    hardware = nodes.hardware
    seconds = deadline_seconds(description, nodes) if ends else None
    more = "; give run_time for a limit" if ends and seconds is None else ""
    if restarts and seconds is not None:
        more = "; disruptions, which cost no restart, may add to it"
    each = hardware.gpus or nodes.tpu_chips
    kind = hardware.gpu or (f"TPU {hardware.tpu}" if hardware.tpu else "pod")
    return Exposure(
        hours=None if seconds is None else seconds * (restarts + 1) / 3600,
        units=(each or 1) * pods,
        kind=kind,
        price=description.price_per_gpu_hour,
        currency=description.currency,
        more=more,
    )
