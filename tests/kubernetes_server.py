"""A small Kubernetes API server over TLS: nodes and pods, get and watch, with rights, and what goes wrong."""

import copy
import json
import ssl
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from notice_servers import QuickServer
from outlast.emulate.kubernetes.service_account import make_certificate

Json = dict[str, Any]
TOKEN = "a-token-of-the-tests"
# What a server sends before a byte now and then, without end.
DRIPS = {
    "drip": b"H",
    "drip of headers": b"HTTP/1.1 200 OK\r\nA: ",
    "drip of a body": b"HTTP/1.1 200 OK\r\nContent-Length: 99999\r\n\r\n",
    "drip of a chunk": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
}


class Cluster:
    """What the server serves. Objects are kept by resource and name; every change has its number."""

    def __init__(self) -> None:
        self.changed = threading.Condition()
        self.objects: dict[tuple[str, str], Json] = {}
        self.history: list[tuple[int, str, str, Json]] = []  # number, resource, type, object
        self.oldest_watch = 0  # a watch from before this number has expired
        self.forbidden: set[tuple[str, str]] = set()  # (verb, resource)
        self.fault: str | None = None  # "gone", "cut", "garbage", "500", "redirect", "endless", "page", "drip", …
        self.token = TOKEN
        self.ignores_selectors = False
        self.requests: list[str] = []
        self._number = 100

    def put(self, resource: str, name: str, **fields: Any) -> None:
        """Makes or replaces an object."""
        with self.changed:
            self._number += 1
            metadata = {**fields.pop("metadata", {}), "name": name, "resourceVersion": str(self._number)}
            known = (resource, name) in self.objects
            self.objects[resource, name] = {"apiVersion": "v1", "kind": resource, "metadata": metadata, **fields}
            kind = "MODIFIED" if known else "ADDED"
            self.history.append((self._number, resource, kind, copy.deepcopy(self.objects[resource, name])))
            self.changed.notify_all()

    def node(self, name: str = "node-1", *, labels: Json | None = None, taints: Any = (), **more: Any) -> None:
        metadata = {"labels": labels or {}, "annotations": more.pop("annotations", {})}
        conditions = more.pop("conditions", [{"type": "Ready", "status": "True"}])
        self.put("nodes", name, metadata=metadata, spec={"taints": list(taints)}, status={"conditions": conditions})

    def pod(
        self,
        name: str,
        node: str,
        *,
        address: str = "127.0.0.1",
        conditions: Any = (),
        limit: Json | None = None,
        started: Any = None,
        **metadata: Any,
    ) -> None:
        status = {"podIP": address, "podIPs": [{"ip": address}], "conditions": list(conditions), "startTime": started}
        spec = {"nodeName": node, **(limit or {})}
        self.put("pods", name, metadata={"namespace": "training", **metadata}, spec=spec, status=status)

    def events(self, resource: str, name: str, since: int, seconds: float) -> Iterator[tuple[str, Json]]:
        """Changes of one object after a number, as they come."""
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0:
            with self.changed:
                fresh = [one for one in self.history if one[0] > since and one[1] == resource]
                if not fresh:
                    self.changed.wait(min(left, 0.1))
                    if self.fault == "cut":
                        return
            for number, _, kind, changed in fresh:
                since = number
                if changed["metadata"]["name"] == name or self.ignores_selectors:
                    yield kind, changed


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: "_Https"

    def do_GET(self) -> None:
        cluster, url = self.server.cluster, urlsplit(self.path)
        query = {name: values[0] for name, values in parse_qs(url.query).items()}
        parts = url.path.removeprefix("/api/v1/").split("/")
        watch, resource = query.get("watch") in ("true", "True"), parts[0] if parts[0] != "namespaces" else parts[2]
        if parts[0] == "namespaces" and parts[1] != "training":
            return self._status(404, "NotFound")
        verb = "watch" if watch else "get"
        cluster.requests.append(f"{verb} {resource}")
        if self.headers.get("Authorization", "").lower() != f"bearer {cluster.token}":
            return self._status(401, "Unauthorized")
        if (verb, resource) in cluster.forbidden:
            return self._status(403, "Forbidden")
        if cluster.fault is not None and self._fails(cluster.fault, watch=watch):
            self.close_connection = True
            return None
        if watch:
            return self._watch(resource, query)
        found = cluster.objects.get((resource, parts[-1]))
        return self._status(404, "NotFound") if found is None else self._json(200, found)

    def _watch(self, resource: str, query: dict[str, str]) -> None:
        cluster, since = self.server.cluster, int(query["resourceVersion"])
        name = query["fieldSelector"].removeprefix("metadata.name=")
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        if since < cluster.oldest_watch:
            gone = {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old resource version"}
            self._event("ERROR", gone)
        else:
            for kind, changed in cluster.events(resource, name, since, float(query["timeoutSeconds"])):
                self._event(kind, changed)
            if cluster.fault == "cut":
                self.close_connection = True
                return
        self.wfile.write(b"0\r\n\r\n")

    def _event(self, kind: str, changed: Json) -> None:
        line = json.dumps({"type": kind, "object": changed}).encode() + b"\n"
        self.wfile.write(b"%x\r\n%s\r\n" % (len(line), line))
        self.wfile.flush()

    def _fails(self, fault: str, *, watch: bool) -> bool:
        if fault == "gone":
            return watch and self._status(410, "Gone") is None
        if fault == "500":
            return self._status(500, "InternalError") is None
        if fault == "redirect":
            self.send_response(302)
            self.send_header("Location", "https://127.0.0.1:9/elsewhere")
            self.send_header("Content-Length", "0")
            self.end_headers()
            return True
        if fault in ("garbage", "page", "list"):
            body = {"garbage": b"\x00\xff" * 50, "page": b"<html>active-node-maintenance</html>", "list": b"[" * 9000}
            self.send_response(200)
            self.send_header("Content-Length", str(len(body[fault])))
            self.end_headers()
            self.wfile.write(body[fault])
            return True
        if fault in DRIPS:
            self.wfile.write(DRIPS[fault])
            while self.server.cluster.fault == fault:
                self.wfile.write(b"1")
                time.sleep(0.05)
            return True
        if fault == "endless":
            self.send_response(200)
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            while self.server.cluster.fault == "endless":
                self.wfile.write(b"10000\r\n" + b" " * 65536 + b"\r\n")
            return True
        return False

    def _status(self, code: int, reason: str) -> None:
        self._json(code, {"kind": "Status", "status": "Failure", "code": code, "reason": reason, "message": reason})

    def _json(self, code: int, value: Json) -> None:
        data = json.dumps(value).encode()
        self.send_response(code)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: object) -> None:
        """Says nothing."""


