"""What to ask the platform by hand: the query for Logs Explorer, and kubectl's commands, with the names filled in.

Facts as of 2026-11-29. GKE, "Manage GKE node disruption for GPUs and TPUs", on monitoring an active graceful
termination: the pods with the label name=maintenance-handler, their logs in kube-system, `kubectl describe node`, and
the query below. The address of Logs Explorer with a query in it: Cloud Logging, "Share a query".
"""

import shlex
from collections.abc import Iterator, Sequence
from urllib.parse import quote

from outlast.monitor.nodes_cluster import gke_name

HANDLER_LABELS, HANDLER_NAMESPACE, HANDLER_CONTAINER = "name=maintenance-handler", "kube-system", "maintenance-handler"
_CONSOLE = "https://console.cloud.google.com/logs/query;query="


def logs_query(cluster: str) -> str:
    """For Logs Explorer; CLUSTER_NAME stands where the cluster's name on GKE is not known."""
    known = gke_name(cluster)
    lines = [
        'resource.type="k8s_container"',
        f'resource.labels.namespace_name="{HANDLER_NAMESPACE}"',
        f'resource.labels.container_name="{HANDLER_CONTAINER}"',
        f'resource.labels.cluster_name="{known["name"] if known else "CLUSTER_NAME"}"',
    ]
    return "\n".join(lines)


def logs_address(cluster: str) -> str | None:
    """Where a browser shows it; None where the project is not known."""
    known = gke_name(cluster)
    if known is None:
        return None
    return f"{_CONSOLE}{quote(logs_query(cluster), safe='')}?project={quote(known['project'], safe='')}"


def kubectl_commands(context: str | None, *, nodes: Sequence[str], handlers: Sequence[tuple[str, str]]) -> list[str]:
    """For a shell. `handlers`: (namespace, name) of pods on these nodes; placeholders where there is none."""
    return [shlex.join(words) for words in _commands(context, nodes, handlers)]


def _commands(
    context: str | None, nodes: Sequence[str], handlers: Sequence[tuple[str, str]]
) -> Iterator[tuple[str, ...]]:
    kubectl = ("kubectl",) if context is None else ("kubectl", "--context", context)
    yield (*kubectl, "get", "pods", "-l", HANDLER_LABELS, "-A", "-o", "wide")
    for namespace, name in handlers or ((HANDLER_NAMESPACE, "MAINTENANCE_HANDLER_POD_NAME"),):
        yield (*kubectl, "logs", f"-n={namespace}", name)
    for node in nodes or ("NODE_NAME",):
        yield (*kubectl, "describe", "node", node)
