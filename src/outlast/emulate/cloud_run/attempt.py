"""One attempt of one task: its processes, and what the platform does to them.

Cloud Run documentation (2026-11-30), "Container runtime contract" and "Set task timeout for jobs": SIGTERM to the
container's first process when the timeout is over, when the execution is cancelled, and when the host of a GPU is
maintained; SIGKILL to all 10 s later. A task without a GPU is moved to another host instead: SIGTSTP 10 s before,
SIGCONT after, a line in the log at both ends. How long it stands still in between is not documented: 1 s is assumed.
"""

import heapq
import itertools
import os
import queue
import signal
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Literal

from outlast.containers.container import SHARED_MEMORY, Container, Mount, View
from outlast.emulate.cloud_run.execution_state import AttemptEnd, Cause
from outlast.emulate.cloud_run.log_book import LogBook, Writer
from outlast.emulate.scale import TimeScale
from outlast.platforms.cloud_run import CloudRunPlatform

Order = Literal["maintenance", "cancelled", "crash", "migration"]
_BEFORE_MIGRATION_SECONDS, _STANDS_STILL_SECONDS = 10.0, 1.0
_LONGEST_WAIT_SECONDS = 3600.0  # poll() takes no endless timeout
_SIGKILLED = 128 + signal.SIGKILL
_PREEMPTED = (
    "Container instance preemption initiated by the platform due to underlying hardware maintenance. "
    "(reason: INSTANCE_PREEMPTED)"
)


@dataclass(frozen=True, slots=True)
class Launch:
    """What an attempt starts. `copy_files(folder)` makes the image's files there; seconds are the platform's.

    `working_folder`: where the container wants them to be; None leaves them where they are made.
    """

    command: Sequence[str]
    environment: Mapping[str, str]
    copy_files: Callable[[Path], object]
    mounts: Callable[[Path], tuple[Mount, ...]]
    working_folder: Path | None
    timeout_seconds: float


