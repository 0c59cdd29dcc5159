"""The emulators' metadata servers at any address, which announce anything here, and can be wrong in many ways.

What is right is the emulators' own account of each protocol; what is wrong is made on the socket, where no web server
lets one. `Controls` says what they announce and how they fail. As a program, inside a network namespace of its own
(`link_local.py`), the controls come from a file.
"""

import gzip
import hashlib
import json
import socket
import socketserver
import struct
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import urlsplit

from outlast.emulate.metadata import azure_protocol, gce_protocol
from outlast.emulate.metadata.exchange import Answer, Hang, Question
from outlast.emulate.metadata.imds_protocol import Imds

Json = dict[str, Any]


class Controls:
    """What the servers announce, changed by the tests while they run."""

    def __init__(self, **values: Any) -> None:
        self._values = dict(values)
        self._changed = threading.Condition()
        self.requests: list[str] = []

    def get(self, name: str, default: Any = None) -> Any:
        with self._changed:
            return self._values.get(name, default)

    def set(self, **values: Any) -> None:
        with self._changed:
            if values != {name: self._values.get(name) for name in values}:
                self._values.update(values)
                self._changed.notify_all()

    def wait_for(self, ready: Callable[[], bool], seconds: float) -> None:
        with self._changed:
            self._changed.wait_for(ready, seconds)

    def below(self, start: str) -> Json:
        """What is announced under names that begin so, by the rest of the name."""
        with self._changed:
            named = {name.removeprefix(start): value for name, value in self._values.items() if name.startswith(start)}
        return {name: value for name, value in named.items() if value is not None}


class Clouds(BaseHTTPRequestHandler):
    """All three clouds' servers in one, right or wrong."""

    protocol_version = "HTTP/1.1"
    server: "_Http"

    def do_GET(self) -> None:
        self.server.controls.requests.append(f"{self.command} {self.path}")
        fault = self.server.controls.get("fault")
        if fault is not None and FAULTS[fault](self):
            self.close_connection = True
            return
        url = urlsplit(self.path)
        question = Question.read(self.command, url.path, url.query, dict(self.headers))
        if url.path == "/metadata/instance/compute/name" and self.server.controls.get("name_is_cut"):
            self.close_connection = True
            _raw(b"HTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\nworker_")(self)
            return
        said = self.server.respond(question)
        self.answer(said.status, said.body, **dict(said.headers))

    do_PUT = do_GET

    def answer(self, status: int, body: str = "", **headers: str) -> None:
        data = body.encode()
        manner = self.server.controls.get("manner", "")
        self.protocol_version = "HTTP/1.0" if manner == "HTTP/1.0" else "HTTP/1.1"
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        pieces = MANNERS[manner](self, data) if manner else _with_length(self, data)
        self.end_headers()
        for piece in pieces:
            self.wfile.write(piece)
            time.sleep(0.002 if manner else 0)  # so that it arrives by itself

    def log_message(self, *_: object) -> None:
        """Says nothing."""


def azure_event(kind: str, **fields: Any) -> Json:
    event = {
        "EventId": f"id-{kind}",
        "EventType": kind,
        "ResourceType": "VirtualMachine",
        "Resources": ["worker_0"],
        "EventStatus": "Scheduled",
        "NotBefore": "",
        "Description": "",
        "EventSource": "Platform",
        "DurationInSeconds": -1,
    }
    return {**event, **fields}


