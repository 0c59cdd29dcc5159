"""Kubernetes Jobs on nodes of a kind that nobody has named.

Facts as of 2026-11-29, from the Kubernetes documentation: "Pod lifecycle" (SIGTERM, terminationGracePeriodSeconds,
30 by default, SIGKILL), "Jobs" (backoffLimit, 6 by default; a pod that exits with 0 counts as complete).
"""

from outlast.platforms import assumed
from outlast.ports import PlatformFacts

FACTS = PlatformFacts(
    name="kubernetes",
    grace_seconds=30.0,
    interrupted_exit_code=143,
    default_retries=6,
    max_retries=None,
    mean_seconds_between_interruptions=assumed.DAILY_SECONDS,
    notice_share=assumed.NOTICE_SHARE,
    notice_sources=("SIGTERM", "kubernetes-node"),
    container_per_attempt=True,
    logs="json",
    procedure="pod",
    provisional=True,
    sources={
        "grace_seconds": "Kubernetes, Pod lifecycle: terminationGracePeriodSeconds is 30 unless set (2026-11-29)",
        "interrupted_exit_code": "Kubernetes, Jobs: a pod that exits with 0 is complete, even when its node shuts down",
        "default_retries": "Kubernetes, Jobs: backoffLimit is 6 unless set (2026-11-29)",
        "max_retries": "Kubernetes, Jobs: backoffLimit has no upper bound (2026-11-29)",
        "mean_seconds_between_interruptions": assumed.DAILY_SOURCE,
        "notice_share": assumed.NOTICE_SHARE_SOURCE,
        "notice_sources": "Kubernetes, Pod lifecycle: SIGTERM first; a node's taints and labels may say it earlier",
        "container_per_attempt": "Kubernetes, Jobs: a failed pod is replaced by a new one",
        "logs": "the logs of containers are collected; a line that is JSON keeps its severity",
    },
)
