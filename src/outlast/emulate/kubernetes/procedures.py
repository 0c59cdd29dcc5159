"""What is done to a node: maintenance of its host, the reclaim of a Spot machine, a host error, a network that is gone.

Facts as of 2026-11-30. GKE, "Manage node disruption for GPUs and TPUs": maintenance-event becomes
TERMINATE_ON_HOST_MAINTENANCE; within 60 s the label cloud.google.com/active-node-maintenance=true and the taint
cloud.google.com/impending-node-termination:NoSchedule; workload pods are evicted, then system pods; SIGTERM at the
beginning of the notice (60 min for GPUs, 5 min for TPUs); the node ends, a replacement comes, label and taint go.
A handler seen in the wild runs with --immediate-shutdown=true: the node ends once its pods have. GKE, "Spot VMs": 30 s,
15 of them for ordinary pods. A host error has no notice. The cloud's node controller deletes the node of a machine
that is gone. How long a new machine takes is not documented: 90 s here. Kubernetes, "Taints and tolerations": a pod
stays for 300 s on a node that is unreachable; then it is deleted, which ends nothing there while nobody reaches it.
"""

import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Literal

from outlast.emulate.kubernetes import conditions
from outlast.emulate.kubernetes.handler import is_handler
from outlast.emulate.kubernetes.hosts import Host
from outlast.emulate.kubernetes.pods import is_over, own_grace_seconds
from outlast.emulate.kubernetes.problems import Refused
from outlast.emulate.kubernetes.taints import NOT_READY, UNREACHABLE, set_taints
from outlast.platforms import gke_labels

Json = dict[str, Any]
Kind = Literal["maintenance", "reclaim", "host-error", "partition"]
ACTIVE_LABEL = "cloud.google.com/active-node-maintenance"
ENDING_TAINT = {"key": gke_labels.IMPENDING_END, "effect": "NoSchedule"}
LABEL_SECONDS = 30.0  # "within 60 s"
MONITOR_GRACE_SECONDS = 50.0
REPLACEMENT_SECONDS = 90.0
PARTITION_SECONDS = 420.0  # longer than pods tolerate it, shorter than it takes until GKE repairs a node
_CLOUD_LOOK_SECONDS = 5.0  # how often the cloud's node controller looks whether the machine of an unready node exists
_LOOK_SECONDS = 0.02
_SYSTEM_NAMESPACES = ("kube-system", "kube-public", "gke-managed-system", "gmp-system")


class Procedure:
    """One procedure, in a thread of its own. `wait` for its end, which is a node that is ready again."""

    def __init__(self, host: Host, kind: Kind, steps: Callable[["Procedure"], None]) -> None:
        self.host, self.kind = host, kind
        self.trace: list[tuple[float, str]] = []
        self.over = threading.Event()
        self._stopped = threading.Event()
        self._begin = time.monotonic()
        self._steps = steps
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name=f"outlast-{kind}-{host.name}", daemon=True)
        self._thread.start()

    def wait(self, seconds: float) -> bool:
        """Whether it is over, within so many seconds here. Raises what went wrong in it."""
        ended = self.over.wait(seconds)
        if self._error is not None:
            raise RuntimeError(f"the {self.kind} of {self.host.name} went wrong") from self._error
        return ended

    def give_up(self) -> None:
        """Does nothing more of it; `join` to know that."""
        self._stopped.set()

    def join(self) -> None:
        """Waits until it does nothing more."""
        self._thread.join()

    # For its steps

    def seconds(self) -> float:
        """Since its beginning, in the platform's seconds."""
        return (time.monotonic() - self._begin) * self.host.site.scale.factor

    def record(self, what: str) -> None:
        """Notes what was done and when, where the node's handler can log no more."""
        self.trace.append((self.seconds(), what))

    def note(self, what: str) -> None:
        """Notes what was done and when, here and in the handler's log."""
        self.record(what)
        if self.host.handler is not None:
            self.host.handler.log(what)

    def sleep_until(self, moment: float) -> None:
        """Until so many of the platform's seconds after the beginning."""
        left = self.host.site.scale.here(moment - self.seconds())
        if self._stopped.wait(max(0.0, left)):
            raise _GivenUp

    def wait_for(self, condition: Callable[[], bool], moment: float) -> bool:
        """Until a condition holds, or that moment; whether it holds."""
        while not condition():
            if self.seconds() >= moment:
                return False
            if self._stopped.wait(_LOOK_SECONDS):
                raise _GivenUp
        return True

    def _run(self) -> None:
        try:
            self._steps(self)
        except _GivenUp:
            pass
        except Exception as error:
            self._error = error
            raise
        finally:
            self.over.set()


class _GivenUp(Exception):
    """The cluster is closed."""


# Maintenance of the host


