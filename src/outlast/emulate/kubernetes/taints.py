"""Taints of nodes and tolerations of pods: which match, and those that the platform adds by itself.

Facts as of 2026-11-30. Kubernetes, "Taints and Tolerations"; the admission plug-ins DefaultTolerationSeconds (300 s on
a node that is not ready or unreachable) and ExtendedResourceToleration, by which a pod that asks for an accelerator
tolerates GKE's taint of the same name.
"""

from collections.abc import Iterable
from typing import Any

Json = dict[str, Any]

NOT_READY, UNREACHABLE = "node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"
UNSCHEDULABLE = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}  # of a node that is cordoned
TOLERATION_SECONDS = 300
_ACCELERATORS = ("nvidia.com/gpu", "google.com/tpu")


def tolerates(toleration: Json, taint: Json) -> bool:
    """Whether one toleration matches one taint."""
    if toleration.get("effect") not in (None, "", taint["effect"]):
        return False
    if toleration.get("operator", "Equal") == "Exists":
        return bool(toleration.get("key") in (None, "", taint["key"]))
    return toleration.get("key") == taint["key"] and (toleration.get("value") or "") == (taint.get("value") or "")


def with_defaults(tolerations: Iterable[Json], resources: Iterable[str]) -> list[Json]:
    """A pod's tolerations with those that admission adds; `resources` are the names of what its containers ask for."""
    found = list(tolerations)
    for name in resources:
        if name in _ACCELERATORS and not any(one.get("key") == name for one in found):
            found.append({"key": name, "operator": "Exists", "effect": "NoSchedule"})
    for key in (NOT_READY, UNREACHABLE):
        if not any(_is_about(one, key) for one in found):
            more = {"operator": "Exists", "effect": "NoExecute", "tolerationSeconds": TOLERATION_SECONDS}
            found.append({"key": key, **more})
    return found


def _is_about(toleration: Json, key: str) -> bool:
    """As the plug-in asks: whatever its operator and value."""
    return toleration.get("key") in (None, "", key) and toleration.get("effect") in (None, "", "NoExecute")


def set_taints(node: Json, taints: list[Json]) -> None:
    """Gives a node these taints and no others."""
    node["spec"]["taints"] = taints
    if not taints:
        del node["spec"]["taints"]
