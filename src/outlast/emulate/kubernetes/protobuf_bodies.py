"""The few bodies that kubectl sends as protocol buffers: `kubectl create` of a namespace, an account, a config map, …

Field numbers: the `generated.proto` files of k8s.io/api and k8s.io/apimachinery, 2026-11-30. What is not in the tables
here is refused; `kubectl apply -f` and the official client send JSON.
"""

import base64
from collections.abc import Iterator
from typing import Any

from outlast.emulate.kubernetes.problems import Refused

Json = dict[str, Any]
Shape = dict[int, tuple[str, Any]]  # number -> name, and the type: a word, the shape of a message, or [shape] of many

_MAGIC = b"k8s\x00"
# A "flag" that is false is one that was not set; a "bool" can be set to false.
_TEXT, _INT, _BOOL, _FLAG, _SKIPPED = "text", "int", "bool", "flag", "skipped"
_TEXTS, _TEXT_MAP, _BYTES_MAP, _INT_OR_TEXT = "texts", "text map", "bytes map", "int or text"

_META: Shape = {
    1: ("name", _TEXT), 2: ("generateName", _TEXT), 3: ("namespace", _TEXT), 4: ("selfLink", _SKIPPED),
    5: ("uid", _SKIPPED), 6: ("resourceVersion", _TEXT), 7: ("generation", _SKIPPED),
    8: ("creationTimestamp", _SKIPPED), 11: ("labels", _TEXT_MAP), 12: ("annotations", _TEXT_MAP),
}  # fmt: skip
_SELECTOR: Shape = {1: ("matchLabels", _TEXT_MAP)}
_BUDGET: Shape = {
    1: ("minAvailable", _INT_OR_TEXT), 2: ("selector", _SELECTOR), 3: ("maxUnavailable", _INT_OR_TEXT),
    4: ("unhealthyPodEvictionPolicy", _TEXT),
}  # fmt: skip
_CONTAINER: Shape = {
    1: ("name", _TEXT), 2: ("image", _TEXT), 3: ("command", _TEXTS), 4: ("args", _TEXTS), 5: ("workingDir", _TEXT),
    8: ("resources", {}), 13: ("terminationMessagePath", _TEXT), 14: ("imagePullPolicy", _TEXT), 16: ("stdin", _FLAG),
    17: ("stdinOnce", _FLAG), 18: ("tty", _FLAG), 20: ("terminationMessagePolicy", _TEXT),
}  # fmt: skip
_POD: Shape = {
    2: ("containers", [_CONTAINER]), 3: ("restartPolicy", _TEXT), 4: ("terminationGracePeriodSeconds", _INT),
    5: ("activeDeadlineSeconds", _INT), 6: ("dnsPolicy", _TEXT), 7: ("nodeSelector", _TEXT_MAP),
    8: ("serviceAccountName", _TEXT), 9: ("serviceAccount", _TEXT), 10: ("nodeName", _TEXT),
    11: ("hostNetwork", _FLAG), 12: ("hostPID", _FLAG), 13: ("hostIPC", _FLAG), 16: ("hostname", _TEXT),
    17: ("subdomain", _TEXT), 19: ("schedulerName", _TEXT), 24: ("priorityClassName", _TEXT),
}  # fmt: skip
_JOB: Shape = {
    1: ("parallelism", _INT), 2: ("completions", _INT), 3: ("activeDeadlineSeconds", _INT),
    5: ("manualSelector", _BOOL), 6: ("template", {1: ("metadata", _META), 2: ("spec", _POD)}),
    7: ("backoffLimit", _INT), 8: ("ttlSecondsAfterFinished", _INT), 9: ("completionMode", _TEXT),
    10: ("suspend", _BOOL),
}  # fmt: skip
_SHAPES: dict[str, Shape] = {
    "Namespace": {2: ("spec", {1: ("finalizers", _TEXTS)}), 3: ("status", _SKIPPED)},
    "ServiceAccount": {4: ("automountServiceAccountToken", _BOOL)},
    "ConfigMap": {2: ("data", _TEXT_MAP), 3: ("binaryData", _BYTES_MAP), 4: ("immutable", _BOOL)},
    "Secret": {2: ("data", _BYTES_MAP), 3: ("type", _TEXT), 4: ("stringData", _TEXT_MAP), 5: ("immutable", _BOOL)},
    "Job": {2: ("spec", _JOB), 3: ("status", _SKIPPED)},
    "PodDisruptionBudget": {2: ("spec", _BUDGET), 3: ("status", _SKIPPED)},
    "PriorityClass": {
        2: ("value", _INT), 3: ("globalDefault", _BOOL), 4: ("description", _TEXT), 5: ("preemptionPolicy", _TEXT),
    },
}  # fmt: skip


