"""What a Job needs now: pods to make and to end, and its status; a pure function of the Job, its pods and the time.

Facts as of 2026-11-30, Kubernetes, "Jobs": pods are replaced after 10 s, 20 s, 40 s … and
6 min at most, by their failures since the last success; ignored failures lengthen that delay too
(kubernetes/kubernetes#130881). activeDeadlineSeconds ends the Job whatever its backoffLimit. From 1.31 on a Job whose
end is decided first has the condition FailureTarget or SuccessCriteriaMet, and Failed or Complete once its pods are
gone. Pods ended by `suspend` count for nothing.
"""

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from outlast.emulate.kubernetes import job_indexes
from outlast.emulate.kubernetes.job_failures import has_failed, judge, replaces_only_failed
from outlast.emulate.kubernetes.job_indexes import index_of
from outlast.emulate.kubernetes.job_pods import TRACKING, new_pod
from outlast.emulate.kubernetes.pods import is_deleted, is_over, is_ready, phase_of

Json = dict[str, Any]
FIRST_BACKOFF_SECONDS, LONGEST_BACKOFF_SECONDS = 10.0, 360.0
_REACHED = ("CompletionsReached", "Reached expected number of succeeded pods")


@dataclass(frozen=True, slots=True)
class Memory:
    """What the controller keeps of a Job between two looks; times in seconds of the platform's clock.

    `failed_at`: when a failed pod, by its uid, was first seen so.
    """

    started_at: float | None = None
    failures_in_a_row: int = 0
    last_failure_at: float = 0.0
    failed_at: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Decision:
    """What is to be done for a Job, in this order.

    `discard`: pods that are let go of and deleted, without counting; `status` is to be stored; `release`: pods that
    are counted, and let go of; `delete`, `create`; `again_seconds`: when to look again at the latest, of the platform.
    """

    status: Json
    memory: Memory
    discard: tuple[str, ...] = ()
    release: tuple[str, ...] = ()
    delete: tuple[str, ...] = ()
    create: tuple[Json, ...] = ()
    again_seconds: float | None = None


def finished(job: Json) -> str | None:
    """ "Complete" or "Failed" once the Job is over; None before."""
    for one in job.get("status", {}).get("conditions", ()):
        if one["type"] in ("Complete", "Failed") and one["status"] == "True":
            return str(one["type"])
    return None


def decide(job: Json, pods: Sequence[Json], memory: Memory, *, now: float, stamp: str) -> Decision:
    """One look at a Job, whose defaults are filled in, and all its pods.

    `now` is on the platform's clock, `stamp` the same as the API writes it.
    """
    return _Look(job, pods, memory, now, stamp).decision()


def backoff_seconds(failures: int) -> float:
    """How long after the last failure a pod is replaced."""
    if failures <= 0:
        return 0.0
    return float(min(FIRST_BACKOFF_SECONDS * 2 ** min(failures - 1, 10), LONGEST_BACKOFF_SECONDS))