def maintenance(run: Procedure) -> None:
    """The whole procedure of "Manage node disruption for GPUs and TPUs"."""
    host, window = run.host, run.host.machine.notice_seconds
    host.metadata.maintain(window)
    run.note("maintenance-event is TERMINATE_ON_HOST_MAINTENANCE")
    run.sleep_until(LABEL_SECONDS)
    host.edit(mark_for_maintenance)
    run.note(f"Applied node label {ACTIVE_LABEL}=true")
    run.note(f"Applied node taint {ENDING_TAINT['key']}:{ENDING_TAINT['effect']}")
    until = LABEL_SECONDS + window
    for system in (False, True):
        pods = [pod for pod in _pods_of(host) if _is_system(pod) == system]
        for pod in pods:
            _evict(run, pod, until - run.seconds())
        run.wait_for(lambda: not [pod for pod in _pods_of(host) if _is_system(pod) == system], until)  # noqa: B023 - it is called within this turn
    run.note(f"Shutting down node {host.name}" + ("" if not _pods_of(host) else ": the notice is over"))
    _replace(run)


def mark_for_maintenance(node: Json) -> None:
    """Gives a node the label and the taint of one whose host will be maintained."""
    node["metadata"].setdefault("labels", {})[ACTIVE_LABEL] = "true"
    others = [one for one in node["spec"].get("taints", ()) if one["key"] != ENDING_TAINT["key"]]
    set_taints(node, [*others, dict(ENDING_TAINT)])


def _pods_of(host: Host) -> list[Json]:
    """What still runs on the node, but for the handler and what belongs to the node itself."""
    pods = host.site.store.listing("Pod", fields=f"spec.nodeName={host.name}").objects
    return [pod for pod in pods if not is_over(pod) and not is_handler(pod)]


def _is_system(pod: Json) -> bool:
    return pod["metadata"]["namespace"] in _SYSTEM_NAMESPACES


def _evict(run: Procedure, pod: Json, left_seconds: float) -> None:
    """As the eviction API does, for whoever has the right to it; no longer than the notice lasts."""
    store, meta = run.host.site.store, pod["metadata"]
    condition = conditions.eviction(store.timestamp())
    grace = min(own_grace_seconds(pod), int(left_seconds))
    run.note(f"Evicting pod {meta['namespace']}/{meta['name']} with a grace of {grace} s")
    with suppress(Refused):  # it ended by itself
        store.change("Pod", meta["name"], meta["namespace"], lambda found: conditions.add(found, [condition]))
        store.delete("Pod", meta["name"], meta["namespace"], grace_seconds=grace, uid=meta["uid"])


def _replace(run: Procedure) -> None:
    """The machine goes, its node with it, and another one takes their place."""
    host = run.host
    host.power_off()
    host.say_ready("Unknown", "NodeStatusUnknown", "Kubelet stopped posting node status.")
    host.forget()
    run.record("the node is gone")
    run.sleep_until(run.seconds() + REPLACEMENT_SECONDS)
    host.switch_on()
    run.note(f"Node {host.name} is replaced; label and taint are gone")


# A Spot machine


def reclaim(run: Procedure) -> None:
    """Compute Engine takes a Spot machine back."""
    host, machine = run.host, run.host.machine
    ending = host.metadata.preempt()
    run.note("preempted is TRUE")
    run.sleep_until(ending.shutdown_in_seconds * host.site.scale.factor)
    total, critical = float(machine.shutdown_seconds), float(machine.critical_seconds)
    if host.kubelet is not None and total:
        host.say_ready("False", "KubeletNotReady", "node is shutting down")
        host.edit(_not_ready)
        run.note("the node is shutting down")
        host.kubelet.shut_down(total, critical)
    run.note("the machine is off")
    host.power_off()
    run.sleep_until(run.seconds() + _CLOUD_LOOK_SECONDS)
    _replace(run)


def _not_ready(node: Json) -> None:
    taints = node["spec"].get("taints", [])
    set_taints(node, [*taints, {"key": NOT_READY, "effect": "NoSchedule"}])


# A host error


def host_error(run: Procedure) -> None:
    """The machine is gone in an instant; the control plane finds out by its silence."""
    host = run.host
    host.power_off()
    run.record("the machine is gone")
    run.sleep_until(MONITOR_GRACE_SECONDS)
    host.say_ready("Unknown", "NodeStatusUnknown", "Kubelet stopped posting node status.")
    host.edit(_unreachable)
    _replace(run)


def _unreachable(node: Json) -> None:
    taints = node["spec"].get("taints", [])
    set_taints(node, [*taints, *({"key": UNREACHABLE, "effect": effect} for effect in ("NoSchedule", "NoExecute"))])


# A network that is gone for a while


def partition(run: Procedure) -> None:
    """The node runs on and is taken for lost: a pod's successor runs beside it, unless the Job waits."""
    host = run.host
    if host.kubelet is None:
        return
    host.kubelet.disconnect()
    run.record("the node is cut off")
    run.sleep_until(MONITOR_GRACE_SECONDS)
    host.say_ready("Unknown", "NodeStatusUnknown", "Kubelet stopped posting node status.")
    host.edit(_unreachable)
    run.record("the node is unreachable")
    run.sleep_until(PARTITION_SECONDS)
    host.kubelet.reconnect()
    host.say_ready("True", "KubeletReady", "")
    host.edit(_reachable)
    run.record("the node is back")


def _reachable(node: Json) -> None:
    set_taints(node, [one for one in node["spec"].get("taints", ()) if one["key"] != UNREACHABLE])


STEPS: dict[Kind, Callable[[Procedure], None]] = {
    "maintenance": maintenance,
    "reclaim": reclaim,
    "host-error": host_error,
    "partition": partition,
}