class _Protocols:
    """What is right, for all three clouds: their paths have nothing in common."""

    def __init__(self, controls: Controls) -> None:
        self._controls, self._imds, self._tokens = controls, Imds(time.monotonic), controls.get("token")

    def respond(self, question: Question) -> Answer:
        if question.path.startswith("/computeMetadata/"):
            return self._google(question)
        return self._azure(question) if question.path.startswith("/metadata/") else self._amazon(question)

    def _google(self, question: Question) -> Answer:
        # The sources' own patience is cut to less than the whole seconds that the real server takes.
        seconds = float(question.query.get("timeout_sec", 60))
        said = self._of_the_machine(replace(question, query={**question.query, "timeout_sec": "60"}))
        if isinstance(said, Hang):
            hanging = said.question
            self._controls.wait_for(lambda: not isinstance(self._of_the_machine(hanging), Hang), seconds)
            said = self._of_the_machine(hanging.at_last())
        assert isinstance(said, Answer)
        etag = self._controls.get("etag", said.headers.get("ETag"))
        without = ("ETag", "Metadata-Flavor") if self._controls.get("stranger") else ("ETag",)
        headers = {name: value for name, value in said.headers.items() if name not in without}
        return replace(said, headers=headers if etag is None else {**headers, "ETag": etag})

    def _of_the_machine(self, question: Question) -> Answer | Hang:
        scheduling = self._controls.below("instance/scheduling/")
        values = {name: value for name, value in self._controls.below("instance/").items() if "/" not in name}
        return gce_protocol.respond(question, {"instance": {**values, "scheduling": scheduling}})

    def _amazon(self, question: Question) -> Answer:
        if self._controls.get("token") != self._tokens:
            self._tokens = self._controls.get("token")
            self._imds.forget_tokens()
        entries = {
            f"{start}{name}": value
            for start in ("spot/", "events/")
            for name, value in self._controls.below(start).items()
        }
        return self._imds.respond(question, entries)

    def _azure(self, question: Question) -> Answer:
        if question.path == azure_protocol.EVENTS_PATH:
            time.sleep(self._controls.get("azure_seconds", 0))
        events = self._controls.get("azure_events", [])
        incarnation = int(hashlib.sha256(json.dumps(events).encode()).hexdigest()[:6], 16)
        machine = {"compute": {"name": self._controls.get("vm", "worker_0")}}
        document = {"DocumentIncarnation": incarnation, "Events": events}
        return azure_protocol.respond(question, machine, document, lambda _: False)


class Server:
    """One of them, running in a thread."""

    def __init__(self, controls: Controls, *, host: str = "127.0.0.1", port: int = 0) -> None:
        self.controls = controls
        self._http = _Http((host, port), Clouds)
        self._http.controls, self._http.respond = controls, _Protocols(controls).respond
        self.host = f"{host}:{self._http.server_address[1]}"
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.02,), daemon=True)
        self._thread.start()

    def __enter__(self) -> "Server":
        return self

    def __exit__(self, *_: object) -> None:
        self.controls.set(ended=True)
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()


class QuickServer(ThreadingHTTPServer):
    """Does not look its own name up, which takes as long as names take."""

    daemon_threads = True
    request_queue_size = 64

    def server_bind(self) -> None:
        socketserver.TCPServer.server_bind(self)
        self.server_name, self.server_port = "server", int(self.server_address[1])


class _Http(QuickServer):
    controls: Controls
    respond: Callable[[Question], Answer]

    def handle_error(self, *_: object) -> None:
        """A client that gives a fault up is what is tested."""


# --- manners: each sets the headers, and gives the pieces of the body ---------------------------------


def _with_length(handler: Clouds, data: bytes) -> list[bytes]:
    handler.send_header("Content-Length", str(len(data)))
    return [data]


def _closes(handler: Clouds, data: bytes) -> list[bytes]:
    handler.send_header("Connection", "close")
    return [b"", *_with_length(handler, data)]


def _until_it_closes(handler: Clouds, data: bytes) -> list[bytes]:
    handler.close_connection = True
    return [b"", data]


def _chunked(handler: Clouds, data: bytes) -> list[bytes]:
    handler.send_header("Transfer-Encoding", "chunked")
    return [b"%x\r\n%s\r\n" % (len(piece), piece) for piece in _pieces(data)] + [b"0\r\n\r\n"]


def _in_pieces(handler: Clouds, data: bytes) -> list[bytes]:
    _with_length(handler, data)
    return _pieces(data)


