"""A cluster as its owner sees it from a desk: nodes, pods and logs, through the official client and the kubeconfig.

A pod's own node is another matter: `outlast.sources.kubernetes_api` reads one object by the pod's service account.
"""

import inspect
import json
import os
import re
import time
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from outlast.errors import ClusterUnreachable, OutlastError, SettingsError
from outlast.sources.kubernetes_api import Json, part, text
from outlast.sources.moments import parse_moment

_CLIENT = "kubernetes"  # the package
_MISSING = "looking at a cluster needs the Kubernetes client: pip install 'outlast[kubernetes]'"
_TIMEOUT_SECONDS = (5.0, 20.0)  # to connect, and of silence
_LONGEST_SECONDS = 60.0  # for all pages of one listing
_PAGE = 500  # as kubectl asks
_SAME_SECONDS = 2.0  # what a date in whole seconds cannot tell from our own clock
_MOST_BYTES = 64 * 1024 * 1024  # of one page; 500 nodes with many images take some 10 MB
_GKE_CLUSTER = re.compile(
    r"gke_(?P<project>[^_]+)_(?P<location>[^_]+)_(?P<name>[^_]+)"
)  # gcloud's names in kubeconfigs
_OWN_NAMESPACE = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")


class ClusterRefused(OutlastError):
    """The cluster answers and has said no: `what` was asked for, and why it is refused."""

    def __init__(self, what: str, code: int, why: str) -> None:
        super().__init__(f"{what}: HTTP {code}{f', {why}' if why else ''}")
        self.what, self.code, self.why = what, code, why

    @property
    def forbidden(self) -> bool:
        """Whether a right is missing; else the thing is not there, or cannot be read now."""
        return self.code == 403


class Cluster(Protocol):
    """The door to a cluster."""

    name: str
    """As the kubeconfig calls it."""
    context: str | None
    namespace: str
    """Of the context."""

    def nodes(self) -> list[Json]:
        """All nodes. Raises ClusterRefused, and ClusterUnreachable where nobody answers, as the others do."""
        ...

    def pods(self, *, namespace: str | None = None, labels: str = "", fields: str = "") -> list[Json]:
        """The pods that the selectors choose; of all namespaces unless told."""
        ...

    def log(self, name: str, namespace: str, *, lines: int) -> list[str]:
        """The last lines of a pod."""
        ...

    def now(self) -> float:
        """The API server's clock, seconds since the epoch."""
        ...


class OfficialClient:
    """A cluster through the package `kubernetes`, found as kubectl finds it; in a pod by its service account.

    Raises SettingsError where the package, the kubeconfig or the context is missing, or cannot be read.
    """

    def __init__(self, env: Mapping[str, str], *, context: str | None = None) -> None:
        try:
            from kubernetes import client  # noqa: PLC0415 - an extra
        except ModuleNotFoundError as error:
            if error.name is None or error.name.partition(".")[0] != _CLIENT:
                raise
            raise SettingsError(_MISSING) from error
        configuration = client.Configuration()
        self.name, self.context, self.namespace = _configure(configuration, env, context)
        configuration.retries = False
        self._core = client.CoreV1Api(client.ApiClient(configuration))
        self._ahead_seconds = 0.0
        self._host = str(configuration.host)

    def nodes(self) -> list[Json]:
        return list(self._all("list nodes", "list_node"))

    def pods(self, *, namespace: str | None = None, labels: str = "", fields: str = "") -> list[Json]:
        chosen = {name: value for name, value in (("label_selector", labels), ("field_selector", fields)) if value}
        if namespace is None:
            return list(self._all("list pods in all namespaces", "list_pod_for_all_namespaces", **chosen))
        what = f"list pods in namespace {namespace}"
        return list(self._all(what, "list_namespaced_pod", namespace=namespace, **chosen))

    def log(self, name: str, namespace: str, *, lines: int) -> list[str]:
        what = f"get the log of pod {namespace}/{name}"
        arguments = {"name": name, "namespace": namespace, "tail_lines": lines, "limit_bytes": 200 * lines}
        return self._ask(what, "read_namespaced_pod_log", **arguments).decode(errors="replace").splitlines()[-lines:]

    def now(self) -> float:
        return time.time() + self._ahead_seconds

    def _all(self, what: str, method: str, **chosen: Any) -> Iterator[Json]:
        """Every object of a listing, page by page."""
        until, after = time.monotonic() + _LONGEST_SECONDS, ""
        while True:
            more = {"_continue": after} if after else {}
            page = _object(self._ask(what, method, limit=_PAGE, **chosen, **more), what)
            items = page.get("items")
            yield from (one for one in items if isinstance(one, dict)) if isinstance(items, list) else ()
            after = str(part(page, "metadata").get("continue") or "")
            if not after:
                return
            if time.monotonic() > until:
                raise ClusterUnreachable(f"{what}: not done after {_LONGEST_SECONDS:.0f} s; choose a --namespace")

    def _ask(self, what: str, method: str, **arguments: Any) -> bytes:
        """The body of an answer of 200."""
        # Newer clients check the arguments in Rust, and a thread that waits below it when the process ends aborts it.
        ask = partial(inspect.unwrap(getattr(type(self._core), method)), self._core)
        try:
            response = ask(_preload_content=False, _request_timeout=_TIMEOUT_SECONDS, **arguments)
            body = response.read(_MOST_BYTES + 1)
            date = parse_moment(response.headers.get("date"))
            response.release_conn()
        except Exception as error:  # of the client, urllib3 or ssl: that depends on the client's version
            status = getattr(error, "status", None)
            if isinstance(status, int) and status:
                raise self._refusal(what, status, getattr(error, "body", None)) from error
            why = f"{type(error).__name__}: {error}"[:300]
            raise ClusterUnreachable(
                f"the API server of cluster {self.name} ({self._host}) does not answer: {why}; nothing was changed. "
                "Does `kubectl get nodes` work from here?"
            ) from error
        if len(body) > _MOST_BYTES:
            raise ClusterUnreachable(f"{what}: the answer is longer than {_MOST_BYTES} bytes")
        ahead = 0.0 if date is None else date - time.time()
        self._ahead_seconds = ahead if abs(ahead) > _SAME_SECONDS else 0.0
        return bytes(body)

    def _refusal(self, what: str, status: int, body: object) -> Exception:
        try:
            said = json.loads(body) if isinstance(body, str | bytes) else {}
        except (ValueError, RecursionError):
            said = {}
        why = text(said.get("message")) if isinstance(said, dict) else ""
        if status == 401:
            return SettingsError(
                f"cluster {self.name} does not know who asks (HTTP 401): the login of the kubeconfig is missing or has "
                "run out; on GKE: gcloud container clusters get-credentials CLUSTER, with gke-gcloud-auth-plugin"
            )
        if status >= 500:
            return ClusterUnreachable(f"the API server of cluster {self.name} answers HTTP {status} {why}".rstrip())
        return ClusterRefused(what, status, why)


