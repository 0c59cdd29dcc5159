"""Lives of attempts as their numbers tell them, minute by minute, on a clock that is told what time it is."""

from collections.abc import Callable, Iterable, Mapping

from outlast.checkpoint.places import TaskPlace
from outlast.events import AttemptStarted, Event, LoopStarted, Progressed, Recorded, SaveCommitted, SaveStarted
from outlast.metering import JOB, RUN, TASK, Distribution, Subject
from outlast.telemetry.meter import Meter
from outlast.testing import FakeClock

PLACE = TaskPlace("train", "run-1", 0)
LABELS = {JOB: "train", RUN: "run-1", TASK: "0"}


class MeteredLife:
    """One attempt that makes a step each 10 s, as long as it is not stuck."""

    def __init__(self, attempt: int = 0, step: int = 0) -> None:
        self.clock, self.step, self.stuck = FakeClock(), step, False
        self.meter = Meter(Subject(instance="i", labels=LABELS), self.clock)
        self.meter.complete_steps = lambda: self.step
        self.tell(AttemptStarted(attempt, "local", 1, "host", lived_seconds=1.0), LoopStarted(step, 100_000))

    def tell(self, *events: Event) -> None:
        """Tells events, as of now."""
        for event in events:
            self.meter.hear(Recorded(event, self.clock.wall_seconds(), self.clock.monotonic_seconds()))

    def save(self) -> None:
        """A save that takes 2 s."""
        self.tell(SaveStarted(self.step))
        self.clock.advance(2)
        self.tell(SaveCommitted(self.step, f"s{self.step}", 1000, 2.0, 1000))

    def minute(self) -> None:
        """A minute goes by."""
        self.clock.advance(60)
        self.step += 0 if self.stuck else 6
        self.tell(Progressed(self.step))

    def numbers(self) -> dict[str, float | Distribution]:
        """By name and the labels that are not the task's."""
        found = {}
        for point in self.meter.points():
            own = [f"{name}={value}" for name, value in point.labels.items() if name not in LABELS]
            found[point.metric.name + (f"{{{','.join(own)}}}" if own else "")] = point.value
        return found


def as_series(life: MeteredLife, minutes: int, each: Callable[[MeteredLife, int], None]) -> Iterable[Mapping[str, str]]:
    """What Prometheus would have of a life, as `promtool test rules` reads it."""
    series: dict[str, list[str]] = {}
    for minute in range(minutes):
        each(life, minute)
        for point in life.meter.points():
            if isinstance(point.value, Distribution):
                continue
            labels = ",".join(f'{name.replace(".", "_")}="{value}"' for name, value in point.labels.items())
            values = series.setdefault(f"{point.metric.prometheus_name}{{{labels}}}", ["_"] * minute)
            values += ["_"] * (minute - len(values)) + [f"{float(point.value):g}"]
    return [{"series": name, "values": " ".join(values)} for name, values in series.items()]
