"""A Grafana dashboard over the numbers: what runs, what is at risk, where time goes, what queues hold."""

from dataclasses import dataclass
from typing import Any

from outlast import metering as m
from outlast.metering import Metric

Json = dict[str, Any]
_SCHEMA_VERSION = 36  # Grafana 9.1 and newer
_COLUMNS, _HEIGHT = 24, 8
_UNITS = {"s": "s", "By": "bytes", "1": "percentunit"}
_TASK = "outlast_job, outlast_run, outlast_task"
_NAME = "{{outlast_job}} {{outlast_task}}"
_SOURCE = {"type": "prometheus", "uid": "${datasource}"}


@dataclass(frozen=True, slots=True)
class Panel:
    """One curve, or one list of numbers; two stand beside each other. `queries`: (PromQL, legend)."""

    title: str
    kind: str
    unit: str
    queries: tuple[tuple[str, str], ...]
    stacked: bool = False


def _chosen(metric: Metric, more: str = "", suffix: str = "") -> str:
    labels = 'outlast_job=~"$job"' + (f",{more}" if more else "")
    return f"{metric.prometheus_name}{suffix}{{{labels}}}"


def _by_task(metric: Metric, title: str, *, kind: str = "timeseries") -> Panel:
    query = f"max by ({_TASK}) ({_chosen(metric)})"
    return Panel(title, kind, _UNITS.get(metric.unit, "short"), ((query, _NAME),))


def _quantiles(metric: Metric, title: str) -> Panel:
    buckets = f"sum by (le) (rate({_chosen(metric, suffix='_bucket')}[$__rate_interval]))"
    queries = tuple((f"histogram_quantile({share}, {buckets})", f"p{100 * share:.0f}") for share in (0.5, 0.99))
    return Panel(title, "timeseries", "s", queries)


def _rates(metric: Metric, title: str, by: str) -> Panel:
    return Panel(title, "timeseries", "short", ((f"sum by ({by}) (increase({_chosen(metric)}[1h]))", f"{{{{{by}}}}}"),))


PANELS = (
    Panel("At work", "stat", "short", ((f"sum(max by ({_TASK}) ({_chosen(m.RUNNING)}))", "tasks"),)),
    Panel(
        "Tasks by state",
        "stat",
        "short",
        ((f"sum by (state) (max by ({_TASK}, state) ({_chosen(m.STATE)}))", "{{state}}"),),
    ),
    _by_task(m.STEP, "Steps completed"),
    _by_task(m.AT_RISK, "Work at risk"),
    _by_task(m.CHECKPOINT_AGE, "Age of the newest checkpoint"),
    _by_task(m.RUN_GOODPUT, "Goodput of the run"),
    Panel(
        "Where the time of all runs went",
        "timeseries",
        "s",
        ((f"sum by (bucket) ({_chosen(m.RUN_TIME)})", "{{bucket}}"),),
        stacked=True,
    ),
    _by_task(m.ATTEMPT, "Attempts"),
    _rates(m.SAVES, "Saves an hour, by outcome", "outcome"),
    _rates(m.NOTICES, "Notices an hour, by source", "source"),
    _quantiles(m.SAVE_SECONDS, "How long saves take"),
    _quantiles(m.STALL_SECONDS, "How long the training waits for saves"),
    _quantiles(m.RESTORE_SECONDS, "How long restores take"),
    _quantiles(m.STOP_SECONDS, "From a notice to the stop"),
    Panel(
        "Items of queues",
        "timeseries",
        "short",
        ((f"max by (outlast_queue, state) ({m.QUEUE_ITEMS.prometheus_name})", "{{outlast_queue}} {{state}}"),),
    ),
    Panel(
        "Items a minute, by outcome",
        "timeseries",
        "short",
        ((f"60 * sum by (outcome) (rate({_chosen(m.ITEMS)}[$__rate_interval]))", "{{outcome}}"),),
    ),
)


def dashboard() -> Json:
    """The dashboard, for Grafana's import."""
    return {
        "title": "outlast",
        "uid": "outlast",
        "tags": ["outlast"],
        "timezone": "browser",
        "schemaVersion": _SCHEMA_VERSION,
        "refresh": "30s",
        "time": {"from": "now-6h", "to": "now"},
        "editable": True,
        "templating": {"list": [_datasource(), _job()]},
        "annotations": {"list": []},
        "panels": [_panel(number, one) for number, one in enumerate(PANELS)],
    }


def _datasource() -> Json:
    return {"name": "datasource", "type": "datasource", "label": "Data source", "query": "prometheus", "current": {}}


def _job() -> Json:
    query = f"label_values({m.ATTEMPT.prometheus_name}, outlast_job)"
    return {
        "name": "job",
        "type": "query",
        "label": "Job",
        "datasource": _SOURCE,
        "query": {"query": query, "refId": "jobs"},
        "refresh": 2,
        "multi": True,
        "includeAll": True,
        "allValue": ".*",
        "current": {"text": "All", "value": "$__all"},
    }


def _panel(number: int, panel: Panel) -> Json:
    width = _COLUMNS // 2
    targets = [
        {"refId": chr(ord("A") + index), "datasource": _SOURCE, "expr": query, "legendFormat": legend}
        for index, (query, legend) in enumerate(panel.queries)
    ]
    defaults: Json = {"unit": panel.unit}
    if panel.unit == "percentunit":
        defaults |= {"min": 0, "max": 1}
    if panel.kind == "timeseries":
        stacking = {"mode": "normal" if panel.stacked else "none", "group": "A"}
        defaults["custom"] = {"fillOpacity": 20 if panel.stacked else 0, "stacking": stacking}
    return {
        "id": number + 1,
        "type": panel.kind,
        "title": panel.title,
        "datasource": _SOURCE,
        "gridPos": {"x": width * (number % 2), "y": _HEIGHT * (number // 2), "w": width, "h": _HEIGHT},
        "fieldConfig": {"defaults": defaults, "overrides": []},
        "targets": targets,
    }
