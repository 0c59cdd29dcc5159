"""Pods of Kubernetes and GKE, as the kubelet ends them.

Facts as of 2026-11-30. Kubernetes, "Pod lifecycle": SIGTERM to the first process of each container,
terminationGracePeriodSeconds, SIGKILL. "Jobs", podReplacementPolicy: unless it is Failed, a new pod starts while the
old one is still in its grace. GKE, "Spot VMs": 15 s of a graceful node shutdown are for ordinary pods. GKE, "Manage GKE
node disruption for GPUs and TPUs": SIGTERM comes at the beginning of the notice, 60 min (GPU) or 5 min (TPU), and a pod
has its own grace in it; a host error or a repair gives none.
"""

from outlast.ports import POD_GRACE
from outlast.rehearse.procedures.containers import stop
from outlast.rehearse.procedures.everywhere import EVERYWHERE, plain_machine, usual
from outlast.rehearse.words import Kill, Procedure, Scene, Setting, Settings, StartSecond, Timed, Warn, Word

_NO_CLUSTER = "the node's label and taint, and the API server of a cluster: the notice came by SIGTERM"
_GIVEN = {"pod-grace": Setting("terminationGracePeriodSeconds of the pods", "duration", most=3600.0)}
_REPLACEMENT = Setting(
    "when the new pod starts: as podReplacementPolicy Failed has it, or as it is unless set",
    "choice",
    "after-the-old-one",
    ("after-the-old-one", "at-once"),
)


def _evict(scene: Scene, told: Settings) -> list[Timed]:
    second = [Timed(0.0, StartSecond())] if told["replacement"] == "at-once" else []
    return [Timed(0.0, Warn()), *second, scene.at(scene.grace_seconds, Kill())]


def _tell_grace(given: Settings) -> dict[str, str]:
    return {POD_GRACE: f"{given['pod-grace']:g}"} if "pod-grace" in given else {}


_EVICTION = Word(
    "the pod is evicted, by a drain or an upgrade: SIGTERM, its grace, SIGKILL",
    "SIGTERM",
    _evict,
    {"replacement": _REPLACEMENT},
)


def _pods(notice: str, words: dict[str, Word]) -> Procedure:
    return Procedure(
        words={**words, "eviction": _EVICTION, **EVERYWHERE},
        usual=usual(notice),
        open_machine=plain_machine,
        given=_GIVEN,
        tell=_tell_grace,
        not_exercised=(_NO_CLUSTER,),
    )


POD = _pods("eviction", {})
GKE_SPOT = _pods(
    "spot-reclaim",
    {"spot-reclaim": Word("the Spot node shuts down: SIGTERM, 15 s for ordinary pods, SIGKILL", "SIGTERM", stop)},
)
GKE_MAINTENANCE = _pods(
    "maintenance",
    {"maintenance": Word("the host is maintained: SIGTERM at its announcement, the pod's grace", "SIGTERM", stop)},
)
