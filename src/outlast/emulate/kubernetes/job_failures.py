"""What a failed pod means to its Job: podFailurePolicy, and which pods count as failed at all.

Facts as of 2026-11-30. Kubernetes, "Jobs", Pod failure policy: the first rule that matches decides; onExitCodes looks
at containers that ended with a code other than 0; a rule of onPodConditions matches a condition of its type and status
("True" unless given); without a match the failure counts. "Pod replacement policy": TerminatingOrFailed by default, and
Failed wherever there is a podFailurePolicy. The texts are those of the controller of Kubernetes 1.31.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

from outlast.emulate.kubernetes.pods import is_deleted, phase_of

Json = dict[str, Any]
Action = Literal["FailJob", "FailIndex", "Ignore", "Count"]


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the policy says of one failed pod: whether the failure counts, and why the whole Job fails, if it does."""

    action: Action | None
    counts: bool
    message: str | None = None


def judge(job: Json, pod: Json) -> Verdict:
    """The first rule of the Job's podFailurePolicy that matches; a failure that counts where none does."""
    for number, rule in enumerate(job["spec"].get("podFailurePolicy", {}).get("rules", ())):
        why = _match(rule, pod)
        if why is None:
            continue
        action: Action = rule["action"]
        message = f"{why} matching {action} rule at index {number}" if action == "FailJob" else None
        return Verdict(action, action != "Ignore", message)
    return Verdict(None, counts=True)


def replaces_only_failed(job: Json) -> bool:
    """Whether a pod that is still ending keeps its successor waiting; so it is wherever there is a podFailurePolicy."""
    return bool(job["spec"]["podReplacementPolicy"] == "Failed")


def has_failed(job: Json, pod: Json) -> bool:
    """Whether the Job counts the pod as failed; also one under deletion, unless only failed ones are replaced."""
    phase = phase_of(pod)
    if phase == "Failed":
        return True
    return not replaces_only_failed(job) and is_deleted(pod) and phase != "Succeeded"


def _match(rule: Json, pod: Json) -> str | None:
    """What matched, in the words of the controller; None when nothing did."""
    name, namespace = pod["metadata"]["name"], pod["metadata"].get("namespace", "default")
    if (wanted := rule.get("onExitCodes")) is not None:
        for container, code in _failed_containers(pod):
            named = wanted.get("containerName") in (None, container)
            if named and (code in wanted["values"]) == (wanted["operator"] == "In"):
                return f"Container {container} for pod {namespace}/{name} failed with exit code {code}"
        return None
    found = {(one.get("type"), one.get("status")) for one in pod.get("status", {}).get("conditions", ())}
    for pattern in rule.get("onPodConditions") or ():
        if (pattern["type"], pattern["status"]) in found:
            return f"Pod {namespace}/{name} has condition {pattern['type']}"
    return None


def _failed_containers(pod: Json) -> Iterator[tuple[str, int]]:
    status = pod.get("status", {})
    for one in (*status.get("containerStatuses", ()), *status.get("initContainerStatuses", ())):
        code = one.get("state", {}).get("terminated", {}).get("exitCode", 0)
        if code != 0:
            yield one["name"], code
