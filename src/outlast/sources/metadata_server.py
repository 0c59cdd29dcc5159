"""Asks a cloud's metadata server, which any stranger may stand in for: a bounded answer, or a clear failure in time.

No proxy, no redirect, no cookie, no kept connection; the whole exchange has one time limit, and the answer one size
limit, which no library for HTTP offers together. Why http.client: docs/decisions/0011-notice-sources.md.
"""

import http.client
import io
import json
import socket
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from outlast.disruptions import SourceUnavailable

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

    def ask(self, path: str, headers: Mapping[str, str], *, seconds: float, method: str = "GET") -> Answer:
        """One exchange, over in `seconds` (and the time that it takes to look the name up).

        Raises SourceUnavailable when nobody answers in time, or with something that is not HTTP, or too large.
        """
        until = time.monotonic() + seconds
        connection = http.client.HTTPConnection(self._host, self._port)
        try:
            connected = socket.create_connection((self._host, self._port), min(seconds, _CONNECT_SECONDS))
            connection.sock = _Bounded(connected, until)
            connection.request(method, path, headers={**headers, "Connection": "close"})
            response = connection.getresponse()
            body = response.read(_MOST_BYTES)
            if len(body) == _MOST_BYTES:
                raise OSError("the answer is too large")
            found = {name.lower(): value for name, value in response.getheaders()}
            return Answer(response.status, found, body.decode())
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise SourceUnavailable(f"{self._host} does not answer: {type(error).__name__}: {error}") from error
        finally:
            connection.close()


def ask_for(server: MetadataServer, path: str, headers: Mapping[str, str], *, seconds: float) -> Answer:
    """The answer with status 200; raises SourceUnavailable for every other one, 404 being an absent thing."""
    answer = server.ask(path, headers, seconds=seconds)
    if answer.status != _OK:
        raise SourceUnavailable(f"{path.partition('?')[0]}: HTTP {answer.status}", absent=answer.status == 404)
    return answer


class _Bounded:
    """A socket whose whole use ends at a moment, and that receives so many bytes at most."""

    def __init__(self, connected: socket.socket, until: float) -> None:
        self._socket, self._until = connected, until

    def sendall(self, data: bytes) -> None:
        self._socket.settimeout(_left(self._until))
        self._socket.sendall(data)

    def makefile(self, mode: str) -> io.BufferedReader:
        return io.BufferedReader(_Incoming(self._socket, self._until))

    def close(self) -> None:
        self._socket.close()


class _Incoming(io.RawIOBase):
    def __init__(self, connected: socket.socket, until: float) -> None:
        self._socket, self._until, self._bytes = connected, until, 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        if self._bytes > 2 * _MOST_BYTES:
            raise OSError("the answer is too large")
        self._socket.settimeout(_left(self._until))
        count = self._socket.recv_into(buffer)
        self._bytes += count
        return count


def _left(until: float) -> float:
    left = until - time.monotonic()
    if left <= 0:
        raise TimeoutError("the answer takes too long")
    return left
