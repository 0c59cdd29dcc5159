"""Why a request is refused, in the words and the form (`Status`) of the Kubernetes API.

Codes, reasons and messages: k8s.io/apimachinery `api/errors` and `util/validation/field`, 2026-11-30.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from outlast.emulate.kubernetes.kinds import Kind

Json = dict[str, Any]


class Refused(Exception):
    """A request that the API server refuses; `status` is what it answers, `code` the HTTP status."""

    def __init__(self, code: int, reason: str, message: str, details: Json | None = None) -> None:
        super().__init__(message)
        self.code, self.reason, self.message, self.details = code, reason, message, details

    def status(self) -> Json:
        """The object of kind Status that goes to the client."""
        answer: Json = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure"}
        answer |= {"message": self.message, "reason": self.reason}
        if self.details:
            answer["details"] = self.details
        return answer | {"code": self.code}


_CODES = {
    "Required value": "FieldValueRequired",
    "Invalid value": "FieldValueInvalid",
    "Unsupported value": "FieldValueNotSupported",
    "Duplicate value": "FieldValueDuplicate",
    "Forbidden": "FieldValueForbidden",
    "Not found": "FieldValueNotFound",
    "Too many": "FieldValueTooMany",
    "Too long": "FieldValueTooLong",
}


@dataclass(frozen=True, slots=True)
class Cause:
    """What is wrong with one field; `reason` as in field errors: "Required value", "Invalid value", …"""

    field: str
    reason: str
    detail: str

    def message(self) -> str:
        """`Invalid value: "x": must be …`, without the field."""
        return f"{self.reason}: {self.detail}" if self.detail else self.reason


def _details(kind: Kind, name: str, **more: Any) -> Json:
    named = {"name": name} if name else {}
    grouped = {"group": kind.group} if kind.group else {}
    return named | grouped | {"kind": kind.plural} | more


def not_found(kind: Kind, name: str) -> Refused:
    """There is no such object."""
    return Refused(404, "NotFound", f'{kind.resource} "{name}" not found', _details(kind, name))


def already_exists(kind: Kind, name: str) -> Refused:
    """The name is taken."""
    return Refused(409, "AlreadyExists", f'{kind.resource} "{name}" already exists', _details(kind, name))


def conflict(kind: Kind, name: str, why: str) -> Refused:
    """The object is not (or no longer) what the request takes it for."""
    message = f'Operation cannot be fulfilled on {kind.resource} "{name}": {why}'
    return Refused(409, "Conflict", message, _details(kind, name))


def forbidden(kind: Kind, name: str, why: str) -> Refused:
    """Admission says no."""
    return Refused(403, "Forbidden", f'{kind.resource} "{name}" is forbidden: {why}', _details(kind, name))


def expired(message: str) -> Refused:
    """A watch from a version of which the history is no longer kept: list again."""
    return Refused(410, "Expired", message)


def bad_request(message: str) -> Refused:
    """The request makes no sense."""
    return Refused(400, "BadRequest", message)


def too_many_requests(message: str, cause: Json) -> Refused:
    """Not now; an eviction that a disruption budget forbids is answered so."""
    return Refused(429, "TooManyRequests", message, {"causes": [cause]})


def invalid(kind: Kind, name: str, causes: Sequence[Cause]) -> Refused:
    """One or more fields have values that the kind does not allow."""
    texts = [f"{cause.field}: {cause.message()}" for cause in causes]
    together = texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"
    listed = [{"reason": _CODES[cause.reason], "message": cause.message(), "field": cause.field} for cause in causes]
    shown = f"{kind.name}.{kind.group}" if kind.group else kind.name
    details = _details(kind, name, causes=listed) | {"kind": kind.name}
    return Refused(422, "Invalid", f'{shown} "{name}" is invalid: {together}', details)


def bad_patch(patch: str, why: str) -> Refused:
    """What a patch makes of the object is none of its kind."""
    cause = Cause("patch", "Invalid value", f"{patch}: {why}")
    listed = {"reason": _CODES[cause.reason], "message": cause.message(), "field": cause.field}
    return Refused(422, "Invalid", f' "" is invalid: patch: {cause.message()}', {"causes": [listed]})
