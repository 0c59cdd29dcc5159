"""The plan of a deployment on GKE: what is made where, in which order, and what it may cost at worst."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from outlast.deploy.description import BadSetting, Description
from outlast.deploy.description_file import Described
from outlast.deploy.gke import beside, cloud, pools, workloads
from outlast.deploy.gke.budgets import Exposure, deadline_seconds, exposure, failures_allowed
from outlast.deploy.gke.explained import Why
from outlast.deploy.gke.grace import Grace, choose_grace
from outlast.deploy.gke.kubectl import Kubectl
from outlast.deploy.gke.nodes import Nodes
from outlast.deploy.gke.pods import JOBSET_UID, Pod
from outlast.deploy.plan import Command, Made, Plan, Probe, Step, WrittenFile
from outlast.platforms import gke_spot
from outlast.telemetry.choice import METRICS_PORT

Json = dict[str, Any]
TARGET = "gke"
_POOL_LABEL = "cloud.google.com/gke-nodepool"
_QUEUE_LABEL = "kueue.x-k8s.io/queue-name"
_METRICS = "metrics"
_VERSION = "needs Kubernetes 1.31 or newer"
_RANKS = (
    "JobSet's controller has to be installed in the cluster",
    "each pod is one rank: with outlast.Job they make one checkpoint together",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What a deployment on GKE is told besides the description.

    `context` of the kubeconfig; None: the one that the cluster gets from gcloud, without a cluster the current one.
    `node_notices`: whether the pods get the rights to hear of their node's maintenance. `metrics_port`: where
    the pods' numbers are collected, if they are to be. `long_shutdown`: whether the installed gcloud can give Spot
    nodes the long shutdown budget. The commands of the plan are for the folder of its files.
    """

    context: str | None = None
    node_notices: bool = False
    metrics_port: int | None = None
    long_shutdown: bool = True