class _Https(QuickServer):
    cluster: Cluster

    def handle_error(self, *_: object) -> None:
        """A client that leaves is none of the server's faults."""


class ApiServer:
    """It, running in a thread; the files of a pod's service account are in `account`."""

    def __init__(self, cluster: Cluster, account: Path) -> None:
        account.mkdir(parents=True, exist_ok=True)
        (account / "token").write_text(TOKEN)
        (account / "namespace").write_text("training")
        key_and_certificate = account.parent / "server.pem"
        (account / "ca.crt").write_bytes(make_certificate(key_and_certificate))
        self.cluster = cluster
        self._https = _Https(("127.0.0.1", 0), _Handler)
        self._https.cluster = cluster
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(key_and_certificate)
        self._https.socket = context.wrap_socket(self._https.socket, server_side=True)
        self.env = {
            "KUBERNETES_SERVICE_HOST": "127.0.0.1",
            "KUBERNETES_SERVICE_PORT": str(self._https.server_address[1]),
            "HOSTNAME": "trainer-0",
        }
        self._thread = threading.Thread(target=self._https.serve_forever, args=(0.02,), daemon=True)
        self._thread.start()

    def __enter__(self) -> "ApiServer":
        return self

    def __exit__(self, *_: object) -> None:
        self._https.shutdown()
        self._https.server_close()
        self._thread.join()
