"""Jobs, executions and tasks as the API shows them: metadata, conditions, counts.

The conditions' types, order and words are those of real executions (2026-11-30): Completed, ResourcesAvailable,
Started, ContainerReady. `completionStatus`, `retriedCount` and the tasks' labels as gcloud 528.0.0 reads them.
"""

from datetime import datetime, timedelta
from typing import Any

from outlast.emulate.cloud_run.execution import Execution
from outlast.emulate.cloud_run.execution_state import CANCELLED_BY_USER, Task
from outlast.emulate.cloud_run.messages import written
from outlast.emulate.rfc3339 import in_microseconds

API_VERSION = "run.googleapis.com/v1"
JOB_LABEL, EXECUTION_LABEL = "run.googleapis.com/job", "run.googleapis.com/execution"
RUNNING_STATE_LABEL = "run.googleapis.com/runningState"
_CONSOLE = "https://console.cloud.google.com"


def execution_object(execution: Execution) -> dict[str, Any]:
    """An Execution."""
    with execution.lock:
        job = execution.job["metadata"]
        template = execution.job["spec"]["template"].get("metadata", {})
        labels = {**template.get("labels", {}), JOB_LABEL: job["name"]}
        labels |= {"run.googleapis.com/jobUid": job["uid"], "run.googleapis.com/jobGeneration": str(job["generation"])}
        metadata = {
            "name": execution.name,
            "namespace": execution.place.project,
            "uid": execution.uid,
            "creationTimestamp": in_microseconds(execution.created_at),
            "generation": 1,
            "resourceVersion": str(len(execution.attempts) + 1),
            "labels": {**labels, "cloud.googleapis.com/location": execution.place.region},
            "annotations": dict(template.get("annotations", {})),
            "ownerReferences": [_owner("Job", job["name"], job["uid"])],
        }
        return {
            "apiVersion": API_VERSION,
            "kind": "Execution",
            "metadata": metadata,
            "spec": written("ExecutionSpec", execution.spec),
            "status": _execution_status(execution),
        }


def _execution_status(execution: Execution) -> dict[str, Any]:
    state = execution.state
    counts = {
        "runningCount": state.count("Running"),
        "succeededCount": state.count("Succeeded"),
        "failedCount": state.count("Failed"),
        "cancelledCount": state.count("Cancelled"),
        "retriedCount": state.retried,
    }
    found = {
        "observedGeneration": 1,
        "conditions": _execution_conditions(execution),
        **{name: count for name, count in counts.items() if count},
        "logUri": _log_uri(execution),
    }
    return found | _times(state.started_at, state.completed_at)


def _execution_conditions(execution: Execution) -> list[dict[str, Any]]:
    state, created = execution.state, execution.created_at
    status, reason, message = _completed(execution)
    changed = state.completed_at or state.started_at or created
    conditions = [condition("Completed", status, message, changed, reason=reason)]
    conditions.append(condition("ResourcesAvailable", "True", "Provisioned imported containers.", created))
    if state.started_at is None:
        conditions.append(condition("Started", "Unknown", "Waiting for execution to start.", created))
    else:
        text = f"Started deployed execution in {_duration(state.started_at - created)}."
        conditions.append(condition("Started", "True", text, state.started_at))
    conditions.append(condition("ContainerReady", "True", "Imported container image.", created))
    return conditions


def _completed(execution: Execution) -> tuple[str, str | None, str]:
    """The status, the reason and the message of the condition Completed."""
    state = execution.state
    if not state.over:
        return "Unknown", None, "Waiting for execution to complete."
    if state.cancelled:
        return "False", "Cancelled", CANCELLED_BY_USER
    failed = state.first_failed
    if failed is None:
        took = (state.completed_at or execution.created_at) - (state.started_at or execution.created_at)
        return "True", None, f"Execution completed successfully in {_duration(took)}."
    code = failed.last.exit_code if failed.last else None
    words = failed.last.message if failed.last else ""
    name = task_name(execution, failed)
    return "False", "NonZeroExitCode", f"Task {name} failed with exit code: {code or 0} and message: {words}"


