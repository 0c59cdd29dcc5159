"""A pod's status from what became of its containers: phase, conditions, states; as a kubelet works it out.

Facts as of 2026-11-30. Kubernetes, "Pod lifecycle": phases and conditions; k8s.io/kubernetes pkg/kubelet `getPhase`: a
pod that is being ended is Succeeded if all its containers left with 0 (since 1.27 also at a node's shutdown), else
Failed. Reasons: Completed, Error, StartError (128), PodCompleted, PodFailed, ContainersNotReady.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

Json = dict[str, Any]
START_ERROR = 128
_KILLED = 137


@dataclass(slots=True)
class ContainerRecord:
    """One container of a pod, and what became of it; `state` and `last` are as in the API."""

    name: str
    image: str
    state: Json = field(default_factory=lambda: {"waiting": {"reason": "ContainerCreating"}})
    last: Json = field(default_factory=dict)
    restarts: int = 0
    identity: str = ""

    @property
    def running(self) -> bool:
        return "running" in self.state

    @property
    def exit_code(self) -> int | None:
        """The code that it ended with; None before."""
        code: int | None = self.state.get("terminated", {}).get("exitCode")
        return code

    def status(self) -> Json:
        """As it stands in the pod's containerStatuses."""
        return {
            "name": self.name,
            "image": self.image,
            "imageID": self.image,
            "containerID": self.identity,
            "state": self.state,
            "lastState": self.last,
            "restartCount": self.restarts,
            "ready": self.running,
            "started": self.running,
        }


def terminated(
    code: int, started: str, finished: str, identity: str, *, start_error: str | None = None, last_words: str = ""
) -> Json:
    """The state of a container that has ended; `start_error` of one that could not even begin."""
    reason = "StartError" if start_error is not None else "Completed" if code == 0 else "Error"
    state: Json = {"exitCode": START_ERROR if start_error is not None else code, "reason": reason}
    if start_error is not None:
        state["message"] = (
            f"failed to create containerd task: failed to create shim task: OCI runtime create failed: {start_error}"
        )
    elif last_words:
        state["message"] = last_words
    return {"terminated": {**state, "startedAt": started, "finishedAt": finished, "containerID": identity}}


def lost(finished: str) -> Json:
    """The state of a container of which nobody knows how it ended."""
    message = "The container could not be located when the pod was terminated"
    state = {"exitCode": _KILLED, "reason": "ContainerStatusUnknown", "message": message}
    return {"terminated": {**state, "startedAt": None, "finishedAt": finished}}


def phase(records: Sequence[ContainerRecord], restart_policy: str, *, ending: bool) -> str:
    """The pod's phase; `ending`: it is being ended, so that nothing is started again."""
    codes = [record.exit_code for record in records]
    if any(record.running for record in records):
        return "Running"
    if all(code is not None for code in codes):
        if ending or restart_policy == "Never":
            return "Succeeded" if not any(codes) else "Failed"
        if restart_policy == "OnFailure" and not any(codes):
            return "Succeeded"
        return "Running"
    if ending:
        return "Failed"
    return "Running" if any(record.restarts or record.exit_code is not None for record in records) else "Pending"


def conditions(now_phase: str, records: Sequence[ContainerRecord], *, initialized: bool, stamp: str) -> list[Json]:
    """The kubelet's own conditions."""
    unready = [record.name for record in records if not record.running]
    ready = now_phase == "Running" and not unready
    why: Json = {}
    if now_phase in ("Succeeded", "Failed"):
        why = {"reason": "PodCompleted" if now_phase == "Succeeded" else "PodFailed"}
    elif unready:
        message = f"containers with unready status: [{' '.join(unready)}]"
        why = {"reason": "ContainersNotReady", "message": message}
    truth = {
        "PodReadyToStartContainers": (now_phase == "Running", {}),
        "Initialized": (initialized, {} if initialized else {"reason": "ContainersNotInitialized"}),
        "Ready": (ready, why),
        "ContainersReady": (ready, why),
    }
    return [
        {"type": kind, "status": str(value), "lastProbeTime": None, "lastTransitionTime": stamp, **more}
        for kind, (value, more) in truth.items()
    ]
