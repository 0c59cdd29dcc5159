"""What a job and what a worker are measured by: numbers and spans together."""

from collections.abc import Sequence

from outlast import metering as m
from outlast.clock import Clock
from outlast.events import ChunkBegun, ItemsGivenBack, ItemsStored, NoticeHeard, Recorded
from outlast.metering import Point, Span, Subject
from outlast.telemetry.meter import Meter
from outlast.telemetry.series import Series
from outlast.telemetry.spans import Spans


class MeasuredJob:
    """See pipe.Measured."""

    def __init__(self, subject: Subject, clock: Clock, spans: Spans) -> None:
        self.meter = Meter(subject, clock)
        self._spans = spans

    def hear(self, recorded: Recorded) -> Sequence[Span]:
        self.meter.hear(recorded)
        return list(self._spans.hear(recorded))

    def points(self) -> Sequence[Point]:
        return self.meter.points()

    def last_spans(self) -> Sequence[Span]:
        return list(self._spans.whole())


class MeasuredWorker:
    """See pipe.Measured. Its chunks are numbers only: there may be thousands in a minute."""

    def __init__(self, subject: Subject, clock: Clock, *, key: str) -> None:
        self._clock, self._series, self._key = clock, Series(subject.labels), key
        self._began = clock.wall_seconds()
        self._held = self._failed = 0
        self._chunk_began: float | None = None
        self._notice: Recorded | None = None
        self._over = False

    def count_failed(self, items: int) -> None:
        """Of the chunk in progress; there is no event for it. Called in the worker's thread."""
        self._failed += items

    def hear(self, recorded: Recorded) -> Sequence[Span]:
        event = recorded.event
        if isinstance(event, ChunkBegun):
            self._held, self._chunk_began = event.items, recorded.monotonic_seconds
        elif isinstance(event, ItemsStored):
            self._series.add(m.ITEMS, event.items, "stored")
            self._held = max(0, self._held - event.items)
            if self._chunk_began is not None:
                self._series.note(m.CHUNK_SECONDS, recorded.monotonic_seconds - self._chunk_began)
                self._chunk_began = None
        elif isinstance(event, ItemsGivenBack):
            self._series.add(m.ITEMS, event.items, "given_back")
            self._held = max(0, self._held - event.items)
        elif isinstance(event, NoticeHeard):
            self._series.add(m.NOTICES, 1, event.source, event.kind)
            self._notice = recorded
        return ()

    def points(self) -> Sequence[Point]:
        if self._failed:
            self._series.put(m.ITEMS, self._failed, "failed")
        self._series.put(m.ITEMS_HELD, 0 if self._over else self._held)
        self._series.put(m.RUNNING, 0 if self._over else 1)
        return list(self._series.points())

    def last_spans(self) -> Sequence[Span]:
        self._over = True
        now, spans = self._clock.wall_seconds(), []
        whole = Span(name="outlast.worker", trace=self._key, key=self._key, began=self._began, ended=now)
        if self._notice is not None:
            key, heard = f"{self._key}/notice", min(self._notice.wall_seconds, now)
            spans.append(
                Span(name="outlast.notice", trace=self._key, key=key, parent=self._key, began=heard, ended=now)
            )
        return [*spans, whole]
