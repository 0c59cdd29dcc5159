"""What a request asks for: which object or objects, which verb's options, and in which form the answer."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from outlast.emulate import rfc3339
from outlast.emulate.kubernetes.kinds import BY_PATH, Kind
from outlast.emulate.kubernetes.problems import Refused, bad_request
from outlast.emulate.kubernetes.verbs import How

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Asked:
    """The place that a path names. `name` is "" for a collection, `namespace` "" for all or for none."""

    kind: Kind
    namespace: str = ""
    name: str = ""
    subresource: str = ""


def is_of_objects(path: str) -> bool:
    """Whether a path leads below a group's version, to objects; others lead to what the server says of itself."""
    parts = path.strip("/").split("/")
    return len(parts) > {"api": 2, "apis": 3}.get(parts[0], len(parts))


def place_of(path: str) -> Asked:
    """What a path of objects names; Refused (NotFound) if nothing that this server has."""
    parts = path.strip("/").split("/")
    group, version, rest = ("", parts[1], parts[2:]) if parts[0] == "api" else (parts[1], parts[2], parts[3:])
    namespace = ""
    if rest[0] == "namespaces" and len(rest) > 2 and (group, version, rest[2]) in BY_PATH:
        namespace, rest = rest[1], rest[2:]
    kind = BY_PATH.get((group, version, rest[0]))
    if kind is None or len(rest) > 3 or bool(namespace) > kind.namespaced:
        raise no_such_path()
    if len(rest) > 1 and kind.namespaced and not namespace:
        raise no_such_path()
    return Asked(kind, namespace, rest[1] if len(rest) > 1 else "", rest[2] if len(rest) > 2 else "")


def no_such_path() -> Refused:
    """The answer to a path that names nothing."""
    return Refused(404, "NotFound", "the server could not find the requested resource", {})


def not_allowed() -> Refused:
    """The answer to a verb that the place does not have."""
    return Refused(405, "MethodNotAllowed", "the server does not allow this method on the requested resource", {})


def how(query: Mapping[str, str], agent: str) -> How:
    """The options of a write; a client that gives its writes no name goes by the first word of its user agent."""
    validation = query.get("fieldValidation") or "Warn"
    if validation not in ("Ignore", "Warn", "Strict"):
        raise bad_request(
            f'fieldValidation: Unsupported value: "{validation}": supported values: "Ignore", "Strict", "Warn"'
        )
    return How(
        field_validation=validation,
        dry_run=dry_run(query.get("dryRun")),
        manager=query.get("fieldManager") or agent.split("/", maxsplit=1)[0] or "unknown",
        force=flag(query, "force"),
    )


def dry_run(value: str | None) -> bool:
    """Whether `dryRun` asks for a rehearsal of the request."""
    if value not in (None, "", "All"):
        raise bad_request(f'dryRun: Unsupported value: "{value}": supported values: "All"')
    return value == "All"


def number(query: Mapping[str, str], name: str) -> int | None:
    """A parameter that is a whole number of 0 or more."""
    text = query.get(name)
    if text is None or text == "":
        return None
    if not text.isdigit():
        raise bad_request(f'strconv.ParseInt: parsing "{text}": invalid syntax ({name})')
    return int(text)


def time(query: Mapping[str, str], name: str) -> datetime | None:
    """A parameter that is a moment, as RFC 3339 writes it."""
    if not query.get(name):
        return None
    try:
        return rfc3339.parsed(query[name])
    except ValueError as error:
        raise bad_request(f"{name}: {error}") from None


def flag(query: Mapping[str, str], name: str) -> bool:
    """A parameter that is true or false."""
    return query.get(name, "").lower() in ("true", "1", "t")


def delete_options(query: Mapping[str, str], body: Json) -> Json:
    """DeleteOptions from the body, or else from the query."""
    if body:
        options = dict(body)
    else:
        options = {name: query[name] for name in ("propagationPolicy",) if query.get(name)}
        if (grace := number(query, "gracePeriodSeconds")) is not None:
            options["gracePeriodSeconds"] = grace
        if "orphanDependents" in query:
            options["orphanDependents"] = flag(query, "orphanDependents")
    for value in options.get("dryRun") or []:
        dry_run(value)
    if dry_run(query.get("dryRun")):
        options["dryRun"] = ["All"]
    return options


def form(accept: str) -> str:
    """ "Table", "PartialObjectMetadata", or "" for the object itself; the first one that we have wins."""
    for one in accept.split(","):
        media, *parameters = (part.strip() for part in one.split(";"))
        wanted = dict(part.split("=", 1) for part in parameters if "=" in part)
        if media not in ("application/json", "application/yaml", "*/*", "application/*", ""):
            continue
        shape = wanted.get("as", "")
        if shape == "Table" and wanted.get("v") == "v1":
            return "Table"
        if shape.startswith("PartialObjectMetadata") and wanted.get("v") == "v1":
            return "PartialObjectMetadata"
        if not shape:
            return ""
    raise Refused(
        406,
        "NotAcceptable",
        "only the following media types are accepted: application/json, application/json;as=Table;v=v1;g=meta.k8s.io",
    )
