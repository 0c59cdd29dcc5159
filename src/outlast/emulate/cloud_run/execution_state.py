"""What becomes of an execution's tasks: which may start, which are tried again, when all is over.

Cloud Run documentation (2026-11-30): a task is tried again after a failure, up to its retries; a task that reaches its
timeout has failed whatever it leaves with; a container succeeds by leaving with 0. So a task that leaves with 0 when
it is ended for maintenance has succeeded, finished or not. As users see it, an execution is over when each of its
tasks is; and of the tasks of a cancelled one none counts as succeeded that was still running.
"""

from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal

# Why the platform ended an attempt; None in its place: the attempt ended by itself.
Cause = Literal["timeout", "maintenance", "cancelled", "crash"]
State = Literal["Pending", "Running", "Succeeded", "Failed", "Cancelled"]
_OVER: tuple[State, ...] = ("Succeeded", "Failed", "Cancelled")

# google.rpc.Code: what gcloud and the client libraries see in a task's last attempt.
_CANCELLED, _DEADLINE_EXCEEDED, _ABORTED = 1, 4, 10
EXITED_WITH_ERROR = "The container exited with an error."
TIMED_OUT = "The configured timeout was reached."
CANCELLED_BY_USER = "Cancelled by user."


@dataclass(frozen=True, slots=True)
class AttemptEnd:
    """How one attempt of one task ended. `killed`: by SIGKILL of the platform."""

    exit_code: int
    cause: Cause | None = None
    killed: bool = False


@dataclass(frozen=True, slots=True)
class Result:
    """What the API tells of the last attempt; `code` 0 is success."""

    code: int
    message: str = ""
    exit_code: int | None = None


@dataclass(slots=True)
class Task:
    """One task; `attempt` is the number of its retries so far."""

    index: int
    attempt: int = 0
    state: State = "Pending"
    started_at: datetime | None = None
    completed_at: datetime | None = None
    last: Result | None = None


@dataclass(slots=True)
class ExecutionState:
    """The tasks of an execution, of which `parallelism` (1 at least) run at a time."""

    task_count: int
    parallelism: int
    max_retries: int
    tasks: list[Task] = field(init=False)
    cancelled: bool = False
    started_at: datetime | None = None
    completed_at: datetime | None = None

    def __post_init__(self) -> None:
        self.tasks = [Task(index) for index in range(self.task_count)]

    def count(self, state: State) -> int:
        return sum(task.state == state for task in self.tasks)

    @property
    def retried(self) -> int:
        """How many tasks were tried more than once; not the number of retries."""
        return sum(task.attempt > 0 for task in self.tasks)

    @property
    def over(self) -> bool:
        return all(task.state in _OVER for task in self.tasks)

    @property
    def succeeded(self) -> bool:
        return not self.cancelled and all(task.state == "Succeeded" for task in self.tasks)

    @property
    def first_failed(self) -> Task | None:
        failed = [task for task in self.tasks if task.state == "Failed" and task.completed_at is not None]
        return min(failed, key=lambda task: (task.completed_at, task.index), default=None)

    def start_next(self, now: datetime) -> list[Task]:
        """The tasks whose next attempt begins now."""
        room = self.parallelism - self.count("Running")
        found = [task for task in self.tasks if task.state == "Pending"][: max(0, room)]
        for task in found:
            task.state = "Running"
            task.started_at = task.started_at or now
            self.started_at = self.started_at or now
        return found

    def attempt_ended(self, index: int, end: AttemptEnd, now: datetime) -> None:
        """Decides about the task: over, or to be tried again."""
        task = self.tasks[index]
        if self.cancelled:
            self._complete(task, "Cancelled", Result(_CANCELLED, CANCELLED_BY_USER), now)
        elif end.cause != "timeout" and end.exit_code == 0:
            self._complete(task, "Succeeded", Result(0), now)
        else:
            task.last = (
                Result(_DEADLINE_EXCEEDED, TIMED_OUT)
                if end.cause == "timeout"
                else Result(_ABORTED, EXITED_WITH_ERROR, end.exit_code)
            )
            if task.attempt < self.max_retries:
                task.attempt += 1
                task.state = "Pending"
            else:
                self._complete(task, "Failed", task.last, now)
        self._look_whether_over(now)

    def cancel(self, now: datetime) -> None:
        """No task starts any more. Those that run are over when their processes are."""
        self.cancelled = True
        for task in self.tasks:
            if task.state == "Pending":
                self._complete(task, "Cancelled", Result(_CANCELLED, CANCELLED_BY_USER), now)
        self._look_whether_over(now)

    def _look_whether_over(self, now: datetime) -> None:
        if self.over and self.completed_at is None:
            self.completed_at = now

    @staticmethod
    def _complete(task: Task, state: State, result: Result, now: datetime) -> None:
        task.state, task.last, task.completed_at = state, result, now
