"""On which nodes pods land, and when those go away (K014, K015, K016, K028, K029)."""

from collections.abc import Callable, Iterator

from outlast.lint.kubernetes.cases import Case
from outlast.lint.kubernetes.evidence import (
    AKS_SPOT,
    COMPUTE_CLASS,
    GPU_LABELS,
    SPOT_LABELS,
    TPU_LABELS,
    amount_of,
    is_gpu,
    is_tpu,
)
from outlast.lint.kubernetes.fields import entries
from outlast.lint.reading.yaml_nodes import Node
from outlast.lint.rule import ERROR, INFO, WARNING, At, Finding, Rule
from outlast.platforms import gke_labels

_DYING = (gke_labels.IMPENDING_END, gke_labels.WINDOW_STARTED)
_NODE_POOL = "cloud.google.com/gke-nodepool"
# With one of these wishes, somebody has said which machines are meant.
_PLACED = (_NODE_POOL, COMPUTE_CLASS, *SPOT_LABELS)
_DAY = 24 * 3600
_LONGEST_RUN = "provreq.kueue.x-k8s.io/maxRunDurationSeconds"
_HANDLING = "gke-disruption-handling"

ONTO_DYING_NODE = Rule(
    "K014",
    ERROR,
    "a toleration lets pods onto nodes that are about to go",
    "GKE taints a node before its maintenance so that nothing new is placed there; a pod that tolerates the taint "
    "starts on a dying node, again and again.",
    "remove the toleration, or name the keys of the taints that are meant",
    "Google, gke-ai-troubleshooting-handle-disruption-gpu-tpu: do not tolerate this taint (2026-11-29)",
)
HALF_OF_SPOT = Rule(
    "K015",
    INFO,
    "a Spot selector without a toleration, or the other way round",
    "Where the Spot pool is tainted, a pod without the toleration stays Pending for ever; with the toleration alone it "
    "may run on on-demand nodes.",
    "use both: the selector cloud.google.com/gke-spot and a toleration of the same key",
    "GKE, Spot VMs; AKS, Add a Spot node pool (2026-11-30)",
)
WRONG_NODE = Rule(
    "K016",
    WARNING,
    "an accelerator's limit without its node selector, or the other way round",
    "Without the selector pods land on any kind of accelerator; without the limit they get none.",
    "set both resources.limits and the nodeSelector cloud.google.com/gke-accelerator (gke-tpu-accelerator and "
    "gke-tpu-topology for TPUs), or a compute class",
    "GKE, Run GPUs in GKE Standard node pools; Deploy TPU workloads (2026-11-30)",
)
NODE_ENDS_FIRST = Rule(
    "K028",
    WARNING,
    "a run longer than its nodes live",
    "Flex-start nodes end after 7 days, and preemptible ones after 24 hours, whatever runs there.",
    "save often enough to go on elsewhere, and shorten the run",
    "GKE, Flex-start and queued provisioning; Compute Engine, Preemptible VMs (2026-11-30)",
)
HANDLING_UNSEEN = Rule(
    "K029",
    INFO,
    "graceful termination at maintenance may be off in this cluster",
    "GKE drains pods before a GPU or TPU host's maintenance only where handling is enabled; one account found it off "
    "until the ConfigMap gke-disruption-handling in kube-system said otherwise.",
    "look for that ConfigMap: kubectl -n kube-system get configmap gke-disruption-handling",
    "GKE, Manage GKE node disruption for GPUs and TPUs; one account on 1.35.6 (2026-11-29)",
)
RULES = (ONTO_DYING_NODE, HALF_OF_SPOT, WRONG_NODE, NODE_ENDS_FIRST, HANDLING_UNSEEN)


def check(case: Case) -> Iterator[Finding]:
    """The findings of one template."""
    yield from _dying(case)
    yield from _spot(case)
    yield from _accelerators(case)
    yield from _lifetime(case)


def _dying(case: Case) -> Iterator[Finding]:
    """A DaemonSet has to run everywhere; for the rest, tolerating all taints matters where GKE sets this one."""
    if case.workload.kind == "DaemonSet":
        return
    for one in entries(case.pods.spec["tolerations"]):
        key, exists = one["key"], one["operator"].text == "Exists"
        if key.text in _DYING:
            yield ONTO_DYING_NODE.at(key, f"{case.name} tolerates {key.text}")
        elif not key.is_set and exists and one["effect"].text in ("", "NoSchedule"):
            yield from _tolerates_all(case, one["operator"])


def _tolerates_all(case: Case, place: Node) -> Iterator[Finding]:
    if case.evidence.on_gke and case.evidence.accelerator and not case.evidence.idles:
        told = f"{case.name} tolerates every taint, that of nodes before their maintenance, too"
        yield ONTO_DYING_NODE.at(place, told, severity=ERROR if case.is_batch else WARNING)


