"""What Cloud Logging would hold: the lines that the tasks write, and what the platform says of them.

The names of logs, resources and labels are those of real entries of Cloud Run jobs (2026-11-30): stdout and stderr of
a task under run.googleapis.com/stdout and /stderr, the platform's own lines under run.googleapis.com/varlog/system.
"""

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote

from outlast.emulate import rfc3339
from outlast.emulate.reading import read_json

SEVERITIES = ("DEFAULT", "DEBUG", "INFO", "NOTICE", "WARNING", "ERROR", "CRITICAL", "ALERT", "EMERGENCY")
_LABELS_FIELD = "logging.googleapis.com/labels"


@dataclass(frozen=True, slots=True)
class Writer:
    """Who writes: one attempt of one task."""

    project: str
    region: str
    job: str
    execution: str
    task: int
    attempt: int
    instance: str

    def entry(self, log: str, severity: str, payload: dict[str, Any]) -> dict[str, Any]:
        labels = {
            "instanceId": self.instance,
            "run.googleapis.com/execution_name": self.execution,
            "run.googleapis.com/task_index": str(self.task),
            "run.googleapis.com/task_attempt": str(self.attempt),
        }
        resource = {"job_name": self.job, "location": self.region, "project_id": self.project}
        found = {
            "logName": f"projects/{self.project}/logs/run.googleapis.com{quote('/' + log, safe='')}",
            "resource": {"type": "cloud_run_job", "labels": resource},
            "labels": labels,
            **payload,
        }
        return found if severity == "DEFAULT" else {**found, "severity": severity}


class LogBook:
    """The entries in the order in which they came. May be used from several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._entries: list[dict[str, Any]] = []

    def output(self, writer: Writer, stream: str, line: str) -> None:
        """A line that a task wrote to "stdout" or "stderr". A line that is a JSON object becomes a structured entry."""
        severity, payload, labels = _understand(line)
        entry = writer.entry(stream, severity, payload)
        entry["labels"] |= labels
        self._append(entry)

    def system(self, writer: Writer, severity: str, text: str) -> None:
        """A line of the platform itself about a task."""
        self._append(writer.entry("varlog/system", severity, {"textPayload": text}))

    def entries(self) -> Sequence[dict[str, Any]]:
        """All entries so far, the oldest first."""
        with self._lock:
            return tuple(self._entries)

    def _append(self, entry: dict[str, Any]) -> None:
        with self._lock:
            now = rfc3339.in_microseconds(datetime.now(UTC))
            number = f"{len(self._entries):012x}"
            self._entries.append({**entry, "timestamp": now, "receiveTimestamp": now, "insertId": number})


def _understand(line: str) -> tuple[str, dict[str, Any], dict[str, str]]:
    """The severity, the payload and the labels of a line, as "Structured logging" of Cloud Logging describes them."""
    found: Any = None
    if line.lstrip().startswith("{"):
        try:
            found = read_json(line)
        except ValueError:  # it only looks like JSON
            found = None
    if not isinstance(found, dict):
        return "DEFAULT", {"textPayload": line}, {}
    severity = str(found.pop("severity", "DEFAULT")).upper()
    labels = found.pop(_LABELS_FIELD, {})
    own = {name: str(value) for name, value in labels.items()} if isinstance(labels, dict) else {}
    return severity if severity in SEVERITIES else "DEFAULT", {"jsonPayload": found}, own
