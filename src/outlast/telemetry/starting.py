"""Starts the telemetry of a job or a worker: its thread, its exporter, its port. Imported where it is wanted."""

import weakref
from collections.abc import Callable

from outlast.metering import Exporter, Subject
from outlast.registry import metrics_port, otlp_exporter
from outlast.settings import Surroundings
from outlast.telemetry.choice import METRICS_PORT, Wanted, Watched, interval_seconds
from outlast.telemetry.measured import MeasuredJob, MeasuredWorker
from outlast.telemetry.pipe import Measured, Pace, Telemetry
from outlast.telemetry.spans import Spans


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


def start_job(around: Surroundings, wanted: Wanted, subject: Subject, place: str, attempt: int) -> JobTelemetry:
    """The telemetry of an attempt at `place`."""
    measured = MeasuredJob(subject, around.clock, Spans(place, attempt, dict(subject.attributes)))
    return JobTelemetry(_start(around, wanted, subject, measured), measured)


def start_worker(around: Surroundings, wanted: Wanted, subject: Subject) -> tuple[Telemetry, Callable[[int], None]]:
    """The telemetry of a worker, and what counts its failed items."""
    measured = MeasuredWorker(subject, around.clock, key=subject.instance)
    return _start(around, wanted, subject, measured), measured.count_failed


def _start(around: Surroundings, wanted: Wanted, subject: Subject, measured: Measured) -> Telemetry:
    def open_exporter() -> Exporter | None:
        if wanted.listen is not None:
            metrics_port()(wanted.listen, pipe.read, setting=METRICS_PORT, warn=around.console.warning)
        if not (wanted.metrics or wanted.traces):
            return None
        return otlp_exporter()(subject, around.env, around.clock, metrics=wanted.metrics, traces=wanted.traces)

    pace = Pace(every=interval_seconds(around.env), margin=around.margin_seconds)
    pipe = Telemetry(measured, open_exporter, clock=around.clock, console=around.console, pace=pace)
    return pipe