def _spot(case: Case) -> Iterator[Finding]:
    spot, tolerations = case.evidence.spot, list(entries(case.pods.spec["tolerations"]))
    if not case.whole or case.pods.spec["tolerations"].is_unknown or case.workload.kind == "DaemonSet":
        return
    if spot is not None and spot.key in (gke_labels.SPOT, gke_labels.PREEMPTIBLE, AKS_SPOT):
        if not any(_tolerates(one, spot.key) for one in tolerations):
            always = spot.key == AKS_SPOT
            why = "which AKS always taints" if always else "which are often tainted (Autopilot adds the toleration)"
            told = f"{case.name} selects Spot nodes, {why}, and does not tolerate {spot.key}"
            standard = always or case.evidence.wish(_NODE_POOL) is not None
            yield HALF_OF_SPOT.at(spot.node, told, severity=WARNING if standard else INFO)
    elif spot is None and not case.pods.spec["nodeSelector"].is_unknown and not case.evidence.wish(*_PLACED):
        for one in tolerations:
            if one["key"].text in (gke_labels.SPOT, AKS_SPOT, gke_labels.PREEMPTIBLE):
                told = (
                    f"{case.name} tolerates {one['key'].text}, but selects no Spot nodes: it may run on on-demand ones"
                )
                yield HALF_OF_SPOT.at(one["key"], told)


def _tolerates(toleration: Node, key: str) -> bool:
    own = toleration["key"]
    return own.is_unknown or own.text == key or (not own.is_set and toleration["operator"].text == "Exists")


def _accelerators(case: Case) -> Iterator[Finding]:
    """Only where it is GKE; a pool or a class that is named brings its accelerator."""
    evidence = case.evidence
    if not (evidence.on_gke and case.whole) or evidence.wish(_NODE_POOL, COMPUTE_CLASS) or evidence.idles:
        return
    if case.pods.spec["nodeSelector"].is_unknown or case.pods.spec["affinity"].is_unknown:
        return
    for what, labels, fits in (
        ("GPU", GPU_LABELS, is_gpu),
        ("TPU", TPU_LABELS, is_tpu),
    ):
        limit = amount_of(case.pods, fits)
        label = next((one for one in evidence.wishes if one.key in labels and one.must), None)
        if limit is not None and evidence.wish(*labels) is None:
            told = f"{case.name} asks for a {what}, but for no kind of it (nodeSelector {labels[0]})"
            yield WRONG_NODE.at(limit, told)
        elif label is not None and not _anybody_asks(case, fits) and not _asks_otherwise(case):
            yield WRONG_NODE.at(label.node, f"{case.name} selects {what} nodes, but no container has a {what} limit")


def _anybody_asks(case: Case, fits: Callable[[str], bool]) -> bool:
    """Whether a template of the workload has a limit: a leader may well sit beside its workers without one."""
    leads = case.workload.kind == "LeaderWorkerSet"
    return any(amount_of(one, fits) is not None for one in (case.workload.pods if leads else (case.pods,)))


def _asks_otherwise(case: Case) -> bool:
    """Whether devices are claimed in another way, or what the containers ask for is not known."""
    if case.pods.spec["resourceClaims"].is_set:
        return True
    resources = [one["resources"] for one in case.pods.all_containers]
    return any(one.is_unknown or one["limits"].is_unknown or one["claims"].is_set for one in resources)


def _lifetime(case: Case) -> Iterator[Finding]:
    spot, flex = case.evidence.spot, case.evidence.flex_start
    limit, what = (7 * _DAY, "flex-start nodes end after 7 days") if flex else (0, "")
    if spot is not None and (spot.key == gke_labels.PREEMPTIBLE or "preemptible" in spot.values):
        limit, what = _DAY, "preemptible nodes end after 24 hours"
    wish = flex or spot
    if not limit or wish is None:
        return
    longest = case.pods.annotations[_LONGEST_RUN] or case.workload.annotations[_LONGEST_RUN]
    deadline = case.pods.job["activeDeadlineSeconds"]
    work = case.known.work_seconds
    for node, seconds in ((longest, longest.number), (deadline, deadline.number)):
        if seconds is not None and seconds > limit:
            yield NODE_ENDS_FIRST.at(node, f"{case.name} may run for {seconds} s, but {what}")
            return
    if work is not None and work > limit:
        yield NODE_ENDS_FIRST.at(wish.node, f"{case.name} takes {work:.0f} s, but {what}")


def handling(cases: list[Case]) -> Iterator[Finding]:
    """Told once for a text: of the first work on GKE whose end is announced."""
    for case in cases:
        evidence = case.evidence
        if case.is_batch and evidence.on_gke and evidence.accelerator and not evidence.spot and case.whole:
            if case.manifest.find("ConfigMap", _HANDLING) is None:
                kind = case.workload.object["kind"]
                told = f"{case.name} counts on notice before maintenance; that the cluster gives it was not seen here"
                yield HANDLING_UNSEEN.at(At(kind.line, kind.column), told)
            return
