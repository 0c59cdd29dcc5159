"""Server-side apply: a writer says what it wants to be so, and owns those fields from then on.

The Kubernetes page "Server-Side Apply" and sigs.k8s.io/structured-merge-diff, 2026-11-30. Writes of the emulator's own
controllers are not tracked; they touch what nobody applies.
"""

from dataclasses import dataclass
from typing import Any

from outlast.emulate.kubernetes.copying import copied
from outlast.emulate.kubernetes.field_sets import (
    ATOMIC_MAPS,
    Path,
    decode,
    element_key,
    encode,
    fields_of,
    is_key,
    remove,
    shown,
    value_at,
)
from outlast.emulate.kubernetes.problems import Refused

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Writer:
    """Who writes: `manager` is the client's name for itself, `operation` "Apply" or "Update"."""

    manager: str
    operation: str = "Update"
    subresource: str = ""


@dataclass(slots=True)
class _Entry:
    """One entry of managedFields."""

    writer: Writer
    paths: set[Path]
    api_version: str
    time: str


def _entries(made: Json) -> list[_Entry]:
    return [
        _Entry(
            Writer(one.get("manager", ""), one.get("operation", "Update"), one.get("subresource", "")),
            decode(one.get("fieldsV1") or {}),
            one.get("apiVersion", made["apiVersion"]),
            one.get("time", ""),
        )
        for one in made["metadata"].get("managedFields") or []
    ]


def _write(made: Json, entries: list[_Entry]) -> None:
    listed = []
    for one in entries:
        if one.paths:
            entry: Json = {
                "manager": one.writer.manager,
                "operation": one.writer.operation,
                "apiVersion": one.api_version,
            }
            entry |= {"time": one.time, "fieldsType": "FieldsV1", "fieldsV1": encode(one.paths)}
            if one.writer.subresource:
                entry["subresource"] = one.writer.subresource
            listed.append(entry)
    made["metadata"].pop("managedFields", None)
    if listed:
        made["metadata"]["managedFields"] = listed


def track(old: Json | None, new: Json, *, writer: Writer, now: str) -> None:
    """After a write: the fields that it changed are its writer's, and those that are gone are nobody's."""
    before = fields_of(old, subresource=writer.subresource) if old else set()
    after = fields_of(new, subresource=writer.subresource)
    changed = {path for path in after if path not in before or value_at(old, path) != value_at(new, path)}
    entries = _entries(old) if old else []
    mine = _entry_of(entries, writer)
    for one in entries:
        if one.writer.subresource == writer.subresource:
            one.paths &= after
            if one is not mine:
                one.paths -= {path for path in changed if _is_value(path)}
    if changed:
        if mine is None:
            mine = _Entry(writer, set(), new["apiVersion"], now)
            entries.append(mine)
        mine.paths |= changed
        mine.time, mine.api_version = now, new["apiVersion"]
    _write(new, entries)


def apply(live: Json, config: Json, writer: Writer, *, force: bool) -> Json:
    """What the live object becomes when a writer applies its configuration; hand the result to `own` when it is kept.

    Refused (Conflict) if another writer owns a field that would change, unless `force`.
    """
    wanted = fields_of(config, subresource=writer.subresource)
    entries = _entries(live)
    others = [one for one in entries if one.writer != writer]
    clashes = [(one, path) for one in others for path in sorted(one.paths & wanted) if _differs(live, config, path)]
    if clashes and not force:
        raise _conflict(clashes)
    own_entry = _entry_of(entries, writer)
    kept: set[Path] = set().union(*(one.paths for one in others))
    made: Json = _merged(live, config, "")
    given_up = (own_entry.paths if own_entry else set()) - wanted - kept
    for path in sorted(given_up, key=len):  # an element goes before what is in it
        owned_inside = any(other[: len(path)] == path for other in kept | wanted)
        if not owned_inside and not is_key(path):
            remove(made, path)
    return made


def own(live: Json | None, made: Json, config: Json, writer: Writer, *, now: str) -> None:
    """Writes into the object that is to be kept who owns what after an apply."""
    wanted = fields_of(config, subresource=writer.subresource)
    entries = _entries(live) if live else []
    mine = _entry_of(entries, writer)
    for one in entries:
        if one is not mine and live is not None:
            one.paths -= {path for path in one.paths & wanted if _differs(live, config, path)}
    if mine is None:
        mine = _Entry(writer, set(), made["apiVersion"], now)
        entries.append(mine)
    if mine.paths != wanted:
        mine.paths, mine.time = wanted, now
    _write(made, entries)


def _entry_of(entries: list[_Entry], writer: Writer) -> _Entry | None:
    return next((one for one in entries if one.writer == writer), None)


def _is_value(path: Path) -> bool:
    """Whether a path is of a value; an element's own path is that of its key."""
    return path[-1].startswith("f:")


def _differs(live: Json, config: Json, path: Path) -> bool:
    return _is_value(path) and value_at(live, path) != value_at(config, path)


def _conflict(clashes: list[tuple[_Entry, Path]]) -> Refused:
    count = f"{len(clashes)} conflict{'s' if len(clashes) > 1 else ''}"
    texts: dict[str, list[str]] = {}
    causes = []
    for one, path in clashes:
        whom = f'"{one.writer.manager}"'
        if one.writer.subresource:
            whom += f' with subresource "{one.writer.subresource}"'
        whom += f" using {one.api_version}"
        texts.setdefault(whom, []).append(shown(path))
        causes.append({"reason": "FieldManagerConflict", "message": f"conflict with {whom}", "field": shown(path)})
    told = [
        f"conflict with {whom}: {paths[0]}" if len(paths) == 1 else f"conflicts with {whom}:\n- " + "\n- ".join(paths)
        for whom, paths in texts.items()
    ]
    return Refused(409, "Conflict", f"Apply failed with {count}: " + "\n".join(told), {"causes": causes})


def _merged(live: Any, config: Any, name: str) -> Any:
    if isinstance(config, dict) and isinstance(live, dict) and name not in ATOMIC_MAPS:
        made = copied(live)
        for key, value in config.items():
            made[key] = _merged(live.get(key), value, key)
        return made
    keyed = isinstance(config, list) and isinstance(live, list) and config
    if keyed and element_key(name, config[0]) is not None:
        made = copied(live)
        places = {element_key(name, one): number for number, one in enumerate(live)}
        for one in config:
            place = places.get(element_key(name, one))
            if place is None:
                made.append(copied(one))
            else:
                made[place] = _merged(live[place], one, "")
        return made
    return copied(config)
