"""The messages of the API run.googleapis.com/v1 that jobs use, and the strict reading of a request's JSON.

The fields and their types are those that gcloud 528.0.0 sends and expects (2026-11-30). A name that is not here, or
a value of another type, is refused as Google's JSON reader refuses it.
"""

import re
from typing import Any

from outlast.emulate.cloud_run.refusals import Refused

_TEXT, _INT32, _INT64, _BOOL, _TEXTS = "TYPE_STRING", "TYPE_INT32", "TYPE_INT64", "TYPE_BOOL", "map of texts"
_SCALARS = (_TEXT, _INT32, _INT64, _BOOL, _TEXTS)
_LIMITS = {_INT32: 1 << 31, _INT64: 1 << 63}

# A field's type: a scalar, a map of texts, the name of a message, or [one of them] for a list.
Field = str | list[str]
MESSAGES: dict[str, dict[str, Field]] = {
    "Job": {"apiVersion": _TEXT, "kind": _TEXT, "metadata": "ObjectMeta", "spec": "JobSpec", "status": "JobStatus"},
    "ObjectMeta": {
        "annotations": _TEXTS,
        "clusterName": _TEXT,
        "creationTimestamp": _TEXT,
        "deletionGracePeriodSeconds": _INT32,
        "deletionTimestamp": _TEXT,
        "finalizers": [_TEXT],
        "generateName": _TEXT,
        "generation": _INT32,
        "labels": _TEXTS,
        "name": _TEXT,
        "namespace": _TEXT,
        "ownerReferences": ["OwnerReference"],
        "resourceVersion": _TEXT,
        "selfLink": _TEXT,
        "uid": _TEXT,
    },
    "OwnerReference": {
        "apiVersion": _TEXT,
        "blockOwnerDeletion": _BOOL,
        "controller": _BOOL,
        "kind": _TEXT,
        "name": _TEXT,
        "uid": _TEXT,
    },
    "JobSpec": {"runExecutionToken": _TEXT, "startExecutionToken": _TEXT, "template": "ExecutionTemplateSpec"},
    "JobStatus": {
        "conditions": ["Condition"],
        "executionCount": _INT32,
        "latestCreatedExecution": "ExecutionReference",
        "observedGeneration": _INT32,
    },
    "Condition": {
        "lastTransitionTime": _TEXT,
        "message": _TEXT,
        "reason": _TEXT,
        "severity": _TEXT,
        "status": _TEXT,
        "type": _TEXT,
    },
    "ExecutionReference": {
        "completionStatus": _TEXT,
        "completionTimestamp": _TEXT,
        "creationTimestamp": _TEXT,
        "deletionTimestamp": _TEXT,
        "name": _TEXT,
    },
    "ExecutionTemplateSpec": {"metadata": "ObjectMeta", "spec": "ExecutionSpec"},
    "ExecutionSpec": {"parallelism": _INT32, "taskCount": _INT32, "template": "TaskTemplateSpec"},
    "TaskTemplateSpec": {"spec": "TaskSpec"},
    "TaskSpec": {
        "containers": ["Container"],
        "maxRetries": _INT32,
        "nodeSelector": _TEXTS,
        "serviceAccountName": _TEXT,
        "timeoutSeconds": _INT64,
        "volumes": ["Volume"],
    },
    "Container": {
        "args": [_TEXT],
        "command": [_TEXT],
        "env": ["EnvVar"],
        "envFrom": ["EnvFromSource"],
        "image": _TEXT,
        "imagePullPolicy": _TEXT,
        "livenessProbe": "Probe",
        "name": _TEXT,
        "ports": ["ContainerPort"],
        "readinessProbe": "Probe",
        "resources": "ResourceRequirements",
        "securityContext": "SecurityContext",
        "startupProbe": "Probe",
        "terminationMessagePath": _TEXT,
        "terminationMessagePolicy": _TEXT,
        "volumeMounts": ["VolumeMount"],
        "workingDir": _TEXT,
    },
    "EnvVar": {"name": _TEXT, "value": _TEXT, "valueFrom": "EnvVarSource"},
    "EnvVarSource": {"configMapKeyRef": "KeySelector", "secretKeyRef": "KeySelector"},
    "KeySelector": {"key": _TEXT, "localObjectReference": "LocalObjectReference", "name": _TEXT, "optional": _BOOL},
    "LocalObjectReference": {"name": _TEXT},
    "EnvFromSource": {"configMapRef": "EnvSource", "prefix": _TEXT, "secretRef": "EnvSource"},
    "EnvSource": {"localObjectReference": "LocalObjectReference", "name": _TEXT, "optional": _BOOL},
    "ContainerPort": {"containerPort": _INT32, "name": _TEXT, "protocol": _TEXT},
    "Probe": {
        "exec": "ExecAction",
        "failureThreshold": _INT32,
        "grpc": "GrpcAction",
        "httpGet": "HttpGetAction",
        "initialDelaySeconds": _INT32,
        "periodSeconds": _INT32,
        "successThreshold": _INT32,
        "tcpSocket": "TcpSocketAction",
        "timeoutSeconds": _INT32,
    },
    "ExecAction": {"command": [_TEXT]},
    "GrpcAction": {"port": _INT32, "service": _TEXT},
    "HttpGetAction": {"host": _TEXT, "httpHeaders": ["HttpHeader"], "path": _TEXT, "port": _INT32, "scheme": _TEXT},
    "HttpHeader": {"name": _TEXT, "value": _TEXT},
    "TcpSocketAction": {"host": _TEXT, "port": _INT32},
    "ResourceRequirements": {"limits": _TEXTS, "requests": _TEXTS},
    "SecurityContext": {"runAsUser": _INT32},
    "VolumeMount": {"mountPath": _TEXT, "name": _TEXT, "readOnly": _BOOL, "subPath": _TEXT},
    "Volume": {
        "configMap": "KeyedSource",
        "csi": "CsiSource",
        "emptyDir": "EmptyDirSource",
        "name": _TEXT,
        "nfs": "NfsSource",
        "secret": "KeyedSource",
    },
    "CsiSource": {"driver": _TEXT, "readOnly": _BOOL, "volumeAttributes": _TEXTS},
    "EmptyDirSource": {"medium": _TEXT, "sizeLimit": _TEXT},
    "NfsSource": {"path": _TEXT, "readOnly": _BOOL, "server": _TEXT},
    "KeyedSource": {
        "defaultMode": _INT32,
        "items": ["KeyToPath"],
        "name": _TEXT,
        "optional": _BOOL,
        "secretName": _TEXT,
    },
    "KeyToPath": {"key": _TEXT, "mode": _INT32, "path": _TEXT},
    "RunJobRequest": {"overrides": "Overrides"},
    "Overrides": {"containerOverrides": ["ContainerOverride"], "taskCount": _INT32, "timeoutSeconds": _INT32},
    "ContainerOverride": {"args": [_TEXT], "clearArgs": _BOOL, "env": ["EnvVar"], "name": _TEXT},
    "CancelExecutionRequest": {},
    "ListLogEntriesRequest": {
        "filter": _TEXT,
        "orderBy": _TEXT,
        "pageSize": _INT32,
        "pageToken": _TEXT,
        "projectIds": [_TEXT],
        "resourceNames": [_TEXT],
    },
    "SubmitBuildRequest": {
        "buildpackBuild": "BuildpacksBuild",
        "dockerBuild": "DockerBuild",
        "imageUri": _TEXT,
        "machineType": _TEXT,
        "serviceAccount": _TEXT,
        "storageSource": "StorageSource",
        "tags": [_TEXT],
        "workerPool": _TEXT,
    },
    "BuildpacksBuild": {
        "baseImage": _TEXT,
        "enableAutomaticUpdates": _BOOL,
        "environmentVariables": _TEXTS,
        "functionTarget": _TEXT,
        "projectDescriptor": _TEXT,
    },
    "DockerBuild": {},
    "StorageSource": {"bucket": _TEXT, "generation": _INT64, "object": _TEXT},
    "ControlRequest": {"execution": _TEXT, "task": _INT32},  # the emulator's own
}


