"""The server that every emulator stands on."""

import http.client

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from outlast.emulate.scale import TimeScale
from outlast.emulate.serving import Serving
from outlast.errors import SettingsError


async def _say(request: Request) -> PlainTextResponse:
    return PlainTextResponse(f"{request.url.path}|{request.url.query}|{request.scope.get('asked_host')}")


def test_requests_arrive_directly_and_through_a_proxy_setting() -> None:
    with Serving(Starlette(routes=[Route("/{path:path}", _say)])) as serving:
        connection = http.client.HTTPConnection("127.0.0.1", serving.port)
        answers = []
        for target in ("/x?b=1", "http://us-central1-run.local.test/apis/a%20b?alt=json"):
            connection.request("GET", target)
            answers.append(connection.getresponse().read().decode())
        connection.close()
    assert answers == ["/x|b=1|None", "/apis/a b|alt=json|us-central1-run.local.test"]
    with pytest.raises(ConnectionRefusedError):
        http.client.HTTPConnection("127.0.0.1", serving.port).connect()


def test_a_page_in_a_browser_may_ask_nothing() -> None:
    with Serving(Starlette(routes=[Route("/{path:path}", _say, methods=["POST"])])) as serving:
        connection = http.client.HTTPConnection("127.0.0.1", serving.port)
        statuses = []
        for headers in ({}, {"Origin": "null"}):
            connection.request("POST", "/x", b"{}", headers)
            answer = connection.getresponse()
            answer.read()
            statuses.append(answer.status)
        connection.close()
    assert statuses == [200, 403]


def test_a_port_that_is_taken_is_a_wrong_setting() -> None:
    with Serving(Starlette()) as serving, pytest.raises(SettingsError, match=f"port {serving.port} of 127.0.0.1"):
        Serving(Starlette(), port=serving.port)


def test_time_is_scaled() -> None:
    assert TimeScale(60).here(3600) == 60
    with pytest.raises(ValueError, match="above 0"):
        TimeScale(0)
