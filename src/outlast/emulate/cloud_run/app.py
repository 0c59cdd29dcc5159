"""The HTTP side: the verbs that gcloud calls, Google's errors, and the emulator's own controls.

Cloud Run's API answers under /apis/run.googleapis.com/v1 and Cloud Logging's under /v2, on one port; the region is
the first part of the host name that was asked for, as in us-central1-run.googleapis.com.
"""

import json
import re
from collections.abc import Callable
from typing import Any
from urllib.parse import unquote

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from outlast.emulate.cloud_run import log_filter
from outlast.emulate.cloud_run.execution import Execution, Place
from outlast.emulate.cloud_run.messages import read
from outlast.emulate.cloud_run.not_exercised import NOT_EXERCISED
from outlast.emulate.cloud_run.objects import API_VERSION, execution_object, task_object
from outlast.emulate.cloud_run.refusals import Refused, does_not_exist
from outlast.emulate.cloud_run.selectors import parse_selector
from outlast.emulate.cloud_run.service import Service

RUN_HOST = "run.local.test"  # what gcloud is told; a region is put in front of it
DEFAULT_REGION = "us-central1"
_API = "/apis/run.googleapis.com/v1/namespaces/{project}"
_QUERY = {"alt", "labelSelector", "limit", "continue", "prettyPrint", "$.xgafv"}
_LONGEST_PAGE = 1000
_Handler = Callable[["_Call"], dict[str, Any]]


class _Call:
    """A request, read: in a thread of its own, with the body as JSON."""

    def __init__(self, request: Request, body: bytes) -> None:
        self.path = request.path_params
        self._query, self._body = request.query_params, body
        host = str(request.scope.get("asked_host") or "").partition(":")[0]
        self.region = host.removesuffix(f"-{RUN_HOST}") if host.endswith(f"-{RUN_HOST}") else None
        self._everywhere = host == RUN_HOST

    @property
    def project(self) -> str:
        return str(self.path["project"])

    @property
    def place(self) -> Place:
        return Place(self.project, self.region or DEFAULT_REGION)

    @property
    def region_to_list(self) -> str | None:
        """None lists all regions, as the host without one does."""
        return None if self._everywhere else self.place.region

    def query(self, name: str) -> str:
        unknown = set(self._query) - _QUERY
        if unknown:
            message = (
                f'Invalid JSON payload received. Unknown name "{sorted(unknown)[0]}": Cannot bind query parameter.'
            )
            raise Refused("INVALID_ARGUMENT", message)
        return self._query.get(name, "")

    def message(self, kind: str, at: str = "") -> dict[str, Any]:
        """The body as a message of that kind; no body is an empty one."""
        try:
            return read(kind, json.loads(self._body or b"{}"), at=at)
        except ValueError as error:
            raise Refused("INVALID_ARGUMENT", f"Invalid JSON payload received. {error}") from error


def application(service: Service) -> Starlette:
    """The ASGI application that serves one emulated Cloud Run."""
    run, logs, ours = _RunApi(service), _LoggingApi(service), _Controls(service)
    routes = [
        _route("POST", _API + "/jobs", run.create_job),
        _route("GET", _API + "/jobs", run.list_jobs),
        _route("GET", _API + "/jobs/{name}", run.get_job),
        _route("PUT", _API + "/jobs/{name}", run.replace_job),
        _route("DELETE", _API + "/jobs/{name}", run.delete_job),
        _route("POST", _API + "/jobs/{name}:run", run.run_job),
        _route("GET", _API + "/executions", run.list_executions),
        _route("GET", _API + "/executions/{name}", run.get_execution),
        _route("DELETE", _API + "/executions/{name}", run.delete_execution),
        _route("POST", _API + "/executions/{name}:cancel", run.cancel_execution),
        _route("GET", _API + "/tasks", run.list_tasks),
        _route("GET", _API + "/tasks/{name}", run.get_task),
        _route("POST", "/v2/entries:list", logs.list_entries),
        _route("GET", "/emulator", ours.describe),
        _route("POST", "/emulator/maintenance", ours.maintenance),
        _route("POST", "/emulator/crash", ours.crash),
    ]
    return Starlette(routes=routes, exception_handlers={404: _unknown_verb, 405: _unknown_verb})


def _route(method: str, path: str, handler: _Handler) -> Route:
    async def answer(request: Request) -> Response:
        call = _Call(request, await request.body())
        try:
            return JSONResponse(await run_in_threadpool(handler, call))
        except Refused as refusal:
            return JSONResponse(refusal.body(), status_code=refusal.http_code)

    # A name holds no colon: jobs/x:run is another verb than jobs/x.
    converted = re.sub(r"\{name\}(?=:)", "{name:str}", path)
    return Route(converted, answer, methods=[method])


async def _unknown_verb(request: Request, _: Exception | HTTPException) -> Response:
    asked = f"{request.method} {unquote(request.url.path)}"
    refusal = Refused("UNIMPLEMENTED", f"outlast emulate cloud-run does not speak: {asked}")
    return JSONResponse(refusal.body(), status_code=refusal.http_code)


