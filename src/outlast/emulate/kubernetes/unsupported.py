"""What a pod may ask of Kubernetes that could change its fate and is not done here: refused, and never ignored."""

from typing import Any

from outlast.emulate.kubernetes.kinds import BY_NAME
from outlast.emulate.kubernetes.pod_volumes import GCSFUSE, HOST_PATHS, KINDS
from outlast.emulate.kubernetes.problems import forbidden

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
_JOB_UNSUPPORTED = ("successPolicy", "managedBy")


def refuse_unsupported(made: Json) -> None:
    """Raises Refused for a pod or a Job that asks for what is not done here."""
    if made["kind"] not in ("Pod", "Job"):
        return
    spec = made["spec"]
    if made["kind"] == "Pod":
        unsupported = unsupported_fields(spec)
    else:
        unsupported = unsupported_fields(spec["template"]["spec"])
        unsupported += [f"spec.{name}" for name in _JOB_UNSUPPORTED if spec.get(name) is not None]
    if unsupported:
        why = f"the emulator does not do what these fields ask for: {', '.join(unsupported)}"
        raise forbidden(BY_NAME[made["kind"]], made["metadata"].get("name", ""), why)


def unsupported_fields(spec: Json) -> list[str]:
    """The fields of a pod's spec that would be ignored here, as paths; empty if there is none."""
    found = [f"spec.{name}" for name in spec if name not in _POD.split()]
    found += [f"spec.affinity.{name}" for name in spec.get("affinity") or {} if name != "nodeAffinity"]
    for kind in ("initContainers", "containers"):
        for number, container in enumerate(spec.get(kind) or ()):
            place = f"spec.{kind}[{number}]"
            found += [f"{place}.{name}" for name in container if name not in _CONTAINER.split()]
            found += [f"{place}.lifecycle.{name}" for name in _hooks(container)]
    for number, volume in enumerate(spec.get("volumes") or ()):
        found += [f"spec.volumes[{number}].{unsupported}" for unsupported in _unsupported_volume(volume)]
    return found


def _unsupported_volume(volume: Json) -> list[str]:
    """What cannot be mounted here, and settings of a bucket's mount that would show other files."""
    found = [kind for kind in volume if kind not in ("name", *KINDS)]
    csi, kind = volume.get("csi") or {}, (volume.get("hostPath") or {}).get("type") or ""
    if kind not in HOST_PATHS:
        found.append(f"hostPath.type: {kind}")
    if csi and csi.get("driver") != GCSFUSE:
        found.append(f"csi.driver: {csi.get('driver')}")
    options = str((csi.get("volumeAttributes") or {}).get("mountOptions", "")).split(",")
    return found + [
        f"csi.volumeAttributes.mountOptions: {one}" for one in options if one.strip().startswith("only-dir")
    ]


def _hooks(container: Json) -> list[str]:
    """Hooks that are not done: all but a preStop that sleeps."""
    lifecycle = container.get("lifecycle") or {}
    found = [name for name in lifecycle if name != "preStop"]
    return found + [f"preStop.{name}" for name in lifecycle.get("preStop") or {} if name != "sleep"]
