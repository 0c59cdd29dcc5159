"""Label selectors and field selectors, as text in a query and as objects in a manifest."""

import re
from collections.abc import Callable, Collection, Mapping
from typing import Any

from outlast.emulate.kubernetes.findings import Findings
from outlast.emulate.kubernetes.kinds import Kind
from outlast.emulate.kubernetes.problems import Refused, bad_request

Json = dict[str, Any]
Chosen = Callable[[Json], bool]

_SET = re.compile(r"^\s*(?P<key>[^\s!=,()]+)\s+(?P<how>in|notin)\s*\((?P<values>[^()]*)\)\s*$")
_EQUAL = re.compile(r"^\s*(?P<key>[^\s!=,()]+)\s*(?P<how>==|=|!=)\s*(?P<value>[^\s!=,()]*)\s*$")
_EXISTS = re.compile(r"^\s*(?P<no>!?)\s*(?P<key>[^\s!=,()]+)\s*$")
_BETWEEN = re.compile(r",(?![^()]*\))")  # a comma outside of parentheses

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
    """A test of objects from a label selector: `a=b,c!=d,e in (f, g),h,!i`; an empty one chooses all."""
    tests = [_label_test(part) for part in _BETWEEN.split(selector) if part.strip()]

    def chosen(found: Json) -> bool:
        labels = found["metadata"].get("labels") or {}
        return all(test(labels) for test in tests)

    return chosen


def _label_test(part: str) -> Callable[[Mapping[str, str]], bool]:
    if matched := _SET.match(part):
        key, values = matched["key"], {value.strip() for value in matched["values"].split(",")}
        _check_requirement(key, values)
        if matched["how"] == "in":
            return lambda labels: labels.get(key) in values
        return lambda labels: labels.get(key) not in values
    if matched := _EQUAL.match(part):
        key, value = matched["key"], matched["value"]
        _check_requirement(key, {value})
        if matched["how"] == "!=":
            return lambda labels: labels.get(key) != value
        return lambda labels: labels.get(key) == value
    if matched := _EXISTS.match(part):
        key, absent = matched["key"], bool(matched["no"])
        _check_requirement(key, ())
        return lambda labels: (key in labels) is not absent
    raise bad_request(f'unable to parse requirement: found "{part.strip()}", expected: a label requirement')


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
    return all(_expression(one, labels) for one in selector.get("matchExpressions") or [])


def _expression(expression: Json, labels: Mapping[str, str]) -> bool:
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
