"""Where pods come from: the kinds of objects that hold templates of pods, and what they say about each."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from outlast.lint.kubernetes.fields import entries, known_text, number_or
from outlast.lint.reading.yaml_nodes import Node

_NOTHING = Node("missing", 1, 1)


@dataclass(frozen=True, slots=True)
class Pods:
    """One template of pods.

    `part`: which of several templates of its workload, such as "Worker"; "" for the only one. `job`: the JobSpec of a
    batch/v1 Job that makes them, missing where none does. `policy`: what a restart policy is called and stands in:
    the template's own, or the replica spec of a Kubeflow job. `policy_unset`: what an unset one means. `count`: how
    many run at once, None where that is not known.
    """

    template: Node
    part: str = ""
    job: Node = _NOTHING
    policy: Node = _NOTHING
    policy_unset: str = "Always"
    count: int | None = 1

    @property
    def spec(self) -> Node:
        """The pods' spec."""
        return self.template["spec"]

    @property
    def annotations(self) -> Node:
        """The pods' own annotations."""
        return self.template.at("metadata", "annotations")

    @property
    def containers(self) -> list[Node]:
        """The containers that run side by side, in their order; sidecars among the init containers are left out."""
        return list(entries(self.spec["containers"]))

    @property
    def all_containers(self) -> list[Node]:
        """Init containers too."""
        return [*entries(self.spec["initContainers"]), *self.containers]

    @property
    def partial(self) -> bool:
        """Whether it is a patch of another manifest, which keeps what is not named: it has no container in full."""
        return not self.containers or all("image" not in one for one in self.containers)

    @property
    def restarts(self) -> str | None:
        """The restart policy that counts; None where it is not known."""
        return known_text(self.policy) if self.policy.is_set else self.policy_unset


@dataclass(frozen=True, slots=True)
class Workload:
    """An object that makes pods. `ends`: it runs its pods to completion, and is done then."""

    object: Node
    kind: str
    ends: bool
    pods: tuple[Pods, ...]
    of_kubeflow: bool = False

    @property
    def name(self) -> str:
        """As findings tell it: its kind and its name, where that is known."""
        name = known_text(self.object.at("metadata", "name")) or known_text(self.object.at("metadata", "generateName"))
        return f"{self.kind} {name}" if name else self.kind

    @property
    def spec(self) -> Node:
        """The object's spec; a CronJob's is that of its jobs."""
        return self.object["spec"]

    @property
    def annotations(self) -> Node:
        """The object's own annotations."""
        return self.object.at("metadata", "annotations")

    @property
    def is_hook(self) -> bool:
        """Whether a tool runs it at a moment of its own, and looks after it, as Helm and Argo CD do."""
        return any(key.startswith(("helm.sh/hook", "argocd.argoproj.io/hook")) for key in self.annotations.fields)

    @property
    def partial(self) -> bool:
        """Whether it is a patch: what it does not say may be said elsewhere."""
        patched = any(key.startswith("$") for key in (*self.object.fields, *self.spec.fields))
        return patched or all(one.partial for one in self.pods)


def workload_of(made: Node) -> Workload | None:
    """The workload that an object is; None for objects of other kinds."""
    version, kind = made["apiVersion"].text, made["kind"].text
    group = version.split("/")[0] if "/" in version else ""
    reader = _READERS.get((group, kind))
    if reader is None and group == "kubeflow.org" and kind.endswith("Job"):
        reader = _Reader(_replicas_of_kubeflow, ends=True)
    if reader is None:
        return None
    pods = tuple(reader.pods(made))
    if not pods:
        return None
    ends = reader.ends and (kind != "Pod" or pods[0].restarts in ("Never", "OnFailure"))
    return Workload(made, kind, ends, pods, group == "kubeflow.org")


@dataclass(frozen=True, slots=True)
class _Reader:
    pods: Callable[[Node], Iterator[Pods]] = field(repr=False)
    ends: bool = False


def _pod(made: Node) -> Iterator[Pods]:
    yield Pods(made, policy=made.at("spec", "restartPolicy"))


def _replicated(made: Node) -> Iterator[Pods]:
    template = made.at("spec", "template")
    yield Pods(template, policy=template.at("spec", "restartPolicy"), count=number_or(made.at("spec", "replicas"), 1))


def _daemons(made: Node) -> Iterator[Pods]:
    template = made.at("spec", "template")
    yield Pods(template, policy=template.at("spec", "restartPolicy"), count=None)


def _job(made: Node) -> Iterator[Pods]:
    yield _of_job_spec(made["spec"])


def _cron_job(made: Node) -> Iterator[Pods]:
    yield _of_job_spec(made.at("spec", "jobTemplate", "spec"))


