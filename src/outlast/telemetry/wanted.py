"""What OpenTelemetry's own variables ask a process to tell.

Variables as of 2026-11-30: OpenTelemetry specification, "Environment Variable Specification" and "OTLP Exporter".
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass

from outlast.settings import REHEARSAL_STORE
from outlast.telemetry.choice import ENDPOINT, METRICS_ENDPOINT, METRICS_PORT, TRACES_ENDPOINT

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
        there = env.get(ENDPOINT) or env.get(own)
        chosen = env.get(f"OTEL_{signal}_EXPORTER") or "otlp"
        return bool(there) and not off and "otlp" in [one.strip() for one in chosen.split(",")]

    listen = env.get(METRICS_PORT, "").strip() or None
    return Wanted(is_on("METRICS", METRICS_ENDPOINT), is_on("TRACES", TRACES_ENDPOINT), listen)


def interval_seconds(env: Mapping[str, str]) -> float:
    """How often numbers are pushed: OTEL_METRIC_EXPORT_INTERVAL, in milliseconds."""
    try:
        seconds = float(env.get(_INTERVAL) or "nan") / 1000
    except ValueError:
        seconds = math.nan
    return max(_LEAST_INTERVAL_SECONDS, seconds) if 0 < seconds < math.inf else _INTERVAL_SECONDS
