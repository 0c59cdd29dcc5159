"""The three ways to change part of an object: JSON patch, JSON merge patch, and Kubernetes' strategic merge patch.

RFC 6902 and RFC 7386; strategic: the Kubernetes page "Update API Objects in Place Using kubectl patch" and the
`patchMergeKey` marks of k8s.io/api, 2026-11-30.
"""

from collections.abc import Callable
from typing import Any

from outlast.emulate.kubernetes.copying import copied
from outlast.emulate.kubernetes.problems import Refused, bad_request

Json = dict[str, Any]

# Lists whose elements are merged, and the field that tells which is which; all other lists are replaced.
MERGE_KEYS = {
    "containers": "name", "initContainers": "name", "ephemeralContainers": "name", "env": "name",
    "volumes": "name", "volumeMounts": "mountPath", "volumeDevices": "devicePath", "ports": "containerPort",
    "imagePullSecrets": "name", "secrets": "name", "hostAliases": "ip", "topologySpreadConstraints": "topologyKey",
    "conditions": "type", "addresses": "type", "ownerReferences": "uid", "podIPs": "ip", "hostIPs": "ip",
    "resourceClaims": "name", "schedulingGates": "name",
}  # fmt: skip
# Lists of plain values that are merged as sets.
MERGED_SETS = {"finalizers", "podCIDRs"}
_ORDER, _DELETE_FROM, _RETAIN = "$setElementOrder/", "$deleteFromPrimitiveList/", "$retainKeys"


def merge(target: Any, patch: Any) -> Any:
    """JSON merge patch: maps are merged, null removes, all else replaces."""
    if not isinstance(patch, dict):
        return copied(patch)
    made = dict(target) if isinstance(target, dict) else {}
    for name, value in patch.items():
        if value is None:
            made.pop(name, None)
        else:
            made[name] = merge(made.get(name), value)
    return made


def strategic(target: Any, patch: Json) -> Any:
    """Strategic merge patch: as above, but lists of named things are merged by name."""
    how = patch.get("$patch", "merge")
    if how in ("replace", "delete"):
        return {} if how == "delete" else {name: copied(value) for name, value in patch.items() if name != "$patch"}
    if how != "merge":
        raise bad_request(f"unknown patch type: {how}")
    made = dict(target) if isinstance(target, dict) else {}
    if _RETAIN in patch:
        made = {name: value for name, value in made.items() if name in patch[_RETAIN]}
    for name, value in patch.items():
        if name.startswith(_DELETE_FROM):
            field = name.removeprefix(_DELETE_FROM)
            made[field] = [one for one in made.get(field) or [] if one not in value]
        elif value is None:
            made.pop(name, None)
        elif isinstance(value, dict):
            made[name] = strategic(made.get(name), value)
        elif isinstance(value, list) and not name.startswith("$"):
            made[name] = _merged_list(name, made.get(name), value, patch.get(_ORDER + name))
        elif not name.startswith("$"):
            made[name] = value
    return made


def _merged_list(name: str, old: Any, patch: list[Any], order: list[Any] | None) -> list[Any]:
    now = list(old) if isinstance(old, list) else []
    if name in MERGED_SETS:
        return now + [one for one in patch if one not in now]
    key = MERGE_KEYS.get(name)
    if key is None or not all(isinstance(one, dict) for one in patch):
        return _without_marks(patch)
    if any(one.get("$patch") == "replace" for one in patch):
        return _without_marks([one for one in patch if one.get("$patch") != "replace"])
    for one in patch:
        if key not in one:
            raise bad_request(f"map: {one} does not contain declared merge key: {key}")
        place = next((number for number, old_one in enumerate(now) if old_one.get(key) == one[key]), None)
        if one.get("$patch") == "delete":
            now = [old_one for old_one in now if old_one.get(key) != one[key]]
        elif place is None:
            now.append(strategic({}, one))
        else:
            now[place] = strategic(now[place], one)
    return _ordered(now, [one.get(key) for one in order], key) if order else now


def _ordered(items: list[Json], order: list[Any], key: str) -> list[Json]:
    """Elements that are named in the order as it says; the others keep their places among them."""
    named = iter(sorted((one for one in items if one.get(key) in order), key=lambda one: order.index(one.get(key))))
    return [next(named) if one.get(key) in order else one for one in items]


def _without_marks(items: list[Any]) -> list[Any]:
    return [strategic({}, one) if isinstance(one, dict) else copied(one) for one in items]


def operations(target: Json, patch: Any) -> Any:
    """JSON patch: a list of add, remove, replace, move, copy and test; all of it or nothing."""
    if not isinstance(patch, list):
        raise bad_request("error decoding patch: json: cannot unmarshal object into Go value of type jsonpatch.Patch")
    made: Any = copied(target)
    for one in patch:
        known: dict[str, Callable[[Any, Json], Any]] = {
            "add": lambda whole, do: _put(whole, do["path"], do["value"], insert=True),
            "replace": lambda whole, do: _put(whole, do["path"], do["value"], insert=False),
            "remove": lambda whole, do: _take(whole, do["path"]),
            "move": lambda whole, do: _move(whole, do, keep=False),
            "copy": lambda whole, do: _move(whole, do, keep=True),
            "test": _test,
        }
        if not isinstance(one, dict) or one.get("op") not in known:
            raise bad_request(f"Unexpected kind: {one.get('op') if isinstance(one, dict) else one}")
        try:
            made = known[one["op"]](made, one)
        except (KeyError, IndexError, ValueError, TypeError) as wrong:
            raise _not_done(one, wrong) from None
    return made


def _not_done(operation: Json, wrong: Exception) -> Refused:
    what = f"{operation['op']} operation does not apply: doc is missing path: {operation.get('path')}: {wrong}"
    return Refused(422, "Invalid", f"the server rejected our request due to an error in our request: {what}")


def _parts(path: str) -> list[str]:
    if path and not path.startswith("/"):
        raise ValueError(f"a path begins with /, not {path}")
    return [part.replace("~1", "/").replace("~0", "~") for part in path.split("/")[1:]]


def _walk(whole: Any, parts: list[str]) -> Any:
    for part in parts:
        whole = whole[int(part)] if isinstance(whole, list) else whole[part]
    return whole


def _put(whole: Any, path: str, value: Any, *, insert: bool) -> Any:
    parts = _parts(path)
    if not parts:
        return copied(value)
    holder, last = _walk(whole, parts[:-1]), parts[-1]
    if isinstance(holder, list):
        place = len(holder) if last == "-" else int(last)
        if not 0 <= place <= len(holder) - (0 if insert else 1):
            raise IndexError(f"no place {last}")
        holder[place : place + (0 if insert else 1)] = [copied(value)]
    else:
        if not insert and last not in holder:
            raise KeyError(last)
        holder[last] = copied(value)
    return whole


def _take(whole: Any, path: str) -> Any:
    parts = _parts(path)
    holder, last = _walk(whole, parts[:-1]), parts[-1]
    del holder[int(last) if isinstance(holder, list) else last]
    return whole


def _move(whole: Any, operation: Json, *, keep: bool) -> Any:
    value = copied(_walk(whole, _parts(operation["from"])))
    if not keep:
        whole = _take(whole, operation["from"])
    return _put(whole, operation["path"], value, insert=True)


def _test(whole: Any, operation: Json) -> Any:
    if _walk(whole, _parts(operation["path"])) != operation.get("value"):
        raise ValueError(f"testing value {operation['path']} failed")
    return whole
