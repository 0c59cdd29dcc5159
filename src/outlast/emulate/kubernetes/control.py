"""The switches of an emulated cluster over HTTP, beside its API: what happens to which node.

`GET /emulator` tells the nodes and what is being done to them; `POST /emulator/nodes/NAME/maintenance`, `…/reclaim`,
`…/host-error` and `…/partition` begin a procedure. No Kubernetes has a path of that name.
"""

from collections.abc import Awaitable, Callable
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Mount, Route

from outlast.emulate.kubernetes.fleet import Fleet, Impossible
from outlast.emulate.kubernetes.procedures import STEPS, Kind, Procedure
from outlast.emulate.serving import Application


def with_control(api: Application, fleet: Fleet) -> Application:
    """The API and the switches in one application."""

    async def about(_: Request) -> Response:
        nodes = {name: _told(fleet, name) for name in fleet.names()}
        return JSONResponse({"nodes": nodes, "procedures": sorted(STEPS)})

    def begin(kind: Kind) -> Callable[[Request], Awaitable[Response]]:
        async def answer(request: Request) -> Response:
            name = request.path_params["name"]
            if name not in fleet.names():
                return JSONResponse({"error": f"there is no node {name}; there are {', '.join(fleet.names())}"}, 404)
            try:
                fleet.begin(name, kind)
            except Impossible as error:
                return JSONResponse({"error": str(error)}, 409)
            return JSONResponse(_told(fleet, name), 202)

        return answer

    async def unknown(_: Request) -> Response:
        return JSONResponse({"error": f"a node has {', '.join(sorted(STEPS))}: POST /emulator/nodes/NAME/…"}, 404)

    routes = [Route(f"/emulator/nodes/{{name}}/{kind}", begin(kind), methods=["POST"]) for kind in STEPS]
    other = Route("/emulator/{rest:path}", unknown, methods=["GET", "POST"])
    return Starlette(routes=[Route("/emulator", about, methods=["GET"]), *routes, other, Mount("/", api)])


def _told(fleet: Fleet, name: str) -> dict[str, Any]:
    procedure = fleet.last(name)
    return {"machine_type": fleet.host(name).machine.machine_type, "procedure": procedure and _as_json(procedure)}


def _as_json(procedure: Procedure) -> dict[str, Any]:
    done = [{"seconds": round(seconds, 1), "what": what} for seconds, what in procedure.trace]
    return {"kind": procedure.kind, "over": procedure.over.is_set(), "done": done}
