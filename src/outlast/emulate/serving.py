"""Serves an ASGI application on a loopback port, from a thread of its own."""

import socket
import threading
import time
from collections.abc import Awaitable, Callable, MutableMapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import uvicorn

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
Application = Callable[[Scope, Receive, Send], Awaitable[None]]

LOOPBACK = "127.0.0.1"
_START_SECONDS = 30.0
_STOP_SECONDS = 2  # for requests under way: a watch would last for minutes


class Serving:
    """A running server; use as a context manager, or call `close`.

    `port` 0 takes a free one; `address` may be another loopback or link-local address of this machine; `certificate`
    is a PEM file with a key and its certificate, for TLS.
    """

    def __init__(
        self, application: Application, *, port: int = 0, address: str = LOOPBACK, certificate: Path | None = None
    ) -> None:
        listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((address, port))
        self.port: int = listener.getsockname()[1]
        self.url = f"{'https' if certificate else 'http'}://{address}:{self.port}"
        config = uvicorn.Config(
            _origin_form(application),
            lifespan="off",
            log_config=None,
            access_log=False,
            http="h11",
            ws="none",
            ssl_certfile=certificate,
            timeout_graceful_shutdown=_STOP_SECONDS,
        )
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(
            target=self._server.run, kwargs={"sockets": [listener]}, name="outlast-emulator", daemon=True
        )
        self._thread.start()
        give_up = time.monotonic() + _START_SECONDS
        while not self._server.started:
            if not self._thread.is_alive() or time.monotonic() > give_up:
                raise RuntimeError(f"the server at {self.url} did not start")
            time.sleep(0.002)

    def __enter__(self) -> "Serving":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Stops listening, and ends requests under way after two seconds."""
        self._server.should_exit = True
        self._thread.join()


def _origin_form(application: Application) -> Application:
    """Takes requests as a proxy gets them too, with a whole URL as their target, which is how gcloud can be led here.

    The host that was asked for stands in the scope as "asked_host".
    """

    async def serve(scope: Scope, receive: Receive, send: Send) -> None:
        raw = bytes(scope.get("raw_path") or b"").decode("latin-1")
        if scope["type"] == "http" and raw.startswith(("http://", "https://")):
            url = urlsplit(raw)
            prefix = f"{url.scheme}://{url.netloc}"
            path = str(scope["path"]).removeprefix(prefix)
            scope = {**scope, "path": path or "/", "raw_path": (url.path or "/").encode(), "asked_host": url.netloc}
        await application(scope, receive, send)

    return serve
