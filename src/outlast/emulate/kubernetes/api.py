"""The cluster's API over HTTP, as an ASGI application: what kubectl and the official client talk to."""

import json
import random
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from typing import Any

import yaml
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, PlainTextResponse, Response, StreamingResponse

from outlast.emulate.kubernetes import asking, budgets, discovery, patching, protobuf_bodies
from outlast.emulate.kubernetes.asking import Asked
from outlast.emulate.kubernetes.pod_logs import LogBook
from outlast.emulate.kubernetes.problems import Refused, bad_request
from outlast.emulate.kubernetes.store import Store
from outlast.emulate.kubernetes.streaming import LogOptions, Watched, log, watch
from outlast.emulate.kubernetes.tables import partial_metadata, table
from outlast.emulate.kubernetes.verbs import How, Verbs, check_delete_options, populate
from outlast.emulate.reading import read_json
from outlast.emulate.serving import Receive, Scope, Send

Json = dict[str, Any]

_WATCH_SECONDS = (1800, 3600)  # a watch without a timeout lasts a random time of half an hour to an hour
_PATCHES: dict[str, Callable[[Json, Any], Any]] = {
    "application/json-patch+json": patching.operations,
    "application/merge-patch+json": patching.merge,
    "application/strategic-merge-patch+json": patching.strategic,
}
_APPLY = "application/apply-patch+yaml"


