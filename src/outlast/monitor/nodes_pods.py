"""What a pod's own object says: whose it is, whether it runs outlast, where its store is, and how it ends.

Facts as of 2026-11-29. Kubernetes: "Jobs" (the label batch.kubernetes.io/job-name, the annotation
batch.kubernetes.io/job-completion-index), "Pod lifecycle" (a pod that is deleted has metadata.deletionTimestamp, which
is when its grace is over), "Disruptions" (the condition DisruptionTarget). JobSet: the label
jobset.sigs.k8s.io/jobset-name.
"""

from dataclasses import dataclass

from outlast.monitor.nodes_containers import ContainerMarks
from outlast.monitor.nodes_losses import Worksite
from outlast.sources.kubernetes_api import Json, part, parts, text
from outlast.sources.moments import parse_moment

_JOB_LABELS = ("batch.kubernetes.io/job-name", "job-name")
_JOBSET_LABEL = "jobset.sigs.k8s.io/jobset-name"
_INDEX_ANNOTATION = "batch.kubernetes.io/job-completion-index"
_DEFAULT_GRACE_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class PodMarks:
    """One pod. Moments are on the cluster's clock.

    `owner`: as kubectl names it, such as "job/train"; `jobset`: the JobSet above it. `index`: of an indexed Job.
    `runs_outlast`: what says so, in words, empty if nothing does. `urls`: stores and queues that its manifest names,
    as they are seen from outside; `unseen`: why there may be more. `job`: OUTLAST_JOB, else the Job's name.
    `ends_at`: the end of its grace, once it is being deleted. `disrupted`: why the platform ends it; `disrupted_at`.
    """

    namespace: str
    name: str
    node: str
    phase: str
    owner: str = ""
    jobset: str = ""
    index: int | None = None
    runs_outlast: str = ""
    urls: tuple[str, ...] = ()
    unseen: tuple[str, ...] = ()
    job: str | None = None
    grace_seconds: float = _DEFAULT_GRACE_SECONDS
    ends_at: float | None = None
    disrupted: str = ""
    disrupted_at: float | None = None
    created_at: float | None = None
    waits_for: str = ""

    @property
    def worksite(self) -> Worksite:
        """Where it works, for who asks the stores."""
        return Worksite(self.urls, self.job, self.index, self.name)


def pod_marks(pod: Json) -> PodMarks:
    """Reads one pod."""
    meta, spec, status = part(pod, "metadata"), part(pod, "spec"), part(pod, "status")
    labels = part(meta, "labels")
    job = next((found for name in _JOB_LABELS if (found := text(labels.get(name)))), "")
    containers = [*parts(pod, "spec", "containers"), *parts(pod, "spec", "initContainers")]
    read = [ContainerMarks(one, parts(pod, "spec", "volumes")) for one in containers]
    env = {name: value for one in reversed(read) for name, value in one.env.items()}
    why = next((found for one in read if (found := one.runs_outlast())), "")
    index = text(part(meta, "annotations").get(_INDEX_ANNOTATION))
    grace = spec.get("terminationGracePeriodSeconds")
    disruption = _disruption(pod)
    return PodMarks(
        namespace=text(meta.get("namespace")),
        name=text(meta.get("name")),
        node=text(spec.get("nodeName")),
        phase=text(status.get("phase")),
        owner=f"job/{job}" if job else _owner(pod),
        jobset=text(labels.get(_JOBSET_LABEL)),
        index=int(index) if index.isascii() and index.isdigit() and len(index) < 10 else None,
        runs_outlast=why,
        urls=tuple(dict.fromkeys(url for one in read for url in one.urls(guess=bool(why)))),
        unseen=tuple(found for one in read for found in one.unseen()) if why else (),
        job=env.get("OUTLAST_JOB") or job or None,
        grace_seconds=float(grace) if type(grace) is int and grace >= 0 else _DEFAULT_GRACE_SECONDS,
        ends_at=parse_moment(meta.get("deletionTimestamp")),
        disrupted=disruption[0],
        disrupted_at=disruption[1],
        created_at=parse_moment(meta.get("creationTimestamp")),
        waits_for=_waits_for(pod),
    )


def _owner(pod: Json) -> str:
    for one in parts(pod, "metadata", "ownerReferences"):
        if one.get("controller") is True:
            return f"{text(one.get('kind')).lower()}/{text(one.get('name'))}"
    return ""


def _disruption(pod: Json) -> tuple[str, float | None]:
    for one in parts(pod, "status", "conditions"):
        if one.get("type") == "DisruptionTarget" and one.get("status") == "True":
            return text(one.get("reason")) or "DisruptionTarget", parse_moment(one.get("lastTransitionTime"))
    return "", None


def _waits_for(pod: Json) -> str:
    """What the scheduler says of a pod without a node."""
    for one in parts(pod, "status", "conditions"):
        if one.get("type") == "PodScheduled" and one.get("status") == "False":
            message = one.get("message")
            return " ".join(message.split())[:300] if isinstance(message, str) else text(one.get("reason"))
    return ""
