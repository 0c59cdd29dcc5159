"""The check of Kubernetes manifests: every rule over every template of pods."""

from collections.abc import Callable, Iterator
from itertools import groupby

from outlast.lint.inner_text import inner_text, moved
from outlast.lint.known import Known
from outlast.lint.kubernetes import (
    budgets,
    disruption_budgets,
    entry_points,
    failure_policies,
    graces,
    indexes,
    job_sets,
    operators,
    placement,
    programs,
    storage,
)
from outlast.lint.kubernetes.cases import Case, cases_of
from outlast.lint.kubernetes.fields import entries
from outlast.lint.kubernetes.manifest import Manifest, manifest_of, read_manifest
from outlast.lint.reading.yaml_nodes import Node, read_yaml
from outlast.lint.rule import Finding
from outlast.lint.source import Source, Unreadable

_OF_A_CASE: tuple[Callable[[Case], Iterator[Finding]], ...] = (
    budgets.check,
    entry_points.check,
    failure_policies.check,
    graces.check,
    indexes.check,
    operators.check,
    placement.check,
    storage.check,
)
RULES = (
    *budgets.RULES,
    *disruption_budgets.RULES,
    *entry_points.RULES,
    *failure_policies.RULES,
    *graces.RULES,
    *indexes.RULES,
    *job_sets.RULES,
    *operators.RULES,
    *placement.RULES,
    *storage.RULES,
)


def check(source: Source) -> Iterator[Finding]:
    """The findings of a YAML file; none where it holds no Kubernetes objects. Raises Unreadable when it is no YAML."""
    documents = source.read(read_yaml)
    yield from check_manifest(manifest_of(documents, tuple(source.text.split("\n"))), source.known)


def check_manifest(manifest: Manifest, known: Known) -> Iterator[Finding]:
    """The findings of a text's objects, wherever that text stood."""
    cases = list(cases_of(manifest, known))
    for case in cases:
        for one in _OF_A_CASE:
            yield from one(case)
    for _, group in groupby(cases, key=lambda case: id(case.workload)):
        yield from job_sets.check(list(group))
    yield from placement.handling(cases)
    yield from disruption_budgets.check(manifest)
    yield from programs.check(manifest, cases, known)
    yield from _in_texts(manifest, known)


def _in_texts(manifest: Manifest, known: Known) -> Iterator[Finding]:
    """Manifests that a ConfigMap holds for somebody to apply, and the patches of a Kustomization."""
    texts = [node for holder in manifest.of_kind("ConfigMap") for node in holder["data"].fields.values()]
    for holder in manifest.of_kind("Kustomization", "Component"):
        texts += [one["patch"] for one in entries(holder["patches"])]
        texts += [one for one in holder["patchesStrategicMerge"] if "\n" in one.text]
    for node in texts:
        if "apiVersion:" in node.text and "kind:" in node.text:
            yield from _inside(node, manifest, known)


def _inside(node: Node, manifest: Manifest, known: Known) -> Iterator[Finding]:
    held = inner_text(node, manifest.lines)
    try:
        inner = read_manifest(node.text)
    except Unreadable:
        return
    yield from moved(check_manifest(inner, known), held.outer)
