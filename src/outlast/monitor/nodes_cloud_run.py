"""Cloud Run has no nodes: executions, their tasks and attempts, and the preemptions in their log, through gcloud.

Facts as of 2026-11-29. The commands, and the fields of their JSON, are those of gcloud 528.0.0: `run jobs executions
list`, `… tasks list`, `logging read`. A task's `retried` counts its retries, so its attempts are one more;
`lastAttemptResult` tells of the last one that ended. Cloud Run tutorial for resilient GPU jobs: the line of a
preemption has the word INSTANCE_PREEMPTED. Logs: labels."run.googleapis.com/execution_name".
"""

import json
import shlex
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Literal

from outlast.deploy.doctor.programs import Answer, Programs, number_at, parsed, rows, rows_at, text_at, value_at
from outlast.errors import ClusterUnreachable, SettingsError
from outlast.monitor.nodes_containers import ContainerMarks
from outlast.monitor.nodes_losses import AtRisk, Losses, Worksite
from outlast.sources.moments import parse_moment

MOST_EXECUTIONS = 3
_MOST_ENTRIES = 50
_JOB_LABEL, _EXECUTION_LABEL = "run.googleapis.com/job", "run.googleapis.com/execution"
_STATE_LABEL, _LOG_LABEL = "run.googleapis.com/runningState", "run.googleapis.com/execution_name"
_PREEMPTED = "INSTANCE_PREEMPTED"
_TOOLS = "gcloud auth login; gcloud config set project PROJECT; or give --project and --region"
Row = Mapping[str, object]
ExecutionState = Literal["running", "succeeded", "failed", "cancelled"]


@dataclass(frozen=True, slots=True)
class Preemption:
    """An entry of the log that tells of a preemption. `at`: seconds since the epoch, None where it has no time."""

    execution: str
    at: float | None
    task: int | None
    message: str


@dataclass(frozen=True, slots=True)
class TaskSight:
    """One task. `attempts`: so far; `most_attempts`: with all retries. `last_exit` and `last_message`: of the last
    attempt that ended."""

    index: int
    state: str
    attempts: int
    most_attempts: int | None
    started_at: float | None = None
    completed_at: float | None = None
    last_exit: int | None = None
    last_message: str = ""
    at_risk: tuple[AtRisk, ...] = ()

    @property
    def is_last_attempt(self) -> bool:
        """It runs, and no retry is left."""
        return self.state == "running" and self.most_attempts is not None and self.attempts >= self.most_attempts


@dataclass(frozen=True, slots=True)
class ExecutionSight:
    """One execution. `retried_tasks`: tasks that had any retry. `outlast_job`: what the store calls its job, mostly."""

    name: str
    job: str
    region: str
    state: ExecutionState
    message: str
    tasks_in_all: int
    retried_tasks: int
    created_at: float | None
    completed_at: float | None
    runs_outlast: str
    urls: tuple[str, ...]
    outlast_job: str
    log_address: str | None
    tasks: tuple[TaskSight, ...] = ()
    preemptions: tuple[Preemption, ...] = ()

    @property
    def in_trouble(self) -> bool:
        """It failed, or the next interruption of one of its tasks would be the last."""
        return self.state == "failed" or any(task.is_last_attempt for task in self.tasks)


@dataclass(frozen=True, slots=True)
class CloudRunSight:
    """The newest executions, newest first; `commands`: what was asked, for a shell; `problems`: what did not answer."""

    executions: tuple[ExecutionSight, ...]
    commands: tuple[str, ...] = ()
    logs_query: str = ""
    problems: tuple[str, ...] = ()

    @property
    def in_trouble(self) -> bool:
        """Somebody should look, or not all could be seen."""
        return bool(self.problems) or any(one.in_trouble for one in self.executions)


