"""Indexed Jobs, restarts and replacements: what the API server refuses, and what is empty (K005, K022, K033, K035)."""

from collections.abc import Iterator

from outlast.lint.kubernetes.cases import Case, key_of
from outlast.lint.kubernetes.fields import entries, unset
from outlast.lint.kubernetes.work import variables_of, words_of
from outlast.lint.reading.yaml_nodes import Node
from outlast.lint.rule import ERROR, INFO, WARNING, Finding, Rule

INDEX = "JOB_COMPLETION_INDEX"
_ANNOTATION = "batch.kubernetes.io/job-completion-index"
_API = "Kubernetes, pkg/apis/batch/validation and API reference, Job v1 (2026-11-30)"

TWO_WRITERS = Rule(
    "K005",
    WARNING,
    "a replacement starts while the old pod still saves",
    "Unless podReplacementPolicy is Failed, a Job replaces a pod as soon as it is being deleted, in the middle of its "
    "grace: for that time two pods write the same checkpoints.",
    "set podReplacementPolicy: Failed, or fence the writers (outlast claims its attempts)",
    "Kubernetes, Jobs, podReplacementPolicy, and pkg/controller/job isPodFailed (2026-11-30)",
)
INDEXES_INVALID = Rule(
    "K022",
    ERROR,
    "settings of an Indexed Job that the API server refuses",
    "The Job is not created at all, or a field has no effect.",
    "give an Indexed Job its completions; use backoffLimitPerIndex, maxFailedIndexes, successPolicy only with "
    "completionMode: Indexed",
    _API,
)
INDEX_IS_EMPTY = Rule(
    "K033",
    ERROR,
    "the completion index is used, but the Job is not Indexed",
    "JOB_COMPLETION_INDEX and its annotation exist only in the pods of an Indexed Job; elsewhere each worker takes "
    "itself for the same one, and all write the same place.",
    "set completionMode: Indexed, and completions",
    "Kubernetes, Jobs, Completion mode (2026-11-30)",
)
RESTARTS_ALWAYS = Rule(
    "K035",
    ERROR,
    "a Job whose pods are always restarted",
    "A Job's pods may be restarted on failure or never; the API server refuses Always, which is what an unset "
    "restartPolicy means.",
    "set restartPolicy: Never (each attempt is a pod of its own) or OnFailure",
    _API,
)
RULES = (TWO_WRITERS, INDEXES_INVALID, INDEX_IS_EMPTY, RESTARTS_ALWAYS)


def check(case: Case) -> Iterator[Finding]:
    """The findings of one template's Job."""
    if case.pods.job:
        yield from _restarts(case)
        yield from _invalid(case)
        yield from _empty_index(case)
        yield from _writers(case)


def _restarts(case: Case) -> Iterator[Finding]:
    policy = case.pods.policy
    if policy.is_set:
        if policy.text == "Always":
            yield RESTARTS_ALWAYS.at(policy, f"restartPolicy of {case.name} is Always, which a Job must not have")
    elif case.whole and case.pods.policy_unset == "Always" and unset(case.pods.spec, "restartPolicy"):
        yield RESTARTS_ALWAYS.at(key_of(case.pods.spec), f"{case.name} has no restartPolicy, which means Always")


def _indexed(case: Case) -> bool | None:
    """Whether the Job is Indexed; a JobSet's are unless they say otherwise. None: not known."""
    mode = case.pods.job["completionMode"]
    if mode.is_set:
        return None if mode.is_unknown else mode.text == "Indexed"
    return case.workload.kind not in ("Job", "CronJob") if unset(case.pods.job, "completionMode") else None


def _invalid(case: Case) -> Iterator[Finding]:
    job, indexed = case.pods.job, _indexed(case)
    if indexed and case.whole and unset(job, "completions") and job["parallelism"].is_set:
        # With neither of the two, both become 1.
        place = job["completionMode"] if job["completionMode"].is_set else job["parallelism"]
        yield INDEXES_INVALID.at(place, f"{case.name} is Indexed and has parallelism, but no completions")
    if indexed is False and case.whole:
        for name in ("backoffLimitPerIndex", "maxFailedIndexes", "successPolicy"):
            if job[name].is_set:
                yield INDEXES_INVALID.at(job[name], f"{case.name} has {name}, but is not Indexed")
    failed, completions = job["maxFailedIndexes"], job["completions"]
    if failed.is_set and unset(job, "backoffLimitPerIndex"):
        yield INDEXES_INVALID.at(failed, f"{case.name} has maxFailedIndexes without backoffLimitPerIndex")
    if indexed and failed.number is not None and completions.number is not None and failed.number > completions.number:
        told = f"maxFailedIndexes of {case.name} is {failed.number}, above its {completions.number} completions"
        yield INDEXES_INVALID.at(failed, told)
    if job["backoffLimitPerIndex"].is_set and case.pods.restarts == "OnFailure":
        told = f"{case.name} has backoffLimitPerIndex with restartPolicy OnFailure; it is meant for Never"
        yield INDEXES_INVALID.at(job["backoffLimitPerIndex"], told, severity=WARNING, fix="set restartPolicy: Never")


def _empty_index(case: Case) -> Iterator[Finding]:
    if _indexed(case) is not False or not case.whole:
        return
    for container in case.pods.all_containers:
        place = _use_of_index(container)
        if place is not None:
            told = f"{case.name} uses the completion index ({INDEX}), but its completionMode is not Indexed"
            yield INDEX_IS_EMPTY.at(place, told)
            return


def _use_of_index(container: Node) -> Node | None:
    """Where a container takes the index from its Job, and not from a value of its own."""
    variables = variables_of(container)
    for one in variables.values():
        if _ANNOTATION in one.at("valueFrom", "fieldRef", "fieldPath").text:
            return one
    if INDEX in variables:
        return None
    values = [one["value"] for one in entries(container["env"])]
    places: list[Node] = [*container["command"], *container["args"], *values]
    for place in places:
        text = place.text
        used = f"${INDEX}" in text or f"${{{INDEX}}}" in text or f"$({INDEX})" in text
        given = f"{INDEX}=" in text or f"{INDEX}:-" in text  # by itself, or by a default
        if used and not given:
            return place
    return None


def _writers(case: Case) -> Iterator[Finding]:
    if not (case.in_job and case.matters and case.whole):
        return
    job = case.pods.job
    many = case.pods.count is None or case.pods.count > 1
    if (many and _indexed(case) is not True) or not unset(job, "podFailurePolicy") or _claims_attempts(case):
        return
    policy = job["podReplacementPolicy"]
    severity = WARNING if case.evidence.trains and case.keeps_something else INFO
    if policy.is_set and policy.text == "TerminatingOrFailed":
        told = f"{case.name} is replaced while its old pod may still be writing a checkpoint"
        yield TWO_WRITERS.at(policy, told, severity=severity)
    elif unset(job, "podReplacementPolicy"):
        told = f"{case.name} has no podReplacementPolicy: its replacement starts while the old pod may still be saving"
        yield TWO_WRITERS.at(key_of(job), told, severity=severity)


def _claims_attempts(case: Case) -> bool:
    """Whether the program runs under outlast, which lets no superseded attempt commit."""
    return any("outlast" in words_of(container) for container in case.pods.containers)
