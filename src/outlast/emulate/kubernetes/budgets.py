"""Disruption budgets: how many healthy pods there are and may go, and evictions that ask them.

Kubernetes `pkg/controller/disruption` and `pkg/registry/core/pod/storage/eviction.go`, 2026-11-30. A Job, a DaemonSet
or a bare pod has no scale, so that only a whole number as `minAvailable` works for them; any other budget over
them fails to sync and allows no eviction, here as there.
"""

from functools import partial
from typing import Any

from outlast.emulate.kubernetes import conditions
from outlast.emulate.kubernetes.kinds import Kind
from outlast.emulate.kubernetes.pods import is_deleted, is_over, is_ready, phase_of
from outlast.emulate.kubernetes.problems import Refused, bad_request, too_many_requests
from outlast.emulate.kubernetes.schemas import decode
from outlast.emulate.kubernetes.selecting import matches
from outlast.emulate.kubernetes.store import Store

Json = dict[str, Any]

_EVICTION = Kind("Eviction", "evictions", "policy")


def refresh(store: Store, namespace: str | None = None) -> None:
    """Brings the status of every budget up to date."""
    for budget in store.listing("PodDisruptionBudget", namespace).objects:
        name, where = budget["metadata"]["name"], budget["metadata"]["namespace"]
        status = _status(store, budget)
        store.change("PodDisruptionBudget", name, where, partial(_set_status, status=status))


def _set_status(budget: Json, *, status: Json) -> None:
    budget["status"] = status


def _status(store: Store, budget: Json) -> Json:
    pods = [pod for pod in _chosen(store, budget) if not is_over(pod)]
    healthy = sum(1 for pod in pods if is_healthy(pod))
    wanted = budget["spec"].get("minAvailable")
    known = isinstance(wanted, int)
    desired = wanted if isinstance(wanted, int) else 0
    allowed = max(0, healthy - desired) if known and pods else 0
    reason = "SufficientPods" if allowed else "InsufficientPods" if known or not pods else "SyncFailed"
    old = budget.get("status") or {}
    condition = {
        "type": "DisruptionAllowed",
        "status": "True" if allowed else "False",
        "reason": reason,
        "message": "" if reason != "SyncFailed" else "found no controller that implements the scale subresource",
        "lastTransitionTime": store.timestamp(),
        "observedGeneration": budget["metadata"].get("generation", 1),
    }
    for before in old.get("conditions") or []:
        if before["status"] == condition["status"] and before["reason"] == reason:
            condition["lastTransitionTime"] = before["lastTransitionTime"]
    return {
        "currentHealthy": healthy,
        "desiredHealthy": desired,
        "disruptionsAllowed": allowed,
        "expectedPods": len(pods),
        "observedGeneration": budget["metadata"].get("generation", 1),
        "conditions": [condition],
    }


def _chosen(store: Store, budget: Json) -> list[Json]:
    pods = store.listing("Pod", budget["metadata"]["namespace"]).objects
    return [pod for pod in pods if matches(budget["spec"].get("selector"), pod["metadata"].get("labels") or {})]


def is_healthy(pod: Json) -> bool:
    """Whether a pod is ready and not on its way out."""
    return is_ready(pod) and not is_deleted(pod)


def evict(store: Store, name: str, namespace: str, options: Json, *, dry_run: bool = False) -> Json:
    """Evicts a pod if its budget allows that: marks it as a disruption's target, and deletes it with its grace.

    `options` are its DeleteOptions. Refused (TooManyRequests) where the budget says no.
    """
    pod = store.get("Pod", name, namespace)
    if not (is_over(pod) or phase_of(pod) == "Pending" or is_deleted(pod)):
        refresh(store, namespace)
        _ask(store, pod)
    uid = (options.get("preconditions") or {}).get("uid")
    grace: int | None = options.get("gracePeriodSeconds")
    store.delete("Pod", name, namespace, uid=uid, dry_run=True)  # the preconditions, before anything changes
    if not dry_run:
        store.change("Pod", name, namespace, lambda made: _mark(made, store.timestamp()))
        store.delete("Pod", name, namespace, grace_seconds=grace, uid=uid)
    return {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}


def _ask(store: Store, pod: Json) -> None:
    budgets = [
        one
        for one in store.listing("PodDisruptionBudget", pod["metadata"]["namespace"]).objects
        if matches(one["spec"].get("selector"), pod["metadata"].get("labels") or {})
    ]
    if len(budgets) > 1:
        raise Refused(
            500,
            "InternalError",
            "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.",
        )
    for budget in budgets:
        status, spec = budget["status"], budget["spec"]
        enough = status["currentHealthy"] >= status["desiredHealthy"] and status["desiredHealthy"] > 0
        if not is_healthy(pod) and (enough or spec.get("unhealthyPodEvictionPolicy") == "AlwaysAllow"):
            continue
        if status["disruptionsAllowed"] < 1:
            needs = (
                f"The disruption budget {budget['metadata']['name']} needs {status['desiredHealthy']} healthy pods "
                f"and has {status['currentHealthy']} currently"
            )
            raise too_many_requests(
                "Cannot evict pod as it would violate the pod's disruption budget.",
                {"reason": "DisruptionBudget", "message": needs},
            )


def _mark(pod: Json, now: str) -> None:
    """Says in the pod's status that it goes for no fault of its own; a Job's failure policy can ask for that."""
    if not is_deleted(pod):
        conditions.add(pod, [conditions.eviction(now)])


def read_eviction(body: Any, name: str) -> Json:
    """The DeleteOptions in an Eviction of a pod. Refused (BadRequest) where the body is none, or of another pod."""
    if not isinstance(body, dict):
        raise bad_request("the body of an eviction is an Eviction")
    made, _ = decode(_EVICTION, body)
    if made.get("kind", "Eviction") != "Eviction" or (made.get("metadata") or {}).get("name", name) != name:
        raise bad_request("name in URL does not match name in Eviction object")
    options: Json = made.get("deleteOptions") or {}
    return options
