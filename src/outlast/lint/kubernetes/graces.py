"""How long pods really have between SIGTERM and SIGKILL (K009, K010, K011, K012, K013, K036)."""

import re
from collections.abc import Iterator
from itertools import pairwise

from outlast.lint.kubernetes.cases import Case, key_of
from outlast.lint.kubernetes.evidence import COMPUTE_CLASS
from outlast.lint.kubernetes.fields import number_or, unset
from outlast.lint.kubernetes.work import variables_of, words_of
from outlast.lint.reading.yaml_nodes import Node
from outlast.lint.rule import INFO, WARNING, Finding, Rule
from outlast.platforms import gke_gpu, gke_labels, gke_spot, gke_tpu, kubernetes

_DEFAULT = int(kubernetes.FACTS.grace_seconds)
_SPOT, _SPOT_AT_MOST = int(gke_spot.FACTS.grace_seconds), int(gke_spot.FACTS.longest_grace_seconds or 0)
_LONGEST = {"GPU": int(gke_gpu.FACTS.longest_grace_seconds or 0), "TPU": int(gke_tpu.FACTS.longest_grace_seconds or 0)}
_LAUNCHER_SECONDS = 30
_SECONDS = re.compile(r"([0-9]{1,9})s?")
_GRACE = "terminationGracePeriodSeconds"
_DISRUPTION = "GKE, Manage GKE node disruption for GPUs and TPUs (2026-11-29)"

NOT_ASKED_FOR = Rule(
    "K009",
    WARNING,
    "no terminationGracePeriodSeconds on nodes whose maintenance is announced",
    "GKE tells of a host's maintenance an hour ahead on GPUs and 5 minutes on TPUs, and lets pods use that time; "
    "unless asked for more, they get 30 s.",
    "set terminationGracePeriodSeconds to what a save takes, with room",
    _DISRUPTION,
)
CUT_ON_SPOT = Rule(
    "K010",
    WARNING,
    "more grace than Spot nodes give",
    "When a Spot node is taken back, ordinary pods get 15 s, whatever they ask for, unless the node pool's kubelet "
    "configuration says more; a plan for longer loses its end.",
    "plan the final save within 12 s, or give the pool shutdownGracePeriodSeconds: 120 and "
    "shutdownGracePeriodCriticalPodsSeconds: 15",
    "GKE, Spot VMs and node system configuration (2026-11-29)",
)
NEVER_GRANTED = Rule(
    "K011",
    WARNING,
    "a grace that is never granted, or none at all",
    "GKE gives 3600 s at most on nodes with GPUs and 300 s with TPUs. With 0 there is no SIGTERM at all.",
    "set terminationGracePeriodSeconds to what a save takes, below the maximum",
    _DISRUPTION,
)
SHORTER_THAN_SAVE = Rule(
    "K012",
    WARNING,
    "less grace than a final save takes",
    "The pod is killed in the middle of its last save.",
    "raise terminationGracePeriodSeconds, shorten preStop, or make the save smaller",
    "Kubernetes, Pod lifecycle, Termination of Pods (2026-11-29)",
)
SPENT_IN_HOOK = Rule(
    "K013",
    WARNING,
    "a preStop hook uses up the grace",
    "The grace runs from the beginning of the hook; SIGTERM comes only after it.",
    "shorten the hook, or raise terminationGracePeriodSeconds by as much",
    "Kubernetes, Container lifecycle hooks (2026-11-30)",
)
LAUNCHER_KILLS = Rule(
    "K036",
    WARNING,
    "the launcher kills its workers after 30 s, before the grace has ended",
    "torchrun and accelerate pass SIGTERM on, and send SIGKILL 30 s later, however long the pod has.",
    "keep the final save within 30 s, or set TORCH_ELASTIC_SHUTDOWN_TIMEOUT (PyTorch of March 2026 and later)",
    "pytorch/pytorch#119856, #172596 (2026-11-30)",
)
RULES = (NOT_ASKED_FOR, CUT_ON_SPOT, NEVER_GRANTED, SHORTER_THAN_SAVE, SPENT_IN_HOOK, LAUNCHER_KILLS)


def check(case: Case) -> Iterator[Finding]:
    """The findings of one template."""
    asked = case.pods.spec[_GRACE]
    if asked.number is not None:
        yield from _too_much(case, asked, asked.number)
        yield from _launcher(case, asked, asked.number)
    elif case.whole:
        yield from _not_asked(case)
    yield from _too_short(case)


def _not_asked(case: Case) -> Iterator[Finding]:
    evidence = case.evidence
    if not ((evidence.on_gke or _is_of_google(case)) and evidence.accelerator) or evidence.spot:
        return
    if unset(case.pods.spec, _GRACE):
        what = "TPU" if evidence.tpu else "GPU"
        told = f"{case.name} runs on {what} nodes, and gets the default {_DEFAULT} s of up to {_LONGEST[what]} s"
        yield NOT_ASKED_FOR.at(
            key_of(case.pods.spec), told, severity=WARNING if case.is_batch and evidence.on_gke else INFO
        )


def _is_of_google(case: Case) -> bool:
    """Whether images or data come from Google's cloud, and so the nodes may well do, of which nothing else is said."""
    if case.evidence.wishes:
        return False
    images = [one["image"].text for one in case.pods.containers]
    words = (word for one in case.pods.containers for word in words_of(one))
    return any(".pkg.dev/" in one or "gcr.io/" in one for one in images) or any("gs://" in word for word in words)