class _Look:
    """One look: `status` is built up, the rest is read."""

    def __init__(self, job: Json, pods: Sequence[Json], memory: Memory, now: float, stamp: str) -> None:
        self.job, self.pods, self.now, self.stamp = job, pods, now, stamp
        self.spec: Json = job["spec"]
        self.status: Json = copy.deepcopy(job.get("status") or {})
        self.indexed = job_indexes.is_indexed(job)
        self.suspended = bool(self.spec["suspend"])
        self.uncounted = [pod for pod in pods if TRACKING in pod["metadata"].get("finalizers", ())]
        self.active = [pod for pod in pods if not is_over(pod) and not is_deleted(pod)]
        self.ending = [pod for pod in pods if not is_over(pod) and is_deleted(pod)]
        self.new_failed = [pod for pod in self.uncounted if has_failed(job, pod)]
        self.new_succeeded = [pod for pod in self.uncounted if phase_of(pod) == "Succeeded"]
        self.memory = self._remembered(memory)
        self.again: list[float] = []

    def _remembered(self, memory: Memory) -> Memory:
        started = memory.started_at
        if started is None and not self.suspended:
            started = self.now
        fresh = [pod for pod in self.new_failed if pod["metadata"]["uid"] not in memory.failed_at]
        row = (0 if self.new_succeeded else memory.failures_in_a_row) + len(fresh)
        present = {pod["metadata"]["uid"] for pod in self.pods}
        failed_at = {uid: at for uid, at in memory.failed_at.items() if uid in present}
        failed_at |= {pod["metadata"]["uid"]: self.now for pod in fresh}
        last = self.now if fresh else memory.last_failure_at
        return Memory(None if self.suspended else started, row, last, failed_at)

    def decision(self) -> Decision:
        self._count()
        ended = self._target() or self._end()
        discard: list[Json] = []
        delete: list[Json] = []
        create: list[Json] = []
        if ended is not None:
            delete, self.active = self.active, []
            self._finish(ended, waits=bool(self.ending or delete))
        elif self.suspended:
            discard, self.active = self.active, []
        else:
            discard, create = self._steer()
        self._suspension()
        self._numbers(made=len(create), ended=len(discard) + len(delete))
        done = self.new_failed + self.new_succeeded
        return Decision(
            status=self.status,
            memory=self.memory,
            discard=_names(discard),
            release=_names(done),
            delete=_names(delete),
            create=tuple(create),
            again_seconds=min(self.again, default=None),
        )

    # Counting

    def _count(self) -> None:
        self.failed = self.status.get("failed", 0) + sum(judge(self.job, pod).counts for pod in self.new_failed)
        self.succeeded = self.status.get("succeeded", 0) + len(self.new_succeeded)
        self.failed_indexes: set[int] = set()
        if not self.indexed:
            return
        total = self.spec["completions"]
        indexes = {index_of(pod) for pod in self.new_succeeded} | job_indexes.read(self.status.get("completedIndexes"))
        self.done_indexes = {one for one in indexes if one is not None and one < total}
        self.succeeded = len(self.done_indexes)
        if job_indexes.limits_each_index(self.job):
            lost = {index_of(pod) for pod in self.new_failed if job_indexes.fails_index(self.job, pod)}
            lost |= job_indexes.read(self.status.get("failedIndexes"))
            self.failed_indexes = {one for one in lost if one is not None and one < total} - self.done_indexes

    def _numbers(self, *, made: int, ended: int) -> None:
        self.status["active"] = len(self.active) + made
        self.status["terminating"] = len(self.ending) + ended
        self.status["ready"] = sum(is_ready(pod) for pod in self.active)
        self.status["failed"], self.status["succeeded"] = self.failed, self.succeeded
        self.status["uncountedTerminatedPods"] = {}
        for name in ("active", "failed", "succeeded"):
            if not self.status[name]:
                del self.status[name]
        if self.indexed and self.done_indexes:
            self.status["completedIndexes"] = job_indexes.written(self.done_indexes)
        if job_indexes.limits_each_index(self.job):
            self.status["failedIndexes"] = job_indexes.written(self.failed_indexes)
        if not self.suspended:
            self.status.setdefault("startTime", self.stamp)

    # Whether it is over

    def _target(self) -> Json | None:
        """The end that was decided before."""
        for one in self.status.get("conditions", ()):
            if one["type"] in ("FailureTarget", "SuccessCriteriaMet") and one["status"] == "True":
                return dict(one)
        return None

    def _end(self) -> Json | None:
        """The end that is decided now."""
        reason = self._failure()
        if reason is not None:
            return self._condition("FailureTarget", *reason)
        if self._is_complete():
            return self._condition("SuccessCriteriaMet", *_REACHED)
        if self.failed_indexes and self.succeeded + len(self.failed_indexes) >= self.spec["completions"]:
            return self._condition("FailureTarget", "FailedIndexes", "Job has failed indexes")
        return None

    def _failure(self) -> tuple[str, str] | None:
        for pod in self.pods:
            if has_failed(self.job, pod) and (message := judge(self.job, pod).message) is not None:
                return "PodFailurePolicy", message
        limit = self.spec["backoffLimit"]
        if self.failed > limit or self._restarts_exceed(limit):
            return "BackoffLimitExceeded", "Job has reached the specified backoff limit"
        if (most := self.spec.get("activeDeadlineSeconds")) is not None and self.memory.started_at is not None:
            left = self.memory.started_at + most - self.now
            if left <= 0:
                return "DeadlineExceeded", "Job was active longer than specified deadline"
            self.again.append(left)
        most = self.spec.get("maxFailedIndexes")
        if most is not None and len(self.failed_indexes) > most:
            return "MaxFailedIndexesExceeded", "Job has exceeded the specified maximal number of failed indexes"
        return None

    def _restarts_exceed(self, limit: int) -> bool:
        if self.spec["template"]["spec"].get("restartPolicy") != "OnFailure":
            return False
        restarts = sum(
            one.get("restartCount", 0)
            for pod in self.pods
            if phase_of(pod) in ("Running", "Pending")
            for kind in ("initContainerStatuses", "containerStatuses")
            for one in pod.get("status", {}).get(kind, ())
        )
        return bool(restarts >= max(limit, 1))

    def _is_complete(self) -> bool:
        completions = self.spec.get("completions")
        if completions is None:
            return self.succeeded > 0 and not self.active
        return bool(self.succeeded >= completions)

    def _finish(self, ended: Json, *, waits: bool) -> None:
        self._set(ended)
        if waits:
            return
        failed = ended["type"] == "FailureTarget"
        self._set(self._condition("Failed" if failed else "Complete", ended["reason"], ended["message"]))
        if not failed:
            self.status["completionTime"] = self.stamp

    def _suspension(self) -> None:
        before = next((one for one in self.status.get("conditions", ()) if one["type"] == "Suspended"), None)
        if self.suspended and (before is None or before["status"] != "True"):
            self._set(self._condition("Suspended", "JobSuspended", "Job suspended"))
            self.status.pop("startTime", None)
        elif not self.suspended and before is not None and before["status"] == "True":
            self._set({**self._condition("Suspended", "JobResumed", "Job resumed"), "status": "False"})

    def _condition(self, kind: str, reason: str, message: str) -> Json:
        times = {"lastProbeTime": self.stamp, "lastTransitionTime": self.stamp}
        return {"type": kind, "status": "True", **times, "reason": reason, "message": message}

    def _set(self, condition: Json) -> None:
        kept = [one for one in self.status.get("conditions", ()) if one["type"] != condition["type"]]
        self.status["conditions"] = [*kept, condition]

    # Pods to make and to end

    def _steer(self) -> tuple[list[Json], list[Json]]:
        """Pods that are too many, and those that are missing and may be made now."""
        parallelism, completions = self.spec["parallelism"], self.spec.get("completions")
        if completions is None:
            wanted = len(self.active) if self.succeeded else parallelism
        else:
            left = completions - self.succeeded - len(self.failed_indexes)
            wanted = min(max(left, 0), parallelism)
        surplus = self._surplus(len(self.active) - wanted)
        if surplus:
            self.active = [pod for pod in self.active if pod not in surplus]
            return surplus, []
        waiting = len(self.ending) if replaces_only_failed(self.job) else 0
        missing = wanted - len(self.active) - waiting
        if missing <= 0:
            return [], []
        if job_indexes.limits_each_index(self.job):
            return [], self._pods_of_limited_indexes(missing)
        # Nothing delays the first pods: there was no failure.
        left = self.memory.last_failure_at + backoff_seconds(self.memory.failures_in_a_row) - self.now
        if self.memory.failures_in_a_row and left > 0:
            self.again.append(left)
            return [], []
        if self.indexed:
            return [], [new_pod(self.job, index) for index in self._free_indexes()[:missing]]
        return [], [new_pod(self.job) for _ in range(missing)]

    def _surplus(self, many: int) -> list[Json]:
        """Pods to end: doubles of an index and indexes that are done first, then the youngest."""
        surplus: list[Json] = []
        if self.indexed:
            seen: set[int | None] = set()
            for pod in self.active:
                index = index_of(pod)
                over = index is None or index >= self.spec["completions"]
                if over or index in seen or index in self.done_indexes | self.failed_indexes:
                    surplus.append(pod)
                seen.add(index)
        rest = [pod for pod in self.active if pod not in surplus]
        rest.sort(key=lambda pod: (phase_of(pod) != "Pending", -(index_of(pod) or 0)))
        return surplus + rest[: max(0, many - len(surplus))]

    def _free_indexes(self) -> list[int]:
        taken = {index_of(pod) for pod in self.active} | self.done_indexes | self.failed_indexes
        if replaces_only_failed(self.job):
            taken |= {index_of(pod) for pod in self.ending}
        return [index for index in range(self.spec["completions"]) if index not in taken]

    def _pods_of_limited_indexes(self, missing: int) -> list[Json]:
        """Each index waits for itself, by the failures that its last pod counts."""
        made: list[Json] = []
        for index in self._free_indexes():
            if len(made) == missing:
                break
            last = self._last_failed(index)
            if last is not None:
                counts = job_indexes.counts_after(self.job, last)
                failures = sum(int(number) for number in counts.values())
                left = self.memory.failed_at.get(last["metadata"]["uid"], 0.0) + backoff_seconds(failures) - self.now
                if left > 0:
                    self.again.append(left)
                    continue
            made.append(new_pod(self.job, index, job_indexes.counts_after(self.job, last)))
        return made

    def _last_failed(self, index: int) -> Json | None:
        of_it = [pod for pod in self.pods if index_of(pod) == index and has_failed(self.job, pod)]
        return max(of_it, key=_failures, default=None)


def _failures(pod: Json) -> int:
    return job_indexes.count_in(pod, job_indexes.FAILURES) + job_indexes.count_in(pod, job_indexes.IGNORED)


def _names(pods: Sequence[Json]) -> tuple[str, ...]:
    return tuple(pod["metadata"]["name"] for pod in pods)
