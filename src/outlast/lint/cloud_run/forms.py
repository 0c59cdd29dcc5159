"""Checks that Cloud Run and gcloud take what is written: fields, types and forms of values (CR025)."""

import re
from collections.abc import Iterator, Mapping
from difflib import get_close_matches

from outlast.lint.cloud_run.gcloud import GcloudCommand
from outlast.lint.cloud_run.job import CloudRunJob
from outlast.lint.cloud_run.manifest import GROUP
from outlast.lint.cloud_run.rules_keeping import REFUSED_FORM
from outlast.lint.reading.yaml_nodes import Node
from outlast.lint.rule import Finding

# What `gcloud run jobs replace` knows, from its messages of run/v1 in 528.0.0: "int", "text" or "truth", ("list", what
# is in it), a mapping of fields, or None for what is not looked into. Fields that the API may have got since then are
# told with the nearest known name.
_Shape = object
_META: Mapping[str, _Shape] = dict.fromkeys(
    (
        "annotations", "labels", "name", "namespace", "generateName", "generation", "creationTimestamp", "uid",
        "deletionTimestamp", "deletionGracePeriodSeconds", "finalizers", "ownerReferences", "resourceVersion",
        "selfLink", "clusterName",
    )
)  # fmt: skip
_REFERENCE = {"key": "text", "name": "text", "optional": "truth", "localObjectReference": None}
_PROBE = {
    "exec": None, "grpc": None, "httpGet": None, "tcpSocket": None, "failureThreshold": "int",
    "initialDelaySeconds": "int", "periodSeconds": "int", "successThreshold": "int", "timeoutSeconds": "int",
}  # fmt: skip
_ITEMS = ("list", {"key": "text", "path": "text", "mode": "int"})
_CONTAINER = {
    "name": "text", "image": "text", "command": ("list", "text"), "args": ("list", "text"), "workingDir": "text",
    "env": ("list", {"name": "text", "value": "text",
                     "valueFrom": {"secretKeyRef": _REFERENCE, "configMapKeyRef": _REFERENCE}}),
    "envFrom": None, "imagePullPolicy": "text", "ports": None, "securityContext": None,
    "resources": {"limits": ("map", "text"), "requests": ("map", "text")},
    "volumeMounts": ("list", {"name": "text", "mountPath": "text", "subPath": "text", "readOnly": "truth"}),
    "startupProbe": _PROBE, "livenessProbe": _PROBE, "readinessProbe": _PROBE, "terminationMessagePath": "text",
    "terminationMessagePolicy": "text",
}  # fmt: skip
_VOLUME = {
    "name": "text",
    "csi": {"driver": "text", "readOnly": "truth", "volumeAttributes": ("map", "text")},
    "emptyDir": {"medium": "text", "sizeLimit": "text"},
    "nfs": {"server": "text", "path": "text", "readOnly": "truth"},
    "secret": {"secretName": "text", "items": _ITEMS, "defaultMode": "int", "optional": "truth"},
    "configMap": {"name": "text", "items": _ITEMS, "defaultMode": "int", "optional": "truth"},
}
_TASK = {
    "maxRetries": "int", "timeoutSeconds": "int", "serviceAccountName": "text", "nodeSelector": ("map", "text"),
    "containers": ("list", _CONTAINER), "volumes": ("list", _VOLUME),
}  # fmt: skip
_EXECUTION = {"taskCount": "int", "parallelism": "int", "template": {"spec": _TASK}}
_JOB = {
    "apiVersion": "text",
    "kind": "text",
    "metadata": _META,
    "spec": {
        "startExecutionToken": "text",
        "runExecutionToken": "text",
        "template": {"metadata": _META, "spec": _EXECUTION},
    },
    "status": None,
}
# A field that is often put on the wrong level, or is another API's, and what is meant.
_MEANT = {
    "timeout": "timeoutSeconds", "timeoutSecs": "timeoutSeconds", "serviceAccount": "serviceAccountName",
    "activeDeadlineSeconds": "timeoutSeconds", "backoffLimit": "maxRetries", "completions": "taskCount",
    "retries": "maxRetries", "maxRetry": "maxRetries",
}  # fmt: skip
_INTEGER = re.compile(r"[-+]?\d+")
_NO_TEXT = re.compile(r"tag:yaml\.org,2002:(int|float|bool)")
_GCLOUD_DURATION = re.compile(r"P?(?:\d+(?:\.\d+)?[wdhms])*(?:\d+(?:\.\d+)?)?|P.*", re.IGNORECASE)
_API_DURATION = re.compile(r"\d+(\.\d{1,9})?s")
_NUMBERS = {"--max-retries": 0, "--tasks": 1, "--parallelism": 0}


def check_manifest(document: Node) -> Iterator[Finding]:
    """A manifest's fields and types."""
    yield from _walk(document, _JOB, "")