def completion_status(execution: Execution) -> str:
    """What a job says of its newest execution."""
    with execution.lock:
        state = execution.state
        if not state.over:
            return "EXECUTION_RUNNING" if state.started_at else "EXECUTION_PENDING"
        if state.cancelled:
            return "EXECUTION_CANCELLED"
        return "EXECUTION_SUCCEEDED" if state.succeeded else "EXECUTION_FAILED"


def reference_to(execution: Execution) -> dict[str, Any]:
    """An ExecutionReference."""
    found = {
        "name": execution.name,
        "creationTimestamp": in_microseconds(execution.created_at),
        "completionStatus": completion_status(execution),
    }
    if execution.state.completed_at is not None:
        found["completionTimestamp"] = in_microseconds(execution.state.completed_at)
    return found


def task_name(execution: Execution, task: Task) -> str:
    """The name that the platform gives a task."""
    return f"{execution.name}-task{task.index}"


def task_object(execution: Execution, task: Task) -> dict[str, Any]:
    """A Task."""
    with execution.lock:
        labels = {
            JOB_LABEL: execution.job["metadata"]["name"],
            EXECUTION_LABEL: execution.name,
            RUNNING_STATE_LABEL: task.state,
            "cloud.googleapis.com/location": execution.place.region,
        }
        metadata = {
            "name": task_name(execution, task),
            "namespace": execution.place.project,
            "uid": f"{execution.uid}-{task.index}",
            "creationTimestamp": in_microseconds(execution.created_at),
            "generation": 1,
            "labels": labels,
            "annotations": {},
            "ownerReferences": [_owner("Execution", execution.name, execution.uid)],
        }
        return {
            "apiVersion": API_VERSION,
            "kind": "Task",
            "metadata": metadata,
            "spec": written("TaskSpec", execution.spec["template"]["spec"]),
            "status": _task_status(execution, task),
        }


def _task_status(execution: Execution, task: Task) -> dict[str, Any]:
    status = {"Succeeded": "True", "Failed": "False", "Cancelled": "False"}.get(task.state, "Unknown")
    words = task.last.message if task.last else ""
    reason = {"Failed": "NonZeroExitCode", "Cancelled": "Cancelled"}.get(task.state)
    started = task.started_at
    conditions = [
        condition("Completed", status, words, task.completed_at or started or execution.created_at, reason=reason),
        condition("Started", "True" if started else "Unknown", "", started or execution.created_at),
    ]
    found: dict[str, Any] = {
        "observedGeneration": 1,
        "index": task.index,
        "conditions": conditions,
        "logUri": _log_uri(execution),
    }
    if task.attempt:
        found["retried"] = task.attempt
    if task.last is not None:
        told = {"code": task.last.code, "message": task.last.message} if task.last.code else {}
        result: dict[str, Any] = {"status": told}
        if task.last.exit_code is not None:
            result["exitCode"] = task.last.exit_code
        found["lastAttemptResult"] = result
    return found | _times(started, task.completed_at)


def condition(kind: str, status: str, message: str, moment: datetime, *, reason: str | None = None) -> dict[str, Any]:
    """A condition of a job, an execution or a task; `moment` is that of its last change."""
    found = {"type": kind, "status": status, "lastTransitionTime": in_microseconds(moment)}
    if reason:
        found["reason"] = reason
    return {**found, "message": message} if message else found


def _times(started: datetime | None, completed: datetime | None) -> dict[str, str]:
    moments = {"startTime": started, "completionTime": completed}
    return {name: in_microseconds(moment) for name, moment in moments.items() if moment is not None}


def _owner(kind: str, name: str, uid: str) -> dict[str, Any]:
    return {
        "apiVersion": API_VERSION,
        "kind": kind,
        "name": name,
        "uid": uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }


def _duration(took: timedelta) -> str:
    """As Cloud Run writes it: 38.22s, 2m49.01s."""
    minutes, seconds = divmod(max(0.0, took.total_seconds()), 60)
    return f"{int(minutes)}m{seconds:.2f}s" if minutes else f"{seconds:.2f}s"


def _log_uri(execution: Execution) -> str:
    place, job = execution.place, execution.job["metadata"]["name"]
    return (
        f"{_CONSOLE}/logs/viewer?project={place.project}&resource=cloud_run_job/job_name/{job}/location/{place.region}"
        f"/execution_id/{execution.name}"
    )
