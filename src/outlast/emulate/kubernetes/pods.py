"""What a pod's object says: how far it is, whether it is on its way out, how it wants to be ended."""

from typing import Any

from outlast.emulate.kubernetes.conditions import status_of

Json = dict[str, Any]

GRACE_SECONDS = 30  # terminationGracePeriodSeconds where a manifest says nothing
# The classes of critical pods, which a node that ends ends last; and their priorities (Kubernetes, "Guaranteed
# Scheduling For Critical Add-On Pods", 2026-11-30).
CRITICAL_CLASSES = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}


def phase_of(pod: Json) -> str:
    """Pending, Running, Succeeded or Failed."""
    return str((pod.get("status") or {}).get("phase", "Pending"))


def is_over(pod: Json) -> bool:
    """Whether the pod has reached a phase that it cannot leave."""
    return phase_of(pod) in ("Succeeded", "Failed")


def is_deleted(pod: Json) -> bool:
    """Whether somebody has asked for its deletion."""
    return bool(pod["metadata"].get("deletionTimestamp"))


def is_ready(pod: Json) -> bool:
    """Whether all its containers run, as far as its conditions say."""
    return status_of(pod, "Ready") == "True"


def is_critical(pod: Json) -> bool:
    """Whether a node's shutdown ends it last."""
    return pod["spec"].get("priorityClassName") in CRITICAL_CLASSES


def own_grace_seconds(pod: Json) -> int:
    """The grace that the pod asks for, in the platform's seconds."""
    return int((pod.get("spec") or {}).get("terminationGracePeriodSeconds", GRACE_SECONDS))