def _walk(node: Node, shape: _Shape, path: str) -> Iterator[Finding]:
    if shape is None or not node.is_set or node.is_unknown:
        return
    if isinstance(shape, str):
        yield from _scalar(node, shape, path)
    elif isinstance(shape, tuple):
        kind, inner = shape
        if node.kind != kind:
            yield REFUSED_FORM.at(node, f"{_last(path)} has to be a {kind}")
            return
        for name, one in [*node.fields.items(), *((path, one) for one in node)]:
            yield from _walk(one, inner, name if kind == "map" else path)
    elif isinstance(shape, Mapping):
        yield from _fields(node, shape, path)


def _fields(node: Node, shape: Mapping[str, _Shape], path: str) -> Iterator[Finding]:
    if node.kind != "map":
        yield REFUSED_FORM.at(node, f"{_last(path) or 'the document'} has to be a map")
        return
    for name, one in node.fields.items():
        where = f"{path}.{name}" if path else name
        if name in shape:
            yield from _walk(one, shape[name], where)
        elif not _is_templated(name):
            yield REFUSED_FORM.at(_key(one), f"there is no field {where}{_advice(name, shape)}")


def _is_templated(name: str) -> bool:
    return any(mark in name for mark in ("{{", "${", "$("))


def _key(node: Node) -> Node:
    """A place on the line of the key."""
    return Node("scalar", node.key_line or node.line, 1 if node.key_line != node.line else node.column)


def _advice(name: str, shape: Mapping[str, _Shape]) -> str:
    meant = _MEANT.get(name)
    if meant in shape:
        return f"; it is {meant} here"
    if meant is not None or name in (*_TASK, *_EXECUTION):
        right = meant or name
        level = "spec.template.spec.template.spec" if right in _TASK else "spec.template.spec"
        return f"; {right} stands in {level}"
    near = get_close_matches(name, list(shape), n=1)
    return f"; did you mean {near[0]}?" if near else ""


def _scalar(node: Node, shape: str, path: str) -> Iterator[Finding]:
    name = _last(path)
    if node.kind != "scalar":
        yield REFUSED_FORM.at(node, f"{name} has to be one value")
    elif shape == "int" and not _INTEGER.fullmatch(node.text):
        yield REFUSED_FORM.at(node, f"{name} has to be a whole number, not {node.text}", fix=_whole(node.text))
    elif shape == "text" and not node.quoted and _NO_TEXT.fullmatch(node.tag):
        told = f"{name} has to be text, and {node.text} without quotes is none"
        yield REFUSED_FORM.at(node, told, fix=f'write "{node.text}"')
    elif shape == "truth" and node.truth is None:
        yield REFUSED_FORM.at(node, f"{name} has to be true or false, not {node.text}")


def _whole(text: str) -> str | None:
    """What a duration is as seconds, where that is easy to see."""
    found = re.fullmatch(r"(\d+)([smh])", text)
    return f"write {int(found[1]) * {'s': 1, 'm': 60, 'h': 3600}[found[2]]}" if found else None


def _last(path: str) -> str:
    return path.rsplit(".", 1)[-1]


def check_resource(job: CloudRunJob, places: Iterator[Node]) -> Iterator[Finding]:
    """API v2 and Terraform: the timeout's form, and annotations of v1 (`places`: maps of annotations and labels)."""
    if job.timeout.is_set and not job.timeout.is_unknown and not _API_DURATION.fullmatch(job.timeout.text):
        told = f"timeout has to be seconds with an s, such as 3600s, not {job.timeout.text}"
        yield REFUSED_FORM.at(job.timeout, told, fix='write it as "3600s"')
    for node in places:
        for name, one in node.fields.items():
            if name.startswith(GROUP):
                told = f"{name} is an annotation of v1; API v2 refuses it"
                yield REFUSED_FORM.at(_key(one), told, fix="use the field of API v2 instead")


def check_command(command: GcloudCommand) -> Iterator[Finding]:
    """The values of a command's flags."""
    if command.of_jobs is None:
        return
    for flag in command.flags:
        value = flag.value
        if not value.is_set or value.is_unknown:
            continue
        if flag.name in _NUMBERS and not _INTEGER.fullmatch(value.text):
            yield REFUSED_FORM.at(value, f"{flag.name} has to be a whole number, not {value.text}")
        elif flag.name in _NUMBERS and int(value.text) < _NUMBERS[flag.name]:
            yield REFUSED_FORM.at(value, f"{flag.name} has to be at least {_NUMBERS[flag.name]}, not {value.text}")
        elif flag.name == "--task-timeout" and not _GCLOUD_DURATION.fullmatch(value.text):
            told = f"--task-timeout {value.text} is no duration; its units are s, m, h and d"
            yield REFUSED_FORM.at(value, told, fix="write it as 90m, 12h or 43200s")
    both = command.flag("--wait"), command.flag("--async")
    if both[0] is not None and both[1] is not None:
        yield REFUSED_FORM.at(both[1].word, "--wait and --async exclude each other")
