"""Which fields a writer set: sets of paths, as `metadata.managedFields` keeps them in FieldsV1.

A path is a tuple of FieldsV1 keys: `f:spec`, `k:{"name":"main"}` for an element of a list that has keys, `v:"x"` for a
member of a set. Form: sigs.k8s.io/structured-merge-diff `fieldpath`; keys of lists: the `x-kubernetes-list-map-keys`
of the API's OpenAPI document, 2026-11-30.
"""

import json
from collections.abc import Iterable, Iterator
from typing import Any

Json = dict[str, Any]
Path = tuple[str, ...]

LIST_KEYS: dict[str, tuple[str, ...]] = {
    "containers": ("name",), "initContainers": ("name",), "ephemeralContainers": ("name",), "env": ("name",),
    "volumes": ("name",), "volumeMounts": ("mountPath",), "volumeDevices": ("devicePath",),
    "ports": ("containerPort", "protocol"), "imagePullSecrets": ("name",), "secrets": ("name",),
    "hostAliases": ("ip",), "topologySpreadConstraints": ("topologyKey", "whenUnsatisfiable"), "conditions": ("type",),
    "addresses": ("type",), "ownerReferences": ("uid",), "podIPs": ("ip",), "resourceClaims": ("name",),
    "schedulingGates": ("name",),
}  # fmt: skip
SETS = {"finalizers", "podCIDRs"}
ATOMIC_MAPS = {"nodeSelector", "selector", "labelSelector"}
_KEY_DEFAULTS = {"protocol": "TCP"}
_NOBODYS = {
    "name", "generateName", "namespace", "uid", "resourceVersion", "generation", "creationTimestamp", "managedFields",
    "deletionTimestamp", "deletionGracePeriodSeconds", "selfLink",
}  # fmt: skip


def fields_of(made: Json, *, subresource: str = "") -> set[Path]:
    """The fields that an object sets; of a kind's main door without its status, of `status` nothing else."""
    found: set[Path] = set()
    for name, value in made.items():
        if name == "metadata" and not subresource:
            mine = {key: one for key, one in value.items() if key not in _NOBODYS}
            found |= set(_leaves(mine, ("f:metadata",), "metadata")) if mine else set()
        elif name not in ("apiVersion", "kind", "metadata") and (name == "status") is (subresource == "status"):
            found |= set(_leaves(value, (f"f:{name}",), name))
    return found


def element_key(name: str, element: Any) -> str | None:
    """The FieldsV1 key of an element of the list with that name; None if such lists are replaced whole."""
    if name in SETS:
        return f"v:{_compact(element)}"
    keys = LIST_KEYS.get(name)
    if keys is None or not isinstance(element, dict):
        return None
    found = {key: element.get(key, _KEY_DEFAULTS.get(key)) for key in keys}
    return f"k:{_compact({key: value for key, value in found.items() if value is not None})}"


def _compact(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"))


def _leaves(value: Any, path: Path, name: str) -> Iterator[Path]:
    if isinstance(value, dict) and value and name not in ATOMIC_MAPS:
        for key, one in value.items():
            yield from _leaves(one, (*path, f"f:{key}"), key)
    elif isinstance(value, list) and value and element_key(name, value[0]) is not None:
        for one in value:
            inner = (*path, str(element_key(name, one)))
            yield inner
            if isinstance(one, dict):
                yield from _leaves(one, inner, "")
    else:
        yield path


def encode(paths: Iterable[Path]) -> Json:
    """FieldsV1 of a set of paths."""
    made: Json = {}
    for path in sorted(paths):
        node = made
        for part in path:
            node = node.setdefault(part, {})
        node["."] = {}
    return {key: _without_dots(value) for key, value in made.items()}


def _without_dots(node: Json) -> Json:
    """A leaf is written as an empty map; the dot stands only beside other keys."""
    if set(node) == {"."}:
        return {}
    return {key: {} if key == "." else _without_dots(value) for key, value in node.items()}


def decode(fields: Json, path: Path = ()) -> set[Path]:
    """The set of paths of a FieldsV1."""
    if not fields and path:
        return {path}
    found: set[Path] = set()
    for key, inner in fields.items():
        found |= {path} if key == "." else decode(inner, (*path, key))
    return found


def value_at(made: Any, path: Path) -> Any:
    """What stands at a path; None where nothing does."""
    name = ""
    for part in path:
        if part.startswith("f:"):
            name = part[2:]
            made = made.get(name) if isinstance(made, dict) else None
        else:
            found = made if isinstance(made, list) else []
            made = next((one for one in found if element_key(name, one) == part), None)
            name = ""
        if made is None:
            return None
    return made


def is_key(path: Path) -> bool:
    """Whether a path is of a field by which its element of a list is known: it goes with the element alone."""
    return len(path) > 1 and path[-2].startswith("k:") and path[-1][2:] in json.loads(path[-2][2:])


def remove(made: Any, path: Path) -> None:
    """Takes out what stands at a path, and the maps and lists that it leaves empty."""
    holder = value_at(made, path[:-1])
    part = path[-1]
    if holder is None:
        return
    if part.startswith("f:"):
        holder.pop(part[2:], None)
    else:
        holder[:] = [one for one in holder if element_key(path[-2][2:], one) != part]
    if not holder and len(path) > 1 and path[-2].startswith("f:"):
        remove(made, path[:-1])


def shown(path: Path) -> str:
    """A path as errors print it: `.spec.template.spec.containers[name="main"].image`."""
    text = ""
    for part in path:
        if part.startswith("f:"):
            text += f".{part[2:]}"
        elif part.startswith("v:"):
            text += f"[={part[2:]}]"
        else:
            text += f"[{','.join(f'{key}={_compact(value)}' for key, value in json.loads(part[2:]).items())}]"
    return text