def read(kind: str, value: Any, *, at: str = "") -> dict[str, Any]:
    """A message of that kind from JSON, with numbers as numbers and nulls left out. Raises Refused."""
    if not isinstance(value, dict):
        raise _wrong_value(at or kind, kind, value)
    fields = MESSAGES[kind]
    found: dict[str, Any] = {}
    for name, inner in value.items():
        if name not in fields:
            where = f" at '{at}'" if at else ""
            message = f'Invalid JSON payload received. Unknown name "{name}"{where}: Cannot find field.'
            raise Refused("INVALID_ARGUMENT", message, field=at)
        if inner is not None:  # JSON's null stands for the field's default
            found[name] = _read_field(fields[name], inner, at=_below(at, name))
    return found


def _read_field(field: Field, value: Any, *, at: str) -> Any:
    if isinstance(field, list):
        if not isinstance(value, list):
            raise _wrong_value(at, field[0], value)
        return [_read_field(field[0], one, at=f"{at}[{number}]") for number, one in enumerate(value)]
    return _read_scalar(field, value, at=at) if field in _SCALARS else read(field, value, at=at)


def _read_scalar(kind: str, value: Any, *, at: str) -> Any:
    if kind == _TEXTS:
        if not isinstance(value, dict) or not all(isinstance(inner, str) for inner in value.values()):
            raise _wrong_value(at, _TEXT, value)
        return dict(value)
    if kind in _LIMITS:
        return _read_number(kind, value, at=at)
    if not isinstance(value, bool if kind == _BOOL else str):
        raise _wrong_value(at, kind, value)
    return value


def _read_number(kind: str, value: Any, *, at: str) -> int:
    """A number, or its digits in a text: 64-bit numbers come so, and JSON's reader takes both for any."""
    if isinstance(value, str) and re.fullmatch(r"-?\d{1,19}", value):
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int) or not -_LIMITS[kind] <= value < _LIMITS[kind]:
        raise _wrong_value(at, kind, value)
    return value


def _wrong_value(at: str, kind: str, value: Any) -> Refused:
    shown = f'"{value}"' if isinstance(value, str) else str(value)
    return Refused("INVALID_ARGUMENT", f"Invalid value at '{at}' ({kind}), {shown}", field=at)


def _below(at: str, name: str) -> str:
    """The path as Google's reader gives it: in the names of the protocol buffer."""
    own = re.sub(r"(?<!^)([A-Z])", lambda match: "_" + match[1].lower(), name)
    return f"{at}.{own}" if at else own


def written(kind: str, value: dict[str, Any]) -> dict[str, Any]:
    """A message as the API answers with it: 64-bit numbers as text."""
    fields = MESSAGES[kind]
    found: dict[str, Any] = {}
    for name, inner in value.items():
        field = fields[name]
        if isinstance(field, list) and field[0] not in _SCALARS:
            found[name] = [written(field[0], one) for one in inner]
        elif isinstance(field, str) and field not in _SCALARS:
            found[name] = written(field, inner)
        else:
            found[name] = str(inner) if field == _INT64 else inner
    return found
