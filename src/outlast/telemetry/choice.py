"""Whether a process tells monitoring systems of itself, and how: what OpenTelemetry's own variables say.

Variables as of 2026-11-30: OpenTelemetry specification, "Environment Variable Specification" and "OTLP Exporter".
"""

import math
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from outlast.checkpoint.places import TaskPlace
from outlast.events import Event
from outlast.metering import JOB, QUEUE, RUN, TASK, Subject
from outlast.settings import REHEARSAL_STORE, Surroundings
from outlast.urls import masked

if TYPE_CHECKING:
    from outlast.telemetry.pipe import Telemetry

METRICS_PORT = "OUTLAST_METRICS_PORT"  # where Prometheus may ask this process: PORT, or ADDRESS:PORT
_ENDPOINT = "OTEL_EXPORTER_OTLP_ENDPOINT"
_METRICS_ENDPOINT, _TRACES_ENDPOINT = "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"
_INTERVAL, _INTERVAL_SECONDS = "OTEL_METRIC_EXPORT_INTERVAL", 60.0
_LEAST_INTERVAL_SECONDS = 0.5


@dataclass(frozen=True, slots=True)
class Wanted:
    """What is wanted of a process: numbers and spans pushed by OTLP, a port for Prometheus."""

    metrics: bool = False
    traces: bool = False
    listen: str | None = None

    def __bool__(self) -> bool:
        return self.metrics or self.traces or self.listen is not None


def wanted(env: Mapping[str, str]) -> Wanted:
    """What the environment asks for. Nothing in a rehearsal, whose interruptions are to alarm nobody."""
    if env.get(REHEARSAL_STORE):
        return Wanted()
    off = env.get("OTEL_SDK_DISABLED", "").strip().lower() == "true"

    def is_on(signal: str, own: str) -> bool:
        there = env.get(_ENDPOINT) or env.get(own)
        chosen = env.get(f"OTEL_{signal}_EXPORTER") or "otlp"
        return bool(there) and not off and "otlp" in [one.strip() for one in chosen.split(",")]

    listen = env.get(METRICS_PORT, "").strip() or None
    return Wanted(is_on("METRICS", _METRICS_ENDPOINT), is_on("TRACES", _TRACES_ENDPOINT), listen)


class Watched(Protocol):
    """A job, as far as its numbers want to know more than events tell."""

    @property
    def completed_steps(self) -> int: ...


class Listener(Protocol):
    """What a journal tells its events."""

    def hear(self, event: Event) -> None:
        """One more event; returns at once."""
        ...

    def watch(self, job: Watched) -> None:
        """From now on the number of completed steps is read there, if it is still there."""
        ...


def telemetry_of_job(around: Surroundings, place: TaskPlace, attempt: int) -> Listener | None:
    """What hears the events of an attempt; None where nobody asks for it, and then nothing is imported."""
    asked = wanted(around.env)
    if not asked or around.rank:  # the first of several ranks speaks for all
        return None
    from outlast.telemetry.starting import start_job  # noqa: PLC0415 - most jobs tell nobody, and start without

    return start_job(around, asked, job_subject(around, place, attempt), place.folder, attempt)


def telemetry_of_worker(around: Surroundings, queue: str) -> "tuple[Telemetry, Callable[[int], None]] | None":
    """The same for a worker at the queue of that URL; with it what counts failed items."""
    asked = wanted(around.env)
    if not asked:
        return None
    from outlast.telemetry.starting import start_worker  # noqa: PLC0415 - as above

    return start_worker(around, asked, worker_subject(around, queue))


def job_subject(around: Surroundings, place: TaskPlace, attempt: int) -> Subject:
    """Whom the numbers of an attempt are about."""
    labels = {JOB: place.job, RUN: place.run, TASK: str(place.index)}
    return _subject(around, f"{place.folder}/attempt-{attempt}", {**labels}, {**labels, "outlast.attempt": attempt})


def worker_subject(around: Surroundings, queue: str) -> Subject:
    """Whom the numbers of a worker are about."""
    labels = {JOB: around.identity.job or "worker", QUEUE: masked(queue)}
    instance = f"{labels[JOB]}/task-{around.identity.task}/{os.getpid()}@{around.clock.wall_seconds():.3f}"
    return _subject(around, instance, labels, labels)


def _subject(
    around: Surroundings, instance: str, labels: Mapping[str, str], attributes: Mapping[str, str | int]
) -> Subject:
    details: dict[str, str | int] = {**attributes, "outlast.platform": around.facts.name}
    if around.identity.execution:
        details["outlast.execution"] = around.identity.execution
    return Subject(instance=instance, labels=labels, attributes=details, began_wall_seconds=around.clock.wall_seconds())


def interval_seconds(env: Mapping[str, str]) -> float:
    """How often numbers are pushed: OTEL_METRIC_EXPORT_INTERVAL, in milliseconds."""
    try:
        seconds = float(env.get(_INTERVAL) or "nan") / 1000
    except ValueError:
        seconds = math.nan
    return max(_LEAST_INTERVAL_SECONDS, seconds) if 0 < seconds < math.inf else _INTERVAL_SECONDS
