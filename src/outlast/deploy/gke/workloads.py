"""What starts the pods of a job: a Job, an Indexed Job, a JobSet, a Deployment.

Facts as of 2026-11-30. Kubernetes, "Jobs" and "Pod failure policy": the first rule that matches counts; Ignore replaces
the pod and counts nothing; podReplacementPolicy Failed starts no successor before the pod is over; a failure policy
needs restartPolicy Never; backoffLimitPerIndex needs an Indexed Job. JobSet (jobset.x-k8s.io/v1alpha2), types of
0.10: without a rule that matches, a failed Job restarts all and counts against maxRestarts, which is 0 unless set;
BlockingRecreate starts nothing before all old pods are gone; messages are matched as regular expressions.
"""

from typing import Any

from outlast.deploy.gke.explained import Why
from outlast.deploy.gke.pods import CONTAINER
from outlast.errors import EXIT_HUMAN
from outlast.platforms import kubernetes

Json = dict[str, Any]
INTERRUPTED = kubernetes.FACTS.interrupted_exit_code
_KEPT_SECONDS = 7 * 24 * 3600  # the status and the logs of a Job that is over
_PORT = 29500
_RANKS = "ranks"

DISRUPTED: Json = {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}
HUMAN_NEEDED: Json = {"action": "FailJob", "onExitCodes": {"operator": "In", "values": [EXIT_HUMAN]}}
LEFT_EARLY: Json = {"action": "Ignore", "onExitCodes": {"operator": "In", "values": [INTERRUPTED]}}
RANK_DISRUPTED: Json = {**DISRUPTED, "action": "FailJob"}
RANK_LEFT_EARLY: Json = {**LEFT_EARLY, "action": "FailJob"}


def failure_policy() -> Json:
    """For a Job whose pods are replaced one by one."""
    return {
        "rules": [
            Why(DISRUPTED, "First: a pod that the platform ends is replaced, and costs no retry."),
            Why(_of_main(HUMAN_NEEDED), "A retry would fail the same way, and cost the same again."),
            Why(_of_main(LEFT_EARLY), "It left on an earlier notice than the eviction, with work left."),
        ]
    }


def job(name: str, template: Json, *, backoff: int, deadline_seconds: int | None, labels: Json | None = None) -> Json:
    """A Job of one pod at a time."""
    spec: Json = {
        "completions": 1,
        "parallelism": 1,
        "backoffLimit": Why(backoff, "Failures of its own: the program's, the storage's. Disruptions do not count."),
        **_survival(deadline_seconds),
        "template": template,
    }
    return _object("batch/v1", "Job", name, spec, labels)


def indexed_job(
    name: str,
    template: Json,
    *,
    tasks: int,
    parallelism: int | None,
    backoff: int,
    deadline_seconds: int | None,
    labels: Json | None = None,
) -> Json:
    """A Job of numbered tasks, each with a budget of its own."""
    spec: Json = {
        "completionMode": "Indexed",
        "completions": tasks,
        "parallelism": parallelism or tasks,
        "backoffLimitPerIndex": Why(backoff, "Each task has its own budget: one that fails does not end the others."),
        **_survival(deadline_seconds),
        "template": template,
    }
    return _object("batch/v1", "Job", name, spec, labels)


def _survival(deadline_seconds: int | None) -> Json:
    """What every Job here has."""
    found: Json = {}
    if deadline_seconds is not None:
        why = "Over all attempts and the time they wait for a node. It bounds the bill; what is saved stays."
        found["activeDeadlineSeconds"] = Why(deadline_seconds, why)
    found["podReplacementPolicy"] = Why(
        "Failed", "The successor starts once the pod is over, so that two never write the same checkpoints."
    )
    found["podFailurePolicy"] = failure_policy()
    found["ttlSecondsAfterFinished"] = _KEPT_SECONDS
    return found


