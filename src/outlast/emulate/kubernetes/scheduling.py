"""Which node a pod may go to: taints, selectors, affinity and resources; pure functions over objects.

Facts as of 2026-11-30. Kubernetes, "Taints and tolerations", "Assigning pods to nodes"; the texts are those of the
scheduler of 1.32.
"""

from collections import Counter
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

from outlast.emulate.kubernetes.pods import is_over
from outlast.emulate.kubernetes.selecting import meets
from outlast.emulate.kubernetes.taints import UNSCHEDULABLE, tolerates
from outlast.emulate.quantities import amount

Json = dict[str, Any]


def requests_of(pod: Json) -> dict[str, Decimal]:
    """What the pod asks of a node: of each resource the sum over its containers, or the largest of the init ones."""
    total: Counter[str] = Counter()
    for container in pod["spec"].get("containers", ()):  # asked before the pod is found wanting
        total.update(_asked(container))
    found: dict[str, Decimal] = dict(total)  # type: ignore[arg-type]  # Counter's values are the Decimals put in
    for container in pod["spec"].get("initContainers", ()):
        for name, much in _asked(container).items():
            found[name] = max(found.get(name, Decimal(0)), much)
    return found


def _asked(container: Json) -> dict[str, Decimal]:
    resources = container.get("resources") or {}
    named = {**(resources.get("limits") or {}), **(resources.get("requests") or {})}
    return {name: amount(str(value)) for name, value in named.items()}


def choose(pod: Json, nodes: Sequence[Json], pods: Sequence[Json]) -> tuple[str | None, str]:
    """The name of the node that the pod likes best, or None and why there is none.

    It likes one with few taints that it should not be on, then one that it prefers, then one with much room.
    """
    reasons: Counter[str] = Counter()
    fitting: list[tuple[tuple[int, int, Decimal], str]] = []
    for node in nodes:
        free = _free(node, pods)
        why = _unfit(pod, node, free)
        if why is None:
            fitting.append(((*_liked(pod, node), free.get("cpu", Decimal(0))), node["metadata"]["name"]))
        else:
            reasons[why] += 1
    if fitting:
        most = max(liked for liked, _ in fitting)
        return min(name for liked, name in fitting if liked == most), ""
    listed = ", ".join(f"{many} {why}" for why, many in sorted(reasons.items()))
    return None, f"0/{len(nodes)} nodes are available{': ' if listed else ''}{listed}."


def _liked(pod: Json, node: Json) -> tuple[int, int]:
    """How much a node is to be liked, by its taints PreferNoSchedule and by what the pod prefers."""
    spec, name = pod["spec"], node["metadata"]["name"]
    soft = [taint for taint in node["spec"].get("taints", ()) if taint["effect"] == "PreferNoSchedule"]
    disliked = sum(not any(tolerates(one, taint) for one in spec.get("tolerations", ())) for taint in soft)
    affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    preferred = affinity.get("preferredDuringSchedulingIgnoredDuringExecution") or ()
    labels = node["metadata"].get("labels", {})
    return -disliked, sum(one["weight"] for one in preferred if _term(one["preference"], labels, name))


def _free(node: Json, pods: Sequence[Json]) -> dict[str, Decimal]:
    free = {name: amount(str(value)) for name, value in node["status"]["allocatable"].items()}
    for pod in pods:
        if pod["spec"].get("nodeName") != node["metadata"]["name"] or is_over(pod):
            continue
        for name, much in {**requests_of(pod), "pods": Decimal(1)}.items():
            free[name] = free.get(name, Decimal(0)) - much
    return free


def _unfit(pod: Json, node: Json, free: dict[str, Decimal]) -> str | None:
    spec, labels = pod["spec"], node["metadata"].get("labels", {})
    tolerations = spec.get("tolerations", ())
    if node["spec"].get("unschedulable") and not any(tolerates(one, UNSCHEDULABLE) for one in tolerations):
        return "node(s) were unschedulable"
    for taint in node["spec"].get("taints", ()):
        hard = taint["effect"] in ("NoSchedule", "NoExecute") and taint["key"] != UNSCHEDULABLE["key"]
        if hard and not any(tolerates(one, taint) for one in tolerations):
            return f"node(s) had untolerated taint {{{taint['key']}: {taint.get('value', '')}}}"
    if not _selected(spec, labels, node["metadata"]["name"]):
        return "node(s) didn't match Pod's node affinity/selector"
    for name, much in {**requests_of(pod), "pods": Decimal(1)}.items():
        if much > free.get(name, Decimal(0)):
            return "Too many pods" if name == "pods" else f"Insufficient {name}"
    return None


def _selected(spec: Json, labels: dict[str, str], name: str) -> bool:
    if any(labels.get(key) != value for key, value in (spec.get("nodeSelector") or {}).items()):
        return False
    affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution")
    if not required:
        return True
    return any(_term(term, labels, name) for term in required.get("nodeSelectorTerms", ()))


def _term(term: Json, labels: dict[str, str], name: str) -> bool:
    expressions, fields = term.get("matchExpressions") or (), term.get("matchFields") or ()
    if not expressions and not fields:
        return False
    named = {"metadata.name": name}
    return all(_meets(one, labels) for one in expressions) and all(_meets(one, named) for one in fields)


def _meets(wanted: Json, labels: dict[str, str]) -> bool:
    if wanted["operator"] not in ("Gt", "Lt"):
        return meets(wanted, labels)
    value = labels.get(wanted["key"])
    if value is None or not value.lstrip("-").isdigit():
        return False
    above = int(value) - int(wanted["values"][0])
    return above > 0 if wanted["operator"] == "Gt" else above < 0
