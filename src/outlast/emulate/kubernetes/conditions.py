"""Conditions in the status of pods and nodes: read, merged, and those that say why a pod was disrupted.

Types and reasons: Kubernetes, "Disruptions", "Pod disruption conditions", 2026-11-30.
"""

from collections.abc import Sequence
from typing import Any

Json = dict[str, Any]


def status_of(found: Json, kind: str) -> str | None:
    """ "True", "False" or "Unknown"; None where the object has no condition of that type."""
    conditions = (found.get("status") or {}).get("conditions") or ()
    return next((str(one["status"]) for one in conditions if one["type"] == kind), None)


def merged(old: Sequence[Json], new: Sequence[Json]) -> list[Json]:
    """Conditions, each once; the time of one whose status stays the same stays too."""
    found = {one["type"]: one for one in old}
    for one in new:
        before = found.get(one["type"])
        same = before is not None and before["status"] == one["status"]
        found[one["type"]] = {**one, "lastTransitionTime": before.get("lastTransitionTime")} if before and same else one
    return list(found.values())


def add(found: Json, new: Sequence[Json]) -> None:
    """Merges conditions into an object's status, in place."""
    status = found.setdefault("status", {})
    status["conditions"] = merged(status.get("conditions") or (), new)


def disruption(reason: str, message: str, stamp: str) -> Json:
    """The condition that says by whom the pod was ended."""
    return {
        "type": "DisruptionTarget",
        "status": "True",
        "reason": reason,
        "message": message,
        "lastProbeTime": None,
        "lastTransitionTime": stamp,
    }


def eviction(stamp: str) -> Json:
    """The condition of a pod that the eviction API ends."""
    return disruption("EvictionByEvictionAPI", "Eviction API: evicting", stamp)
