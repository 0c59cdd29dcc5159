"""One pod on one node: its containers as processes, from the first to the end that it has, or that somebody gives it.

Facts as of 2026-11-30. Kubernetes, "Pod lifecycle": init containers one after the other; at the end each container's
preStop, then SIGTERM to its first process, and SIGKILL once the grace is over, of which preStop is a part; a preStop
that takes all of it leaves 2 s. A pod past its activeDeadlineSeconds is Failed, however its containers ended
(pkg/kubelet, generateAPIPodStatus). The second restart of a container waits 10 s, the next 20 s, 40 s … and 5 min at
most. A pod that is told to end stays Running until its containers are gone (pkg/kubelet/status, mergePodStatus).
"""

import os
import select
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from outlast.emulate import rfc3339
from outlast.emulate.kubernetes import conditions, pod_states
from outlast.emulate.kubernetes.images import ImageMissing
from outlast.emulate.kubernetes.pod_environment import ConfigError
from outlast.emulate.kubernetes.pod_process import PodProcess
from outlast.emulate.kubernetes.pod_states import ContainerRecord
from outlast.emulate.kubernetes.pod_volumes import NotYetMounted, Volumes
from outlast.emulate.kubernetes.pods import own_grace_seconds
from outlast.emulate.scale import TimeScale

Json = dict[str, Any]
_LEAST_GRACE_SECONDS = 2.0
_FIRST_RESTART_SECONDS, _LONGEST_RESTART_SECONDS = 10.0, 300.0
_MOUNT_AGAIN_SECONDS = 2.0
_WAITS: dict[type[Exception], str] = {ImageMissing: "ErrImagePull", ConfigError: "CreateContainerConfigError"}
_LONGEST_WAIT_SECONDS = 600.0
_PAST_DEADLINE = "Pod was active on the node longer than the specified deadline"


@dataclass(frozen=True, slots=True)
class Ending:
    """That a pod is to end, with how much grace in the platform's seconds, and what its status then says of it."""

    grace_seconds: float
    reason: str = ""
    message: str = ""
    condition: Json | None = None
    fails: bool = False  # whatever its containers left with


@dataclass(frozen=True, slots=True)
class Making:
    """How a worker gets what its pod needs.

    `mount` the volumes, `start` a container (its number of starts so far with it), `report` a status as it changes,
    `say` an event: reason, message, whether it is a warning; `over`: nothing of it runs any more.
    """

    mount: Callable[[], Volumes]
    start: Callable[[Json, Volumes, int], PodProcess]
    report: Callable[[Callable[[Json], None]], None]
    say: Callable[[str, str, bool], None]
    over: Callable[[], None]


