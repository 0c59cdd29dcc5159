"""What a pod may ask of Kubernetes that could change its fate and is not done here: refused, and never ignored."""

from typing import Any

from outlast.emulate.kubernetes.kinds import BY_NAME
from outlast.emulate.kubernetes.problems import forbidden
from outlast.emulate.kubernetes.verbs import How, Verbs

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
_AS_ASKED = How()
_JOB_UNDONE = ("successPolicy", "managedBy")


class RunnableVerbs(Verbs):
    """The verbs of a cluster that runs its pods: what would be ignored is refused before it is made."""

    def create(
        self, kind_name: str, body: Any, namespace: str = "", how: How = _AS_ASKED, warnings: list[str] | None = None
    ) -> Json:
        if kind_name in ("Pod", "Job"):
            checked = super().create(kind_name, body, namespace, How(how.field_validation, dry_run=True))
            spec, name = checked["spec"], checked["metadata"].get("name", "")
            undone = not_done(spec if kind_name == "Pod" else spec["template"]["spec"])
            undone += [f"spec.{one}" for one in _JOB_UNDONE if kind_name == "Job" and spec.get(one) is not None]
            if undone:
                why = f"the emulator does not do what these fields ask for: {', '.join(undone)}"
                raise forbidden(BY_NAME[kind_name], name, why)
        return super().create(kind_name, body, namespace, how, warnings)


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
