"""How many interruptions a workload survives, and for how long it may run (K001, K002, K021, K023, K038)."""

from collections.abc import Iterator
from dataclasses import replace

from outlast.lint.kubernetes.cases import Case, key_of
from outlast.lint.kubernetes.failure_policies import ignores_disruption
from outlast.lint.kubernetes.fields import number_or, unset
from outlast.lint.kubernetes.work import is_named_for_training, words_of
from outlast.lint.reading.yaml_nodes import Node
from outlast.lint.rule import ERROR, INFO, WARNING, Finding, Rule
from outlast.platforms import gke_spot, kubernetes

_HOUR = 3600

NOBODY_RETRIES = Rule(
    "K001",
    WARNING,
    "run-to-completion work in a bare Pod or a Deployment",
    "A bare Pod is not replaced when its node goes away. A Deployment restarts a program that has finished, for ever.",
    "make it a Job, with podFailurePolicy Ignore for DisruptionTarget",
    "Kubernetes, Pods: individual Pods are rarely created directly; Jobs (2026-11-30)",
)
PREEMPTIONS_COUNT = Rule(
    "K002",
    WARNING,
    "interruptions use up the Job's backoffLimit",
    "Each preempted or evicted pod counts as a failure unless a rule ignores it; after backoffLimit of them (6 unless "
    "set) the Job is Failed, and only a person can start it again.",
    "add podFailurePolicy with the first rule `action: Ignore, onPodConditions: [{type: DisruptionTarget}]`, "
    "and restartPolicy: Never",
    "Kubernetes, Jobs, Pod failure policy and Pod backoff failure policy (2026-11-30)",
)
DEADLINE_FOR_ALL = Rule(
    "K021",
    WARNING,
    "activeDeadlineSeconds may end the work before it is done",
    "The Job's deadline counts from its start over all attempts, and beats backoffLimit; the pod's own kills each "
    "attempt and counts as a failure.",
    "set it on the Job, well above the whole run with its restarts, or leave it out",
    "Kubernetes, Jobs, Job termination and cleanup (2026-11-30)",
)
EVIDENCE_VANISHES = Rule(
    "K023",
    INFO,
    "a finished Job and its pods are deleted soon",
    "With them go the exit codes and reasons that tell why an attempt ended.",
    "set ttlSecondsAfterFinished to 86400 or so",
    "Kubernetes, Automatic cleanup for finished Jobs (2026-11-30)",
)
RUNS_OVERLAP = Rule(
    "K038",
    WARNING,
    "runs of a CronJob may overlap, and write the same checkpoints",
    "A run that was interrupted takes longer; with concurrencyPolicy Allow, which is the default, the next one starts "
    "beside it, on the same place.",
    "set concurrencyPolicy: Forbid",
    "Kubernetes, CronJob, Concurrency policy (2026-11-30)",
)
RULES = (NOBODY_RETRIES, PREEMPTIONS_COUNT, DEADLINE_FOR_ALL, EVIDENCE_VANISHES, RUNS_OVERLAP)


def check(case: Case) -> Iterator[Finding]:
    """The findings of one template."""
    yield from _unretried(case)
    yield from _limit(case)
    yield from _deadlines(case)
    yield from _evidence(case)
    yield from _overlap(case)


def _unretried(case: Case) -> Iterator[Finding]:
    kind, evidence = case.workload.kind, case.evidence
    if not case.whole or case.workload.is_hook:
        return
    if kind == "Pod" and (case.workload.ends or evidence.trains or evidence.is_exposed) and not evidence.serves:
        told = f"{case.name} is a bare Pod: nothing replaces it when its node goes away"
        sure = not evidence.idles and (evidence.trains or (case.workload.ends and evidence.is_exposed))
        yield NOBODY_RETRIES.at(case.workload.object["kind"], told, severity=WARNING if sure else INFO)
    elif kind in ("Deployment", "ReplicaSet") and evidence.trains:
        told = f"{case.name} runs a training: a {kind} starts it anew once it has finished"
        yield NOBODY_RETRIES.at(case.workload.object["kind"], told)


def _limit(case: Case) -> Iterator[Finding]:
    job, default = case.pods.job, kubernetes.FACTS.default_retries
    if case.workload.of_kubeflow:
        yield from _limit_of_kubeflow(case)
    yield from _limit_of_ray(case)
    counts = case.in_job or _in_job_set_without_restarts(case)
    if not (counts and _is_exposed(case) and case.whole) or ignores_disruption(job) is not False:
        return
    limit = number_or(job["backoffLimit"], default)
    if limit is None or limit > default or job["backoffLimitPerIndex"].is_set or job["backoffLimit"].is_unknown:
        return
    spot = case.evidence.spot
    where = "Spot nodes" if spot else "nodes that are maintained"
    given = f"backoffLimit {limit}" if job["backoffLimit"].is_set else f"the default backoffLimit of {limit}"
    told = f"{case.name} on {where}: {given} counts interruptions, too, for no rule ignores DisruptionTarget"
    place = job["backoffLimit"] if job["backoffLimit"].is_set else key_of(job)
    severity = INFO if case.evidence.idles else ERROR if spot and case.in_job else WARNING
    yield PREEMPTIONS_COUNT.at(place, told, severity=severity)