class _RunApi:
    """Cloud Run's API, version 1."""

    def __init__(self, service: Service) -> None:
        self._service = service

    def create_job(self, call: _Call) -> dict[str, Any]:
        return self._service.create_job(call.place, call.message("Job", "job")).shown()

    def replace_job(self, call: _Call) -> dict[str, Any]:
        document, name = call.message("Job", "job"), call.path["name"]
        if document.get("metadata", {}).get("name") != name:
            raise Refused("INVALID_ARGUMENT", f"metadata.name: should be {name}, as in the path.")
        return self._service.replace_job(call.place, name, document).shown()

    def get_job(self, call: _Call) -> dict[str, Any]:
        return self._service.job(call.place, call.path["name"]).shown()

    def list_jobs(self, call: _Call) -> dict[str, Any]:
        return _page(call, "JobList", [job.shown() for job in self._service.jobs(call.project, call.region_to_list)])

    def delete_job(self, call: _Call) -> dict[str, Any]:
        self._service.delete_job(call.place, call.path["name"])
        return {"metadata": {}, "status": "Success"}

    def run_job(self, call: _Call) -> dict[str, Any]:
        request = call.message("RunJobRequest")
        return execution_object(self._service.run(call.place, call.path["name"], request))

    def list_executions(self, call: _Call) -> dict[str, Any]:
        found = self._service.executions(call.project, call.region_to_list)
        return _page(call, "ExecutionList", [execution_object(one) for one in found])

    def get_execution(self, call: _Call) -> dict[str, Any]:
        return execution_object(self._service.execution(call.place, call.path["name"]))

    def cancel_execution(self, call: _Call) -> dict[str, Any]:
        call.message("CancelExecutionRequest")
        return execution_object(self._service.cancel_execution(call.place, call.path["name"]))

    def delete_execution(self, call: _Call) -> dict[str, Any]:
        self._service.delete_execution(call.place, call.path["name"])
        return {"metadata": {}, "status": "Success"}

    def list_tasks(self, call: _Call) -> dict[str, Any]:
        return _page(call, "TaskList", list(self._all_tasks(call).values()))

    def get_task(self, call: _Call) -> dict[str, Any]:
        found = self._all_tasks(call).get(call.path["name"])
        if found is None:
            raise does_not_exist(call.path["name"], "TASK", call.place.region, call.project)
        return found

    def _all_tasks(self, call: _Call) -> dict[str, dict[str, Any]]:
        executions: list[Execution] = list(self._service.executions(call.project, call.region_to_list))
        found = (task_object(execution, task) for execution in executions for task in execution.state.tasks)
        return {task["metadata"]["name"]: task for task in found}


def _page(call: _Call, kind: str, items: list[dict[str, Any]]) -> dict[str, Any]:
    """The items that the request's labels select, from `continue` on, `limit` at most."""
    selects = parse_selector(call.query("labelSelector"))
    found = [item for item in items if selects(item["metadata"].get("labels", {}))]
    begin, limit = _number(call.query("continue")), _number(call.query("limit")) or _LONGEST_PAGE
    rest = len(found) - begin - limit
    metadata = {"continue": str(begin + limit)} if rest > 0 else {}
    return {"apiVersion": API_VERSION, "kind": kind, "metadata": metadata, "items": found[begin : begin + limit]}


def _number(text: str) -> int:
    if text and not re.fullmatch(r"\d{1,6}", text):
        raise Refused("INVALID_ARGUMENT", f"'{text}' is no number of items.")
    return int(text or 0)


class _LoggingApi:
    """Cloud Logging's API, version 2: reading entries."""

    def __init__(self, service: Service) -> None:
        self._service = service

    def list_entries(self, call: _Call) -> dict[str, Any]:
        request = call.message("ListLogEntriesRequest")
        matches = log_filter.parse_filter(request.get("filter", ""))
        asked = {*request.get("resourceNames", []), *(f"projects/{name}" for name in request.get("projectIds", []))}
        found = [entry for entry in self._service.log.entries() if _project_of(entry) in asked and matches(entry)]
        order = request.get("orderBy", "timestamp asc")
        if order not in ("timestamp asc", "timestamp desc", "timestamp"):
            raise Refused("INVALID_ARGUMENT", f"orderBy: should be 'timestamp asc' or 'timestamp desc', not '{order}'.")
        if order == "timestamp desc":
            found.reverse()
        begin, size = _number(request.get("pageToken", "")), request.get("pageSize") or 50
        more = {"nextPageToken": str(begin + size)} if len(found) > begin + size else {}
        return {"entries": found[begin : begin + size], **more}


def _project_of(entry: dict[str, Any]) -> str:
    return "/".join(entry["logName"].split("/")[:2])


class _Controls:
    """What happens to a real Cloud Run by itself, and here on request."""

    def __init__(self, service: Service) -> None:
        self._service = service

    def describe(self, _: _Call) -> dict[str, Any]:
        return {"emulates": "Cloud Run jobs", "speed": self._service.scale.factor, "notExercised": list(NOT_EXERCISED)}

    def maintenance(self, call: _Call) -> dict[str, Any]:
        """Maintenance of the host of a task, or of all tasks of the execution."""
        execution, task = self._asked(call)
        found = execution.maintain(task)
        return _done(execution, found, "terminated" if execution.gpu else "migrated")

    def crash(self, call: _Call) -> dict[str, Any]:
        """A host that fails: SIGKILL with no notice."""
        execution, task = self._asked(call)
        return _done(execution, execution.order("crash", task), "killed")

    def _asked(self, call: _Call) -> tuple[Execution, int | None]:
        request = call.message("MaintenanceRequest")
        return self._service.find_execution(request.get("execution")), request.get("task")


def _done(execution: Execution, tasks: list[int], what: str) -> dict[str, Any]:
    if not tasks:
        raise Refused("FAILED_PRECONDITION", f"No such task of {execution.name} is running.")
    return {"execution": execution.name, "tasks": tasks, "are": what}
