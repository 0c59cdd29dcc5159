"""A socket whose every exchange ends in time and takes no more than so many bytes, whatever the other side does.

No library for HTTP offers both: their time limits hold for each piece that arrives, and a server that sends a byte a
second holds them for ever. It stands in for a socket of http.client, and so of urllib3 too.
"""

import io
import socket
import time
from typing import Any


class BoundedSocket:
    """`settimeout` begins an exchange: so long for all of it; `most_bytes` are all that it may bring."""

    def __init__(self, connected: socket.socket, seconds: float, *, most_bytes: int) -> None:
        self._socket, self._most_bytes = connected, most_bytes
        self._readers, self._closed = 0, False
        self.settimeout(seconds)

    def settimeout(self, seconds: float | None) -> None:
        self._until = time.monotonic() + seconds if seconds is not None else None
        self._bytes = 0

    def sendall(self, data: Any) -> None:
        self._wait_no_longer()
        self._socket.sendall(data)

    def recv_into(self, buffer: Any) -> int:
        if self._bytes >= self._most_bytes:
            raise OSError("the answer is too large")
        self._wait_no_longer()
        count = self._socket.recv_into(buffer)
        self._bytes += count
        return count

    def makefile(self, mode: str = "rb", *_: object) -> io.BufferedReader:
        """Reads on also after `close`, as of a real socket: http.client closes it before it reads the body."""
        self._readers += 1
        return io.BufferedReader(_Incoming(self))

    def close(self) -> None:
        self._closed = True
        self._close_if_done()

    def drop_reader(self) -> None:
        """One of the files is closed."""
        self._readers -= 1
        self._close_if_done()

    def __getattr__(self, name: str) -> Any:
        """What is asked of the socket itself, such as its number."""
        return getattr(self._socket, name)

    def _close_if_done(self) -> None:
        if self._closed and self._readers == 0:
            self._socket.close()

    def _wait_no_longer(self) -> None:
        left = None if self._until is None else self._until - time.monotonic()
        if left is not None and left <= 0:
            raise TimeoutError("the answer takes too long")
        self._socket.settimeout(left)


class _Incoming(io.RawIOBase):
    def __init__(self, bounded: BoundedSocket) -> None:
        self._bounded = bounded

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        return self._bounded.recv_into(buffer)

    def close(self) -> None:
        if not self.closed:
            self._bounded.drop_reader()
        super().close()
