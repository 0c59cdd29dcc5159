"""What a JobSet does when one of its Jobs fails (K025, K030)."""

from collections.abc import Iterator

from outlast.lint.kubernetes.cases import Case, key_of
from outlast.lint.kubernetes.failure_policies import of_disruption
from outlast.lint.kubernetes.fields import entries, number_or, unset
from outlast.lint.kubernetes.storage import checkpoints_of, is_lasting
from outlast.lint.reading.yaml_nodes import Node
from outlast.lint.rule import INFO, WARNING, Finding, Rule

_TYPES = "JobSet, api/jobset/v1alpha2/jobset_types.go (2026-11-30)"
_FREE = ("RestartJobSetAndIgnoreMaxRestarts", "RestartJobAndIgnoreMaxRestarts")

NO_RESTART = Rule(
    "K025",
    WARNING,
    "a JobSet that is not restarted, or whose restarts overlap",
    "Without maxRestarts the first Job that fails ends the whole JobSet. With the strategy Recreate a Job starts anew "
    "while the old pods of the others still run and write.",
    "set failurePolicy.maxRestarts above 0, and restartStrategy: BlockingRecreate",
    _TYPES,
)
PREEMPTIONS_RESTART = Rule(
    "K030",
    WARNING,
    "preemptions use up a JobSet's maxRestarts",
    "Each Job that loses a pod fails and costs one restart, whoever was to blame, unless a rule tells preemptions "
    "apart.",
    "let the child Jobs FailJob on DisruptionTarget (podFailurePolicy), and add the rule `action: "
    "RestartJobSetAndIgnoreMaxRestarts, onJobFailureReasons: [PodFailurePolicy]`",
    _TYPES,
)
RULES = (NO_RESTART, PREEMPTIONS_RESTART)


def check(cases: list[Case]) -> Iterator[Finding]:
    """The findings of one JobSet, by its templates."""
    if not cases or cases[0].workload.kind != "JobSet":
        return
    whole = [one for one in cases if one.whole]
    case = next((one for one in whole if one.matters), None) or next((one for one in whole if _might_matter(one)), None)
    if case is None or case.workload.spec["failurePolicy"].is_unknown:
        return
    spec = case.workload.spec
    policy = spec["failurePolicy"]
    severity = WARNING if case.matters else INFO
    limit = number_or(policy["maxRestarts"], 0)
    if limit is None:
        return
    free = _free_of_charge(policy, cases)
    name = case.workload.name
    if limit == 0 and not free:
        place = policy["maxRestarts"] if policy["maxRestarts"].is_set else key_of(policy if policy.is_set else spec)
        yield NO_RESTART.at(
            place, f"{name} has maxRestarts 0: the first Job that loses a pod ends all of it", severity=severity
        )
        return  # nothing restarts
    if not free:
        place = policy["maxRestarts"] if policy["maxRestarts"].is_set else key_of(policy)
        told = f"{name} has maxRestarts {limit}, of which preemptions take their share"
        yield PREEMPTIONS_RESTART.at(place, told + _why_not(policy, cases), severity=severity)
    yield from _strategy(policy, cases)


def _might_matter(case: Case) -> bool:
    """Work of which little is known, or a sample that would be copied to accelerators."""
    return case.is_batch or case.evidence.is_exposed


def _rules_for_free(policy: Node) -> list[Node]:
    return [one for one in entries(policy["rules"]) if one["action"].text in _FREE]


def _free_of_charge(policy: Node, cases: list[Case]) -> bool:
    """Whether preemptions are restarted without being counted: by a rule on all failures, or on those by policy."""
    for rule in _rules_for_free(policy):
        reasons = rule["onJobFailureReasons"].texts
        if not reasons or (reasons != ["PodFailurePolicy"] and "BackoffLimitExceeded" in reasons):
            return True
        if "PodFailurePolicy" in reasons and any(_fails_on_disruption(one.pods.job) for one in cases):
            return True
    return False


def _fails_on_disruption(job: Node) -> bool:
    rules = entries(job.at("podFailurePolicy", "rules"))
    return any(one["action"].text == "FailJob" and of_disruption(one) for one in rules)


def _why_not(policy: Node, cases: list[Case]) -> str:
    if _rules_for_free(policy) and not any(_fails_on_disruption(one.pods.job) for one in cases):
        return "; its rule never applies, for no child Job fails by a podFailurePolicy on DisruptionTarget"
    return ""


def _strategy(policy: Node, cases: list[Case]) -> Iterator[Finding]:
    """Old and new ranks side by side matter where they write one place that outlives them."""
    strategy = policy["restartStrategy"]
    several = len(cases) > 1 or any(one.pods.count is None or one.pods.count > 1 for one in cases)
    if not policy.is_set or strategy.is_unknown or strategy.text not in ("", "Recreate") or not several:
        return
    shared = next((path for one in cases for path in checkpoints_of(one) if is_lasting(path)), None)
    if shared is not None and (strategy.is_set or unset(policy, "restartStrategy")):
        told = (
            f"{cases[0].workload.name} restarts by Recreate: new ranks start while old ones still write {shared.text}"
        )
        yield NO_RESTART.at(
            strategy if strategy.is_set else key_of(policy), told, fix="set restartStrategy: BlockingRecreate"
        )
