"""The HTTP side: the verbs that gcloud calls, Google's errors, and the emulator's own controls.

Cloud Run's API answers under /apis/run.googleapis.com/v1 and Cloud Logging's under /v2, on one port; the region is
the first part of the host name that was asked for, as in us-central1-run.googleapis.com.
"""

from typing import Any

from starlette.applications import Starlette

from outlast.emulate.cloud_run import log_filter
from outlast.emulate.cloud_run.builds import Builds
from outlast.emulate.cloud_run.calls import Call, number, route, unknown_verb
from outlast.emulate.cloud_run.execution import Execution
from outlast.emulate.cloud_run.not_exercised import NOT_EXERCISED
from outlast.emulate.cloud_run.objects import API_VERSION, execution_object, task_object
from outlast.emulate.cloud_run.refusals import Refused, does_not_exist
from outlast.emulate.cloud_run.service import Service
from outlast.emulate.label_selectors import label_selector

_API = "/apis/run.googleapis.com/v1/namespaces/{project}"
_REPOSITORY = "/v1/projects/{project}/locations/{region}/repositories/{name}"
_LONGEST_PAGE = 1000


def application(service: Service) -> Starlette:
    """The ASGI application that serves one emulated Cloud Run."""
    run, logs, ours = _RunApi(service), _LoggingApi(service), _Controls(service)
    sources = _SourceApis(service.builds)
    routes = [
        route("POST", _API + "/jobs", run.create_job),
        route("GET", _API + "/jobs", run.list_jobs),
        route("GET", _API + "/jobs/{name}", run.get_job),
        route("PUT", _API + "/jobs/{name}", run.replace_job),
        route("DELETE", _API + "/jobs/{name}", run.delete_job),
        route("POST", _API + "/jobs/{name}:run", run.run_job),
        route("GET", _API + "/executions", run.list_executions),
        route("GET", _API + "/executions/{name}", run.get_execution),
        route("DELETE", _API + "/executions/{name}", run.delete_execution),
        route("POST", _API + "/executions/{name}:cancel", run.cancel_execution),
        route("GET", _API + "/tasks", run.list_tasks),
        route("GET", _API + "/tasks/{name}", run.get_task),
        route("POST", "/v2/entries:list", logs.list_entries),
        route("GET", _REPOSITORY, sources.get_repository),
        route("GET", "/storage/v1/b/{name}", sources.get_bucket),
        route("GET", "/storage/v1/b", sources.list_buckets),
        route("POST", "/upload/storage/v1/b/{name}/o", sources.upload),
        route("POST", "/v2/projects/{project}/locations/{region}/builds:submit", sources.submit),
        route("GET", "/v1/projects/{project}/locations/{region}/operations/{name}", sources.get_operation),
        route("GET", "/emulator", ours.describe),
        route("POST", "/emulator/maintenance", ours.maintenance),
        route("POST", "/emulator/crash", ours.crash),
    ]
    return Starlette(routes=routes, exception_handlers={404: unknown_verb, 405: unknown_verb})


class _RunApi:
    """Cloud Run's API, version 1."""

    def __init__(self, service: Service) -> None:
        self._service = service

    def create_job(self, call: Call) -> dict[str, Any]:
        return self._service.create_job(call.place, call.message("Job", "job")).shown()

    def replace_job(self, call: Call) -> dict[str, Any]:
        document, name = call.message("Job", "job"), call.path["name"]
        if document.get("metadata", {}).get("name") != name:
            raise Refused("INVALID_ARGUMENT", f"metadata.name: should be {name}, as in the path.")
        return self._service.replace_job(call.place, name, document).shown()

    def get_job(self, call: Call) -> dict[str, Any]:
        return self._service.job(call.place, call.path["name"]).shown()

    def list_jobs(self, call: Call) -> dict[str, Any]:
        return _page(call, "JobList", [job.shown() for job in self._service.jobs(call.project, call.region_to_list)])

    def delete_job(self, call: Call) -> dict[str, Any]:
        self._service.delete_job(call.place, call.path["name"])
        return {"metadata": {}, "status": "Success"}

    def run_job(self, call: Call) -> dict[str, Any]:
        request = call.message("RunJobRequest")
        return execution_object(self._service.run(call.place, call.path["name"], request))

    def list_executions(self, call: Call) -> dict[str, Any]:
        found = self._service.executions(call.project, call.region_to_list)
        return _page(call, "ExecutionList", [execution_object(one) for one in found])

    def get_execution(self, call: Call) -> dict[str, Any]:
        return execution_object(self._service.execution(call.place, call.path["name"]))

    def cancel_execution(self, call: Call) -> dict[str, Any]:
        call.message("CancelExecutionRequest")
        return execution_object(self._service.cancel_execution(call.place, call.path["name"]))

    def delete_execution(self, call: Call) -> dict[str, Any]:
        self._service.delete_execution(call.place, call.path["name"])
        return {"metadata": {}, "status": "Success"}

    def list_tasks(self, call: Call) -> dict[str, Any]:
        return _page(call, "TaskList", list(self._all_tasks(call).values()))

    def get_task(self, call: Call) -> dict[str, Any]:
        found = self._all_tasks(call).get(call.path["name"])
        if found is None:
            raise does_not_exist(call.path["name"], "TASK", call.place.region, call.project)
        return found

    def _all_tasks(self, call: Call) -> dict[str, dict[str, Any]]:
        executions = self._service.executions(call.project, call.region_to_list)
        found = (task_object(execution, task) for execution in executions for task in execution.state.tasks)
        return {task["metadata"]["name"]: task for task in found}


