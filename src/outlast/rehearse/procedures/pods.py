"""Pods of Kubernetes and GKE, as the kubelet ends them.

Facts as of 2026-11-30. Kubernetes, "Pod lifecycle": SIGTERM to the first process of each container,
terminationGracePeriodSeconds, SIGKILL; a pod that is deleted has a deletionTimestamp meanwhile. "Jobs",
podReplacementPolicy: unless it is Failed, a new pod starts while the old one is still in its grace. GKE, "Spot VMs":
15 s of a graceful node shutdown are for ordinary pods, which are not deleted then. GKE, "Manage GKE node disruption for
GPUs and TPUs": the node gets a label and a taint, then its pods are evicted; SIGTERM comes at the beginning of the
notice, 60 min (GPU) or 5 min (TPU), and a pod has its own grace in it; a host error or a repair gives none.
"""

from functools import partial
from importlib.util import find_spec
from typing import Protocol, runtime_checkable

from outlast.ports import POD_GRACE
from outlast.rehearse.procedures.everywhere import EVERYWHERE, ON_NODES, plain_machine, port_of_first, stop, usual
from outlast.rehearse.words import (
    Announce,
    Kill,
    Nodes,
    OpenMachine,
    Procedure,
    Scene,
    Setting,
    Settings,
    StartSecond,
    Timed,
    Warn,
    Word,
)

# What the emulated API server is made of: the extra `web`, and what makes certificates.
_HAS_API = all(find_spec(name) is not None for name in ("starlette", "uvicorn", "cryptography"))
_NO_API = ("the API server of a cluster, with the node's label and taint: the notice came by SIGTERM alone",)
_ONE_POD = ("the controllers of a cluster: the rehearsal was the kubelet of one pod (`outlast emulate gke` has them)",)
_EVICTED_SECONDS = 1.0  # from the label and taint to the eviction: at once, after what a controller takes
_GIVEN = {"pod-grace": Setting("terminationGracePeriodSeconds of the pods", "duration", most=3600.0)}
_REPLACEMENT = Setting(
    "when the new pod starts: as podReplacementPolicy Failed has it, or as it is unless set",
    "choice",
    "after-the-old-one",
    ("after-the-old-one", "at-once"),
)


@runtime_checkable
class InCluster(Protocol):
    """A machine that stands in an API server as a pod on its node."""

    def mark_for_maintenance(self) -> None: ...

    def shut_down(self) -> None: ...

    def delete(self, grace_seconds: float) -> None: ...


def _evict(scene: Scene, told: Settings) -> list[Timed]:
    pod = scene.machine
    if isinstance(pod, InCluster):
        pod.delete(scene.grace_seconds)
    warned, killed = stop(scene, told)
    second = [Timed(0.0, StartSecond())] if told["replacement"] == "at-once" else []
    return [warned, *second, killed]


def _reclaim(scene: Scene, told: Settings) -> list[Timed]:
    pod = scene.machine
    if isinstance(pod, InCluster):
        pod.shut_down()
    return stop(scene, told)


def _maintenance(scene: Scene, told: Settings) -> list[Timed]:
    pod, grace = scene.machine, scene.grace_seconds
    if not isinstance(pod, InCluster):
        return stop(scene, told)
    pod.mark_for_maintenance()
    return [
        Timed(0.0, Announce()),
        scene.at(_EVICTED_SECONDS, Warn(before=partial(pod.delete, grace))),
        scene.at(_EVICTED_SECONDS + grace, Kill()),
    ]


def _tell_grace(given: Settings) -> dict[str, str]:
    return {POD_GRACE: f"{given['pod-grace']:g}"} if "pod-grace" in given else {}


_EVICTION = Word(
    "the pod is evicted, by a drain or an upgrade: SIGTERM, its grace, SIGKILL",
    "SIGTERM",
    _evict,
    {"replacement": _REPLACEMENT},
)


def _opener(node: str) -> OpenMachine:
    if not _HAS_API:
        return plain_machine
    from outlast.rehearse.procedures.cluster import open_pod  # noqa: PLC0415 - it needs what may not be installed

    return open_pod(node)


# A JobSet starts all pods anew, an Indexed Job the one that failed.
_NODES = Nodes(
    port_of_first,
    own_tasks=True,
    not_exercised=(
        "a pod that an Indexed Job starts anew while others still leave: all had ended before the next began",
    ),
)


def _pods(notice: str, words: dict[str, Word], *, node: str) -> Procedure:
    return Procedure(
        words={**words, "eviction": _EVICTION, **EVERYWHERE, **ON_NODES},
        usual=usual(notice),
        open_machine=_opener(node),
        given=_GIVEN,
        tell=_tell_grace,
        not_exercised=_ONE_POD if _HAS_API else _NO_API,
        needs_namespaces=_NO_API if _HAS_API else (),
        nodes=_NODES,
    )


POD = _pods("eviction", {}, node="cpu")
GKE_SPOT = _pods(
    "spot-reclaim",
    {"spot-reclaim": Word("the Spot node shuts down: SIGTERM, 15 s for ordinary pods, SIGKILL", "SIGTERM", _reclaim)},
    node="spot",
)
_MAINTENANCE = Word(
    "the host is maintained: the node's label and taint, then SIGTERM, the pod's grace, SIGKILL",
    "SIGTERM",
    _maintenance,
)
GKE_GPU = _pods("maintenance", {"maintenance": _MAINTENANCE}, node="gpu")
GKE_TPU = _pods("maintenance", {"maintenance": _MAINTENANCE}, node="tpu")
