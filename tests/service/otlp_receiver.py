"""An OTLP receiver on loopback: takes protobuf over HTTP as a collector does, and keeps what it was told."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

_KINDS = {"/v1/metrics": ExportMetricsServiceRequest, "/v1/traces": ExportTraceServiceRequest}


@dataclass
class Receiver:
    """`hangs`: it takes a request and never answers. `code`: what it answers with."""

    url: str = ""
    code: int = 200
    hangs: bool = False
    gone: threading.Event = field(default_factory=threading.Event)
    asked: threading.Event = field(default_factory=threading.Event)
    requests: list[Any] = field(default_factory=list)
    unread: list[str] = field(default_factory=list)  # what was no OTLP

    def numbers(self, instance: str) -> dict[str, Any]:
        """The last value of each series of a process: "name{label=value,...}", without the labels of all of them."""
        found: dict[str, Any] = {}
        for one in [part for part in self.requests if isinstance(part, ExportMetricsServiceRequest)]:
            for resource in one.resource_metrics:
                if not attributes_of(resource.resource)["service.instance.id"].endswith(instance):
                    continue
                for scope in resource.scope_metrics:
                    for metric in scope.metrics:
                        data = getattr(metric, metric.WhichOneof("data"))
                        for point in data.data_points:
                            found[_series(metric.name, point)] = _value(point)
        return found

    def labels(self) -> set[str]:
        """The names of all labels of all numbers."""
        requests = [part for part in self.requests if isinstance(part, ExportMetricsServiceRequest)]
        metrics = [m for r in requests for rm in r.resource_metrics for sm in rm.scope_metrics for m in sm.metrics]
        points = [point for metric in metrics for point in getattr(metric, metric.WhichOneof("data")).data_points]
        return {one.key for point in points for one in point.attributes}

    def spans(self, instance: str) -> list[Any]:
        """The spans of a process."""
        requests = [part for part in self.requests if isinstance(part, ExportTraceServiceRequest)]
        resources = [resource for request in requests for resource in request.resource_spans]
        mine = [one for one in resources if attributes_of(one.resource)["service.instance.id"].endswith(instance)]
        return [span for one in mine for scope in one.scope_spans for span in scope.spans]

    def resource(self) -> dict[str, Any]:
        """Of the first numbers."""
        first = next(one for one in self.requests if isinstance(one, ExportMetricsServiceRequest))
        return attributes_of(first.resource_metrics[0].resource)


def attributes_of(told: Any) -> dict[str, Any]:
    """The attributes of a resource, a point or a span."""
    return {one.key: getattr(one.value, one.value.WhichOneof("value")) for one in told.attributes}


def _series(name: str, point: Any) -> str:
    own = {k: v for k, v in attributes_of(point).items() if not k.startswith("outlast.")}
    return name + ("{" + ",".join(f"{k}={v}" for k, v in sorted(own.items())) + "}" if own else "")


def _value(point: Any) -> Any:
    if hasattr(point, "bucket_counts"):
        assert sum(point.bucket_counts) == point.count
        return (point.count, point.sum)
    return getattr(point, point.WhichOneof("value"))


@contextmanager
def receiver(**settings: Any) -> Iterator[Receiver]:
    """A receiver, for as long as this is entered."""
    told = Receiver(**settings)

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            told.asked.set()
            if told.hangs:
                told.gone.wait(120)
                return
            if told.code == 200:
                try:
                    assert self.headers["Content-Type"] == "application/x-protobuf"
                    told.requests.append(_KINDS[self.path].FromString(body))
                except Exception as error:  # noqa: BLE001 - kept for the test, which fails by it
                    told.unread.append(f"{self.path}: {error!r}")
            self.send_response(told.code)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    told.url = f"http://127.0.0.1:{server.server_port}"
    try:
        yield told
    finally:
        told.gone.set()
        server.shutdown()
        server.server_close()
        thread.join(10)
