"""The names that GKE's nodes, taints and pods are marked with, for whoever writes, checks or emulates them.

GKE documentation as of 2026-11-30: "Spot VMs", "Flex-start and queued provisioning", "Manage GKE node disruption for
GPUs and TPUs", "Cloud Storage FUSE CSI driver".
"""

SPOT, PREEMPTIBLE = "cloud.google.com/gke-spot", "cloud.google.com/gke-preemptible"
PROVISIONING, FLEX_START = "cloud.google.com/gke-provisioning", "cloud.google.com/gke-flex-start"
IMPENDING_END, WINDOW_STARTED = (
    "cloud.google.com/impending-node-termination",
    "cloud.google.com/maintenance-window-started",
)
"""Taints of a node that is about to go."""
GCSFUSE_DRIVER, GCSFUSE_ANNOTATION = "gcsfuse.csi.storage.gke.io", "gke-gcsfuse/volumes"
