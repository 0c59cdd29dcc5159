"""A metadata server as a web application: its answers, and beside them the switches of the emulator.

`POST /emulator/VERB` with a JSON object of the verb's settings makes something happen; `GET /emulator` lists the verbs.
No cloud has a path of that name. The answer to a verb says what was announced, in seconds of this machine.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, is_dataclass
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from outlast.emulate.metadata.exchange import Hang, Question, Respond
from outlast.emulate.metadata.timeline import Timeline
from outlast.emulate.reading import read_json
from outlast.emulate.serving import LOOPBACK, Application, Serving

_METHODS = ("GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "OPTIONS")


@dataclass(frozen=True, slots=True)
class Ending:
    """When a machine that was announced to end does so, in seconds here: first the shut-down signal, then it is off."""

    shutdown_in_seconds: float
    off_in_seconds: float


Settings = Mapping[str, type | tuple[type, ...]]


@dataclass(frozen=True, slots=True)
class Verb:
    """Something that a platform can be made to do: the call, and the types of its settings by name."""

    call: Callable[..., object]
    settings: Settings


NUMBER = (int, float)


def application(respond: Respond, timeline: Timeline, verbs: Mapping[str, Verb]) -> Application:
    """The ASGI application."""

    async def answer(request: Request) -> Response:
        raw = bytes(request.scope["query_string"]).decode("latin-1")
        body = await request.body()
        question = Question.read(request.method, str(request.scope["path"]), raw, request.headers, body)
        timeline.catch_up()
        said = respond(question)
        if isinstance(said, Hang):
            hanging = said.question

            def ready() -> bool:
                return not isinstance(respond(hanging), Hang)

            await timeline.wait(ready, said.seconds, request.is_disconnected)
            said = respond(hanging.at_last())
        if isinstance(said, Hang):
            raise RuntimeError("a question that must not hang was not answered")
        return Response(said.body.encode(), said.status, dict(said.headers))

    async def list_verbs(_: Request) -> Response:
        return JSONResponse({name: sorted(verb.settings) for name, verb in verbs.items()})

    async def do(request: Request) -> Response:
        verb = verbs.get(str(request.path_params["verb"]))
        if verb is None:
            return JSONResponse({"error": f"no such verb; there are {', '.join(verbs)}"}, 404)
        try:
            done = verb.call(**_settings(verb, await request.body()))
        except ValueError as error:
            return JSONResponse({"error": str(error)}, 400)
        return JSONResponse(asdict(done) if is_dataclass(done) and not isinstance(done, type) else done)

    routes = [
        Route("/emulator", list_verbs, methods=["GET"]),
        Route("/emulator/{verb}", do, methods=["POST"]),
        Route("/{path:path}", answer, methods=list(_METHODS)),
    ]
    return Starlette(routes=routes)


@contextmanager
def serving(app: Application, timeline: Timeline, *, port: int, address: str = LOOPBACK) -> Iterator[Serving]:
    """Serves; at the end nobody is kept waiting."""
    with Serving(app, port=port, address=address) as running:
        try:
            yield running
        finally:
            timeline.close()


def _settings(verb: Verb, body: bytes) -> dict[str, Any]:
    """What a verb is asked with; raises ValueError for what it does not know."""
    try:
        said = read_json(body) if body.strip() else {}
    except ValueError as error:
        raise ValueError(f"the settings of a verb are a JSON object: {error}") from error
    if not isinstance(said, dict):
        raise ValueError("the settings of a verb are a JSON object")
    for name, value in said.items():
        if name not in verb.settings:
            known = ", ".join(sorted(verb.settings)) or "none"
            raise ValueError(f"unknown setting {name!r}; there are: {known}")
        if not isinstance(value, verb.settings[name]) or isinstance(value, bool):
            raise ValueError(f"{name}={value!r} is of the wrong type")
    return said