class Attempt:
    """Runs in the thread that calls `run`; `order` may be called from any."""

    def __init__(self, launch: Launch, writer: Writer, log: LogBook, scale: TimeScale) -> None:
        self._launch, self.writer, self._log, self._scale = launch, writer, log, scale
        self._orders: queue.SimpleQueue[Order] = queue.SimpleQueue()
        self._bell = os.eventfd(0)
        self._ringing = threading.Lock()
        self._over = False
        self._timers: list[tuple[float, int, Callable[[Container], None]]] = []
        self._numbers = itertools.count()
        self._cause: Cause | None = None
        self._killed = False

    def order(self, what: Order) -> None:
        """Asks for an interruption; one that comes too late does nothing."""
        self._orders.put(what)
        with self._ringing:
            if not self._over:
                os.eventfd_write(self._bell, 1)

    def run(self) -> AttemptEnd:
        """Starts the processes and brings them to their end. Called once."""
        with ExitStack() as stack:
            stack.callback(self._take_no_more)
            private = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="outlast-cloud-run-")))
            output = stack.enter_context(_Output(self._log, self.writer))
            container = stack.enter_context(self._start(private, output))
            output.close_ours()
            self._after(self._launch.timeout_seconds, self._time_out)
            self._attend(container)
            code = container.finish()
        end = AttemptEnd(code, self._cause, self._killed and code == _SIGKILLED)
        self._say_how_it_ended(end)
        return end

    def _take_no_more(self) -> None:
        with self._ringing:
            self._over = True
            os.close(self._bell)

    def _start(self, private: Path, output: "_Output") -> Container:
        files = private / "files"
        self._launch.copy_files(files)
        for name in ("tmp", "shm", "root"):
            (private / name).mkdir()
        folder = self._launch.working_folder or files
        # What else it writes goes to memory; its own folders are as large as this machine's disk.
        own = (Mount(files, folder), Mount(private / "tmp", private / "tmp"), Mount(private / "shm", SHARED_MEMORY))
        environment = {**self._launch.environment, "PWD": str(folder)}
        environment.setdefault("TMPDIR", str(private / "tmp"))
        return Container(
            self._launch.command,
            folder=folder,
            environment=environment,
            stdout=output.stdout,
            stderr=output.stderr,
            isolated=True,
            view=View(private / "root", (*own, *self._launch.mounts(private)), private=True),
        )

    def _attend(self, container: Container) -> None:
        while True:
            left = self._timers[0][0] - time.monotonic() if self._timers else _LONGEST_WAIT_SECONDS
            ended, rung = container.wait(min(max(0.0, left), _LONGEST_WAIT_SECONDS), also=[self._bell])
            if ended:
                return
            if rung:
                os.eventfd_read(self._bell)
            while not self._orders.empty():
                self._obey(self._orders.get(), container)
            while self._timers and self._timers[0][0] <= time.monotonic():
                heapq.heappop(self._timers)[2](container)

    def _obey(self, order: Order, container: Container) -> None:
        if order == "migration":
            self._log.system(self.writer, "INFO", "Live migration of the container instance begins in 10 seconds.")
            container.signal_first(signal.SIGTSTP)
            self._after(_BEFORE_MIGRATION_SECONDS, self._stand_still)
        elif order == "crash":
            self._cause = self._cause or "crash"
            self._kill(container)
        elif order == "maintenance":
            self._terminate(container, order, "WARNING", _PREEMPTED)
        else:
            self._terminate(container, order, "INFO", "Terminating task because its execution was cancelled.")

    def _time_out(self, container: Container) -> None:
        seconds = f"{self._launch.timeout_seconds:g}"
        text = f"Terminating task because it has reached the maximum timeout of {seconds} seconds."
        self._terminate(container, "timeout", "ERROR", text)

    def _terminate(self, container: Container, cause: Cause, severity: str, text: str) -> None:
        self._log.system(self.writer, severity, text)
        if self._cause is not None:
            return  # its grace is running already
        self._cause = cause
        container.terminate_first()
        self._after(CloudRunPlatform.facts.grace_seconds, self._kill)

    def _kill(self, container: Container) -> None:
        self._killed = True
        container.kill()

    def _stand_still(self, container: Container) -> None:
        container.signal_all(signal.SIGSTOP)
        self._after(_STANDS_STILL_SECONDS, self._go_on)

    def _go_on(self, container: Container) -> None:
        container.signal_all(signal.SIGCONT)
        self._log.system(self.writer, "INFO", "Live migration of the container instance is complete.")

    def _after(self, documented_seconds: float, action: Callable[[Container], None]) -> None:
        moment = time.monotonic() + self._scale.here(documented_seconds)
        heapq.heappush(self._timers, (moment, next(self._numbers), action))

    def _say_how_it_ended(self, end: AttemptEnd) -> None:
        if end.killed:
            self._log.system(self.writer, "WARNING", f"Container terminated on signal {int(signal.SIGKILL)}.")
        else:
            severity = "INFO" if end.exit_code == 0 else "WARNING"
            self._log.system(self.writer, severity, f"Container called exit({end.exit_code}).")


class _Output:
    """Both outputs of a container, read line by line into the log while it runs."""

    def __init__(self, log: LogBook, writer: Writer) -> None:
        self._log, self._writer = log, writer
        self._threads: list[threading.Thread] = []
        self.stdout, self.stderr = self._pipe("stdout"), self._pipe("stderr")

    def _pipe(self, stream: str) -> BinaryIO:
        reading, writing = os.pipe()
        thread = threading.Thread(target=self._read, args=(reading, stream), name=f"outlast-{stream}", daemon=True)
        thread.start()
        self._threads.append(thread)
        return os.fdopen(writing, "wb")

    def _read(self, descriptor: int, stream: str) -> None:
        with os.fdopen(descriptor, "r", encoding="utf-8", errors="replace", newline="\n") as lines:
            for line in lines:
                self._log.output(self._writer, stream, line.removesuffix("\n"))

    def close_ours(self) -> None:
        """The container has them now: the readers end when its last process has."""
        self.stdout.close()
        self.stderr.close()

    def __enter__(self) -> "_Output":
        return self

    def __exit__(self, *_: Any) -> None:
        self.close_ours()
        for thread in self._threads:
            thread.join()
