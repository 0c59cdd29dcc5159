"""What the operators of Kubeflow and Ray do with pods that their nodes took along (K032, K037)."""

from collections.abc import Iterator

from outlast.lint.kubernetes.cases import Case, key_of
from outlast.lint.kubernetes.fields import number_or, unset
from outlast.lint.rule import WARNING, Finding, Rule

NOT_MADE_ANEW = Rule(
    "K032",
    WARNING,
    "a Kubeflow job whose pods are not made anew after a node has shut down",
    "A node that shuts down leaves its pods Failed. The training operator makes only those anew whose restartPolicy is "
    "ExitCode (with a code of 128 or more) or Always; with OnFailure, in many versions, and with Never the job fails.",
    "set restartPolicy: ExitCode, and end with 143 when interrupted",
    "kubeflow/trainer#1570 (2026-11-30)",
)
RAY_JOB_LOST = Rule(
    "K037",
    WARNING,
    "a RayJob that does not survive the loss of its head",
    "When the head's node goes away, the RayJob fails, and is tried again only as often as backoffLimit says, which is "
    "0 unless set.",
    "set backoffLimit, keep the head off Spot nodes, and let the trainer resume from storage",
    "KubeRay 1.2, RayJob backoffLimit; ray-project/kuberay#2153 (2026-11-30)",
)
RULES = (NOT_MADE_ANEW, RAY_JOB_LOST)


def check(case: Case) -> Iterator[Finding]:
    """The findings of one template."""
    yield from _kubeflow(case)
    yield from _ray(case)


def _kubeflow(case: Case) -> Iterator[Finding]:
    """MPI jobs are other: a Job launches them."""
    pods, kind = case.pods, case.workload.kind
    if not case.workload.of_kubeflow or kind == "MPIJob" or pods.restarts not in ("OnFailure", "Never"):
        return
    if pods.partial or case.evidence.idles:
        return
    if pods.policy.is_set:
        yield NOT_MADE_ANEW.at(pods.policy, f"{case.name} has restartPolicy {pods.restarts}")
    elif unset(pods.template):
        return
    else:
        told = f"{case.name} has no restartPolicy, which means {pods.restarts} in a {kind}"
        yield NOT_MADE_ANEW.at(key_of(pods.policy), told)


def _ray(case: Case) -> Iterator[Finding]:
    if case.workload.kind not in ("RayJob", "RayCluster") or case.pods.part != "head" or not case.whole:
        return
    if case.evidence.spot is not None:
        told = (
            f"the head of {case.workload.name} runs on Spot nodes: when it goes, the whole cluster's state goes with it"
        )
        yield RAY_JOB_LOST.at(
            case.evidence.spot.node, told, fix="keep the head on on-demand nodes, the workers on Spot"
        )
    spec = case.workload.spec
    limit = spec["backoffLimit"]
    if case.workload.kind == "RayJob" and case.evidence.trains and number_or(limit, 0) == 0:
        told = f"{case.workload.name} trains, and is not tried again when its head or its submitter is lost"
        if limit.is_set or unset(spec, "backoffLimit"):
            place = limit if limit.is_set else key_of(spec)
            yield RAY_JOB_LOST.at(place, told, fix="set backoffLimit on the RayJob, and resume from storage")
