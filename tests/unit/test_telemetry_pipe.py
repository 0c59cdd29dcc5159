"""The thread that sends: whoever tells it waits for nothing, and the end of the process for next to nothing."""

import threading
import time
from collections.abc import Iterator, Sequence

import pytest

from outlast.clock import SystemClock
from outlast.console import Console
from outlast.events import Event, Logged, NoticeHeard, Recorded, SaveStarted
from outlast.metering import STEP, Point, Span
from outlast.telemetry.pipe import Pace, Telemetry

LONG_SECONDS = 20.0


class Measured:
    """Counts events, and makes a span of each."""

    def __init__(self) -> None:
        self.heard: list[Event] = []

    def hear(self, recorded: Recorded) -> Sequence[Span]:
        self.heard.append(recorded.event)
        return [Span(name="s", trace="t", key=f"s{len(self.heard)}", began=0.0, ended=1.0)]

    def points(self) -> Sequence[Point]:
        return [Point(STEP, {}, len(self.heard))]

    def last_spans(self) -> Sequence[Span]:
        return [Span(name="whole", trace="t", key="whole", began=0.0, ended=1.0)]


class Collector:
    """Takes pushes, unless told to refuse or to hang."""

    def __init__(self) -> None:
        self.error: str | None = None
        self.goes_on, self.pushed = threading.Event(), threading.Event()
        self.goes_on.set()
        self.pushes: list[tuple[float, list[str]]] = []

    def push(self, points: Sequence[Point], spans: Sequence[Span]) -> str | None:
        self.pushed.set()
        self.goes_on.wait(60)
        (value,) = [point.value for point in points]
        assert isinstance(value, int)
        self.pushes.append((value, [span.name for span in spans]))
        return self.error


class Sent:
    """A pipe into a collector."""

    def __init__(self, every: float = 60.0) -> None:
        self.measured, self.collector = Measured(), Collector()
        self._pace = Pace(every=every, margin=2.0)

    def open(self) -> Telemetry:
        return Telemetry(
            self.measured, lambda: self.collector, clock=SystemClock(), console=Console(), pace=self._pace
        )  # fmt: skip


@pytest.fixture
def sent() -> Iterator[Sent]:
    made = Sent()
    yield made
    made.collector.goes_on.set()


def closed_after(pipe: Telemetry) -> float:
    began = time.monotonic()
    pipe.close()
    return time.monotonic() - began


def until_pushed(collector: Collector, times: int) -> None:
    ends = time.monotonic() + LONG_SECONDS
    while len(collector.pushes) < times:
        assert time.monotonic() < ends
        time.sleep(0.005)


def test_what_was_told_is_sent_at_the_end(sent: Sent) -> None:
    pipe = sent.open()
    until_pushed(sent.collector, 1)
    pipe.hear(SaveStarted(1))
    pipe.hear(SaveStarted(2))
    pipe.hear(Logged(2, {"loss": 1.0}))
    assert closed_after(pipe) < LONG_SECONDS
    assert sent.collector.pushes[-1] == (2, ["s", "s", "whole"])


def test_a_notice_is_sent_at_once(sent: Sent) -> None:
    pipe = sent.open()
    until_pushed(sent.collector, 1)
    pipe.hear(NoticeHeard("SIGTERM", "gone", 30.0))
    until_pushed(sent.collector, 2)
    assert sent.collector.pushes[-1] == (1, ["s"])


def test_nobody_waits_for_a_collector_that_hangs(sent: Sent) -> None:
    sent.collector.goes_on.clear()
    pipe = sent.open()
    assert sent.collector.pushed.wait(LONG_SECONDS)
    time.sleep(2.1)
    began = time.monotonic()
    for step in range(1000):
        pipe.hear(SaveStarted(step))
    assert time.monotonic() - began < 1.0
    assert closed_after(pipe) < 0.5


def test_a_notice_that_leaves_no_time_is_obeyed_at_once(sent: Sent) -> None:
    sent.collector.goes_on.clear()
    pipe = sent.open()
    pipe.hear(NoticeHeard("SIGTERM", "gone", 2.5))
    assert closed_after(pipe) < 0.5


def test_a_collector_that_refuses_is_told_of_once_and_gets_the_spans_later(
    sent: Sent, capsys: pytest.CaptureFixture[str]
) -> None:
    sent.collector.error = "it said 400"
    pipe = sent.open()
    until_pushed(sent.collector, 1)
    pipe.hear(NoticeHeard("a", "x", 3000.0))
    until_pushed(sent.collector, 2)
    sent.collector.error = None
    pipe.hear(NoticeHeard("b", "x", 3000.0))
    until_pushed(sent.collector, 3)
    pipe.close()
    until_pushed(sent.collector, 4)
    assert sent.collector.pushes[1:] == [(1, ["s"]), (2, ["s", "s"]), (2, ["whole"])]
    assert capsys.readouterr().err.count("it said 400") == 1


def test_an_exporter_that_cannot_be_opened_costs_a_warning(capsys: pytest.CaptureFixture[str]) -> None:
    def refuse() -> Collector:
        raise ValueError("no such protocol")

    measured = Measured()
    pipe = Telemetry(measured, refuse, clock=SystemClock(), console=Console(), pace=Pace(every=60, margin=0))
    pipe.hear(SaveStarted(1))
    assert closed_after(pipe) < LONG_SECONDS
    assert capsys.readouterr().err.count("no such protocol") == 1
    assert len(pipe.read()) == 1  # Prometheus may ask all the same
    assert measured.heard == [SaveStarted(1)]


def test_numbers_that_nobody_asks_for_are_counted_all_the_same() -> None:
    measured = Measured()
    pipe = Telemetry(measured, lambda: None, clock=SystemClock(), console=Console(), pace=Pace(every=0.05, margin=0))
    ends = time.monotonic() + LONG_SECONDS
    for step in range(100):
        pipe.hear(SaveStarted(step))
    while len(measured.heard) < 100:
        assert time.monotonic() < ends
        time.sleep(0.01)
    assert closed_after(pipe) < LONG_SECONDS
