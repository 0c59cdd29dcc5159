"""The variables of a pod's containers: its own, those of config maps and secrets, and the downward API's.

Facts as of 2026-11-30. Kubernetes, "Downward API" (which fields), "Define dependent environment variables" ($(NAME),
and $$ for a plain $), "Service" (KUBERNETES_SERVICE_HOST and _PORT in every pod); HOSTNAME is the pod's host name.
"""

import base64
import math
import re
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from outlast.emulate.quantities import amount

Json = dict[str, Any]
Find = Callable[[str, str], Json | None]  # a ConfigMap or Secret of the pod's namespace: kind, name
_SUBSCRIPT = re.compile(r"metadata\.(?P<part>labels|annotations)\['(?P<key>[^']+)'\]")
_REFERENCE = re.compile(r"\$(?:\$|\((?P<name>[A-Za-z0-9_.-]+)\))")
_FIELDS = {
    "metadata.name": ("metadata", "name"),
    "metadata.namespace": ("metadata", "namespace"),
    "metadata.uid": ("metadata", "uid"),
    "spec.nodeName": ("spec", "nodeName"),
    "spec.serviceAccountName": ("spec", "serviceAccountName"),
    "status.hostIP": ("status", "hostIP"),
    "status.podIP": ("status", "podIP"),
}


class ConfigError(Exception):
    """A container that cannot be made: what it refers to is missing, or not known here."""


def variables(
    pod: Json,
    container: Json,
    base: Mapping[str, str],
    find: Find,
    allocatable: Mapping[str, str] = MappingProxyType({}),
) -> dict[str, str]:
    """The container's environment on top of `base`; `allocatable` is what its node has. Raises ConfigError."""
    found = dict(base)
    for one in container.get("envFrom", ()):
        found |= _all_of(one, find)
    for one in container.get("env", ()):
        if "valueFrom" in one:
            value = _value_from(pod, container, one["valueFrom"], find, allocatable)
            if value is not None:
                found[one["name"]] = value
        else:
            found[one["name"]] = expanded(one.get("value", ""), found)
    return found


def expanded(text: str, known: Mapping[str, str]) -> str:
    """The text with $(NAME) replaced; what is not known stays as it is."""

    def replaced(match: re.Match[str]) -> str:
        name = match["name"]
        return "$" if name is None else known.get(name, match[0])

    return _REFERENCE.sub(replaced, text)


def field_of(pod: Json, path: str) -> str:
    """A field of the pod as the downward API gives it. Raises ConfigError for one that it does not know."""
    if matched := _SUBSCRIPT.fullmatch(path):
        return str(pod["metadata"].get(matched["part"], {}).get(matched["key"], ""))
    if path in ("metadata.labels", "metadata.annotations"):
        part = pod["metadata"].get(path.removeprefix("metadata."), {})
        return "".join(f'{key}="{value}"\n' for key, value in sorted(part.items()))
    if path not in _FIELDS:
        raise ConfigError(f"unsupported fieldPath: {path}")
    part_name, key = _FIELDS[path]
    return str(pod.get(part_name, {}).get(key, ""))


def _value_from(pod: Json, container: Json, source: Json, find: Find, allocatable: Mapping[str, str]) -> str | None:
    if "fieldRef" in source:
        return field_of(pod, source["fieldRef"]["fieldPath"])
    if "resourceFieldRef" in source:
        return _resource(container, source["resourceFieldRef"], allocatable)
    for key, kind in (("configMapKeyRef", "ConfigMap"), ("secretKeyRef", "Secret")):
        if key in source:
            wanted = source[key]
            data = _data(kind, wanted["name"], find, optional=wanted.get("optional", False))
            if wanted["key"] not in data and not wanted.get("optional"):
                raise ConfigError(f"couldn't find key {wanted['key']} in {kind} {wanted['name']}")
            return data.get(wanted["key"])
    raise ConfigError(f"invalid valueFrom: {', '.join(source)} is not known here")


def _resource(container: Json, wanted: Json, allocatable: Mapping[str, str]) -> str:
    """A whole number, of bytes for memory. Without a limit it is what the node has, without a request "0"."""
    part, _, name = wanted["resource"].partition(".")
    most = allocatable.get(name, "0") if part == "limits" else "0"
    asked = container.get("resources", {}).get(part, {}).get(name, most)
    number = amount(str(asked)) / amount(str(wanted.get("divisor") or "1"))
    return str(math.ceil(number))


def _all_of(source: Json, find: Find) -> dict[str, str]:
    prefix = source.get("prefix", "")
    for key, kind in (("configMapRef", "ConfigMap"), ("secretRef", "Secret")):
        if key in source:
            data = _data(kind, source[key]["name"], find, optional=source[key].get("optional", False))
            return {prefix + name: value for name, value in data.items()}
    raise ConfigError(f"invalid envFrom: {', '.join(source)} is not known here")


def _data(kind: str, name: str, find: Find, *, optional: bool) -> dict[str, str]:
    found = find(kind, name)
    if found is None:
        if optional:
            return {}
        raise ConfigError(f'{kind.lower()} "{name}" not found')
    return data_of(found)


def data_of(found: Json, *, as_files: bool = False) -> dict[str, str]:
    """What a ConfigMap or a Secret holds, as text with surrogate escapes; `as_files`: with its binary data."""
    if found["kind"] == "ConfigMap":
        text = {name: str(value) for name, value in (found.get("data") or {}).items()}
        return {**text, **(_decoded(found.get("binaryData")) if as_files else {})}
    return {**_decoded(found.get("data")), **(found.get("stringData") or {})}


def _decoded(data: Json | None) -> dict[str, str]:
    return {name: base64.b64decode(one).decode(errors="surrogateescape") for name, one in (data or {}).items()}
