"""PodDisruptionBudgets that stop nothing, and only delay (K024)."""

from collections.abc import Iterator

from outlast.lint.kubernetes.manifest import Manifest
from outlast.lint.reading.yaml_nodes import Node
from outlast.lint.rule import WARNING, Finding, Rule

_SCALERS = ("HorizontalPodAutoscaler", "ScaledObject")
_MOST_WORKLOADS = 200  # to compare each budget with
BLOCKS_DRAINS = Rule(
    "K024",
    WARNING,
    "a PodDisruptionBudget that lets no pod go",
    "It cannot stop maintenance, preemption or a node's failure; it only blocks drains, until their time is over (an "
    "hour on GKE) and the pods are ended without it.",
    "allow one disruption at least: maxUnavailable: 1",
    "Kubernetes, Disruptions; GKE, Node upgrades: budgets are respected for up to one hour (2026-11-30)",
)
RULES = (BLOCKS_DRAINS,)


def check(manifest: Manifest) -> Iterator[Finding]:
    """The findings of a text's budgets."""
    scaled = len(manifest.workloads) > _MOST_WORKLOADS or any(manifest.of_kind(*_SCALERS))
    for budget in manifest.of_kind("PodDisruptionBudget"):
        most, least = budget.at("spec", "maxUnavailable"), budget.at("spec", "minAvailable")
        name = budget.at("metadata", "name").text
        if most.text in ("0", "0%"):
            yield BLOCKS_DRAINS.at(most, f"PodDisruptionBudget {name} has maxUnavailable {most.text}")
        elif least.text == "100%":
            yield BLOCKS_DRAINS.at(least, f"PodDisruptionBudget {name} has minAvailable 100%")
        elif least.number:
            pods = None if scaled else _pods_of(manifest, budget)
            if pods is not None and least.number >= pods:
                told = f"PodDisruptionBudget {name} has minAvailable {least.number} for {pods} pods"
                yield BLOCKS_DRAINS.at(least, told)


def _pods_of(manifest: Manifest, budget: Node) -> int | None:
    """How many pods a budget is for, where one workload of the text has all the labels that it selects."""
    wanted = {name: one.text for name, one in budget.at("spec", "selector", "matchLabels").fields.items()}
    found = []
    for workload in manifest.workloads:
        for pods in workload.pods:
            labels = pods.template.at("metadata", "labels")
            if wanted and all(labels[name].text == value for name, value in wanted.items()):
                found.append(pods.count if workload.kind in ("Deployment", "StatefulSet", "ReplicaSet") else None)
    return found[0] if len(found) == 1 else None
