"""What a Job's podFailurePolicy says of interruptions, and what of it is refused (K003, K004, K006, K007)."""

from collections.abc import Iterator

from outlast.lint.kubernetes.cases import Case, key_of
from outlast.lint.kubernetes.fields import entries, unset
from outlast.lint.reading.yaml_nodes import Node
from outlast.lint.rule import ERROR, Finding, Rule
from outlast.platforms import kubernetes

DISRUPTED = "DisruptionTarget"
_KILLED = 137
_MOST_RULES, _MOST_VALUES = 20, 255
_API = "Kubernetes, pkg/apis/batch/validation and API reference, Job v1 (2026-11-30)"

POLICY_NEEDS_NEVER = Rule(
    "K003",
    ERROR,
    "podFailurePolicy with a restartPolicy other than Never",
    "The API server refuses such a Job: what the kubelet restarts in place never ends, so no rule could judge it.",
    "set restartPolicy: Never in the pod template",
    _API,
)
REPLACEMENT_NEEDS_FAILED = Rule(
    "K004",
    ERROR,
    "podFailurePolicy with podReplacementPolicy other than Failed",
    "The API server refuses such a Job: with rules for failures, only pods that have ended may be replaced.",
    "set podReplacementPolicy: Failed, or leave it out",
    _API,
)
IGNORE_COMES_TOO_LATE = Rule(
    "K006",
    ERROR,
    "a rule on exit codes judges interrupted pods before DisruptionTarget is looked at",
    "The first rule that matches wins. A pod that was preempted or evicted has ended by SIGTERM or SIGKILL, so a rule "
    "on 143 or 137 fails the Job, or counts against its budget, for each interruption.",
    "put the rule `action: Ignore, onPodConditions: [{type: DisruptionTarget}]` first",
    "Kubernetes, Jobs, Pod failure policy: rules are looked at in their order (2026-11-30)",
)
POLICY_INVALID = Rule(
    "K007",
    ERROR,
    "a podFailurePolicy that the API server refuses",
    "The Job is not created at all.",
    "list exit codes once each, in ascending order, without 0 for In; give each rule exactly one condition",
    _API,
)
RULES = (POLICY_NEEDS_NEVER, REPLACEMENT_NEEDS_FAILED, IGNORE_COMES_TOO_LATE, POLICY_INVALID)


def check(case: Case) -> Iterator[Finding]:
    """The findings of one template's Job."""
    policy = case.pods.job["podFailurePolicy"]
    if policy.kind != "map":
        return
    yield from _restart(case)
    replacement = case.pods.job["podReplacementPolicy"]
    if replacement.is_set and not replacement.is_unknown and replacement.text != "Failed":
        yield REPLACEMENT_NEEDS_FAILED.at(
            replacement, f"{case.name} has a podFailurePolicy, but podReplacementPolicy is {replacement.text}"
        )
    rules = list(entries(policy["rules"]))
    yield from _order(case, rules)
    if len(rules) > _MOST_RULES:
        yield POLICY_INVALID.at(policy["rules"], f"it has {len(rules)} rules; {_MOST_RULES} are allowed")
    for rule in rules:
        yield from _refused(case, rule)


def _restart(case: Case) -> Iterator[Finding]:
    policy = case.pods.policy
    if policy.is_unknown or case.pods.restarts == "Never":
        return
    if not policy.is_set:
        if case.whole and unset(case.pods.spec, "restartPolicy"):
            told = f"{case.name} has a podFailurePolicy, but no restartPolicy, which means {case.pods.policy_unset}"
            yield POLICY_NEEDS_NEVER.at(key_of(case.pods.spec), told)
        return
    yield POLICY_NEEDS_NEVER.at(policy, f"{case.name} has a podFailurePolicy, but restartPolicy is {policy.text}")


def ignores_disruption(job: Node) -> bool | None:
    """Whether a Job does not count pods that were disrupted; None where that is not known."""
    policy = job["podFailurePolicy"]
    if policy.is_unknown or policy["rules"].is_unknown:
        return None
    return any(one["action"].text == "Ignore" and of_disruption(one) for one in entries(policy["rules"]))


def of_disruption(rule: Node) -> bool:
    """Whether a rule is about pods that were disrupted."""
    about = (one for one in entries(rule["onPodConditions"]) if one["status"].text in ("", "True"))
    return any(one["type"].text == DISRUPTED for one in about)


def _order(case: Case, rules: list[Node]) -> Iterator[Finding]:
    """Rules that judge the exit codes of interrupted pods before, or without, one that ignores disruptions."""
    for rule in rules:
        if of_disruption(rule):
            return
        if rule["action"].text not in ("FailJob", "FailIndex", "Count"):
            continue
        codes = _interrupted_codes(rule["onExitCodes"])
        if codes:
            told = f"{rule['action'].text} on exit code {' and '.join(map(str, codes))}"
            later = any(of_disruption(one) for one in rules)
            why = (
                "stands before the rule for DisruptionTarget" if later else "has no rule for DisruptionTarget before it"
            )
            yield IGNORE_COMES_TOO_LATE.at(rule, f"{case.name}: {told} {why}, so that it judges each interruption")


def _interrupted_codes(condition: Node) -> list[int]:
    """Those codes of an interrupted program that a condition holds for; none where that is not known."""
    values = [one.number for one in condition["values"]]
    ours = (kubernetes.FACTS.interrupted_exit_code, _KILLED)
    if not values or None in values:
        return []
    match condition["operator"].text:
        case "In":
            return [code for code in ours if code in values]
        case "NotIn":
            return [code for code in ours if code not in values]
    return []


def _refused(case: Case, rule: Node) -> Iterator[Finding]:
    codes, conditions = rule["onExitCodes"], rule["onPodConditions"]
    if codes.is_unknown or conditions.is_unknown:
        return
    if codes.is_set == bool(conditions.elements):
        many = "both onExitCodes and onPodConditions" if codes.is_set else "neither onExitCodes nor onPodConditions"
        yield POLICY_INVALID.at(rule, f"a rule of {case.name} has {many}")
    action = rule["action"]
    if action.text == "FailIndex" and unset(case.pods.job, "backoffLimitPerIndex"):
        yield POLICY_INVALID.at(action, f"{case.name} uses FailIndex without backoffLimitPerIndex")
    if codes.is_set:
        yield from _refused_codes(case, codes)


def _refused_codes(case: Case, codes: Node) -> Iterator[Finding]:
    values = [one.number for one in codes["values"]]
    name = codes["containerName"]
    containers = {one["name"].text for one in case.pods.all_containers}
    if name.is_set and not name.is_unknown and case.whole and name.text not in containers:
        yield POLICY_INVALID.at(name, f"containerName is {name.text}, which is no container of {case.name}")
    if codes["values"].is_unknown or None in values:
        return
    known = [value for value in values if value is not None]
    if not known:
        yield POLICY_INVALID.at(codes, f"a rule of {case.name} lists no exit codes")
        return
    why = ""
    if codes["operator"].text == "In" and 0 in known:
        why = "0, which is no failure, for the operator In"
    elif known != sorted(known):
        why = f"exit codes out of order: {', '.join(map(str, known))}"
    elif len(set(known)) < len(known):
        why = f"an exit code twice: {', '.join(map(str, known))}"
    elif len(known) > _MOST_VALUES:
        why = f"{len(known)} exit codes, where {_MOST_VALUES} are allowed"
    if why:
        yield POLICY_INVALID.at(codes["values"], f"a rule of {case.name} lists {why}")
