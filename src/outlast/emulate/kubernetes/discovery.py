"""What the server says of itself: versions, groups, resources, and as much of OpenAPI as kubectl asks for."""

from typing import Any

from outlast.emulate.kubernetes.kinds import KINDS, Kind

Json = dict[str, Any]

VERBS = ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"]
# Subresources besides "status": the kind of what is sent or answered, and the verbs.
SUBRESOURCES = {"Pod": {"eviction": ("policy", "Eviction", ["create"]), "log": ("", "Pod", ["get"])}}
OPENAPI_V2 = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"


def version() -> Json:
    """The answer to /version: the version of the API that the official client was made from."""
    from importlib.metadata import version as installed  # noqa: PLC0415 - read when asked

    minor = installed("kubernetes").split(".")[0]
    return {
        "major": "1",
        "minor": minor,
        "gitVersion": f"v1.{minor}.0-gke.outlast",
        "gitCommit": "",
        "gitTreeState": "",
        "buildDate": "1970-01-01T00:00:00Z",
        "goVersion": "",
        "compiler": "",
        "platform": "linux/amd64",
    }


def groups() -> list[tuple[str, str]]:
    """Groups and their versions, but for the core group."""
    return sorted({(kind.group, kind.version) for kind in KINDS if kind.group})


def api_versions() -> Json:
    """/api"""
    return {"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": []}


def group(name: str, version_: str) -> Json:
    """/apis/GROUP"""
    one = {"groupVersion": f"{name}/{version_}", "version": version_}
    return {"kind": "APIGroup", "apiVersion": "v1", "name": name, "versions": [one], "preferredVersion": one}


def group_list() -> Json:
    """/apis"""
    return {"kind": "APIGroupList", "apiVersion": "v1", "groups": [group(*one) for one in groups()]}


def resources(group_name: str, version_: str) -> Json:
    """/api/v1 and /apis/GROUP/VERSION"""
    listed: list[Json] = []
    for kind in KINDS:
        if (kind.group, kind.version) == (group_name, version_):
            listed.append(_resource(kind))
            listed += [_subresource(kind, *one) for one in _subresources(kind)]
    where = f"{group_name}/{version_}" if group_name else version_
    return {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": where, "resources": listed}


def _resource(kind: Kind) -> Json:
    made: Json = {"name": kind.plural, "singularName": kind.singular, "namespaced": kind.namespaced}
    made |= {"kind": kind.name, "verbs": VERBS}
    if kind.short:
        made["shortNames"] = list(kind.short)
    if kind.categories:
        made["categories"] = list(kind.categories)
    return made


def _subresources(kind: Kind) -> list[tuple[str, str, str, list[str]]]:
    status = [("status", kind.group, kind.name, ["get", "patch", "update"])] if kind.has_status else []
    return status + [(name, *rest) for name, rest in SUBRESOURCES.get(kind.name, {}).items()]


def _subresource(kind: Kind, name: str, group_name: str, kind_name: str, verbs: list[str]) -> Json:
    made: Json = {"name": f"{kind.plural}/{name}", "singularName": "", "namespaced": kind.namespaced}
    if group_name != kind.group:
        made |= {"group": group_name, "version": "v1"}
    return made | {"kind": kind_name, "verbs": verbs}


def aggregated(*, core: bool) -> Json:
    """/api or /apis as one document, which kubectl prefers."""
    named = [("", "v1")] if core else groups()
    items = [
        {"metadata": {"name": name}, "versions": [{"version": version_, "resources": _discovered(name, version_)}]}
        for name, version_ in named
    ]
    return {"kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "metadata": {}, "items": items}


def _discovered(group_name: str, version_: str) -> list[Json]:
    return [
        {
            "resource": kind.plural,
            "responseKind": {"group": kind.group, "version": kind.version, "kind": kind.name},
            "scope": "Namespaced" if kind.namespaced else "Cluster",
            "singularResource": kind.singular,
            "shortNames": list(kind.short),
            "categories": list(kind.categories),
            "verbs": VERBS,
            "subresources": [
                {
                    "subresource": name,
                    "responseKind": {"group": of, "version": "v1", "kind": kind_name},
                    "verbs": verbs,
                }
                for name, of, kind_name, verbs in _subresources(kind)
            ],
        }
        for kind in KINDS
        if (kind.group, kind.version) == (group_name, version_)
    ]


def openapi_index() -> Json:
    """/openapi/v3"""
    paths = ["api/v1", *(f"apis/{name}/{version_}" for name, version_ in groups())]
    return {"paths": {path: {"serverRelativeURL": f"/openapi/v3/{path}?hash=1"} for path in paths}}


def openapi(group_name: str, version_: str) -> Json:
    """/openapi/v3/…: the write operations and their parameters, by which kubectl learns that we validate for it."""
    paths: Json = {}
    for kind in KINDS:
        if (kind.group, kind.version) == (group_name, version_):
            start = f"/apis/{group_name}/{version_}" if group_name else f"/api/{version_}"
            where = f"{start}/namespaces/{{namespace}}/{kind.plural}" if kind.namespaced else f"{start}/{kind.plural}"
            paths[where] = {"post": _operation(kind)}
            paths[f"{where}/{{name}}"] = {"patch": _operation(kind), "put": _operation(kind)}
    info = {"title": "Kubernetes", "version": version()["gitVersion"]}
    return {"openapi": "3.0.0", "info": info, "paths": paths, "components": {"schemas": {}}}


def _operation(kind: Kind) -> Json:
    parameters = [
        {"name": name, "in": "query", "schema": {"type": "string", "uniqueItems": True}}
        for name in ("dryRun", "fieldManager", "fieldValidation")
    ]
    known = {"group": kind.group, "kind": kind.name, "version": kind.version}
    return {
        "parameters": parameters,
        "x-kubernetes-group-version-kind": known,
        "responses": {"200": {"description": ""}},
    }


def find_document(path: str) -> Json | None:
    """What the server says of itself at a path; None where there is nothing."""
    fixed = {"/version": version, "/api": api_versions, "/apis": group_list, "/openapi/v3": openapi_index}
    if path in fixed:
        return fixed[path]()
    known = {"/api/v1": ("", "v1")} | {f"/apis/{name}/{version_}": (name, version_) for name, version_ in groups()}
    if path in known:
        return resources(*known[path])
    if (rest := path.removeprefix("/openapi/v3")) != path and rest in known:
        return openapi(*known[rest])
    return next((group(*one) for one in groups() if path == f"/apis/{one[0]}"), None)