def gke_name(cluster: str) -> dict[str, str] | None:
    """Project, location and name of a cluster of GKE, by the name that gcloud gives it in kubeconfigs."""
    found = _GKE_CLUSTER.fullmatch(cluster)
    return None if found is None else found.groupdict()


def _object(body: bytes, what: str) -> Json:
    try:
        said = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise ClusterUnreachable(f"{what}: the answer is no JSON; is this an API server?") from error
    if not isinstance(said, dict):
        raise ClusterUnreachable(f"{what}: the answer is no object; is this an API server?")
    return said


def _configure(configuration: Any, env: Mapping[str, str], context: str | None) -> tuple[str, str | None, str]:
    """Fills the client's configuration: (the cluster's name, the context, its namespace)."""
    config = _untyped_config()
    files = env.get("KUBECONFIG") or str(Path("~/.kube/config").expanduser())
    if not any(Path(one).expanduser().is_file() for one in files.split(os.pathsep)):
        if env.get("KUBERNETES_SERVICE_HOST") and context is None:
            return _configure_in_cluster(configuration)
        raise SettingsError(
            f"there is no kubeconfig at {files}; set KUBECONFIG, or write one "
            "(on GKE: gcloud container clusters get-credentials CLUSTER --location LOCATION)"
        )
    try:
        known, active = config.list_kube_config_contexts(files)
        chosen = active if context is None else next((one for one in known if one.get("name") == context), None)
        if chosen is None:
            there = ", ".join(str(one.get("name")) for one in known)
            raise SettingsError(f"--context={context!r}: the kubeconfig {files} has no such context; it has {there}")
        config.load_kube_config(files, context=chosen["name"], client_configuration=configuration, persist_config=False)
    except SettingsError:
        raise
    except Exception as error:  # of the client, PyYAML or the plug-in that logs in
        raise SettingsError(f"the kubeconfig {files} cannot be used: {type(error).__name__}: {error}"[:600]) from error
    inner = part(chosen, "context")
    return str(inner.get("cluster") or chosen["name"]), str(chosen["name"]), str(inner.get("namespace") or "default")


def _untyped_config() -> Any:
    """The client's module that reads kubeconfigs; it has no types."""
    from kubernetes import config  # noqa: PLC0415 - an extra; its absence has been told

    return config


def _configure_in_cluster(configuration: Any) -> tuple[str, str | None, str]:
    try:
        _untyped_config().load_incluster_config(client_configuration=configuration)
        namespace = _OWN_NAMESPACE.read_text().strip()
    except Exception as error:  # of the client, or the pod has no service account
        raise SettingsError(f"this pod has no service account that can be used: {error}") from error
    return "of this pod", None, namespace or "default"
