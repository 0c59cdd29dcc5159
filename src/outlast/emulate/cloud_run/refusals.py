"""How the API says no: Google's JSON errors, with the words of the service where they are known."""

from typing import Any

_HTTP_CODES = {
    "INVALID_ARGUMENT": 400,
    "FAILED_PRECONDITION": 400,
    "NOT_FOUND": 404,
    "ALREADY_EXISTS": 409,
    "ABORTED": 409,
    "UNIMPLEMENTED": 501,
}
OURS = "outlast emulate cloud-run"


class Refused(Exception):
    """A request that the API refuses; `status` is one of Google's canonical codes."""

    def __init__(self, status: str, message: str, *, field: str | None = None) -> None:
        super().__init__(message)
        self.status, self.message, self.field = status, message, field

    @property
    def http_code(self) -> int:
        return _HTTP_CODES[self.status]

    def body(self) -> dict[str, Any]:
        """The answer's body, as every Google API gives it."""
        error: dict[str, Any] = {"code": self.http_code, "message": self.message, "status": self.status}
        if self.field is not None:
            violation = {"field": self.field, "description": self.message}
            error["details"] = [{"@type": "type.googleapis.com/google.rpc.BadRequest", "fieldViolations": [violation]}]
        return {"error": error}


def invalid(field: str, message: str) -> Refused:
    """A value that Cloud Run does not take; the message begins with the field, as in Cloud Run's own."""
    return Refused("INVALID_ARGUMENT", f"{field}: {message}", field=field)


def not_emulated(what: str) -> Refused:
    """Something that Cloud Run knows and the emulator does not: said so, instead of pretended."""
    return Refused("UNIMPLEMENTED", f"{OURS}: {what}")


def does_not_exist(name: str, kind: str, region: str, project: str) -> Refused:
    """For a job, an execution or a task that is not there."""
    return Refused(
        "NOT_FOUND",
        f"Resource '{name}' of kind '{kind}' in region '{region}' in project '{project}' does not exist.",
    )