def _pieces(data: bytes) -> list[bytes]:
    size = max(1, len(data) // 10)
    return [data[at : at + size] for at in range(0, len(data), size)]


MANNERS: dict[str, Callable[[Clouds, bytes], list[bytes]]] = {
    "closes": _closes,
    "HTTP/1.0": _until_it_closes,
    "until it closes": _until_it_closes,
    "chunked": _chunked,
    "in pieces": _in_pieces,
}


# --- faults: each writes what it wants, and says whether that was the whole answer ------------------


def _status(status: int, **headers: str) -> Callable[[Clouds], bool]:
    def fail(handler: Clouds) -> bool:
        handler.answer(status, "out of order", Metadata_Flavor="Google", **headers)
        return True

    return fail


def _text(body: str) -> Callable[[Clouds], bool]:
    def fail(handler: Clouds) -> bool:
        handler.answer(200, body, Metadata_Flavor="Google", ETag="1")
        return True

    return fail


def _raw(*pieces: bytes, pause: float = 0.0, forever: bool = False) -> Callable[[Clouds], bool]:
    def fail(handler: Clouds) -> bool:
        while True:
            for piece in pieces:
                handler.wfile.write(piece)
                time.sleep(pause)
            if not forever or handler.server.controls.get("ended"):
                return True

    return fail


def _silent(handler: Clouds) -> bool:
    controls = handler.server.controls
    standing = controls.get("fault")
    controls.wait_for(lambda: controls.get("fault") != standing, 60)
    return True


def _elsewhere(handler: Clouds) -> bool:
    if handler.path.startswith("/elsewhere"):
        return _text("TRUE")(handler)
    handler.answer(302, Location="/elsewhere", Metadata_Flavor="Google")
    return True


def _endless(handler: Clouds) -> bool:
    handler.wfile.write(b"HTTP/1.1 200 OK\r\nMetadata-Flavor: Google\r\nTransfer-Encoding: chunked\r\n\r\n")
    return _raw(b"400\r\n" + b"T" * 1024 + b"\r\n", forever=True)(handler)


def _cut(handler: Clouds) -> bool:
    handler.wfile.write(b'HTTP/1.1 200 OK\r\nMetadata-Flavor: Google\r\nContent-Length: 900\r\n\r\n{"action": "termi')
    return True


def _resets(handler: Clouds) -> bool:
    """RST in the middle of the body."""
    handler.wfile.write(b"HTTP/1.1 200 OK\r\nMetadata-Flavor: Google\r\nContent-Length: 900\r\n\r\nTRUE")
    handler.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    handler.connection.close()
    return True


def _held(head: bytes, *pieces: bytes) -> Callable[[Clouds], bool]:
    """An answer that is never done."""

    def fail(handler: Clouds) -> bool:
        _raw(b"HTTP/1.1 200 OK\r\nMetadata-Flavor: Google\r\n" + head + b"\r\n\r\n", *pieces)(handler)
        return _silent(handler)

    return fail


_BOMB = gzip.compress(b"T" * 10_000_000)

FAULTS: dict[str, Callable[[Clouds], bool]] = {
    "503": _status(503),
    "500": _status(500),
    "403": _status(403),
    "404": _status(404),
    "401": _status(401),
    "429": _status(429, Retry_After="86400"),
    "204": _status(204),
    "redirect": _elsewhere,
    "redirect to a file": _status(301, Location="file:///etc/hostname"),
    "redirect to another host": _status(307, Location="http://127.0.0.1:1/elsewhere"),
    "reset": _resets,
    "a length below 0": _held(b"Content-Length: -4", b"TRU"),
    "a length beyond all": _held(b"Content-Length: 99999999999999999999", b"TRUE", b"TERMINATE"),
    "gigabytes": _raw(b"HTTP/1.1 200 OK\r\nContent-Length: 9999999999\r\n\r\n", *[b" " * 65536] * 99),
    "a bomb": _raw(b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: %d\r\n\r\n" % len(_BOMB), _BOMB),
    "UTF-16": _raw(b"HTTP/1.1 200 OK\r\nMetadata-Flavor: Google\r\n\r\n", "TRUE".encode("utf-16")),
    "drip of a chunk": _raw(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", *[b"1"] * 40, pause=0.05),
    "silent": _silent,
    "drip": _raw(b"H", pause=0.05, forever=True),
    "drip of headers": _raw(b"HTTP/1.1 200 OK\r\n", b"A: b\r\n", pause=0.05, forever=True),
    "endless body": _endless,
    "endless header": _raw(b"HTTP/1.1 200 OK\r\nA: ", *[b"a" * 4096] * 100),
    "many headers": _raw(b"HTTP/1.1 200 OK\r\n", *[b"A: b\r\n"] * 500, b"\r\n"),
    "interim answers": _raw(b"HTTP/1.1 100 Continue\r\n\r\n", forever=True),
    "cut": _cut,
    "nothing": _raw(b""),
    "no HTTP": _raw(b"\x16\x03\x01\x02\x00\x00\xff\r\n\r\n"),
    "a page": _text("<html><body>Please sign in: TRUE TERMINATE_ON_HOST_MAINTENANCE</body></html>"),
    "an empty body": _text(""),
    "deep JSON": _text("[" * 60000),
    "wrong types": _text('{"action": ["terminate"], "time": 7, "DocumentIncarnation": "1", "Events": {"a": 1}}'),
    "a number": _text("1" * 5000),
    "null": _text("null"),
    "no text": _raw(b"HTTP/1.1 200 OK\r\nMetadata-Flavor: Google\r\nContent-Length: 4\r\n\r\n\xff\xfe\x00\x80"),
}
