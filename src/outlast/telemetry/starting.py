"""Starts the telemetry of a job or a worker: its thread, its exporter, its port. Imported where it may be wanted."""

import os
import weakref
from collections.abc import Callable, Mapping

from outlast.checkpoint.places import TaskPlace
from outlast.metering import JOB, QUEUE, RUN, TASK, Exporter, Subject
from outlast.registry import metrics_port, otlp_exporter
from outlast.settings import Surroundings
from outlast.telemetry.choice import METRICS_PORT, Watched
from outlast.telemetry.measured import MeasuredJob, MeasuredWorker
from outlast.telemetry.pipe import Measured, Pace, Telemetry
from outlast.telemetry.spans import Spans
from outlast.telemetry.wanted import Wanted, interval_seconds
from outlast.urls import masked


class JobTelemetry:
    """See choice.Listener."""

    def __init__(self, pipe: Telemetry, measured: MeasuredJob) -> None:
        self.hear = pipe.hear
        self._measured = measured

    def watch(self, job: Watched) -> None:
        """Held weakly: what a thread leads to is never finalized, and a job leads to the program's state."""
        known = weakref.ref(job)

        def completed() -> int | None:
            there = known()
            return None if there is None else there.completed_steps

        self._measured.meter.complete_steps = completed


def start_job(around: Surroundings, asked: Wanted, place: TaskPlace, attempt: int) -> JobTelemetry:
    """The telemetry of an attempt."""
    labels = {JOB: place.job, RUN: place.run, TASK: str(place.index)}
    told = _subject(around, f"{place.folder}/attempt-{attempt}", labels, {"outlast.attempt": attempt})
    measured = MeasuredJob(told, around.clock, Spans(place.folder, attempt, dict(told.attributes)))
    return JobTelemetry(_start(around, asked, told, measured), measured)


def start_worker(around: Surroundings, asked: Wanted, queue: str) -> tuple[Telemetry, Callable[[int], None]]:
    """The telemetry of a worker at a queue's URL, and what counts its failed items."""
    labels = {JOB: around.identity.job or "worker", QUEUE: masked(queue)}
    instance = f"{labels[JOB]}/task-{around.identity.task}/{os.getpid()}@{around.clock.wall_seconds():.3f}"
    told = _subject(around, instance, labels, {})
    measured = MeasuredWorker(told, around.clock, key=instance)
    return _start(around, asked, told, measured), measured.count_failed


def _subject(around: Surroundings, instance: str, labels: Mapping[str, str], more: Mapping[str, str | int]) -> Subject:
    attributes: dict[str, str | int] = {**labels, **more, "outlast.platform": around.facts.name}
    if around.identity.execution:
        attributes["outlast.execution"] = around.identity.execution
    began = around.clock.wall_seconds()
    return Subject(instance=instance, labels=labels, attributes=attributes, began_wall_seconds=began)


def _start(around: Surroundings, asked: Wanted, subject: Subject, measured: Measured) -> Telemetry:
    def open_exporter() -> Exporter | None:
        if asked.listen is not None:
            metrics_port()(asked.listen, pipe.read, setting=METRICS_PORT, warn=around.console.warning)
        if not (asked.metrics or asked.traces):
            return None
        return otlp_exporter()(subject, around.env, around.clock, metrics=asked.metrics, traces=asked.traces)

    pace = Pace(every=interval_seconds(around.env), margin=around.margin_seconds)
    pipe = Telemetry(measured, open_exporter, clock=around.clock, console=around.console, pace=pace)
    return pipe
