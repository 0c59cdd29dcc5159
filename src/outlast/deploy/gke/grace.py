"""How long a pod may take to leave: from the notice of its nodes and what a save takes.

The notices are those of `outlast.platforms`. As of 2026-11-30 from the GKE documentation, "Manage node disruption for
GPUs and TPUs": a pod gets terminationGracePeriodSeconds, 3600 at most with GPUs and 300 with TPUs. Kubernetes, "Pod
lifecycle": 0 kills at once. Cluster autoscaler, FAQ: it waits 600 s for a pod that it moves, whatever that asks for.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from outlast.clock import format_duration
from outlast.deploy.description import BadSetting
from outlast.platforms import gke_spot, kubernetes
from outlast.ports import Identity, PlatformFacts
from outlast.settings import Surroundings

# The kubelet's whole shutdown budget of a Spot node: 0, 30 or 120 (GKE, node system configuration, 2026-11-30).
LONG_SHUTDOWN_SECONDS = 120
_AUTOSCALER_SECONDS = 600.0
_TWICE = 2.0  # a step under way and a slow bucket take as long again as the save that was measured
_ROUND = 10


@dataclass(frozen=True, slots=True)
class Grace:
    """terminationGracePeriodSeconds, and why. `long_shutdown`: the nodes need the long shutdown budget for it.

    `warning`: what is wrong with it all the same.
    """

    seconds: int
    reason: str
    long_shutdown: bool = False
    warning: str | None = None


def usable_seconds(grace_seconds: float) -> float:
    """What outlast uses of a grace: all but its margin."""
    facts = kubernetes.FACTS
    return Surroundings(facts, Identity(), grace_seconds, facts.interrupted_exit_code).usable_seconds


def needed_seconds(save_seconds: float) -> float:
    """The grace whose usable part holds such a save twice, in whole seconds."""
    wanted = _TWICE * save_seconds
    grace = math.ceil(wanted)
    while usable_seconds(grace) < wanted:
        grace += 1
    return float(grace)


def choose_grace(
    kinds: Sequence[PlatformFacts],
    *,
    save_seconds: float | None,
    asked_seconds: int | None = None,
    long_shutdown: bool = True,
) -> Grace:
    """The grace for pods on nodes that are all of these kinds. `long_shutdown`: whether the nodes' pool may have it.

    Raises BadSetting for one that was asked for and that such nodes never give.
    """
    short = most_seconds(kinds, long_shutdown=False)
    needed = None if save_seconds is None else needed_seconds(save_seconds)
    is_spot = any(one is gke_spot.FACTS for one in kinds)
    extend = is_spot and long_shutdown and (asked_seconds or needed or 0.0) > (short or math.inf)
    most = most_seconds(kinds, long_shutdown=extend)
    if asked_seconds is not None:
        chosen, reason = _asked(asked_seconds, most), "as the description asks"
    elif is_spot and most is not None:
        chosen, reason = most, f"all that a Spot node leaves its pods ({gke_spot.FACTS.sources['grace_seconds']})"
        if extend:
            reason = f"the {LONG_SHUTDOWN_SECONDS} s shutdown budget of the node pool, less what critical pods get"
    elif needed is None:
        chosen = min(most or math.inf, _AUTOSCALER_SECONDS)
        reason = "how long a save takes is not known; a pod that leaves earlier costs nothing"
    else:
        least = min(kinds, key=lambda one: one.grace_seconds).grace_seconds
        chosen = min(most or math.inf, max(least, math.ceil(needed / _ROUND) * _ROUND))
        reason = f"a save takes {format_duration(save_seconds or 0.0)}; twice that, and outlast's margin"
    return Grace(int(chosen), reason, extend, _warning(chosen, save_seconds))


def most_seconds(kinds: Sequence[PlatformFacts], *, long_shutdown: bool) -> float | None:
    """The most that such nodes leave a pod; None where nothing but the pod limits it."""
    limits = []
    for one in kinds:
        short = one is gke_spot.FACTS and not long_shutdown
        limit = one.grace_seconds if short else one.longest_grace_seconds
        limits += [] if limit is None else [limit]
    return min(limits, default=None)


def _asked(seconds: int, most: float | None) -> float:
    if seconds < 1:
        raise BadSetting("kubernetes.grace_seconds", "with 0 a pod is killed at once and saves nothing")
    if most is not None and seconds > most:
        why = f"{seconds} is more than such nodes leave a pod: {format_duration(most)} at most"
        raise BadSetting("kubernetes.grace_seconds", why)
    return float(seconds)


def _warning(grace_seconds: float, save_seconds: float | None) -> str | None:
    if save_seconds is None or save_seconds <= usable_seconds(grace_seconds):
        return None
    return (
        f"a save takes {format_duration(save_seconds)} and does not fit into the grace of "
        f"{format_duration(grace_seconds)}: the saves in between are what protects this job, so an interruption costs "
        "what was done since the last of them"
    )