@dataclass(frozen=True, slots=True)
class Which:
    """Which executions. None: of all jobs; the region and the project of gcloud's configuration."""

    job: str | None = None
    execution: str | None = None
    region: str | None = None
    project: str | None = None
    most: int = MOST_EXECUTIONS

    @property
    def place(self) -> tuple[str, ...]:
        """The flags for gcloud run."""
        region = () if self.region is None else (f"--region={self.region}",)
        return (*region, *self.of_project)

    @property
    def of_project(self) -> tuple[str, ...]:
        return () if self.project is None else (f"--project={self.project}",)


def survey_executions(programs: Programs, which: Which, *, losses: Losses) -> CloudRunSight:
    """Asks gcloud. Raises SettingsError where it is missing or refuses, ClusterUnreachable where it does not answer."""
    if not programs.found("gcloud"):
        raise SettingsError("Cloud Run is asked through gcloud, which is not on PATH; install the Google Cloud SDK")
    listing = _listing(which)
    found = _read(programs.ask(*listing))
    if which.execution is not None:
        found = [one for one in found if text_at(one, "metadata", "name") == which.execution]
        if not found:
            raise SettingsError(f"--execution={which.execution!r}: there is no such execution")
    found = sorted(found, key=lambda one: text_at(one, "metadata", "creationTimestamp") or "", reverse=True)
    found = found[: which.most]
    names = [text_at(one, "metadata", "name") or "" for one in found]
    if not names:
        return CloudRunSight((), commands=(shlex.join(listing),))
    query = preemption_query(names)
    asked = [_tasks(name, which) for name in names] + [_log(query, which)]
    with ThreadPoolExecutor(3) as pool:  # each takes gcloud some 1.4 s of CPU
        answers = list(pool.map(lambda words: programs.ask(*words), asked))
    read = [parsed(answer, rows) for answer in answers]
    problems = tuple(_complaint(one) for one in read if isinstance(one, Answer))
    tasks = [[] if isinstance(one, Answer) else one for one in read[:-1]]
    entries = [] if isinstance(read[-1], Answer) else read[-1]
    preemptions = [_preemption(one) for one in entries]
    sights = [_execution(one, of, preemptions) for one, of in zip(found, tasks, strict=True)]
    sights = _with_risks(sights, losses)
    commands = tuple(shlex.join(words) for words in (listing, *asked))
    return CloudRunSight(tuple(sights), commands, query, problems)


def preemption_query(executions: Sequence[str]) -> str:
    """For Logs Explorer and `gcloud logging read`: preemptions of these executions."""
    names = " OR ".join(f'labels."{_LOG_LABEL}"={json.dumps(one)}' for one in executions)
    return f'resource.type="cloud_run_job"\n({names})\n"{_PREEMPTED}"'


def _listing(which: Which) -> tuple[str, ...]:
    of_job = () if which.job is None else (f"--job={which.job}",)
    return ("gcloud", "run", "jobs", "executions", "list", *of_job, *which.place, "--format=json", "--limit=100")


def _tasks(execution: str, which: Which) -> tuple[str, ...]:
    words = ("gcloud", "run", "jobs", "executions", "tasks", "list", f"--execution={execution}")
    return (*words, *which.place, "--format=json")


def _log(query: str, which: Which) -> tuple[str, ...]:
    words = ("gcloud", "logging", "read", " AND ".join(query.splitlines()), "--order=desc", "--freshness=30d")
    return (*words, f"--limit={_MOST_ENTRIES}", *which.of_project, "--format=json")


def _read(answer: Answer) -> Sequence[Row]:
    read = parsed(answer, rows)
    if not isinstance(read, Answer):
        return read
    if read.failure in ("hung", "malformed"):
        raise ClusterUnreachable(_complaint(read))
    raise SettingsError(f"{_complaint(read)}. Nothing was changed. What may help: {_TOOLS}")


def _complaint(answer: Answer) -> str:
    asked = shlex.join(answer.argv)
    if answer.failure == "hung":
        return f"`{asked}` did not answer in time, and was ended"
    return f"`{asked}` failed: {answer.last_line}"


# --- what gcloud says -------------------------------------------------------------------------------