def decoded(body: bytes) -> Json:
    """The object in a body of `application/vnd.kubernetes.protobuf`; Refused for a kind or field that is not known."""
    if not body.startswith(_MAGIC):
        raise _not_taken("what does not begin with k8s")
    about: Json = {}
    raw = b""
    for number, value in _fields(body[len(_MAGIC) :]):
        if number == 1:
            about = _message(value, {1: ("apiVersion", _TEXT), 2: ("kind", _TEXT)})
        elif number == 2:
            raw = value
    kind = about.get("kind", "")
    if kind not in _SHAPES:
        raise _not_taken(f"a {kind}")
    return about | _message(raw, {1: ("metadata", _META)} | _SHAPES[kind])


def _not_taken(what: str) -> Refused:
    why = f"this server does not take {what} as protobuf: write a manifest and use kubectl apply -f or create -f"
    return Refused(415, "UnsupportedMediaType", why)


def _fields(raw: bytes) -> Iterator[tuple[int, Any]]:
    """(number, value) of each field of a message: whole numbers, or bytes."""
    at = 0
    while at < len(raw):
        key, at = _varint(raw, at)
        if key & 7 == 0:
            value, at = _varint(raw, at)
            yield key >> 3, value
        elif key & 7 == 2:
            length, at = _varint(raw, at)
            if at + length > len(raw):
                raise _not_taken("what ends too early")
            yield key >> 3, raw[at : at + length]
            at += length
        else:
            raise _not_taken(f"fields of wire type {key & 7}")


def _varint(raw: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while at < len(raw):
        value |= (raw[at] & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if raw[at - 1] < 0x80:
            return value, at
    raise _not_taken("what ends too early")


def _message(raw: bytes, shape: Shape) -> Json:
    made: Json = {}
    for number, value in _fields(raw):
        if number not in shape:
            raise _not_taken(f"field {number} of such an object")
        name, kind = shape[number]
        if isinstance(kind, list):
            made.setdefault(name, []).append(_message(value, kind[0]))
        elif kind == _TEXTS:
            made.setdefault(name, []).append(value.decode())
        elif kind in (_TEXT_MAP, _BYTES_MAP):
            pair = dict(_fields(value))
            text = base64.b64encode(pair.get(2, b"")) if kind == _BYTES_MAP else pair.get(2, b"")
            made.setdefault(name, {})[pair.get(1, b"").decode()] = text.decode()
        elif kind != _SKIPPED:
            found = _message(value, kind) if isinstance(kind, dict) else _plain(value, kind)
            if found not in ("", None, {}):  # what is not set is sent as empty
                made[name] = found
    return made


def _plain(value: Any, kind: str) -> Any:
    match kind:
        case "text":
            return value.decode()
        case "bool":
            return bool(value)
        case "flag":
            return True if value else None
        case "int or text":
            one = dict(_fields(value))
            return one[3].decode() if one.get(1) else one.get(2, 0)
        case _:
            return value - (1 << 64) if value >= 1 << 63 else value
