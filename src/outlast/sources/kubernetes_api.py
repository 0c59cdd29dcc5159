"""The Kubernetes API as a pod reaches it, through the official client: an object read, an object watched, bounded.

The client does what is easy to get wrong (the service account's token, which is renewed, and the cluster's own
certificate); the JSON is read here, in pieces of a limited size and time.
"""

import inspect
import json
import socket
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from outlast.disruptions import SourceUnavailable
from outlast.sources.bounded import BoundedSocket

_CLIENT = "kubernetes"  # the package
_CONNECT_SECONDS, _ANSWER_SECONDS = 5.0, 15.0
_WATCH_SECONDS = 240
_MOST_BYTES = 4 * 1024 * 1024  # of one object; a node with many images takes some 100 KB
_MOST_BYTES_OF_ALL = 64 * 1024 * 1024  # of one answer, a watch included
_OK, _UNAUTHORIZED, _FORBIDDEN, _NOT_FOUND = 200, 401, 403, 404
_KEEPALIVE = {"TCP_KEEPIDLE": 20, "TCP_KEEPINTVL": 5, "TCP_KEEPCNT": 3}  # a watch on a dead connection ends in 35 s

Json = dict[str, Any]


class Forbidden(SourceUnavailable):
    """The service account has no right to it."""


class NotFound(SourceUnavailable):
    """There is no such object."""


class Unauthorized(SourceUnavailable):
    """The service account's token has run out, or was replaced."""


class KubernetesApi:
    """The API server of the cluster that this pod is in.

    Raises SourceUnavailable when it cannot be made: without the client, or outside a cluster.
    """

    def __init__(self, env: Mapping[str, str]) -> None:
        if not env.get("KUBERNETES_SERVICE_HOST"):
            raise SourceUnavailable("this is no pod: KUBERNETES_SERVICE_HOST is not set", absent=True)
        try:
            from kubernetes import client  # noqa: PLC0415 - loaded in the thread of the source, not with the program
            from kubernetes.config import ConfigException, incluster_config  # noqa: PLC0415 - as above
        except ModuleNotFoundError as error:
            if error.name is None or error.name.partition(".")[0] != _CLIENT:
                raise
            raise SourceUnavailable(
                "the Kubernetes client is not installed (pip install 'outlast[kubernetes]'); SIGTERM is heard",
                told=True,
            ) from error
        configuration = client.Configuration()
        token, certificate = incluster_config.SERVICE_TOKEN_FILENAME, incluster_config.SERVICE_CERT_FILENAME
        make_loader: Any = incluster_config.InClusterConfigLoader  # it has no types
        try:
            loader = make_loader(token, certificate, environ=env)
            loader.load_and_set(configuration)
            self._server = (env["KUBERNETES_SERVICE_HOST"], int(env["KUBERNETES_SERVICE_PORT"]))
        except (ConfigException, OSError, ValueError) as error:
            raise SourceUnavailable(f"no service account that the pod can use: {error}", told=True) from error
        configuration.proxy = None  # the API server is in the cluster, whatever the environment says
        configuration.retries = False
        configuration.connection_pool_maxsize = 2  # the node and the pod
        configuration.socket_options = _socket_options()
        transport = client.ApiClient(configuration)
        _bound(transport.rest_client.pool_manager)
        self._core = client.CoreV1Api(transport)
        self._read_token = partial(loader.load_and_set, configuration)
        self._namespace_file = Path(token).with_name("namespace")

    def namespace(self) -> str | None:
        """The pod's own, None if that is not known."""
        try:
            return self._namespace_file.read_text().strip() or None
        except (OSError, ValueError):
            return None

    def own_address(self) -> str | None:
        """The address under which the API server would see this process; nothing is sent for that."""
        try:
            family, *_ = socket.getaddrinfo(*self._server)[0]
            with socket.socket(family, socket.SOCK_DGRAM) as probe:
                probe.connect(self._server)
                return str(probe.getsockname()[0])
        except OSError:
            return None

    def node(self, name: str) -> Json:
        """A node; raises Forbidden, NotFound, SourceUnavailable."""
        return self._object(partial(self._read("read_node"), name))

    def pod(self, name: str, namespace: str) -> Json:
        """A pod; raises as `node`."""
        return self._object(partial(self._read("read_namespaced_pod"), name, namespace))

    def watch_node(self, name: str, since: str) -> Iterator[tuple[str, Json]]:
        """What happens to a node from a resource version on: (type, node); ends after a few minutes, and with the
        connection. Raises Forbidden, and SourceUnavailable too where the watch has expired (410).
        """
        return self._watch(self._read("list_node"), name, since)

    def watch_pod(self, name: str, namespace: str, since: str) -> Iterator[tuple[str, Json]]:
        """The same of a pod."""
        return self._watch(partial(self._read("list_namespaced_pod"), namespace), name, since)

    def _read(self, method: str) -> Callable[..., Any]:
        """A method of the client without the check of its arguments that newer clients wrap around it, in Rust.

        A thread that waits for an answer below Rust's frames when the interpreter ends aborts the process.
        """
        return partial(inspect.unwrap(getattr(type(self._core), method)), self._core)

    def _watch(self, list_all: Callable[..., Any], name: str, since: str) -> Iterator[tuple[str, Json]]:
        response = self._ask(
            list_all,
            (_CONNECT_SECONDS, _WATCH_SECONDS + _ANSWER_SECONDS),
            watch=True,
            field_selector=f"metadata.name={name}",
            resource_version=since,
            timeout_seconds=_WATCH_SECONDS,
        )
        for line in _lines(response, until=time.monotonic() + _WATCH_SECONDS + _ANSWER_SECONDS):
            kind, changed = _event(line)
            if kind == "ERROR":
                raise SourceUnavailable(f"the watch failed with code {str(changed.get('code'))[:20]}")
            yield kind, changed

    def _object(self, read: Callable[..., Any]) -> Json:
        response = self._ask(read, (_CONNECT_SECONDS, _ANSWER_SECONDS))
        lines = list(_lines(response, until=time.monotonic() + _ANSWER_SECONDS))
        return _json("\n".join(lines))

    def _ask(self, read: Callable[..., Any], timeout: tuple[float, float], **arguments: Any) -> Any:
        """The open response. The client reads the token anew once a minute by the wall clock, which may be set."""
        try:
            return _answer(read, timeout, **arguments)
        except Unauthorized:
            with suppress(Exception):  # of the client; the next question says what is wrong
                self._read_token()
            raise