def _of_job_spec(spec: Node, part: str = "", *, times: int | None = 1, policy_unset: str = "Always") -> Pods:
    at_once = number_or(spec["parallelism"], 1)
    if at_once is not None and (most := number_or(spec["completions"], at_once)) is not None:
        at_once = min(at_once, max(1, most))
    return Pods(
        spec["template"],
        part,
        job=spec,
        policy=spec.at("template", "spec", "restartPolicy"),
        policy_unset=policy_unset,
        count=None if at_once is None or times is None else at_once * times,
    )


def _job_set(made: Node) -> Iterator[Pods]:
    """An unset restart policy is OnFailure there (jobset, pkg/webhooks/jobset_webhook.go, 2026-11-30)."""
    for one in entries(made.at("spec", "replicatedJobs")):
        times = number_or(one["replicas"], 1)
        yield _of_job_spec(one.at("template", "spec"), one["name"].text, times=times, policy_unset="OnFailure")


def _runtime(made: Node) -> Iterator[Pods]:
    """A runtime of Kubeflow Trainer 2 holds the spec of a JobSet, to which a TrainJob adds its own."""
    yield from _job_set(made.at("spec", "template"))


def _replicas_of_kubeflow(made: Node) -> Iterator[Pods]:
    """`pytorchReplicaSpecs.Worker`, `tfReplicaSpecs.PS` and so on; unset is OnFailure in PyTorchJob, Never elsewhere.

    kubeflow/trainer (training-operator v1), pkg/apis/kubeflow.org/v1/*_types.go, 2026-11-30.
    """
    default = "OnFailure" if made["kind"].text == "PyTorchJob" else "Never"
    for name, specs in made["spec"].fields.items():
        if not name.endswith("ReplicaSpecs"):
            continue
        for role, one in specs.fields.items():
            policy = one["restartPolicy"]
            count = number_or(one["replicas"], 1)
            yield Pods(one["template"], role, policy=policy, policy_unset=default, count=count)


def _ray_cluster(made: Node) -> Iterator[Pods]:
    yield from _of_ray_cluster(made["spec"])


def _ray_service(made: Node) -> Iterator[Pods]:
    yield from _of_ray_cluster(made.at("spec", "rayClusterConfig"))


def _ray_job(made: Node) -> Iterator[Pods]:
    cluster = made.at("spec", "rayClusterSpec")
    yield from _of_ray_cluster(cluster if cluster else made.at("spec", "rayClusterConfig"))


def _of_ray_cluster(spec: Node) -> Iterator[Pods]:
    """Ray's operator makes pods that died anew, whatever their restart policy says."""
    head = spec.at("headGroupSpec", "template")
    if head:
        yield Pods(head, "head", policy=head.at("spec", "restartPolicy"))
    for group in entries(spec["workerGroupSpecs"]):
        template = group["template"]
        count = number_or(group["replicas"], 1)
        name = group["groupName"].text or "workers"
        yield Pods(template, name, policy=template.at("spec", "restartPolicy"), count=count)


def _leader_and_workers(made: Node) -> Iterator[Pods]:
    spec = made.at("spec", "leaderWorkerTemplate")
    for part in ("leaderTemplate", "workerTemplate"):
        if spec[part]:
            yield Pods(spec[part], part, policy=spec.at(part, "spec", "restartPolicy"), count=None)


def _volcano(made: Node) -> Iterator[Pods]:
    for task in entries(made.at("spec", "tasks")):
        template = task["template"]
        count = number_or(task["replicas"], 1)
        yield Pods(template, task["name"].text, policy=template.at("spec", "restartPolicy"), count=count)


_READERS = {
    ("", "Pod"): _Reader(_pod, ends=True),
    ("batch", "Job"): _Reader(_job, ends=True),
    ("batch", "CronJob"): _Reader(_cron_job, ends=True),
    ("", "ReplicationController"): _Reader(_replicated),
    **{(group, kind): _Reader(_replicated)
       for group in ("apps", "extensions") for kind in ("Deployment", "StatefulSet", "ReplicaSet")},
    **{(group, "DaemonSet"): _Reader(_daemons) for group in ("apps", "extensions")},
    ("jobset.x-k8s.io", "JobSet"): _Reader(_job_set, ends=True),
    ("trainer.kubeflow.org", "ClusterTrainingRuntime"): _Reader(_runtime, ends=True),
    ("trainer.kubeflow.org", "TrainingRuntime"): _Reader(_runtime, ends=True),
    ("ray.io", "RayJob"): _Reader(_ray_job, ends=True),
    ("ray.io", "RayCluster"): _Reader(_ray_cluster),
    ("ray.io", "RayService"): _Reader(_ray_service),
    ("leaderworkerset.x-k8s.io", "LeaderWorkerSet"): _Reader(_leader_and_workers),
    ("batch.volcano.sh", "Job"): _Reader(_volcano, ends=True),
}  # fmt: skip
