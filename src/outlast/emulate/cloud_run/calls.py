"""Requests to the emulated APIs, read and answered: paths, regions, JSON, Google's errors."""

import email
import re
from collections.abc import Callable
from email.message import EmailMessage
from email.policy import HTTP
from typing import Any, cast
from urllib.parse import unquote

from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from outlast.emulate.cloud_run.execution import Place
from outlast.emulate.cloud_run.messages import read
from outlast.emulate.cloud_run.refusals import Refused, not_emulated
from outlast.emulate.reading import read_json

RUN_HOST = "run.local.test"  # what gcloud is told; a region is put in front of it
DEFAULT_REGION = "us-central1"
_QUERY = {"alt", "labelSelector", "limit", "continue", "prettyPrint", "$.xgafv"}
_OURS = "/emulator"  # below it, what no Cloud Run has
Handler = Callable[["Call"], dict[str, Any]]


class Call:
    """A request, read: in a thread of its own, with the body as JSON."""

    def __init__(self, request: Request, body: bytes) -> None:
        self.path = request.path_params
        self._query, self._body = request.query_params, body
        self._content_type = request.headers.get("content-type", "")
        host = str(request.scope.get("asked_host") or "").partition(":")[0]
        self.region = host.removesuffix(f"-{RUN_HOST}") if host.endswith(f"-{RUN_HOST}") else None
        self._everywhere = host == RUN_HOST

    @property
    def project(self) -> str:
        """The project that the path names."""
        return str(self.path["project"])

    @property
    def place(self) -> Place:
        """The project and the region that are asked."""
        return Place(self.project, self.region or DEFAULT_REGION)

    @property
    def region_to_list(self) -> str | None:
        """None lists all regions, as the host without one does."""
        return None if self._everywhere else self.place.region

    def raw_query(self, name: str) -> str:
        """A parameter of the query; empty when it is not there."""
        return self._query.get(name, "")

    def query(self, name: str) -> str:
        """A parameter of Cloud Run's API. Raises Refused when the query has one that it does not know."""
        unknown = set(self._query) - _QUERY
        if unknown:
            message = (
                f'Invalid JSON payload received. Unknown name "{sorted(unknown)[0]}": Cannot bind query parameter.'
            )
            raise Refused("INVALID_ARGUMENT", message)
        return self.raw_query(name)

    def parts(self) -> list[bytes]:
        """The parts of a multipart body, as Cloud Storage takes an object and what is said of it."""
        kind = self._content_type.replace("'", '"')  # gcloud's quotes, which MIME does not know
        parsed = email.message_from_bytes(b"Content-Type: " + kind.encode() + b"\n\n" + self._body, policy=HTTP)
        found = parsed.get_payload()
        if not isinstance(found, list):
            raise Refused("INVALID_ARGUMENT", f"The body is no multipart message: {self._content_type}")
        return [bytes(cast(EmailMessage, part).get_payload(decode=True) or b"") for part in found]

    def message(self, kind: str, at: str = "") -> dict[str, Any]:
        """The body as a message of that kind; no body is an empty one."""
        try:
            return read(kind, read_json(self._body or b"{}"), at=at)
        except ValueError as error:
            raise Refused("INVALID_ARGUMENT", f"Invalid JSON payload received. {error}") from error


def route(method: str, path: str, handler: Handler) -> Route:
    """A verb of the API: what the handler gives is answered as JSON, what it raises as Google's error."""

    async def answer(request: Request) -> Response:
        call = Call(request, await request.body())
        try:
            return JSONResponse(await run_in_threadpool(handler, call))
        except Refused as refusal:
            return JSONResponse(refusal.body(), status_code=refusal.http_code)

    return Route(path, answer, methods=[method])


async def unknown_verb(request: Request, _: Exception | HTTPException) -> Response:
    """Refuses what is no verb of the emulator."""
    path = unquote(request.url.path)
    said = f"there is no {request.method} {path} here"
    if path.startswith(_OURS):
        said += f"; there are {', '.join(one.path for one in request.app.routes if one.path.startswith(_OURS))}"
    refusal = not_emulated(f"{said}.")
    return JSONResponse(refusal.body(), status_code=refusal.http_code)


def number(text: str) -> int:
    """A number of items in a query; none is 0."""
    if text and not re.fullmatch(r"\d{1,6}", text):
        raise Refused("INVALID_ARGUMENT", f"'{text}' is no number of items.")
    return int(text or 0)
