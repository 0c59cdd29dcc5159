"""What a pod may ask of Kubernetes that could change its fate and is not done here: refused, and never ignored."""

from typing import Any

Json = dict[str, Any]
_POD = (
    "activeDeadlineSeconds affinity automountServiceAccountToken containers dnsPolicy enableServiceLinks "
    "hostname initContainers nodeName nodeSelector preemptionPolicy priority priorityClassName restartPolicy "
    "schedulerName securityContext serviceAccount serviceAccountName subdomain terminationGracePeriodSeconds "
    "tolerations volumes imagePullSecrets hostNetwork"
)
_CONTAINER = (
    "args command env envFrom image imagePullPolicy lifecycle name ports resources securityContext stdin "
    "terminationMessagePath terminationMessagePolicy tty volumeMounts workingDir"
)


def not_done(spec: Json) -> list[str]:
    """The fields of a pod's spec that would be ignored here, as paths; empty if there is none."""
    found = [f"spec.{name}" for name in spec if name not in _POD.split()]
    found += [f"spec.affinity.{name}" for name in spec.get("affinity") or {} if name != "nodeAffinity"]
    for kind in ("initContainers", "containers"):
        for number, container in enumerate(spec.get(kind) or ()):
            place = f"spec.{kind}[{number}]"
            found += [f"{place}.{name}" for name in container if name not in _CONTAINER.split()]
            found += [f"{place}.lifecycle.{name}" for name in _hooks(container)]
    return found


def _hooks(container: Json) -> list[str]:
    """Hooks that are not done: all but a preStop that sleeps."""
    lifecycle = container.get("lifecycle") or {}
    found = [name for name in lifecycle if name != "preStop"]
    return found + [f"preStop.{name}" for name in lifecycle.get("preStop") or {} if name != "sleep"]
