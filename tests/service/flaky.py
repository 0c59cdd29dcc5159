"""A proxy in front of a server that breaks what goes through it, as networks do."""

import contextlib
import socket
import threading
from dataclasses import dataclass, field

_CHUNK = 64 << 10
_NOT_IMPLEMENTED = b"HTTP/1.1 501 Not Implemented\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
_METHODS = (b"GET", b"HEAD", b"PUT", b"POST", b"DELETE")


@dataclass
class FlakyProxy:
    """Passes connections on to a port of the loopback. Each `…_times` counts down as it is used."""

    upstream_port: int = 0
    cut_requests_after: int = 0  # bytes of a connection
    cut_requests_times: int = 0
    cut_answers_after: int = 0
    cut_answers_times: int = 0
    lose_answers_times: int = 0
    is_down: bool = False
    not_implemented: str = ""  # requests that begin so are answered with 501
    bytes_up: int = 0
    cuts: int = 0
    requests: list[str] = field(default_factory=list)  # "METHOD /path?query" of each whose head began a piece
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=64)
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self._listener.getsockname()[1]}"

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)  # close alone would leave accept() waiting
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            if self.is_down:
                client.close()
                continue
            server = socket.create_connection(("127.0.0.1", self.upstream_port))
            for target in (self._pass_requests, self._pass_answers):
                threading.Thread(target=target, args=(client, server), daemon=True).start()

    def _take(self, counter: str) -> bool:
        """Whether one more of a kind of failure is due."""
        with self._lock:
            left = getattr(self, counter)
            setattr(self, counter, max(0, left - 1))
            self.cuts += left > 0
            return left > 0

    def _pass_requests(self, client: socket.socket, server: socket.socket) -> None:
        passed = 0
        with contextlib.suppress(OSError):
            while data := client.recv(_CHUNK):
                if self.is_down:
                    break
                if self.not_implemented and data.startswith(self.not_implemented.encode()):
                    client.sendall(_NOT_IMPLEMENTED)
                    break
                passed += len(data)
                with self._lock:  # before it goes on: who has the answer finds the request counted
                    self.bytes_up += len(data)
                    if data.partition(b" ")[0] in _METHODS:
                        self.requests.append(b" ".join(data.split(b" ", 2)[:2]).decode())
                server.sendall(data)
                if passed > self.cut_requests_after > 0 and self._take("cut_requests_times"):
                    break
        _close(client, server)

    def _pass_answers(self, client: socket.socket, server: socket.socket) -> None:
        passed = 0
        with contextlib.suppress(OSError):
            while data := server.recv(_CHUNK):
                if self.is_down or self._take("lose_answers_times"):
                    break
                client.sendall(data)
                passed += len(data)
                if passed > self.cut_answers_after > 0 and self._take("cut_answers_times"):
                    break
        _close(client, server)


def _close(*ends: socket.socket) -> None:
    for end in ends:
        with contextlib.suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)
        end.close()
