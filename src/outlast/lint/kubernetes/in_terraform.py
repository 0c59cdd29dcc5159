"""Kubernetes inside Terraform: the provider's own resources, manifests as values, and manifests as texts."""

import re
from collections.abc import Iterator
from dataclasses import replace

from outlast.lint.known import Known
from outlast.lint.kubernetes.checking import check_manifest
from outlast.lint.kubernetes.in_scripts import check_inner
from outlast.lint.kubernetes.manifest import Manifest, manifest_of, read_manifest
from outlast.lint.reading.hcl import Block, read_terraform
from outlast.lint.reading.yaml_nodes import Node
from outlast.lint.rule import Finding
from outlast.lint.shells_inside import shells_in_terraform
from outlast.lint.source import Source, Unreadable

# hashicorp/kubernetes (documentation of its resources, 2026-11-30). Each may have the ending _v1.
_KINDS = {
    "kubernetes_job": ("batch/v1", "Job"),
    "kubernetes_cron_job": ("batch/v1", "CronJob"),
    "kubernetes_pod": ("v1", "Pod"),
    "kubernetes_deployment": ("apps/v1", "Deployment"),
    "kubernetes_stateful_set": ("apps/v1", "StatefulSet"),
    "kubernetes_daemonset": ("apps/v1", "DaemonSet"),
    "kubernetes_daemon_set": ("apps/v1", "DaemonSet"),
    "kubernetes_pod_disruption_budget": ("policy/v1", "PodDisruptionBudget"),
    "kubernetes_persistent_volume_claim": ("v1", "PersistentVolumeClaim"),
    "kubernetes_service_account": ("v1", "ServiceAccount"),
    "kubernetes_config_map": ("v1", "ConfigMap"),
}
# Blocks that may stand several times, and the lists that they are in manifests.
_LISTS = {
    "container": "containers",
    "init_container": "initContainers",
    "env": "env",
    "env_from": "envFrom",
    "volume": "volumes",
    "volume_mount": "volumeMounts",
    "toleration": "tolerations",
    "rule": "rules",
    "on_pod_condition": "onPodConditions",
    "node_selector_term": "nodeSelectorTerms",
    "match_expressions": "matchExpressions",
    "items": "items",
    "volume_claim_template": "volumeClaimTemplates",
}
_NAMES = {
    "on_exit_codes": "onExitCodes",
    "on_exit_code": "onExitCodes",
    "required_during_scheduling_ignored_during_execution": "requiredDuringSchedulingIgnoredDuringExecution",
    "preferred_during_scheduling_ignored_during_execution": "preferredDuringSchedulingIgnoredDuringExecution",
    "host_pid": "hostPID",
    "pre_stop": "preStop",
    "post_start": "postStart",
}
# Maps whose keys are the user's own.
_OPEN = {"labels", "annotations", "limits", "requests", "node_selector", "match_labels", "data", "volume_attributes"}
# gavinbunney/kubectl and alekc/kubectl.
_TEXTS = {"kubectl_manifest": "yaml_body"}


def check(source: Source) -> Iterator[Finding]:
    """The findings of a file's Kubernetes objects."""
    lines = tuple(source.text.split("\n"))
    file = source.read(read_terraform)
    blocks = [one for one in file.blocks if one.kind == "resource" and one.labels]
    objects = [made for one in blocks if (made := _object(one)) is not None]
    yield from check_manifest(manifest_of(objects, lines), source.known)
    for block in blocks:
        text = block.body[_TEXTS.get(block.labels[0], "")]
        if text.kind == "scalar" and not text.text.startswith("${"):
            yield from _in_text(text, source.known)
    for inner in shells_in_terraform(file, lines):
        yield from check_inner(inner, source.known)


def _object(block: Block) -> Node | None:
    """What a resource makes, as a manifest would say it."""
    if block.labels[0] == "kubernetes_manifest":
        return block.body["manifest"]
    named = _KINDS.get(block.labels[0].removesuffix("_v1").removesuffix("_v1beta1"))
    if named is None:
        return None
    place = block.body
    version, kind = (Node("scalar", place.line, place.column, text=text, key_line=place.line) for text in named)
    made = _with_defaults(_renamed(place), kind.text)
    return replace(made, fields={**made.fields, "apiVersion": version, "kind": kind})


def _with_defaults(made: Node, kind: str) -> Node:
    """What the provider fills in where the API would not: not known here, so that no rule takes it for unset."""
    if kind == "Job":
        return _filled(_filled(made, ("spec", "completions")), ("spec", "template", "spec", "restartPolicy"))
    if kind == "CronJob":
        spec = ("spec", "jobTemplate", "spec")
        return _filled(_filled(made, (*spec, "completions")), (*spec, "template", "spec", "restartPolicy"))
    return made


def _filled(node: Node, path: tuple[str, ...]) -> Node:
    """A copy with a placeholder at a path, where its parent is there and it is not."""
    name, rest = path[0], path[1:]
    below = node[name]
    if not rest:
        made = below if below or node.kind != "map" else Node("scalar", node.line, node.column, text="${default}")
    else:
        made = _filled(below, rest) if below.kind == "map" else below
    return replace(node, fields={**node.fields, name: made}) if made else node


def _renamed(node: Node) -> Node:
    """Blocks and arguments under the names that they have in manifests."""
    if node.kind == "list":
        return replace(node, elements=tuple(_renamed(one) for one in node.elements))
    if node.kind != "map":
        return node
    fields: dict[str, Node] = {}
    for name, value in node.fields.items():
        if name in _OPEN:
            fields[_camel(name)] = value
        elif name in _LISTS and value.kind in ("map", "list"):
            fields[_LISTS[name]] = _renamed(_as_list(value))
        else:
            fields[_NAMES.get(name, _camel(name))] = _renamed(value)
    return replace(node, fields=fields)


def _as_list(node: Node) -> Node:
    if node.kind == "list":
        return node
    return Node("list", node.line, node.column, elements=(node,), key_line=node.key_line)


def _camel(name: str) -> str:
    return re.sub(r"_([a-z0-9])", lambda found: found[1].upper(), name)


def _in_text(node: Node, known: Known) -> Iterator[Finding]:
    """A here-document keeps its lines; a manifest in quotes stands where the quotes do."""
    try:
        manifest: Manifest = read_manifest(node.text)
    except Unreadable:
        return
    for one in check_manifest(manifest, known):
        line = node.line if node.quoted else node.line + one.line
        yield replace(one, line=line, column=node.column if node.quoted else one.column)
