"""Keeps the Jobs of a cluster going: makes, counts and ends their pods, and deletes Jobs whose time is over.

Facts as of 2026-11-30. Kubernetes, "Jobs": ttlSecondsAfterFinished deletes a finished Job with its pods. A pod keeps
the finalizer batch.kubernetes.io/job-tracking until it is counted; pods whose Job is gone lose it.
"""

from collections import defaultdict
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from outlast.emulate.kubernetes.clock import PlatformClock
from outlast.emulate.kubernetes.job_pods import TRACKING
from outlast.emulate.kubernetes.job_sync import Decision, Memory, decide, finished
from outlast.emulate.kubernetes.problems import Refused
from outlast.emulate.kubernetes.recording import Recorder
from outlast.emulate.kubernetes.store import Store
from outlast.emulate.kubernetes.verbs import Verbs

Json = dict[str, Any]


class JobController:
    """All Jobs of a store; `step` looks at each once."""

    def __init__(self, store: Store, clock: PlatformClock) -> None:
        self._store, self._clock, self._verbs = store, clock, Verbs(store)
        self._recorder = Recorder(store, "job-controller")
        self._memories: dict[str, Memory] = {}
        self._finished_at: dict[str, float] = {}

    def step(self) -> float | None:
        """Does what is to be done now; returns after how many of the platform's seconds it is due again."""
        jobs = self._store.listing("Job").objects
        pods: defaultdict[str, list[Json]] = defaultdict(list)
        for pod in self._store.listing("Pod").objects:
            pods[_job_of(pod)].append(pod)
        known = {job["metadata"]["uid"] for job in jobs}
        self._memories = {uid: memory for uid, memory in self._memories.items() if uid in known}
        self._finished_at = {uid: at for uid, at in self._finished_at.items() if uid in known}
        for uid, orphans in pods.items():
            if uid not in known:
                self._release(orphans)
        waits = [self._look(job, pods[job["metadata"]["uid"]]) for job in jobs]
        return min((seconds for seconds in waits if seconds is not None), default=None)

    def _look(self, job: Json, pods: Sequence[Json]) -> float | None:
        uid = job["metadata"]["uid"]
        if job["metadata"].get("deletionTimestamp"):
            self._release(pods)
            return None
        if finished(job):
            self._release(pods)
            return self._expire(job)
        memory = self._memories.get(uid, Memory())
        decision = decide(job, pods, memory, now=self._clock.now(), stamp=self._store.timestamp())
        with suppress(Refused):  # the Job was deleted or changed meanwhile: the next look sees it
            self._apply(job, pods, decision)
            self._memories[uid] = decision.memory
        return decision.again_seconds

    def _expire(self, job: Json) -> float | None:
        meta, most = job["metadata"], job["spec"].get("ttlSecondsAfterFinished")
        at = self._finished_at.setdefault(meta["uid"], self._clock.now())
        if most is None:
            return None
        left = float(at + most - self._clock.now())
        if left > 0:
            return left
        with suppress(Refused):
            self._store.delete("Job", meta["name"], meta["namespace"], uid=meta["uid"], propagation="Foreground")
        return None

    def _apply(self, job: Json, pods: Sequence[Json], decision: Decision) -> None:
        named = {pod["metadata"]["name"]: pod for pod in pods}
        for name in decision.discard:
            self._release([named[name]])
            self._delete(job, named[name])
        meta = job["metadata"]

        def edit(found: Json) -> None:
            if found["metadata"]["uid"] == meta["uid"]:
                found["status"] = decision.status

        self._store.change("Job", meta["name"], meta["namespace"], edit)
        self._release([named[name] for name in decision.release])
        for name in decision.delete:
            self._delete(job, named[name])
        for pod in decision.create:
            made = self._verbs.create("Pod", pod)
            self._recorder.say(job, "SuccessfulCreate", f"Created pod: {made['metadata']['name']}")
        self._tell_end(job, decision.status)

    def _tell_end(self, job: Json, status: Json) -> None:
        before = {one["type"] for one in job.get("status", {}).get("conditions", ())}
        for one in status.get("conditions", ()):
            if one["type"] == "Complete" and "Complete" not in before:
                self._recorder.say(job, "Completed", "Job completed")
            if one["type"] == "Failed" and "Failed" not in before:
                self._recorder.say(job, one["reason"], one["message"], kind="Warning")

    def _release(self, pods: Sequence[Json]) -> None:
        """Takes the finalizer off pods that are counted, or count for nothing."""

        def edit(found: Json) -> None:
            found["metadata"]["finalizers"] = [
                one for one in found["metadata"].get("finalizers", ()) if one != TRACKING
            ]
            if not found["metadata"]["finalizers"]:
                del found["metadata"]["finalizers"]

        for pod in pods:
            if TRACKING in pod["metadata"].get("finalizers", ()):
                with suppress(Refused):  # it is gone
                    self._store.change("Pod", pod["metadata"]["name"], pod["metadata"]["namespace"], edit)

    def _delete(self, job: Json, pod: Json) -> None:
        meta = pod["metadata"]
        with suppress(Refused):  # it is gone
            self._store.delete("Pod", meta["name"], meta["namespace"], uid=meta["uid"])
            self._recorder.say(job, "SuccessfulDelete", f"Deleted pod: {meta['name']}")


def _job_of(pod: Json) -> str:
    """The uid of the Job that controls the pod; empty for others."""
    for owner in pod["metadata"].get("ownerReferences", ()):
        if owner.get("controller") and owner["kind"] == "Job":
            return str(owner["uid"])
    return ""
