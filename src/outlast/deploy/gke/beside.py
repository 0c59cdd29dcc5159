"""What stands beside a job's pods: their service account, rights to read a node, a budget for disruptions, metrics.

Facts as of 2026-11-30. GKE, "Workload Identity Federation": the annotation iam.gke.io/gcp-service-account. Kubernetes,
"Disruptions": a budget holds back evictions, and no Spot reclaim, host maintenance or node failure. Google Cloud
Managed Service for Prometheus: PodMonitoring, monitoring.googleapis.com/v1.
"""

from typing import Any

from outlast.deploy.gke.explained import Why

Json = dict[str, Any]


def service_account(name: str, *, google_account: str | None) -> Json:
    """The Kubernetes account of the pods, which is the Google one towards Google Cloud."""
    metadata: Json = {"name": name}
    if google_account is not None:
        why = "Workload Identity: the pod has this account's rights, and no key."
        metadata["annotations"] = {"iam.gke.io/gcp-service-account": Why(google_account, why)}
    return {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata}


def node_reader(name: str, *, account: str, namespace: str) -> list[Json]:
    """What lets a pod hear of its node's maintenance, and of its own deletion where a shell keeps SIGTERM."""
    role, binding = f"outlast-{namespace}-{name}-nodes", "rbac.authorization.k8s.io"  # of the whole cluster
    subject = {"kind": "ServiceAccount", "name": account, "namespace": namespace}

    def rules(resource: str) -> list[Json]:
        return [{"apiGroups": [""], "resources": [resource], "verbs": ["get", "watch"]}]

    def pair(kind: str, resource: str, of: str) -> list[Json]:
        place = {} if kind == "ClusterRole" else {"namespace": namespace}
        metadata = {"name": of, **place}
        made = {"apiVersion": f"{binding}/v1", "kind": kind, "metadata": metadata, "rules": rules(resource)}
        given = {"apiVersion": f"{binding}/v1", "kind": f"{kind}Binding", "metadata": metadata}
        return [made, {**given, "roleRef": {"apiGroup": binding, "kind": kind, "name": of}, "subjects": [subject]}]

    return [*pair("ClusterRole", "nodes", role), *pair("Role", "pods", f"{name}-pods")]


def disruption_budget(name: str) -> Json:
    """For workers that are always on: upgrades and drains take one at a time.

    A Job has none: it survives an eviction, and a budget of one pod would hold back an upgrade for an hour, and the
    autoscaler for good, but no reclaim and no maintenance.
    """
    spec = {
        "maxUnavailable": Why(1, "Never 0: that would hold back every drain, and still no reclaim."),
        "selector": {"matchLabels": {"app.kubernetes.io/name": name}},
    }
    return {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": name}, "spec": spec}


def pod_monitoring(name: str, *, port: str) -> Json:
    """Has the pods' metrics collected."""
    spec = {
        "selector": {"matchLabels": {"app.kubernetes.io/name": name}},
        "endpoints": [{"port": port, "interval": "30s"}],
    }
    return {
        "apiVersion": "monitoring.googleapis.com/v1", "kind": "PodMonitoring", "metadata": {"name": name}, "spec": spec
    }  # fmt: skip