def jobset(
    name: str,
    template: Json,
    *,
    ranks: int,
    restarts: int,
    deadline_seconds: int | None,
    labels: Json | None = None,
) -> Json:
    """Ranks that start and end together: one that goes takes all to the last checkpoint."""
    rules = [
        Why(_of_main(HUMAN_NEEDED), "First here, since both end the Job: the JobSet tells them apart by the message."),
        Why(RANK_DISRUPTED, "The others cannot go on without it, so the whole Job ends at once."),
        Why(_of_main(RANK_LEFT_EARLY), "It left on an earlier notice than the eviction, with work left."),
    ]
    inner: Json = {
        "completionMode": "Indexed",
        "completions": ranks,
        "parallelism": ranks,
        "backoffLimit": Why(0, "A rank is not replaced alone; the JobSet starts all of them again."),
        "podReplacementPolicy": "Failed",
        "podFailurePolicy": {"rules": rules},
    }
    if deadline_seconds is not None:
        inner["activeDeadlineSeconds"] = Why(deadline_seconds, "Of one attempt of all ranks: it bounds the bill.")
    inner["template"] = template
    spec: Json = {
        "ttlSecondsAfterFinished": _KEPT_SECONDS,
        "network": {"enableDNSHostnames": True},
        "failurePolicy": restart_policy(restarts),
        "replicatedJobs": [{"name": _RANKS, "replicas": 1, "template": {"spec": inner}}],
    }
    return _object("jobset.x-k8s.io/v1alpha2", "JobSet", name, spec, labels)


def restart_policy(restarts: int) -> Json:
    """A JobSet's: disruptions cost no restart, 78 ends it."""
    human = {
        "name": "humanNeeded",
        "action": "FailJobSet",
        "onJobFailureReasons": ["PodFailurePolicy"],
        "onJobFailureMessagePatterns": [f".*exit code {EXIT_HUMAN} .*"],
    }
    disrupted = {
        "name": "disrupted",
        "action": "RestartJobSetAndIgnoreMaxRestarts",
        "onJobFailureReasons": ["PodFailurePolicy"],
    }
    return {
        "maxRestarts": Why(restarts, "Failures of its own: the program's, the storage's. Disruptions do not count."),
        "restartStrategy": Why("BlockingRecreate", "No new rank starts while an old one may still write."),
        "rules": [
            Why(human, "A retry would fail the same way, and cost the same again."),
            Why(disrupted, "The platform ended a rank."),
        ],
    }


def rank_variables(name: str, ranks: int) -> tuple[Json, ...]:
    """What torch.distributed and its kin read."""
    index = "metadata.annotations['batch.kubernetes.io/job-completion-index']"
    return (
        {"name": "RANK", "valueFrom": {"fieldRef": {"fieldPath": index}}},
        {"name": "WORLD_SIZE", "value": str(ranks)},
        {"name": "MASTER_ADDR", "value": f"{name}-{_RANKS}-0-0.{name}"},
        {"name": "MASTER_PORT", "value": str(_PORT)},
    )


def deployment(name: str, template: Json, *, replicas: int, labels: Json | None = None) -> Json:
    """Workers that are always on."""
    own = {"app.kubernetes.io/name": name}
    spec: Json = {
        "replicas": replicas,
        "selector": {"matchLabels": own},
        "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 1, "maxSurge": 1}},
        "template": template,
    }
    return _object("apps/v1", "Deployment", name, spec, labels)


def _of_main(rule: Json) -> Json:
    """The rule for the program's container, and not for a sidecar's code."""
    return {**rule, "onExitCodes": {"containerName": CONTAINER, **rule["onExitCodes"]}}


def _object(version: str, kind: str, name: str, spec: Json, labels: Json | None) -> Json:
    metadata = {"name": name, "labels": {"app.kubernetes.io/name": name, **(labels or {})}}
    return {"apiVersion": version, "kind": kind, "metadata": metadata, "spec": spec}
