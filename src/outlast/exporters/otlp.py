"""Pushes numbers and spans by OTLP over HTTP, with OpenTelemetry's own exporters; needs the extra `otel`.

Its variables (endpoint, headers, certificates, timeout, compression) are read by those. Their warnings about what could
not be sent are kept back, and told once by whoever pushes.
"""

import hashlib
import logging
import threading
from collections.abc import Mapping, Sequence

from opentelemetry.context import _SUPPRESS_INSTRUMENTATION_KEY, attach, detach, set_value
from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.metrics.export import (
    AggregationTemporality,
    Gauge,
    Histogram,
    HistogramDataPoint,
    Metric,
    MetricExportResult,
    MetricsData,
    NumberDataPoint,
    ResourceMetrics,
    ScopeMetrics,
    Sum,
)
from opentelemetry.sdk.resources import OTELResourceDetector, Resource
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExportResult
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import Link, SpanContext, SpanKind, Status, StatusCode, TraceFlags

from outlast import metering
from outlast.clock import Clock
from outlast.console import printable
from outlast.metering import THREAD, Distribution, Point, Span, Subject, label

_SCOPE = InstrumentationScope("outlast")
_PROTOCOL, _SPOKEN = "OTEL_EXPORTER_OTLP_PROTOCOL", ("", "http/protobuf")
_LOGGERS = (
    "opentelemetry.exporter.otlp.proto.http.metric_exporter",
    "opentelemetry.exporter.otlp.proto.http.trace_exporter",
    "opentelemetry.exporter.otlp.common.http",
)
_MOST_SPANS = 256  # in one request


class _Quiet(logging.Filter):
    """Keeps back what OpenTelemetry's exporters log in our threads, and nothing that a program's own ones log."""

    def __init__(self) -> None:
        super().__init__()
        self.last = ""

    def filter(self, record: logging.LogRecord) -> bool:
        """See logging.Filter."""
        ours = record.threadName == THREAD
        if ours:
            self.last = record.getMessage()
        return not ours


_quiet, _quieting = _Quiet(), threading.Lock()


class OtlpExporter:
    """See metering.Exporter. Raises ValueError for a protocol that it does not speak."""

    def __init__(self, subject: Subject, env: Mapping[str, str], clock: Clock, *, metrics: bool, traces: bool) -> None:
        for name in (_PROTOCOL, "OTEL_EXPORTER_OTLP_METRICS_PROTOCOL", "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL"):
            if env.get(name, "").strip() not in _SPOKEN:
                raise ValueError(
                    f"{name}={env[name]!r}, and outlast speaks http/protobuf: set that, and the collector's port for "
                    "it (4318 unless told otherwise)"
                )
        with _quieting:
            for name in _LOGGERS:
                logger = logging.getLogger(name)
                if _quiet not in logger.filters:
                    logger.addFilter(_quiet)
        self._began = _nanoseconds(subject.began_wall_seconds)
        self._resource = _resource(subject)
        self._clock = clock
        self._metrics = OTLPMetricExporter() if metrics else None
        self._traces = OTLPSpanExporter() if traces else None

    def push(self, points: Sequence[Point], spans: Sequence[Span]) -> str | None:
        """See metering.Exporter. A program that has its own HTTP calls traced sees none of these."""
        token = attach(set_value(_SUPPRESS_INSTRUMENTATION_KEY, True))
        try:
            return self._push(points, spans)
        finally:
            detach(token)

    def _push(self, points: Sequence[Point], spans: Sequence[Span]) -> str | None:
        failed = False
        if self._metrics is not None and points:
            failed = self._metrics.export(self._data(points)) is not MetricExportResult.SUCCESS
        if self._traces is not None and not failed:
            told = [self._span(one) for one in spans]
            for start in range(0, len(told), _MOST_SPANS):
                failed = (
                    failed or self._traces.export(told[start : start + _MOST_SPANS]) is not SpanExportResult.SUCCESS
                )
        return (_quiet.last or "the collector did not take it") if failed else None

    def _data(self, points: Sequence[Point]) -> MetricsData:
        by_metric: dict[metering.Metric, list[Point]] = {}
        for point in points:
            by_metric.setdefault(point.metric, []).append(point)
        now = _nanoseconds(self._clock.wall_seconds())
        metrics = [self._metric(metric, series, now) for metric, series in by_metric.items()]
        scope = ScopeMetrics(_SCOPE, metrics, "")
        return MetricsData([ResourceMetrics(self._resource, [scope], "")])

    def _metric(self, metric: metering.Metric, series: Sequence[Point], now: int) -> Metric:
        always = AggregationTemporality.CUMULATIVE
        data: Sum | Gauge | Histogram
        if metric.kind == "histogram":
            data = Histogram([self._spread(one, now) for one in series], always)
        else:
            numbers = [self._number(one, now) for one in series]
            data = Sum(numbers, always, True) if metric.kind == "counter" else Gauge(numbers)
        return Metric(metric.name, metric.help, metric.unit, data)

    def _number(self, point: Point, now: int) -> NumberDataPoint:
        assert not isinstance(point.value, Distribution)
        return NumberDataPoint(dict(point.labels), self._began, now, point.value)

    def _spread(self, point: Point, now: int) -> HistogramDataPoint:
        spread = point.value
        assert isinstance(spread, Distribution)
        return HistogramDataPoint(
            attributes=dict(point.labels),
            start_time_unix_nano=self._began,
            time_unix_nano=now,
            count=spread.count,
            sum=spread.total,
            bucket_counts=spread.counts,
            explicit_bounds=point.metric.bounds,
            min=spread.least,
            max=spread.most,
        )

    def _span(self, span: Span) -> ReadableSpan:
        links = [] if span.link is None else [Link(_context(*span.link))]
        status = Status(StatusCode.UNSET) if span.error is None else Status(StatusCode.ERROR, printable(span.error))
        told = {name: printable(value) if isinstance(value, str) else value for name, value in span.attributes.items()}
        return ReadableSpan(
            name=span.name,
            context=_context(span.trace, span.key),
            parent=None if span.parent is None else _context(span.trace, span.parent),
            resource=self._resource,
            attributes=told,
            links=links,
            kind=SpanKind.INTERNAL,
            status=status,
            start_time=_nanoseconds(span.began),
            end_time=_nanoseconds(span.ended),
            instrumentation_scope=_SCOPE,
        )


def _resource(subject: Subject) -> Resource:
    """OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES win over what is told here."""
    told = {name: label(value) if isinstance(value, str) else value for name, value in subject.attributes.items()}
    mine = Resource({"service.name": "outlast", "service.instance.id": label(subject.instance), **told})
    return mine.merge(OTELResourceDetector().detect())


def _context(trace: str, key: str) -> SpanContext:
    """Ids made of keys, so that attempts can point at each other."""
    ids = hashlib.sha256(trace.encode()).digest(), hashlib.sha256(f"{trace}\n{key}".encode()).digest()
    return SpanContext(
        int.from_bytes(ids[0][:16], "big"), int.from_bytes(ids[1][:8], "big"), False, TraceFlags(TraceFlags.SAMPLED)
    )


def _nanoseconds(wall_seconds: float) -> int:
    return int(wall_seconds * 1e9)
