"""One execution: its attempts in threads of their own, its state under one lock, and what interrupts it."""

import logging
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from outlast.emulate.cloud_run.attempt import Attempt, Launch, Order
from outlast.emulate.cloud_run.execution_state import AttemptEnd, ExecutionState, Task
from outlast.emulate.cloud_run.limits import has_gpu
from outlast.emulate.cloud_run.log_book import LogBook, Writer
from outlast.emulate.scale import TimeScale

Prepare = Callable[[Task], Launch]
_LOGGER = logging.getLogger(__name__)
_COULD_NOT_START = 125
_MOST_AT_A_TIME = 100  # processes of this machine; Cloud Run has quotas


@dataclass(frozen=True, slots=True)
class Place:
    """Where a job and its executions are."""

    project: str
    region: str


@dataclass(frozen=True, slots=True)
class AttemptRecord:
    """What became of an attempt, for tests and rehearsals."""

    task: int
    attempt: int
    started_at: datetime
    ended_at: datetime
    end: AttemptEnd


class Execution:
    """An execution of a job, which has been deployed as `job`. `spec`: its settled ExecutionSpec."""

    def __init__(
        self,
        name: str,
        *,
        job: dict[str, Any],
        spec: dict[str, Any],
        place: Place,
        uid: str,
        log: LogBook,
        scale: TimeScale,
    ) -> None:
        self.name, self.job, self.spec, self.place, self.uid = name, job, spec, place, uid
        self.created_at = datetime.now(UTC)
        task = spec["template"]["spec"]
        at_a_time = min(spec.get("parallelism", 0) or spec["taskCount"], _MOST_AT_A_TIME)
        self.state = ExecutionState(spec["taskCount"], at_a_time, task["maxRetries"])
        self.gpu = has_gpu(task)
        self._log, self._scale = log, scale
        self._lock = threading.RLock()
        self._over = threading.Condition(self._lock)
        self._running: dict[int, Attempt] = {}
        self._threads: list[threading.Thread] = []
        self._records: list[AttemptRecord] = []
        self._prepare: Prepare | None = None

    @property
    def lock(self) -> threading.RLock:
        """Held while the state is looked at as a whole."""
        return self._lock

    @property
    def attempts(self) -> Sequence[AttemptRecord]:
        """The attempts that have ended, in that order."""
        with self._lock:
            return tuple(self._records)

    def start(self, prepare: Prepare) -> None:
        """Starts the tasks, as many at a time as the job wants; `prepare` says what an attempt of a task starts."""
        with self._lock:
            self._prepare = prepare
            self._start_next()

    def running_tasks(self) -> list[int]:
        with self._lock:
            return sorted(self._running)

    def order(self, what: Order, task: int | None = None) -> list[int]:
        """Interrupts a running task, or all of them; returns which."""
        with self._lock:
            found = [index for index in sorted(self._running) if task in (None, index)]
            for index in found:
                self._running[index].order(what)
            return found

    def maintain(self, task: int | None = None) -> list[int]:
        """Maintenance of the hosts of a task or of all: with a GPU it is ended, without one it is moved."""
        return self.order("maintenance" if self.gpu else "migration", task)

    def cancel(self) -> None:
        """Starts no task any more, and ends those that run, with SIGTERM and the grace."""
        with self._lock:
            if not self.state.over:
                self.state.cancel(datetime.now(UTC))
                self.order("cancelled")
                self._over.notify_all()

    def wait(self, seconds: float | None = None) -> bool:
        """Whether the execution is over within that time."""
        with self._lock:
            return self._over.wait_for(lambda: self.state.over and not self._running, seconds)

    def close(self) -> None:
        """Kills what runs, without notice: the emulator itself ends."""
        with self._lock:
            if not self.state.over:
                self.state.cancel(datetime.now(UTC))
                self.order("crash")
        for thread in self._threads:
            thread.join()

    def _start_next(self) -> None:
        """The lock is held."""
        for task in self.state.start_next(datetime.now(UTC)):
            writer = Writer(
                project=self.place.project,
                region=self.place.region,
                job=self.job["metadata"]["name"],
                execution=self.name,
                task=task.index,
                attempt=task.attempt,
                instance=f"{self.uid}-{task.index}-{task.attempt}",
            )
            prepare = self._prepare
            assert prepare is not None
            attempt = Attempt(prepare(task), writer, self._log, self._scale)
            self._running[task.index] = attempt
            name = f"outlast-{self.name}-{task.index}-{task.attempt}"
            thread = threading.Thread(target=self._run, args=(task.index, attempt), name=name, daemon=True)
            self._threads.append(thread)
            thread.start()

    def _run(self, index: int, attempt: Attempt) -> None:
        began = datetime.now(UTC)
        try:
            end = attempt.run()
        except (OSError, ValueError) as error:  # too long an argument, a NUL in one, a full disk: it could not start
            _LOGGER.warning("an attempt of %s could not be started: %s", self.name, error)
            self._log.system(attempt.writer, "ERROR", f"The container could not be started: {error}")
            end = AttemptEnd(_COULD_NOT_START)
        with self._lock:
            now = datetime.now(UTC)
            del self._running[index]
            self._records.append(AttemptRecord(index, attempt.writer.attempt, began, now, end))
            self.state.attempt_ended(index, end, now)
            self._start_next()
            self._over.notify_all()