class KubernetesApi:
    """The application. `logs` is what containers write; the kubelet that fills it is another part.

    `verbs` does what a request asks for; by default with no check beyond the API server's own. A store without
    namespaces gets what a new cluster has.
    """

    def __init__(self, store: Store, logs: LogBook | None = None, verbs: Verbs | None = None) -> None:
        self.store, self.logs, self.verbs = store, logs or LogBook(), verbs or Verbs(store)
        if store.find("Namespace", "default") is None:
            populate(store)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive, send)
        try:
            response = await self._answer(request)
        except ClientDisconnect:
            return
        except Refused as refused:
            response = JSONResponse(refused.status(), refused.code)
        await response(scope, receive, send)

    async def _answer(self, request: Request) -> Response:
        path, accept = request.url.path.rstrip("/"), request.headers.get("accept", "")
        if asking.is_of_objects(path):
            return await self._resources(request, asking.place_of(path))
        if request.method != "GET":
            raise asking.not_allowed()
        return _about(path, accept)

    async def _resources(self, request: Request, asked: Asked) -> Response:
        if asked.subresource not in ("", "status"):
            return await self._subresource(request, asked)
        if asked.subresource and not asked.kind.has_status:
            raise asking.no_such_path()
        match request.method, bool(asked.name):
            case "GET" | "HEAD", _:
                return self._read(request, asked)
            case "POST", False:
                return await self._create(request, asked)
            case "PUT", True:
                return await self._write(request, asked, self.verbs.replace)
            case "PATCH", True:
                return await self._patch(request, asked)
            case "DELETE", _ if not asked.subresource:
                return await self._delete(request, asked)
        raise asking.not_allowed()

    # Reading

    def _read(self, request: Request, asked: Asked) -> Response:
        if asked.kind.name == "PodDisruptionBudget":
            budgets.refresh(self.store, asked.namespace or None)
        if asking.flag(request.query_params, "watch"):
            return self._watch(request, asked)
        if not asked.name:
            return self._collection(request, asked)
        return self._shaped(request, asked, self.store.get(asked.kind.name, asked.name, asked.namespace))

    def _collection(self, request: Request, asked: Asked) -> Response:
        query = request.query_params
        if query.get("continue"):
            raise Refused(410, "Expired", "The provided continue parameter is too old: lists come whole here.")
        labels, fields = query.get("labelSelector", ""), query.get("fieldSelector", "")
        found = self.store.listing(asked.kind.name, asked.namespace or None, labels=labels, fields=fields)
        meta = {"resourceVersion": found.version}
        match asking.form(request.headers.get("accept", "")):
            case "Table":
                include = query.get("includeObject", "Metadata")
                return JSONResponse(
                    table(asked.kind.name, found.objects, found.version, now=self.store.now(), include=include)
                )
            case "PartialObjectMetadata":
                items = [partial_metadata(one) for one in found.objects]
                kind = {"kind": "PartialObjectMetadataList", "apiVersion": "meta.k8s.io/v1"}
                return JSONResponse({**kind, "metadata": meta, "items": items})
        kind = {"kind": f"{asked.kind.name}List", "apiVersion": asked.kind.api_version}
        return JSONResponse({**kind, "metadata": meta, "items": found.objects})

    def _watch(self, request: Request, asked: Asked) -> Response:
        query = request.query_params
        fields = query.get("fieldSelector", "")
        if asked.name:
            fields = ",".join(part for part in (fields, f"metadata.name={asked.name}") if part)
        labels, version = query.get("labelSelector", ""), query.get("resourceVersion")
        if version and not version.isdigit():
            raise bad_request(f'resourceVersion: Invalid value: "{version}": strconv.ParseUint: invalid syntax')
        if version and int(version) > int(self.store.version):
            why = f"Too large resource version: {version}, current: {self.store.version}"
            raise Refused(504, "Timeout", why, {"causes": [{"reason": "ResourceVersionTooLarge", "message": why}]})
        initial = query.get("sendInitialEvents")
        of = Watched(asked.kind, asked.namespace or None, version, labels, fields)
        if initial is not None:
            since = None if asking.flag(query, "sendInitialEvents") else version or self.store.version
            of = of._replace(since=since)
        self.store.listing(asked.kind.name, "", labels=labels, fields=fields)  # refuses selectors that it does not have
        form, seconds = asking.form(request.headers.get("accept", "")), asking.number(query, "timeoutSeconds")
        include = query.get("includeObject", "Metadata")
        return StreamingResponse(
            watch(
                self.store,
                of,
                shape=lambda found: self._shape(form, asked, found, include),
                seconds=seconds or random.uniform(*_WATCH_SECONDS),  # noqa: S311 - no secret
                bookmarks=asking.flag(query, "allowWatchBookmarks") and form != "Table",
                first_then_mark=asking.flag(query, "sendInitialEvents"),
            ),
            media_type="application/json",
        )

    def _shape(self, form: str, asked: Asked, found: Json, include: str) -> Json:
        if form == "Table":
            version = found["metadata"].get("resourceVersion", "")
            return table(asked.kind.name, [found], version, now=self.store.now(), include=include)
        return partial_metadata(found) if form else found

    def _shaped(self, request: Request, asked: Asked, found: Json, code: int = 200) -> Response:
        form = asking.form(request.headers.get("accept", ""))
        include = request.query_params.get("includeObject", "Metadata")
        return JSONResponse(self._shape(form, asked, found, include), code)

    # Writing

    async def _create(self, request: Request, asked: Asked) -> Response:
        warnings: list[str] = []
        how, body = _how(request), await _body(request)
        made = self.verbs.create(asked.kind.name, body, asked.namespace, how, warnings)
        return _warned(self._shaped(request, asked, made, 201), warnings)

    async def _patch(self, request: Request, asked: Asked) -> Response:
        media = request.headers.get("content-type", "").split(";")[0].strip()
        if media == _APPLY:
            is_new = self.store.find(asked.kind.name, asked.name, asked.namespace) is None
            return await self._write(request, asked, self.verbs.apply, 201 if is_new else 200)
        if media not in _PATCHES:
            known = ", ".join([*_PATCHES, _APPLY])
            why = f"the body of the request was in an unknown format - accepted media types include: {known}"
            raise Refused(415, "UnsupportedMediaType", why)
        return await self._write(request, asked, partial(self.verbs.patch, change=_PATCHES[media]))

    async def _write(self, request: Request, asked: Asked, verb: Callable[..., Json], code: int = 200) -> Response:
        """One of the verbs that write to an object by its name: replace, patch, apply."""
        warnings: list[str] = []
        made = verb(
            asked.kind.name,
            asked.name,
            await _body(request),
            namespace=asked.namespace,
            subresource=asked.subresource,
            how=_how(request),
            warnings=warnings,
        )
        return _warned(self._shaped(request, asked, made, code), warnings)

    async def _delete(self, request: Request, asked: Asked) -> Response:
        body = await _body(request) if await request.body() else {}
        if not isinstance(body, dict):
            raise bad_request("the body of a deletion is DeleteOptions")
        query = request.query_params
        options = asking.delete_options(query, body)
        if not asked.name:
            found = self.store.listing(
                asked.kind.name,
                asked.namespace or None,
                labels=query.get("labelSelector", ""),
                fields=query.get("fieldSelector", ""),
            )
            for one in found.objects:
                meta = one["metadata"]
                self.verbs.delete(asked.kind.name, meta["name"], meta.get("namespace", ""), options)
            kind = {"kind": f"{asked.kind.name}List", "apiVersion": asked.kind.api_version}
            return JSONResponse({**kind, "metadata": {"resourceVersion": self.store.version}, "items": found.objects})
        gone = self.verbs.delete(asked.kind.name, asked.name, asked.namespace, options)
        if asked.kind.name == "Pod" or "deletionTimestamp" in gone["metadata"]:
            return self._shaped(request, asked, gone)
        return JSONResponse(_deleted(asked, gone))

    # Subresources

    async def _subresource(self, request: Request, asked: Asked) -> Response:
        match asked.kind.name, asked.subresource, request.method:
            case "Pod", "eviction", "POST":
                options = budgets.read_eviction(await _body(request), asked.name)
                check_delete_options(options)
                dry = asking.dry_run(request.query_params.get("dryRun")) or bool(options.get("dryRun"))
                return JSONResponse(budgets.evict(self.store, asked.name, asked.namespace, options, dry_run=dry), 201)
            case "Pod", "log", "GET":
                return self._log(request, asked)
            case "Pod", "exec" | "attach" | "portforward" | "proxy" | "ephemeralcontainers", _:
                raise bad_request(f"the emulator does not have pods/{asked.subresource}: a container is not entered")
        raise asking.no_such_path()

    def _log(self, request: Request, asked: Asked) -> Response:
        query = request.query_params
        pod = self.store.get("Pod", asked.name, asked.namespace)
        container = _container(pod, query.get("container", ""))
        if not pod["spec"].get("nodeName"):
            raise bad_request(f"pod {asked.name} does not have a host assigned")
        previous = asking.flag(query, "previous")
        found = self.logs.find(pod["metadata"]["uid"], container, previous=previous)
        if found is None:
            if previous:
                raise bad_request(f'previous terminated container "{container}" in pod "{asked.name}" not found')
            raise bad_request(
                f'container "{container}" in pod "{asked.name}" is waiting to start: {_waiting(pod, container)}'
            )
        since = asking.time(query, "sinceTime")
        if (seconds := asking.number(query, "sinceSeconds")) is not None:
            since = self.store.now() - timedelta(seconds=seconds)
        options = LogOptions(
            follow=asking.flag(query, "follow"),
            timestamps=asking.flag(query, "timestamps"),
            tail=asking.number(query, "tailLines"),
            since=since,
            most_bytes=asking.number(query, "limitBytes"),
        )
        return StreamingResponse(log(self.logs, found, options), media_type="text/plain")