def _bound(pool_manager: Any) -> None:
    """Makes its time limits hold for a whole exchange, TLS included, and limits the size of what is no line yet."""
    from urllib3 import HTTPSConnectionPool  # noqa: PLC0415 - of the client, and loaded with it
    from urllib3.connection import HTTPSConnection  # noqa: PLC0415 - as above

    class Connection(HTTPSConnection):
        def connect(self) -> None:
            super().connect()
            bounded: Any = BoundedSocket(self.sock, _ANSWER_SECONDS, most_bytes=_MOST_BYTES_OF_ALL)
            self.sock = bounded

    class Pool(HTTPSConnectionPool):
        ConnectionCls = Connection

    pool_manager.pool_classes_by_scheme = {"https": Pool}


def _answer(ask: Callable[..., Any], timeout: tuple[float, float], **arguments: Any) -> Any:
    """The open response; raises what its status means."""
    try:
        response = ask(_preload_content=False, _request_timeout=timeout, **arguments)
    except Exception as error:  # of the client, urllib3 or ssl: that depends on the client's version
        status = getattr(error, "status", None)
        if not isinstance(status, int) or not status:
            raise SourceUnavailable(f"the API server does not answer: {type(error).__name__}: {error}") from error
    else:
        status = response.status
        if status == _OK:
            return response
        response.close()
    if status == _UNAUTHORIZED:
        raise Unauthorized("the API server answers HTTP 401")
    if status == _FORBIDDEN:
        raise Forbidden("HTTP 403")
    if status == _NOT_FOUND:
        raise NotFound("HTTP 404")
    raise SourceUnavailable(f"the API server answers HTTP {status}")


def _lines(response: Any, *, until: float) -> Iterator[str]:
    """The lines of a response, as they come; closes it at the end."""
    rest = bytearray()
    try:
        for piece in response.stream(65536, decode_content=False):
            rest += piece
            *whole, last = rest.split(b"\n")
            rest = bytearray(last)
            for line in whole:
                if line.strip():
                    yield line.decode()
            if len(rest) > _MOST_BYTES or time.monotonic() > until:
                raise SourceUnavailable("the answer of the API server is too long")
        if rest.strip():
            yield rest.decode()
    except SourceUnavailable:
        raise
    except Exception as error:
        raise SourceUnavailable(f"the answer of the API server broke off: {type(error).__name__}") from error
    finally:
        response.close()


def _event(line: str) -> tuple[str, Json]:
    said = _json(line)
    kind, changed = said.get("type"), said.get("object")
    if not isinstance(kind, str) or not isinstance(changed, dict):
        raise SourceUnavailable("the watch says what is no event")
    return kind, changed


def _json(text: str) -> Json:
    try:
        said = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise SourceUnavailable("the answer of the API server is no JSON") from error
    if not isinstance(said, dict):
        raise SourceUnavailable("the answer of the API server is no object")
    return said


def _socket_options() -> list[tuple[int, int, int]]:
    """Keepalive by the names that this system has."""
    options = [
        (socket.IPPROTO_TCP, socket.TCP_NODELAY, 1),
        (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
    ]
    known = [(getattr(socket, name, None), value) for name, value in _KEEPALIVE.items()]
    return options + [(socket.IPPROTO_TCP, number, value) for number, value in known if number is not None]


# --- what may be missing in an object, or be something else ------------------------------------------


def part(thing: Json, *names: str) -> dict[str, Any]:
    """A part of an object; empty where it is missing or something else."""
    for name in names:
        inner = thing.get(name)
        thing = inner if isinstance(inner, dict) else {}
    return thing


def parts(thing: Json, name: str, listed: str) -> list[dict[str, Any]]:
    """The objects in a list of a part; empty where there is none."""
    found = part(thing, name).get(listed)
    return [one for one in found if isinstance(one, dict)] if isinstance(found, list) else []


def text(value: object) -> str:
    """A short text; empty for anything else."""
    return value.strip()[:253] if isinstance(value, str) and value.isprintable() else ""
