"""Alert rules over the numbers, for Prometheus; the same for Google's Managed Service; a policy for Cloud Run's logs.

Facts as of 2026-11-30. Google Cloud, "Managed rule evaluation and alerting": the kind Rules, monitoring.googleapis.com/
v1, whose groups are Prometheus' own. Cloud Monitoring API, projects.alertPolicies: a policy with a conditionMatchedLog
has no other condition, and needs a notificationRateLimit. Cloud Run, "Logging": lines of JSON become jsonPayload.
"""

from dataclasses import dataclass
from typing import Any

from outlast import metering as m
from outlast.metering import Metric

Json = dict[str, Any]
_TASK = "outlast_job, outlast_run, outlast_task"
_OF_TASK = "{{ $labels.outlast_job }} / {{ $labels.outlast_run }} / task {{ $labels.outlast_task }}"


@dataclass(frozen=True, slots=True)
class Rule:
    """One alert. `lasting`: how long it has to hold. `why`: what it means, and what to do."""

    name: str
    expression: str
    lasting: str
    severity: str
    summary: str
    why: str


def _of(metric: Metric, **labels: str) -> str:
    shown = ",".join(f'{name}="{value}"' for name, value in labels.items())
    return metric.prometheus_name + (f"{{{shown}}}" if shown else "")


def _changes(series: str, window: str) -> str:
    return f"changes({series}[{window}])"


def _increase(series: str, window: str) -> str:
    return f"increase({series}[{window}])"


def _most(expression: str) -> str:
    """Once for each task, whether its numbers are pushed, read from its store, or both."""
    return f"max by ({_TASK}) ({expression})"


def _most_of_queue(expression: str) -> str:
    return f"max by (outlast_queue) ({expression})"


_IS_RUNNING = f"{_most(_of(m.RUNNING))} == 1"
RULES = (
    Rule(
        "OutlastStuck",
        f"{_IS_RUNNING} and {_most(_changes(_of(m.STEP), '10m'))} == 0",
        "20m",
        "critical",
        f"{_OF_TASK} runs and completes no step",
        "For half an hour no step was completed. Look at its log; where a step takes longer, raise both times.",
    ),
    Rule(
        "OutlastMuchAtRisk",
        f"{_most(_of(m.AT_RISK))} > 3600 and {_IS_RUNNING}",
        "5m",
        "warning",
        f"{_OF_TASK} would lose more than an hour of work",
        "Its newest checkpoint is old. Look for failed saves, or save more often (every=).",
    ),
    Rule(
        "OutlastSavesFail",
        f"{_most(_increase(_of(m.SAVES, outcome='failed'), '30m'))} > 1.5",
        "0m",
        "critical",
        f"saves of {_OF_TASK} fail",
        "The last good checkpoint stands. Look at the storage: its space, rights and quota.",
    ),
    Rule(
        "OutlastNeedsHuman",
        f"{_most(_of(m.EXIT_CODE))} == 78 unless {_IS_RUNNING}",
        "0m",
        "critical",
        f"{_OF_TASK} left with 78",
        "No retry mends this: docs/howto/exit-78.md.",
    ),
    Rule(
        "OutlastWaits",
        f"{_most(_of(m.STATE, state='unfinished'))} == 1",
        "30m",
        "warning",
        f"{_OF_TASK} has work left, and nobody does it",
        "No attempt has been at work for half an hour. Retries may be used up, or there is no capacity.",
    ),
    Rule(
        "OutlastCrashes",
        f"{_most(_increase(_of(m.FAILURES), '1h'))} > 1.5",
        "0m",
        "warning",
        f"{_OF_TASK} crashes again and again",
        "Attempts ended by an error of the program. `outlast status` names it.",
    ),
    Rule(
        "OutlastLastSaveMissed",
        f"{_most(_increase(_of(m.MISSED), '1h'))} > 0",
        "0m",
        "warning",
        f"{_OF_TASK} was stopped before its last state was saved",
        "The grace is too short for a save. Save more often, or ask for more grace: `outlast interval`.",
    ),
    Rule(
        "OutlastLowGoodput",
        f"{_most(_of(m.RUN_GOODPUT))} < 0.5 and sum by ({_TASK}) ({_of(m.RUN_TIME)}) > 7200",
        "30m",
        "warning",
        f"more than half of the time of {_OF_TASK} is lost",
        "`outlast status` tells to what: starts, restores, saves, or work that was done again.",
    ),
    Rule(
        "OutlastDeadLetters",
        f"{_most_of_queue(_of(m.QUEUE_ITEMS, state='dead'))} > 0",
        "5m",
        "warning",
        "{{ $labels.outlast_queue }} has {{ $value }} dead letters",
        "`outlast queue dead` says why; docs/howto/dead-letters.md.",
    ),
    Rule(
        "OutlastQueueStands",
        f"{_most_of_queue(_of(m.QUEUE_ITEMS, state='ready'))} > 0 and "
        f"{_most_of_queue(_changes(_of(m.QUEUE_ITEMS, state='done'), '15m'))} == 0",
        "15m",
        "critical",
        "{{ $labels.outlast_queue }} has items, and none gets done",
        "Are there workers? What do they say?",
    ),
    Rule(
        "OutlastUnread",
        f"max by (url) ({_of(m.SOURCE_UP)}) == 0",
        "5m",
        "warning",
        "outlast metrics cannot read {{ $labels.url }}",
        "Nothing is known of what is there, and no other alert can fire for it.",
    ),
)


def prometheus_rules() -> Json:
    """A rule file."""
    return {"groups": [{"name": "outlast", "rules": [_rule(one) for one in RULES]}]}


def gke_rules() -> Json:
    """The same for Managed Service for Prometheus; for `kubectl apply`."""
    groups = [{"name": "outlast", "interval": "60s", "rules": [_rule(one) for one in RULES]}]
    return {
        "apiVersion": "monitoring.googleapis.com/v1",
        "kind": "Rules",
        "metadata": {"name": "outlast"},
        "spec": {"groups": groups},
    }


def _rule(one: Rule) -> Json:
    return {
        "alert": one.name,
        "expr": one.expression,
        "for": one.lasting,
        "labels": {"severity": one.severity},
        "annotations": {"summary": one.summary, "description": one.why},
    }


_LOG_FILTER = """resource.type="cloud_run_job"
severity>=ERROR
jsonPayload.message=~"^outlast: \""""
_LOG_WHY = (
    "outlast wrote an error to the log of Cloud Run job ${log.extracted_label.job}: a save failed, a last state was "
    "not saved in time, or the job needs a human (exit code 78). What to do: docs/howto/on-call.md."
)


def cloud_run_policy() -> Json:
    """A policy for the errors that outlast logs on Cloud Run; for `gcloud monitoring policies create`."""
    condition = {
        "filter": _LOG_FILTER,
        "labelExtractors": {
            "job": "EXTRACT(resource.labels.job_name)",
            "execution": 'EXTRACT(labels."run.googleapis.com/execution_name")',
        },
    }
    return {
        "displayName": "outlast: an error on Cloud Run",
        "documentation": {"content": _LOG_WHY, "mimeType": "text/markdown"},
        "userLabels": {"from": "outlast"},
        "conditions": [{"displayName": "an error line of outlast", "conditionMatchedLog": condition}],
        "combiner": "OR",
        "enabled": True,
        "severity": "ERROR",
        "alertStrategy": {"notificationRateLimit": {"period": "3600s"}, "autoClose": "86400s"},
    }