def _with_risks(sights: Sequence[ExecutionSight], losses: Losses) -> list[ExecutionSight]:
    """With what each running task would lose; the stores are asked all at once."""
    running = [(one, task) for one in sights for task in one.tasks if task.state == "running"]
    risks = losses([Worksite(one.urls, one.outlast_job, task.index) for one, task in running])
    known = {(one.name, task.index): risk for (one, task), risk in zip(running, risks, strict=True)}
    return [
        replace(one, tasks=tuple(replace(task, at_risk=known.get((one.name, task.index), ())) for task in one.tasks))
        for one in sights
    ]


def _execution(one: Row, tasks: Sequence[Row], preemptions: Sequence[Preemption]) -> ExecutionSight:
    name = text_at(one, "metadata", "name") or ""
    labels = value_at(one, "metadata", "labels")
    job = text_at(labels, _JOB_LABEL) or ""
    task_spec = value_at(one, "spec", "template", "spec")
    volumes = [dict(volume) for volume in rows_at(task_spec, "volumes")]
    containers = [ContainerMarks(dict(each), volumes) for each in rows_at(task_spec, "containers")]
    why = next((found for each in containers if (found := each.runs_outlast())), "")
    urls = tuple(dict.fromkeys(url for each in containers for url in each.urls(guess=bool(why))))
    state, message = _state(one)
    return ExecutionSight(
        name=name,
        job=job,
        region=text_at(labels, "cloud.googleapis.com/location") or "",
        state=state,
        message=message,
        tasks_in_all=int(number_at(one, "spec", "taskCount")) or 1,
        retried_tasks=int(number_at(one, "status", "retriedCount")),
        created_at=parse_moment(text_at(one, "metadata", "creationTimestamp")),
        completed_at=parse_moment(text_at(one, "status", "completionTime")),
        runs_outlast=why,
        urls=urls,
        outlast_job=next((each.env["OUTLAST_JOB"] for each in containers if "OUTLAST_JOB" in each.env), job),
        log_address=text_at(one, "status", "logUri"),
        tasks=tuple(sorted((_task(each) for each in tasks), key=lambda each: each.index)),
        preemptions=tuple(each for each in preemptions if each.execution == name),
    )


def _state(one: Row) -> tuple[ExecutionState, str]:
    for condition in rows_at(one, "status", "conditions"):
        if condition.get("type") == "Completed":
            message = text_at(condition, "message") or ""
            if condition.get("status") == "True":
                return "succeeded", message
            if condition.get("status") == "False":
                return "cancelled" if number_at(one, "status", "cancelledCount") else "failed", message
            return "running", message
    return "running", ""


def _task(one: Row) -> TaskSight:
    index = int(number_at(one, "status", "index"))
    state = (text_at(value_at(one, "metadata", "labels"), _STATE_LABEL) or "").lower()
    retries = text_at(one, "spec", "maxRetries")
    code = text_at(one, "status", "lastAttemptResult", "exitCode")
    return TaskSight(
        index=index,
        state=state or "unknown",
        attempts=int(number_at(one, "status", "retried")) + 1,
        most_attempts=int(retries) + 1 if retries is not None and retries.isdigit() else None,
        started_at=parse_moment(text_at(one, "status", "startTime")),
        completed_at=parse_moment(text_at(one, "status", "completionTime")),
        last_exit=int(code) if code is not None and code.lstrip("-").isdigit() else None,
        last_message=text_at(one, "status", "lastAttemptResult", "status", "message") or "",
    )


def _preemption(entry: Row) -> Preemption:
    labels = value_at(entry, "labels")
    task = text_at(labels, "run.googleapis.com/task_index")
    said = text_at(entry, "textPayload") or text_at(entry, "jsonPayload", "message")
    said = said or text_at(entry, "protoPayload", "status", "message") or _PREEMPTED
    return Preemption(
        execution=text_at(labels, _LOG_LABEL) or "",
        at=parse_moment(text_at(entry, "timestamp")),
        task=int(task) if task is not None and task.isdigit() else None,
        message=said[:500],
    )