def _is_exposed(case: Case) -> bool:
    evidence = case.evidence
    trains = case.is_batch and (evidence.trains or is_named_for_training(case.workload.object.at("metadata", "name")))
    return not case.workload.is_hook and (evidence.is_exposed or trains)


def _in_job_set_without_restarts(case: Case) -> bool:
    """A child Job's low limit is the pattern of a JobSet that restarts; one that does not fails with its first Job."""
    policy = case.workload.spec["failurePolicy"]
    if case.workload.kind != "JobSet" or policy.is_unknown:
        return False
    return number_or(policy["maxRestarts"], 0) == 0 and not any(policy["rules"])


def _limit_of_ray(case: Case) -> Iterator[Finding]:
    spec = case.workload.spec
    if case.workload.kind != "RayJob" or case.pods is not case.workload.pods[0] or not case.whole:
        return
    limit = number_or(spec["backoffLimit"], 0)
    exposed = any(replace(case, pods=pods).evidence.is_exposed for pods in case.workload.pods)
    if limit is None or spec["backoffLimit"].is_unknown or limit > kubernetes.FACTS.default_retries or not exposed:
        return
    place = spec["backoffLimit"] if spec["backoffLimit"].is_set else key_of(spec)
    told = f"{case.workload.name} has backoffLimit {limit}: an interruption of its head or its submitter uses it up"
    yield PREEMPTIONS_COUNT.at(place, told, fix="set backoffLimit on the RayJob, and resume from storage")


def _limit_of_kubeflow(case: Case) -> Iterator[Finding]:
    """Its operator has no rule that would ignore a disruption; an unset limit is none."""
    for limit in _of_operators(case, "backoffLimit"):
        if limit.number is not None and limit.number <= kubernetes.FACTS.default_retries and _any_matters(case):
            told = f"{case.workload.name} has backoffLimit {limit.number}, which interruptions use up, too"
            yield PREEMPTIONS_COUNT.at(limit, told, fix="raise backoffLimit well above the expected interruptions")


def _any_matters(case: Case) -> bool:
    return any(replace(case, pods=pods).matters for pods in case.workload.pods)


def _deadlines(case: Case) -> Iterator[Finding]:
    if case.pods.job and (own := case.pods.spec["activeDeadlineSeconds"]).number is not None:
        told = f"{case.name} has activeDeadlineSeconds {own.number} in the pod: each attempt is killed then, and counts"
        yield DEADLINE_FOR_ALL.at(own, told)
    for deadline in (case.pods.job["activeDeadlineSeconds"], *_of_operators(case, "activeDeadlineSeconds")):
        if deadline.number is None or not case.is_batch:
            continue
        if case.known.work_seconds is not None:
            yield from _too_early(case, deadline, deadline.number, case.known.work_seconds)
        elif case.matters:
            told = f"activeDeadlineSeconds of {case.name} is {deadline.number}, for all its attempts together"
            yield DEADLINE_FOR_ALL.at(deadline, told, severity=INFO)


def _of_operators(case: Case, name: str) -> Iterator[Node]:
    """The setting of a Kubeflow job or a RayJob, told at its first template."""
    if case.pods is case.workload.pods[0]:
        yield case.workload.spec.at("runPolicy", name)
        if case.workload.kind == "RayJob":
            yield case.workload.spec[name]


def _too_early(case: Case, deadline: Node, seconds: int, work: float) -> Iterator[Finding]:
    spot = case.evidence.spot
    restarts = work / gke_spot.FACTS.mean_seconds_between_interruptions if spot else 0.0
    # An attempt that is interrupted loses what came after its last save, and waits for a node: a tenth of what it ran.
    needed = work * (1.1 if restarts >= 1 else 1.0)
    if seconds < needed:
        told = f"activeDeadlineSeconds of {case.name} is {seconds}, but the work takes {work:.0f} s"
        told += f" and is interrupted about {restarts:.0f} times on Spot" if restarts >= 1 else ""
        yield DEADLINE_FOR_ALL.at(deadline, told)


def _evidence(case: Case) -> Iterator[Finding]:
    if not case.workload.ends or case.workload.is_hook:
        return
    places = [case.pods.job["ttlSecondsAfterFinished"], *_of_operators(case, "ttlSecondsAfterFinished")]
    if case.workload.kind == "JobSet" and case.pods is case.workload.pods[0]:
        places.append(case.workload.spec["ttlSecondsAfterFinished"])
    for ttl in places:
        if ttl.number is not None and ttl.number < _HOUR:
            yield EVIDENCE_VANISHES.at(ttl, f"{case.name} and its pods are deleted {ttl.number} s after the end")


def _overlap(case: Case) -> Iterator[Finding]:
    spec = case.workload.spec
    if case.workload.kind != "CronJob" or not case.whole or not case.evidence.trains:
        return
    if any("outlast" in words_of(container) for container in case.pods.containers):
        return
    policy = spec["concurrencyPolicy"]
    if policy.text == "Allow":
        yield RUNS_OVERLAP.at(policy, f"{case.name} trains with concurrencyPolicy Allow: a late run meets the next one")
    elif unset(spec, "concurrencyPolicy"):
        told = f"{case.name} trains without a concurrencyPolicy, which means Allow: a late run meets the next one"
        yield RUNS_OVERLAP.at(key_of(spec), told)