@dataclass(frozen=True)
class GkeTarget:
    """Everything that GKE needs for one description; `files` is the folder of the plan's files."""

    described: Described
    options: Options = field(default_factory=Options)
    files: Path = field(default_factory=Path)

    @property
    def description(self) -> Description:
        return self.described.description

    @cached_property
    def cloud(self) -> cloud.Cloud:
        """What is made beside the cluster."""
        return cloud.prepare(self.described, self.files)

    @cached_property
    def nodes(self) -> Nodes:
        asked = self.description.kubernetes
        return Nodes(self.description.hardware, autopilot=asked.autopilot, queued=asked.queue_name is not None)

    @cached_property
    def cluster(self) -> pools.Cluster | None:
        """None where the description names none: then nothing is asked of gcloud about it."""
        asked, project = self.description.kubernetes, self.description.project
        if asked.cluster is None:
            return None
        location = asked.location or self.description.region
        if project is None or location is None:
            missing = "project" if project is None else "kubernetes.location"
            raise BadSetting(missing, "it is missing: where the cluster is")
        return pools.Cluster(asked.cluster, location, project)

    @cached_property
    def kind(self) -> str:
        """Job, JobSet, Batch or Deployment."""
        asked = self.description.kubernetes
        if asked.kind is not None:
            return asked.kind
        if self.description.batch is not None:
            return "Batch"
        return "JobSet" if self.ranks > 1 else "Job"

    @cached_property
    def ranks(self) -> int:
        """Pods that work as one: what is asked for, or one for each machine of a slice of TPUs."""
        return max(self.description.kubernetes.nodes, self.nodes.machines)

    @property
    def makes_pool(self) -> bool:
        """Whether there is a pool to make; Autopilot makes its nodes itself."""
        return self.cluster is not None and not self.nodes.autopilot

    @cached_property
    def grace(self) -> Grace:
        asked = self.description.kubernetes.grace_seconds
        return choose_grace(
            self.nodes.kinds,
            save_seconds=self.description.measured.save_seconds,
            asked_seconds=asked,
            long_shutdown=asked is not None or (self.makes_pool and self.options.long_shutdown),
        )

    @property
    def account(self) -> str:
        return self.description.kubernetes.service_account or self.description.name

    @cached_property
    def pods(self) -> int:
        """How many run at a time."""
        if self.kind == "JobSet":
            return self.ranks
        return self.description.parallelism or self.description.tasks

    @cached_property
    def exposure(self) -> Exposure:
        restarts = failures_allowed(self.description, self.nodes) if self.kind == "JobSet" else 0
        ends = self.kind != "Deployment"
        return exposure(self.description, self.nodes, pods=self.pods, ends=ends, restarts=restarts)

    @cached_property
    def workload(self) -> Json:
        """The object that starts the pods."""
        return _WORKLOADS[self.kind](self)

    def plan(self) -> Plan:
        """The whole deployment."""
        kubectl = Kubectl(self.description.kubernetes.namespace, self._context())
        steps = [*self.cloud.steps]
        if self.cluster is not None:
            steps += self._before(self.cluster)
        namespace = kubectl.make_namespace()
        steps += [] if namespace is None else [namespace]
        start = self._start(kubectl)
        steps.append(replace(kubectl.check(start.files[0].path, self.workload["kind"]), files=start.files))
        if self.cluster is not None and self.makes_pool:
            steps.append(self._pool(self.cluster))
        steps += [*self._beside(kubectl), replace(start, files=())]  # the check has written its file
        return Plan(
            target=TARGET,
            name=self.description.name,
            steps=tuple(steps),
            notes=tuple(self._notes()),
            warnings=() if self.grace.warning is None else (self.grace.warning,),
            exposure=(f"at worst: {self.exposure.text}",),
            after=self._after(kubectl),
        )

    def _context(self) -> str | None:
        return self.options.context or (None if self.cluster is None else self.cluster.context)

    def _before(self, cluster: pools.Cluster) -> list[Step]:
        """What a cluster needs before kubectl can ask it anything."""
        found = [] if self.nodes.autopilot else list(cloud.features(self.description, cluster))
        if self.cloud.account is not None:
            role = cloud.identity_role(self.description, google_account=self.cloud.account, account=self.account)
            found.append(role)
        if self.options.context is None:
            words = ("gcloud", "container", "clusters", "get-credentials", cluster.name, *cluster.place)
            why = "so that kubectl reaches the cluster, by a context of its own"
            found.append(Step(name="credentials", why=why, commands=(Command(words),)))
        return found

    def _pool(self, cluster: pools.Cluster) -> Step:
        name, config = pools.pool_name(self.description), None
        files: tuple[WrittenFile, ...] = ()
        if self.grace.long_shutdown:
            config = str(Path("node-system.yaml"))
            files = (WrittenFile(path=Path(config), text=pools.system_config()),)
        made = Made(
            kind="node pool",
            name=name,
            probe=Probe(pools.describe_command(name, cluster)),
            undo=(Command(pools.delete_command(name, cluster)),),
        )
        command = pools.create_command(name, cluster, self.nodes, most_nodes=self.pods, system_config=config)
        why = "empty until pods wait, and empty again when they are gone"
        return Step(name="node-pool", why=why, files=files, commands=(Command(command),), makes=(made,))

    def _start(self, kubectl: Kubectl) -> Step:
        kind = self.workload["kind"].lower()
        return kubectl.apply(kind, "starts the work", Path(f"{kind}.yaml"), [self.workload], spends=True)

    def _beside(self, kubectl: Kubectl) -> list[Step]:
        description = self.description
        account = beside.service_account(self.account, google_account=self.cloud.account)
        found = [kubectl.apply("kubernetes-account", "who the pods are", Path("account.yaml"), [account])]
        if self.options.node_notices:
            rights = beside.node_reader(description.name, account=self.account, namespace=kubectl.namespace)
            path, why = Path("node-notices.yaml"), "so that the pods hear of their node's maintenance"
            found.append(kubectl.apply("node-notices", why, path, rights))
        if self.kind == "Deployment":
            budget = beside.disruption_budget(description.name)
            why = "drains and upgrades take one worker at a time"
            found.append(kubectl.apply("disruption-budget", why, Path("disruption-budget.yaml"), [budget]))
        if self.options.metrics_port is not None:
            monitoring = beside.pod_monitoring(description.name, port=_METRICS)
            path = Path("metrics.yaml")
            found.append(kubectl.apply("metrics", "the pods' numbers are collected", path, [monitoring]))
        return found

    def _notes(self) -> list[str]:
        found = [f"the pods have {self.grace.seconds} s to leave: {self.grace.reason}", _VERSION]
        if self.kind == "JobSet":
            found += _RANKS
        if self.grace.long_shutdown and self.makes_pool:
            found.append(f"the node pool's shutdown budget needs a control plane of {pools.LEAST_VERSION} or newer")
        if self.description.hardware.spot and self.makes_pool and not self.options.long_shutdown:
            found.append(
                "the gcloud that is installed here, or the cluster, is too old for a node pool's shutdown budget: Spot "
                f"nodes leave their pods {gke_spot.FACTS.grace_seconds:g} s, and "
                f"{gke_spot.FACTS.longest_grace_seconds:g} s from control plane {pools.LEAST_VERSION} on"
            )
        if self._context() is None:
            found.append("kubectl's current context is used: the description names no kubernetes.cluster")
        if self.nodes.has_accelerator and not self.description.hardware.spot:
            found.append(
                "whether GKE ends pods gracefully at a host's maintenance may depend on the cluster: look for the "
                "ConfigMap gke-disruption-handling in kube-system"
            )
        return found

    def _after(self, kubectl: Kubectl) -> tuple[str, ...]:
        kind = self.workload["kind"].lower()
        watch = kubectl.within(kind, "get", "pods", "--selector", f"app.kubernetes.io/name={self.description.name}")
        return (Command((*watch, "--watch")).shown, f"outlast deploy {TARGET} --teardown")

    def _metrics_told(self, port: int) -> list[Any]:
        """Has outlast answer there, unless the description says who does."""
        if METRICS_PORT in dict(self.description.env):
            return []
        told = {"name": METRICS_PORT, "value": f"0.0.0.0:{port}"}
        return [Why(told, "outlast answers Prometheus there (extra prometheus); empty: the program itself does.")]

    def pod(self, **settings: Any) -> Json:
        """The template of the pods; settings as of `Pod`."""
        if self.options.metrics_port is not None:
            settings["ports"] = ({"name": _METRICS, "containerPort": self.options.metrics_port},)
            settings["more"] = (*settings.get("more", ()), *self._metrics_told(self.options.metrics_port))
        template = Pod(self.description, self.nodes, self.grace, self.cloud.image, self.account, **settings).template
        if self.description.kubernetes.node_pool is not None:
            template["spec"].setdefault("nodeSelector", {})[_POOL_LABEL] = self.description.kubernetes.node_pool
        return template

    @property
    def labels(self) -> Json:
        queue = self.description.kubernetes.queue_name
        return {} if queue is None else {_QUEUE_LABEL: queue}

    @property
    def limits(self) -> Json:
        """What all Jobs have."""
        return {"deadline_seconds": deadline_seconds(self.description, self.nodes), "labels": self.labels}