def _about(path: str, accept: str) -> Response:
    """What the server says of itself."""
    if path in ("/healthz", "/livez", "/readyz"):
        return PlainTextResponse("ok")
    one_document = "as=APIGroupDiscoveryList" in accept and "v=v2;" in f"{accept.replace(',', ';')};"
    if path in ("/api", "/apis") and one_document:
        return JSONResponse(discovery.aggregated(core=path == "/api"), media_type=discovery.AGGREGATED)
    if path == "/openapi/v2":  # asked for kinds that v3 does not have; an empty document has no bytes
        return Response(b"", media_type=discovery.OPENAPI_V2)
    if (found := discovery.find_document(path)) is None:
        raise asking.no_such_path()
    return JSONResponse(found)


def _how(request: Request) -> How:
    return asking.how(request.query_params, request.headers.get("user-agent", ""))


async def _body(request: Request) -> Any:
    media = request.headers.get("content-type", "").split(";")[0].strip()
    text = await request.body()
    if media.endswith("protobuf"):
        return protobuf_bodies.decoded(text)
    try:
        if media.endswith("yaml") and not text.lstrip().startswith(b"{"):
            text = json.dumps(yaml.safe_load(text), default=str).encode()  # a date is a text to a server
        return read_json(text)
    except (ValueError, yaml.YAMLError, RecursionError) as wrong:
        raise bad_request(f"the object provided is unrecognized: {wrong}") from None


def _warned(response: Response, warnings: list[str]) -> Response:
    for warning in warnings:
        quoted = warning.replace("\\", "\\\\").replace('"', '\\"')
        response.headers.append("Warning", f'299 - "{quoted}"')
    return response


def _deleted(asked: Asked, gone: Json) -> Json:
    details = {"name": asked.name, "kind": asked.kind.plural, "uid": gone["metadata"]["uid"]}
    if asked.kind.group:
        details["group"] = asked.kind.group
    return {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details}


def _container(pod: Json, wanted: str) -> str:
    """The container whose log is meant."""
    name, spec = pod["metadata"]["name"], pod["spec"]
    first = [one["name"] for one in spec.get("initContainers") or []]
    names = [one["name"] for one in spec["containers"]]
    if not wanted and len(names) == 1 and not first:
        return str(names[0])
    if not wanted:
        which = f"choose one of: [{' '.join(names)}]"
        if first:
            which += f" or one of the init containers: [{' '.join(first)}]"
        raise bad_request(f"a container name must be specified for pod {name}, {which}")
    if wanted not in [*first, *names]:
        raise bad_request(f"container {wanted} is not valid for pod {name}")
    return wanted


def _waiting(pod: Json, container: str) -> str:
    status = pod.get("status") or {}
    for one in [*(status.get("initContainerStatuses") or []), *(status.get("containerStatuses") or [])]:
        reason = ((one.get("state") or {}).get("waiting") or {}).get("reason")
        if one["name"] == container and reason:
            return str(reason)
    return "ContainerCreating"
