"""Label selectors and field selectors, as text in a query and as objects in a manifest."""

import re
from collections.abc import Callable, Collection, Mapping
from typing import Any

from outlast.emulate.kubernetes.findings import Findings
from outlast.emulate.kubernetes.kinds import Kind
from outlast.emulate.kubernetes.problems import Refused, bad_request
from outlast.emulate.label_selectors import label_selector

Json = dict[str, Any]
Chosen = Callable[[Json], bool]

# Fields that may be selected by, besides metadata.name and metadata.namespace (pkg/apis/*/v1/conversion.go).
FIELDS = {
    "Pod": (
        "spec.nodeName", "spec.restartPolicy", "spec.schedulerName", "spec.serviceAccountName", "spec.hostNetwork",
        "status.phase", "status.podIP", "status.nominatedNodeName",
    ),
    "Node": ("spec.unschedulable",),
    "Namespace": ("status.phase",),
    "Job": ("status.successful",),
    "Secret": ("type",),
    "Event": (
        "involvedObject.kind", "involvedObject.namespace", "involvedObject.name", "involvedObject.uid",
        "involvedObject.apiVersion", "involvedObject.resourceVersion", "involvedObject.fieldPath",
        "reason", "reportingComponent", "source", "type",
    ),
}  # fmt: skip


def by_labels(selector: str) -> Chosen:
    """A test of objects from a label selector; Refused (BadRequest) for one that cannot be parsed."""
    try:
        selects = label_selector(selector, _check_requirement)
    except ValueError as error:
        raise bad_request(str(error)) from None
    return lambda found: selects(found["metadata"].get("labels") or {})


def _check_requirement(key: str, values: Collection[str]) -> None:
    found = Findings()
    found.qualified("key", key)
    for value in sorted(values):
        found.label_value(f"values[{key}]", value)
    if found.causes:
        raise bad_request(f"unable to parse requirement: {found.causes[0].field}: {found.causes[0].message()}")


def matches(selector: Json | None, labels: Mapping[str, str]) -> bool:
    """Whether a LabelSelector of a manifest (matchLabels, matchExpressions) chooses these labels.

    None chooses nothing, an empty selector everything.
    """
    if selector is None:
        return False
    wanted = selector.get("matchLabels") or {}
    if any(labels.get(key) != value for key, value in wanted.items()):
        return False
    return all(meets(one, labels) for one in selector.get("matchExpressions") or [])


def meets(expression: Json, labels: Mapping[str, str]) -> bool:
    """Whether labels meet one requirement of matchExpressions; Refused (BadRequest) for an unknown operator."""
    key, values = expression["key"], expression.get("values") or []
    match expression["operator"]:
        case "In":
            return labels.get(key) in values
        case "NotIn":
            return labels.get(key) not in values
        case "Exists":
            return key in labels
        case "DoesNotExist":
            return key not in labels
        case other:
            raise bad_request(f'"{other}" is not a valid label selector operator')


def by_fields(selector: str, kind: Kind) -> Chosen:
    """A test of objects from a field selector: `spec.nodeName=n,status.phase!=Failed`; an empty one chooses all."""
    tests = [_field_test(part, kind) for part in selector.split(",") if part.strip()]
    return lambda found: all(test(found) for test in tests)


def _field_test(part: str, kind: Kind) -> Chosen:
    matched = re.match(r"^([^!=]+?)(!=|==|=)(.*)$", part.strip())
    if matched is None:
        raise bad_request(f"invalid selector: '{part}'; can't understand '{part}'")
    path, how, value = matched.groups()
    if path not in ("metadata.name", "metadata.namespace", *FIELDS.get(kind.name, ())):
        raise _unsupported(path, kind)
    return lambda found: (_text_at(found, path) == value) is (how != "!=")


def _unsupported(path: str, kind: Kind) -> Refused:
    which = f"{kind.group}/{kind.version}, Resource={kind.plural}"
    return bad_request(f'Unable to find "{which}": field label not supported: {path}')


def _text_at(found: Json, path: str) -> str:
    value: Any = found
    for part in path.split("."):
        value = value.get(part) if isinstance(value, dict) else None
    if path == "source" and isinstance(value, dict):
        value = value.get("component")
    if path in ("spec.unschedulable", "spec.hostNetwork"):
        return "true" if value else "false"
    if path == "status.successful":
        return str((found.get("status") or {}).get("succeeded", 0))
    return "" if value is None else str(value)
