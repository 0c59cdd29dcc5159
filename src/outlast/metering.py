"""The numbers and spans that outlast tells monitoring systems: their names, units and meaning, once for all of them.

Names follow OpenTelemetry's rules; what Prometheus calls them follows from these by the rules that its collectors use
(OpenTelemetry specification, "Prometheus and OpenMetrics Compatibility", as of 2026-11-30).
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol

from outlast.console import printable

Kind = Literal["counter", "gauge", "histogram"]
_LONGEST_LABEL = 120
THREAD = "outlast-telemetry"  # the name of threads that send
_UNIT_WORDS = {"s": "seconds", "By": "bytes"}
_SECONDS = (0.005, 0.02, 0.1, 0.5, 1.0, 2.5, 5.0, 10.0, 15.0, 30.0, 60.0, 120.0, 300.0, 900.0, 3600.0)


@dataclass(frozen=True, slots=True)
class Metric:
    """One number. `labels`: what tells its series apart, beside the labels of its subject. `unit`: of UCUM."""

    name: str
    kind: Kind
    unit: str
    help: str
    labels: tuple[str, ...] = ()
    bounds: tuple[float, ...] = ()

    @property
    def prometheus_name(self) -> str:
        """The same for Prometheus."""
        words = self.name.replace(".", "_")
        unit = "ratio" if self.unit == "1" and self.kind == "gauge" else _UNIT_WORDS.get(self.unit)
        if unit is not None and not words.endswith(f"_{unit}"):
            words += f"_{unit}"
        return f"{words}_total" if self.kind == "counter" else words


def _counter(name: str, unit: str, text: str, *labels: str) -> Metric:
    return Metric(f"outlast.{name}", "counter", unit, text, labels)


def _gauge(name: str, unit: str, text: str, *labels: str) -> Metric:
    return Metric(f"outlast.{name}", "gauge", unit, text, labels)


def _seconds(name: str, text: str) -> Metric:
    return Metric(f"outlast.{name}", "histogram", "s", text, (), _SECONDS)


# --- of a training job, told by its process or read from its store ----------------------------------

RUNNING = _gauge("running", "{attempt}", "1 while an attempt is at work, 0 when it has ended")
ATTEMPT = _gauge("attempt", "{attempt}", "The number of the newest attempt, from 0 on")
STEP = _gauge("step", "{step}", "Completed steps of the run")
STEPS_PLANNED = _gauge("steps.planned", "{step}", "Steps that the run is to have, where it is known")
CHECKPOINT_STEP = _gauge("checkpoint.step", "{step}", "The step of the newest checkpoint")
CHECKPOINT_AGE = _gauge("checkpoint.age", "s", "Since the state of the newest checkpoint was taken")
AT_RISK = _gauge("work.at_risk", "s", "Work that would be lost if the attempt ended now without a word")
STEPS_AT_RISK = _gauge("steps.at_risk", "{step}", "Steps that would be lost if the attempt ended now without a word")

# --- of one attempt, told by its process --------------------------------------------------------------

STEPS_DONE = _counter("steps.done", "{step}", "Steps that this attempt completed")
STEPS_LOST = _counter("steps.lost", "{step}", "Completed steps that an attempt could not save before it stopped")
SAVES = _counter("saves", "{save}", "Saves by outcome: committed, failed, postponed, taken_back", "outcome")
SAVED_BYTES = _counter("save.written", "By", "Bytes that saves wrote; what had not changed is not written again")
SAVE_SECONDS = _seconds("save.duration", "From the end of the copy of the state until its checkpoint was durable")
STALL_SECONDS = _seconds("save.stall", "How long the training waited for a save")
VERIFY_SECONDS = _seconds("save.verify", "How long the reading back of a checkpoint took")
RESTORE_SECONDS = _seconds("restore.duration", "How long reading the checkpoint took, at a resume")
REFUSED = _counter("restores.refused", "{checkpoint}", "Checkpoints that did not verify")
START_SECONDS = _seconds("start.duration", "From the start of the process to the end of its first step")
NOTICES = _counter("notices", "{notice}", "Notices heard, by source and kind: final or advance", "source", "kind")
NOTICE_LEFT = _gauge("notice.remaining", "s", "Until the process has to be gone, while a notice stands")
STOP_SECONDS = _seconds("notice.stop", "From a notice until the attempt had saved and stopped")
MISSED = _counter("final_saves.missed", "{save}", "Last saves after a notice that were not durable in time")
TROUBLES = _counter("notice_sources.trouble", "{error}", "Times that a source of notices could not be asked", "source")
ENDS = _counter("ends", "{attempt}", "Ends of attempts: finished, stopped, crashed, failed, left", "how")
EXIT_CODE = _gauge("exit_code", "{code}", "The code that the attempt leaves with, once it is known")
TIME = _gauge("attempt.time", "s", "The attempt's time: start, restore, compute, save_stall, lost_work", "bucket")
GOODPUT = _gauge("attempt.goodput", "1", "Compute as a share of the attempt's time so far")

# --- of a worker, told by its process -----------------------------------------------------------------

ITEMS = _counter("items", "{item}", "Items of this worker by outcome: stored, failed, given_back", "outcome")
ITEMS_HELD = _gauge("items.in_progress", "{item}", "Items that the program was handed and that are not settled yet")
CHUNK_SECONDS = _seconds("chunk.duration", "From handing out a chunk until its results were stored")

# --- read from stores and queues by `outlast metrics` --------------------------------------------------

STATE = _gauge("task.state", "{task}", "1 for the state that the task is in, by `outlast status`", "state")
PREEMPTIONS = _counter("preemptions", "{attempt}", "Attempts of the run that were interrupted or killed")
FAILURES = _counter("failures", "{attempt}", "Attempts of the run that crashed or failed")
RUN_TIME = _gauge("run.time", "s", "The run's billed time over all attempts, by bucket", "bucket")
RUN_WAITING = _gauge("run.waiting", "s", "Time between the run's attempts, which nobody is billed for")
RUN_GOODPUT = _gauge("run.goodput", "1", "Compute as a share of the run's billed time")
DAMAGED = _gauge("journals.damaged", "{journal}", "Journals and claims of the task that cannot be read")
QUEUE_ITEMS = _gauge("queue.items", "{item}", "Items of a queue by state: ready, leased, done, dead", "state")
QUEUE_OLDEST = _gauge("queue.oldest", "s", "The age of the oldest item that is ready")
SOURCE_UP = _gauge("source.up", "{source}", "1 where the last look at a store or queue succeeded", "url")
READ_SECONDS = _gauge("source.read", "s", "How long the last look at a store or queue took", "url")
LEFT_OUT = _gauge("tasks.left_out", "{task}", "Tasks of a store that are not shown, since there are too many", "url")

METRICS: tuple[Metric, ...] = tuple(value for value in globals().values() if isinstance(value, Metric))
# What tells one subject from another, on each of its numbers.
JOB, RUN, TASK, QUEUE = "outlast.job", "outlast.run", "outlast.task", "outlast.queue"


def label(text: str) -> str:
    """A name as a label's value: without what would steer a terminal, and short; a long one ends with its digest."""
    shown = printable(text).replace("\n", "\\n").replace("\t", "\\t")
    if len(shown) <= _LONGEST_LABEL:
        return shown
    digest = hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:10]
    return f"{shown[: _LONGEST_LABEL - 11]}…{digest}"


