"""Asks a cloud's metadata server, which any stranger may stand in for: a bounded answer, or a clear failure in time.

No proxy, no redirect, no cookie, no kept connection; the whole exchange has one time limit, and the answer one size
limit, which no library for HTTP offers together. Why http.client: docs/decisions/0011-notice-sources.md.
"""

import encodings.idna  # noqa: F401 - else at the first name that is looked up, and a fork then finds half an import
import http.client
import json
import socket
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from outlast.disruptions import SourceUnavailable
from outlast.sources.bounded import BoundedSocket

LINK_LOCAL = "169.254.169.254"  # of all three clouds (2026-11-29)
_MOST_BYTES = 65536
_CONNECT_SECONDS = 2.0
_OK = 200


@dataclass(frozen=True, slots=True)
class Answer:
    """What a server answered; `headers` by lower-case name."""

    status: int
    headers: Mapping[str, str]
    text: str

    def json(self) -> Any:
        """The body as JSON; raises SourceUnavailable if it is none."""
        try:
            return json.loads(self.text)
        except (ValueError, RecursionError) as error:
            raise SourceUnavailable(f"the answer is no JSON: {error}") from error


class MetadataServer:
    """A server at a host, or at host:port."""

    def __init__(self, host: str) -> None:
        try:
            parts = urlsplit(f"//{host.strip()}")
            self._host, self._port = parts.hostname or "", parts.port or 80
        except ValueError as error:
            raise SourceUnavailable(f"{host!r} is no host of a metadata server: {error}", told=True) from error
        if not self._host or parts.path or parts.query:
            raise SourceUnavailable(f"{host!r} is no host of a metadata server", told=True)

    def ask(
        self,
        path: str,
        headers: Mapping[str, str],
        *,
        seconds: float,
        method: str = "GET",
        most_bytes: int = _MOST_BYTES,
    ) -> Answer:
        """One exchange, over in `seconds` (and the time that it takes to look the name up).

        Raises SourceUnavailable when nobody answers in time, or with something that is not HTTP, is cut off, or has
        a body of `most_bytes`.
        """
        until = time.monotonic() + seconds
        connection = http.client.HTTPConnection(self._host, self._port)
        try:
            connected = socket.create_connection((self._host, self._port), min(seconds, _CONNECT_SECONDS))
            left = max(0.001, until - time.monotonic())
            connection.sock = BoundedSocket(connected, left, most_bytes=2 * most_bytes + _MOST_BYTES)
            connection.request(method, path, headers={**headers, "Connection": "close"})
            with connection.getresponse() as response:
                body = response.read(most_bytes)
                if len(body) == most_bytes:
                    raise OSError("the answer is too large")
                if response.length:  # of a Content-Length; read() of a limited size does not look
                    raise OSError(f"the answer was cut off, {response.length} bytes before its end")
            found = {name.lower(): value for name, value in response.getheaders()}
            return Answer(response.status, found, body.decode())
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise SourceUnavailable(f"{self._host} does not answer: {type(error).__name__}: {error}") from error
        finally:
            connection.close()


def ask_for(
    server: MetadataServer,
    path: str,
    headers: Mapping[str, str],
    *,
    seconds: float,
    most_bytes: int = _MOST_BYTES,
) -> Answer:
    """The answer with status 200; raises SourceUnavailable for every other one, 404 being an absent thing."""
    answer = server.ask(path, headers, seconds=seconds, most_bytes=most_bytes)
    if answer.status != _OK:
        raise SourceUnavailable(f"{path.partition('?')[0]}: HTTP {answer.status}", absent=answer.status == 404)
    return answer
