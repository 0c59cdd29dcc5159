"""GKE on nodes with GPUs: Kubernetes, but for what is here.

Facts as of 2026-11-29, from the GKE documentation, "Manage GKE node disruption for GPUs and TPUs": a host's maintenance
is announced 60 min before. Pods get SIGTERM at the beginning of that time, and have their own grace,
terminationGracePeriodSeconds, which is 3600 at most there and 30 unless set. A host error or a
repair gives no notice.
"""

from dataclasses import replace

from outlast.platforms import assumed, kubernetes

FACTS = replace(
    kubernetes.FACTS,
    name="gke-gpu",
    longest_grace_seconds=3600.0,
    mean_seconds_between_interruptions=assumed.WEEKLY_SECONDS,
    notice_sources=("SIGTERM", "kubernetes-node", "gce-metadata"),
    procedure="gke-gpu",
    sources={
        **kubernetes.FACTS.sources,
        "longest_grace_seconds": "GKE, Manage node disruption: up to 3600 s on nodes with GPUs (2026-11-29)",
        "mean_seconds_between_interruptions": assumed.WEEKLY_SOURCE,
        "notice_sources": "GKE, Manage node disruption: SIGTERM; the node's label and taint; metadata",
    },
)