def _job(target: GkeTarget) -> Json:
    description = target.description
    if target.ranks > 1:
        raise BadSetting("kubernetes.kind", "pods of several nodes that work as one are a JobSet; leave kind out")
    backoff = failures_allowed(description, target.nodes)
    if description.tasks == 1:
        return workloads.job(description.name, target.pod(), backoff=backoff, **target.limits)
    return _indexed(target, target.pod(tasks=description.tasks))


def _batch(target: GkeTarget) -> Json:
    return _indexed(target, target.pod(execution=None, keep_node=False))


def _indexed(target: GkeTarget, template: Json) -> Json:
    description = target.description
    return workloads.indexed_job(
        description.name,
        template,
        tasks=description.tasks,
        parallelism=description.parallelism,
        backoff=failures_allowed(description, target.nodes),
        **target.limits,
    )


def _jobset(target: GkeTarget) -> Json:
    description, ranks = target.description, target.ranks
    if description.tasks > 1:
        raise BadSetting("tasks", "a job of several ranks is one task; leave tasks out")
    template = target.pod(execution=JOBSET_UID, tasks=ranks, more=workloads.rank_variables(description.name, ranks))
    restarts = failures_allowed(description, target.nodes)
    return workloads.jobset(description.name, template, ranks=ranks, restarts=restarts, **target.limits)


def _deployment(target: GkeTarget) -> Json:
    description = target.description
    template = target.pod(execution=None, keep_node=False, restart_policy="Always", interrupted_code=0)
    return workloads.deployment(description.name, template, replicas=description.tasks, labels=target.labels)


_WORKLOADS: dict[str, Callable[[GkeTarget], Json]] = {
    "Job": _job,
    "JobSet": _jobset,
    "Batch": _batch,
    "Deployment": _deployment,
}