class PodWorker:
    """Runs a pod in a thread of its own; `finished` once nothing of it runs any more."""

    def __init__(self, pod: Json, making: Making, scale: TimeScale) -> None:
        self._pod, self._spec, self._making, self._scale = pod, pod["spec"], making, scale
        self._init = [ContainerRecord(one["name"], one["image"]) for one in self._spec.get("initContainers", ())]
        self._main = [ContainerRecord(one["name"], one["image"]) for one in self._spec["containers"]]
        self._containers = {
            one["name"]: one for one in (*self._spec.get("initContainers", ()), *self._spec["containers"])
        }
        self._processes: dict[str, PodProcess] = {}
        self._starts: dict[str, int] = {}
        self._due: dict[str, float] = {}  # monotonic: when what cannot start yet is tried again
        self._volumes: Volumes | None = None
        self._lock = threading.Lock()
        self._wake = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._ending: Ending | None = None
        self._ends: dict[str, tuple[float, float]] = {}  # monotonic: when a container gets SIGTERM, and SIGKILL
        self._signalled: set[str] = set()
        self._killed: set[str] = set()
        self._gone = False
        self._started_at = time.monotonic()
        self._reported: Json = {}
        self.finished = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"pod-{pod['metadata']['name']}", daemon=True)

    def start(self) -> None:
        """Begins."""
        self._thread.start()

    def end(self, ending: Ending) -> None:
        """Ends the pod with a grace; the first reason stays, and a later call may only shorten the grace."""
        with self._lock:
            now, grace = time.monotonic(), ending.grace_seconds
            self._ending = self._ending or ending
            for name, container in self._containers.items():
                ends = [now + self._scale.here(seconds) for seconds in seconds_to_its_end(container, grace)]
                term, kill = self._ends.get(name, ends)
                self._ends[name] = min(term, ends[0]), min(kill, ends[1])
        self._poke()

    def abandon(self) -> None:
        """The machine is gone: everything ends at once, and nobody hears of it."""
        self._gone = True
        self._poke()

    def join(self, seconds: float) -> None:
        """Waits until nothing runs any more."""
        self._thread.join(seconds)

    def _poke(self) -> None:
        with self._lock:
            if not self.finished.is_set():
                os.eventfd_write(self._wake, 1)

    # The thread

    def _run(self) -> None:
        try:
            while not self._gone:
                self._advance()
                over = self._is_over()
                self._report(over=over)
                if over:
                    break
                self._wait()
                self._collect()
        finally:
            for process in self._processes.values():
                process.close()
            with self._lock:
                self.finished.set()
                os.close(self._wake)
            if not self._gone:
                self._making.over()

    def _advance(self) -> None:
        now, most = time.monotonic(), self._spec.get("activeDeadlineSeconds")
        if self._ending is None and most is not None and now >= self._started_at + self._scale.here(most):
            self.end(Ending(own_grace_seconds(self._pod), "DeadlineExceeded", _PAST_DEADLINE, fails=True))
        if self._ending is not None:
            self._bring_to_end(now)
            return
        if self._volumes is None and not self._mount(now):
            return
        for record in self._init:
            if record.exit_code != 0:
                self._start_if_due(record, now)
                return
        for record in self._main:
            self._start_if_due(record, now)

    def _bring_to_end(self, now: float) -> None:
        for name, process in self._processes.items():
            term, kill = self._ends[name]
            if now >= term and name not in self._signalled:
                self._signalled.add(name)
                process.terminate()
            if now >= kill and name not in self._killed:
                self._killed.add(name)
                process.kill()

    def _mount(self, now: float) -> bool:
        if now < self._due.get("", 0.0):
            return False
        try:
            self._volumes = self._making.mount()
        except (NotYetMounted, ConfigError, OSError) as error:
            self._due[""] = now + self._scale.here(_MOUNT_AGAIN_SECONDS)
            self._making.say("FailedMount", f"MountVolume.SetUp failed: {error}", True)
            return False
        self._due.pop("", None)
        return True

    def _start_if_due(self, record: ContainerRecord, now: float) -> None:
        if record.name in self._processes or now < self._due.get(record.name, 0.0) or not self._may_start(record):
            return
        assert self._volumes is not None  # it is mounted first
        number = self._starts.get(record.name, 0)
        try:
            process = self._making.start(self._containers[record.name], self._volumes, number)
        except (ConfigError, ImageMissing, OSError, ValueError) as error:  # of a process that cannot be made
            reason = _WAITS.get(type(error), "CreateContainerError")
            record.state = {"waiting": {"reason": reason, "message": str(error)}}
            self._due[record.name] = now + self._scale.here(_MOUNT_AGAIN_SECONDS)
            self._making.say("Failed", f"Error: {error}", True)
            return
        self._due.pop(record.name, None)
        self._starts[record.name] = number + 1
        record.identity, record.restarts = process.identity, number
        self._processes[record.name] = process
        if process.start_error is not None:
            self._making.say("Failed", f"Error: {process.start_error}", True)
            return
        record.state = {"running": {"startedAt": _stamp()}}
        self._making.say("Started", f"Started container {record.name}", False)

    def _may_start(self, record: ContainerRecord) -> bool:
        """Whether it has not run yet, or its end calls for another run."""
        if record.exit_code is None:
            return True
        return self._restarts(record, record.exit_code)

    def _restarts(self, record: ContainerRecord, code: int) -> bool:
        policy = self._spec.get("restartPolicy", "Always")
        if policy == "Never" or (code == 0 and (policy == "OnFailure" or record in self._init)):
            return False
        return self._ending is None

    def _collect(self) -> None:
        """Takes note of the processes that have ended."""
        for record in (*self._init, *self._main):
            process = self._processes.get(record.name)
            if process is None or not process.ended:
                continue
            started = record.state.get("running", {}).get("startedAt") or _stamp()
            code = process.close()
            del self._processes[record.name]
            ended = pod_states.terminated(
                code,
                started,
                _stamp(),
                record.identity,
                start_error=process.start_error,
                last_words=process.last_words(code),
            )
            record.state = ended
            if self._restarts(record, code):
                self._restart_later(record, ended)

    def _restart_later(self, record: ContainerRecord, ended: Json) -> None:
        times = self._starts[record.name] - 1
        seconds = min(_FIRST_RESTART_SECONDS * 2 ** min(times - 1, 10), _LONGEST_RESTART_SECONDS) if times else 0.0
        record.last = ended
        self._due[record.name] = time.monotonic() + self._scale.here(seconds)
        if seconds:
            message = f"back-off {seconds:.0f}s restarting failed container={record.name}"
            record.state = {"waiting": {"reason": "CrashLoopBackOff", "message": message}}
            self._making.say("BackOff", f"Back-off restarting failed container {record.name}", True)

    def _wait(self) -> None:
        """Until a process ends, somebody asks for something, or something is due."""
        left = max(0.0, min(self._moments(), default=float("inf")) - time.monotonic())
        poll = select.poll()
        poll.register(self._wake, select.POLLIN)
        for process in self._processes.values():
            if process.handle is None:
                return  # it never began
            poll.register(process.handle, select.POLLIN)
        poll.poll(int(min(left, _LONGEST_WAIT_SECONDS) * 1000) + 1)
        with suppress(BlockingIOError):  # it was no wake-up
            os.eventfd_read(self._wake)

    def _moments(self) -> list[float]:
        """When something that has not been done yet is due."""
        if self._ending is not None:
            ends = [(name, *self._ends[name]) for name in self._processes]
            terms = [term for name, term, _ in ends if name not in self._signalled]
            return terms + [kill for name, _, kill in ends if name not in self._killed]
        most = self._spec.get("activeDeadlineSeconds")
        limit = [self._started_at + self._scale.here(most)] if most is not None else []
        return [*limit, *self._due.values()]

    # What is said of it

    def _is_over(self) -> bool:
        return not self._processes and self._phase() in ("Succeeded", "Failed")

    def _phase(self) -> str:
        policy = self._spec.get("restartPolicy", "Always")
        failed_init = any(record.exit_code not in (None, 0) for record in self._init)
        if failed_init and (policy == "Never" or self._ending is not None) and not self._processes:
            return "Failed"
        if self._ending is not None and self._processes:
            return "Running"
        if any(record.exit_code != 0 for record in self._init):
            return "Failed" if self._ending is not None else "Pending"
        found = pod_states.phase(self._main, policy, ending=self._ending is not None)
        return "Failed" if found == "Succeeded" and self._ending is not None and self._ending.fails else found

    def _report(self, *, over: bool) -> None:
        phase, stamp = self._phase(), _stamp()
        initialized = all(record.exit_code == 0 for record in self._init)
        new = pod_states.conditions(phase, self._main, initialized=initialized, stamp=stamp)
        ending = self._ending
        if ending is not None and ending.condition is not None:
            new.append(ending.condition)
        status: Json = {
            "phase": phase,
            "containerStatuses": [record.status() for record in self._main],
            **({"initContainerStatuses": [record.status() for record in self._init]} if self._init else {}),
        }
        if over and ending is not None and ending.reason and phase == "Failed":
            status |= {"reason": ending.reason, "message": ending.message}
        told = {**status, "conditions": [(one["type"], one["status"]) for one in new]}
        if told == self._reported:
            return
        self._reported = told

        def edit(pod: Json) -> None:
            pod.setdefault("status", {}).update(status)
            conditions.add(pod, new)

        self._making.report(edit)


def seconds_to_its_end(container: Json, grace: float) -> tuple[float, float]:
    """After how long of its pod's grace a container gets SIGTERM, and after how long SIGKILL."""
    hook: Mapping[str, Any] = (container.get("lifecycle") or {}).get("preStop") or {}
    sleeps = min(float((hook.get("sleep") or {}).get("seconds", 0)), grace)
    return sleeps, max(grace, sleeps + _LEAST_GRACE_SECONDS) if sleeps else grace


def _stamp() -> str:
    return rfc3339.in_seconds(datetime.now(UTC))


def folder_of(pod: Json, below: Path) -> Path:
    """The pod's own folder."""
    meta = pod["metadata"]
    return below / f"{meta['namespace']}_{meta['name']}_{meta['uid']}"