def _too_much(case: Case, node: Node, asked: int) -> Iterator[Finding]:
    evidence = case.evidence
    if asked == 0:
        if case.is_batch and (case.workload.ends or evidence.accelerator):
            yield NEVER_GRANTED.at(node, f"{case.name} has {_GRACE} 0: it is killed without SIGTERM")
        return
    if evidence.gke_spot and evidence.spot is not None:
        given, how = _of_spot(case)
        if asked > given:
            yield CUT_ON_SPOT.at(node, f"{case.name} asks for {asked} s on Spot nodes, which give {given} s{how}")
        return
    what = "TPU" if evidence.tpu else "GPU"
    if evidence.accelerator and evidence.on_gke and asked > _LONGEST[what]:
        yield NEVER_GRANTED.at(node, f"{case.name} asks for {asked} s on {what} nodes, which give {_LONGEST[what]} s")


def _of_spot(case: Case) -> tuple[int, str]:
    """What a Spot node gives to ordinary pods, and on what that rests."""
    spot, named = case.evidence.spot, case.evidence.wish(COMPUTE_CLASS)
    if spot is not None and spot.key == gke_labels.PREEMPTIBLE:
        return _SPOT, ""
    chosen = case.manifest.find("ComputeClass", named.values[0]) if named and named.values else None
    kubelet = chosen.at("spec", "nodeSystemConfig", "kubeletConfig") if chosen else None
    total = kubelet["shutdownGracePeriodSeconds"].number if kubelet else None
    if kubelet and total:
        return total - (number_or(kubelet["shutdownGracePeriodCriticalPodsSeconds"], 0) or 0), " by their ComputeClass"
    return _SPOT, f" (at most {_SPOT_AT_MOST} s, where the pool's kubelet is configured so)"


def _too_short(case: Case) -> Iterator[Finding]:
    asked = number_or(case.pods.spec[_GRACE], _DEFAULT)
    if asked is None or case.pods.spec[_GRACE].is_unknown or asked == 0:
        return
    given = min(asked, _of_spot(case)[0]) if case.evidence.gke_spot else asked
    hook, spent = _longest_hook(case)
    if hook is not None:
        yield from _hook_findings(case, hook, spent, given)
    save = case.known.save_seconds
    if save is not None and case.is_batch and case.whole and save > given - spent:
        place = case.pods.spec[_GRACE] if case.pods.spec[_GRACE].is_set else key_of(case.pods.spec)
        left = f"{given} s of grace" + (f" less {spent} s of preStop" if spent else "")
        yield SHORTER_THAN_SAVE.at(place, f"a final save takes {save:g} s, and {case.name} has {left}")


def _hook_findings(case: Case, hook: Node, spent: int, given: int) -> Iterator[Finding]:
    """A service may well sleep until its clients have gone; work that has to be saved may not."""
    if spent >= given:
        yield SPENT_IN_HOOK.at(hook, f"preStop of {case.name} takes {spent} s, all of its {given} s of grace")
    elif case.is_batch and 2 * spent >= given:
        yield SPENT_IN_HOOK.at(hook, f"preStop of {case.name} takes {spent} s of its {given} s of grace")


def _longest_hook(case: Case) -> tuple[Node | None, int]:
    hooks = [one.at("lifecycle", "preStop") for one in case.pods.containers]
    timed = [(hook, seconds) for hook in hooks if hook.is_set and (seconds := _sleeps(hook)) > 0]
    return max(timed, key=lambda one: one[1]) if timed else (None, 0)


def _sleeps(hook: Node) -> int:
    """The seconds that a hook sleeps, as far as its words tell."""
    seconds = hook.at("sleep", "seconds").number
    if seconds is not None:
        return seconds
    words = [word.strip(";'\"") for one in hook.at("exec", "command") for word in one.text.split()]
    amounts = [_SECONDS.fullmatch(amount) for word, amount in pairwise(words) if word == "sleep"]
    return sum(int(one[1]) for one in amounts if one)


def _launcher(case: Case, node: Node, asked: int) -> Iterator[Finding]:
    if asked <= _LAUNCHER_SECONDS or not case.is_batch:
        return
    for container in case.pods.containers:
        words = words_of(container)
        launcher = _launcher_in(words)
        told = "TORCH_ELASTIC_SHUTDOWN_TIMEOUT" in variables_of(container) or any(
            word.startswith(("--shutdown-timeout", "--shutdown_timeout")) or "ELASTIC_SHUTDOWN_TIMEOUT=" in word
            for word in words
        )
        if launcher and not told:
            why = f"{case.name} asks for {asked} s, but {launcher} kills its workers after {_LAUNCHER_SECONDS} s"
            yield LAUNCHER_KILLS.at(node, why)
            return


def _launcher_in(words: list[str]) -> str | None:
    for word, following in pairwise([*words, ""]):
        name = word.rsplit("/", 1)[-1]
        if name == "torchrun" or (word == "-m" and following in ("torch.distributed.run", "torch.distributed.launch")):
            return "torchrun"
        if name == "accelerate" and following == "launch":
            return "accelerate launch"
    return None
