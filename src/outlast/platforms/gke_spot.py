"""GKE on Spot nodes: Kubernetes, but for what is here.

Facts as of 2026-11-29. From the GKE documentation, "Spot VMs": of the 30 s of a graceful shutdown the first 15 are for
ordinary pods, whatever their terminationGracePeriodSeconds asks for. From four agreeing accounts of the node system
configuration: shutdownGracePeriodSeconds of Spot pools may be 120, of which shutdownGracePeriodCriticalPodsSeconds,
15 in their examples, are not for ordinary pods.
"""

from dataclasses import replace

from outlast.platforms import assumed, kubernetes

FACTS = replace(
    kubernetes.FACTS,
    name="gke-spot",
    grace_seconds=15.0,
    longest_grace_seconds=105.0,
    mean_seconds_between_interruptions=assumed.SPOT_SECONDS,
    notice_sources=("SIGTERM", "gce-metadata", "kubernetes-node"),
    procedure="gke-spot",
    sources={
        **kubernetes.FACTS.sources,
        "grace_seconds": "GKE, Spot VMs: the first 15 of 30 s are for your pods, unless told otherwise (2026-11-29)",
        "longest_grace_seconds": "GKE, node system configuration: 120 s, less 15 for critical pods (2026-11-29)",
        "mean_seconds_between_interruptions": assumed.SPOT_SOURCE,
        "notice_sources": "GKE, Spot VMs: SIGTERM; Compute Engine, metadata: preempted; the node's taints",
    },
)