@dataclass(frozen=True, slots=True)
class Distribution:
    """A histogram's content: how many values were at most each bound, and above the last one."""

    counts: tuple[int, ...]
    total: float
    least: float
    most: float

    @property
    def count(self) -> int:
        return sum(self.counts)


@dataclass(frozen=True, slots=True)
class Point:
    """The value of one series. `labels`: by name, those of the subject included."""

    metric: Metric
    labels: Mapping[str, str]
    value: float | Distribution


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """Whom numbers are about. `instance`: what tells this process from others; `labels` are on each number."""

    instance: str
    labels: Mapping[str, str]
    attributes: Mapping[str, str | int] = field(default_factory=dict)
    began_wall_seconds: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """A stretch of an attempt's life. `key`: what names it among all; `parent` and `link` are keys of others.

    Keys make the ids, so that an attempt can point at the one before it, which it never met. `trace`: the key of the
    whole. Moments are wall-clock seconds.
    """

    name: str
    trace: str
    key: str
    began: float
    ended: float
    parent: str | None = None
    link: tuple[str, str] | None = None
    attributes: Mapping[str, str | int | float] = field(default_factory=dict)
    error: str | None = None


class Exporter(Protocol):
    """A door to a monitoring system that is told."""

    def push(self, points: Sequence[Point], spans: Sequence[Span]) -> str | None:
        """Sends; may take long. The text of a failure, else None."""
        ...