def _page(call: Call, kind: str, items: list[dict[str, Any]]) -> dict[str, Any]:
    """The items that the request's labels select, from `continue` on, `limit` at most."""
    try:
        selects = label_selector(call.query("labelSelector"))
    except ValueError as error:
        raise Refused("INVALID_ARGUMENT", f"labelSelector: {error}") from None
    found = [item for item in items if selects(item["metadata"].get("labels", {}))]
    begin, limit = number(call.query("continue")), number(call.query("limit")) or _LONGEST_PAGE
    rest = len(found) - begin - limit
    metadata = {"continue": str(begin + limit)} if rest > 0 else {}
    return {"apiVersion": API_VERSION, "kind": kind, "metadata": metadata, "items": found[begin : begin + limit]}


class _LoggingApi:
    """Cloud Logging's API, version 2: reading entries."""

    def __init__(self, service: Service) -> None:
        self._service = service

    def list_entries(self, call: Call) -> dict[str, Any]:
        request = call.message("ListLogEntriesRequest")
        matches = log_filter.parse_filter(request.get("filter", ""))
        asked = {*request.get("resourceNames", []), *(f"projects/{name}" for name in request.get("projectIds", []))}
        found = [entry for entry in self._service.log.entries() if _project_of(entry) in asked and matches(entry)]
        order = request.get("orderBy", "timestamp asc")
        if order not in ("timestamp asc", "timestamp desc", "timestamp"):
            raise Refused("INVALID_ARGUMENT", f"orderBy: should be 'timestamp asc' or 'timestamp desc', not '{order}'.")
        if order == "timestamp desc":
            found.reverse()
        begin, size = number(request.get("pageToken", "")), request.get("pageSize") or 50
        more = {"nextPageToken": str(begin + size)} if len(found) > begin + size else {}
        return {"entries": found[begin : begin + size], **more}


def _project_of(entry: dict[str, Any]) -> str:
    return "/".join(entry["logName"].split("/")[:2])


class _SourceApis:
    """As much of Artifact Registry, Cloud Storage and Cloud Build as `jobs deploy --source` calls."""

    def __init__(self, builds: Builds) -> None:
        self._builds = builds

    def get_repository(self, call: Call) -> dict[str, Any]:
        """Every repository is there."""
        path = call.path
        name = f"projects/{path['project']}/locations/{path['region']}/repositories/{path['name']}"
        return {"name": name, "format": "DOCKER"}

    def get_bucket(self, call: Call) -> dict[str, Any]:
        return self._builds.bucket(call.path["name"])

    def list_buckets(self, call: Call) -> dict[str, Any]:
        return {"items": [self._builds.bucket(call.raw_query("prefix"))]}

    def upload(self, call: Call) -> dict[str, Any]:
        return self._builds.upload(
            call.path["name"], call.raw_query("name"), call.raw_query("uploadType"), call.parts()
        )

    def submit(self, call: Call) -> dict[str, Any]:
        return self._builds.submit(call.path["project"], call.path["region"], call.message("SubmitBuildRequest"))

    def get_operation(self, call: Call) -> dict[str, Any]:
        return self._builds.operation(call.path["project"], call.path["region"], call.path["name"])


class _Controls:
    """What happens to a real Cloud Run by itself, and here on request."""

    def __init__(self, service: Service) -> None:
        self._service = service

    def describe(self, _: Call) -> dict[str, Any]:
        return {
            "emulates": "Cloud Run jobs",
            "speed": self._service.scale.factor,
            "notExercised": list(NOT_EXERCISED),
        }

    def maintenance(self, call: Call) -> dict[str, Any]:
        """Maintenance of the host of a task, or of all tasks of the execution."""
        execution, task = self._asked(call)
        found = execution.maintain(task)
        return _done(execution, found, "terminated" if execution.gpu else "migrated")

    def crash(self, call: Call) -> dict[str, Any]:
        """A host that fails: SIGKILL with no notice."""
        execution, task = self._asked(call)
        return _done(execution, execution.order("crash", task), "killed")

    def _asked(self, call: Call) -> tuple[Execution, int | None]:
        request = call.message("ControlRequest")
        return self._service.find_execution(request.get("execution")), request.get("task")


def _done(execution: Execution, tasks: list[int], what: str) -> dict[str, Any]:
    if not tasks:
        raise Refused("FAILED_PRECONDITION", f"No such task of {execution.name} is running.")
    return {"execution": execution.name, "tasks": tasks, "are": what}
