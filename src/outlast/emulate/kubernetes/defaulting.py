"""What the API server fills in where a manifest says nothing.

Kubernetes `pkg/apis/{core,batch,apps}/v1/defaults.go` and the admission plugins ServiceAccount and Priority,
2026-11-30; the fields that matter to a job and its pods.
"""

import base64
from typing import Any

from outlast.emulate.kubernetes.job_pods import job_labels
from outlast.emulate.kubernetes.pods import GRACE_SECONDS
from outlast.emulate.kubernetes.scheduling import requests_of
from outlast.emulate.kubernetes.taints import with_defaults

Json = dict[str, Any]

_BACKOFF_LIMIT = 6
_NO_LIMIT = 2**31 - 1  # backoffLimit where each index has its own
_PROBE = {"timeoutSeconds": 1, "periodSeconds": 10, "successThreshold": 1, "failureThreshold": 3}
FILE_MODE = 0o644
_VOLUME_FILES = ("configMap", "secret", "downwardAPI", "projected")


def fill(made: Json) -> None:
    """Fills an object in place, as decoding does on the server. Doing it again changes nothing."""
    filler = {
        "Pod": _pod,
        "Job": _job,
        "DaemonSet": _daemon_set,
        "Secret": _secret,
        "Namespace": _namespace,
        "PersistentVolumeClaim": _claim,
        "PriorityClass": _priority_class,
    }.get(made["kind"])
    if made["kind"] in ("Node", "PodDisruptionBudget"):
        made.setdefault("spec", {})
        made.setdefault("status", {})
    if filler is not None:
        filler(made)


def _pod(made: Json) -> None:
    spec = made.setdefault("spec", {})
    fill_pod_spec(spec)


def _job(made: Json) -> None:
    spec = made.setdefault("spec", {})
    if "completions" not in spec and "parallelism" not in spec:
        spec["completions"] = 1
    spec.setdefault("parallelism", 1)
    per_index = "backoffLimitPerIndex" in spec
    spec.setdefault("backoffLimit", _NO_LIMIT if per_index else _BACKOFF_LIMIT)
    spec.setdefault("completionMode", "NonIndexed")
    spec.setdefault("suspend", False)
    spec.setdefault("manualSelector", False)
    spec.setdefault("podReplacementPolicy", "Failed" if "podFailurePolicy" in spec else "TerminatingOrFailed")
    for rule in (spec.get("podFailurePolicy") or {}).get("rules") or []:
        for condition in rule.get("onPodConditions") or []:
            condition.setdefault("status", "True")
    fill_template(spec)


def _daemon_set(made: Json) -> None:
    spec = made.setdefault("spec", {})
    strategy = spec.setdefault("updateStrategy", {})
    strategy.setdefault("type", "RollingUpdate")
    if strategy["type"] == "RollingUpdate":
        rolling = strategy.setdefault("rollingUpdate", {})
        rolling.setdefault("maxUnavailable", 1)
        rolling.setdefault("maxSurge", 0)
    spec.setdefault("revisionHistoryLimit", 10)
    fill_template(spec)


def _secret(made: Json) -> None:
    made.setdefault("type", "Opaque")
    for name, text in (made.pop("stringData", None) or {}).items():
        made.setdefault("data", {})[name] = base64.b64encode(text.encode()).decode()


def _namespace(made: Json) -> None:
    labels = made["metadata"].setdefault("labels", {})
    if made["metadata"].get("name"):
        labels["kubernetes.io/metadata.name"] = made["metadata"]["name"]
    made.setdefault("spec", {}).setdefault("finalizers", ["kubernetes"])
    made.setdefault("status", {}).setdefault("phase", "Active")


def _claim(made: Json) -> None:
    made.setdefault("spec", {}).setdefault("volumeMode", "Filesystem")
    made.setdefault("status", {}).setdefault("phase", "Pending")


def _priority_class(made: Json) -> None:
    made.setdefault("preemptionPolicy", "PreemptLowerPriority")


def fill_template(spec: Json) -> None:
    """Fills the pod template of a controller's spec."""
    template = spec.setdefault("template", {})
    template.setdefault("metadata", {})
    fill_pod_spec(template.setdefault("spec", {}))


def fill_pod_spec(spec: Json) -> None:
    """Fills the spec of a pod or of a template."""
    spec.setdefault("restartPolicy", "Always")
    spec.setdefault("dnsPolicy", "ClusterFirst")
    spec.setdefault("schedulerName", "default-scheduler")
    spec.setdefault("terminationGracePeriodSeconds", GRACE_SECONDS)
    spec.setdefault("securityContext", {})
    if "serviceAccountName" in spec or "serviceAccount" in spec:
        spec.setdefault("serviceAccountName", spec.get("serviceAccount"))
        spec.setdefault("serviceAccount", spec["serviceAccountName"])
    for containers in ("initContainers", "containers"):
        for container in spec.get(containers) or []:
            _container(container, host_network=bool(spec.get("hostNetwork")))
    for volume in spec.get("volumes") or []:
        _volume(volume)


def _container(container: Json, *, host_network: bool) -> None:
    container.setdefault("imagePullPolicy", _pull_policy(container.get("image", "")))
    container.setdefault("resources", {})
    container.setdefault("terminationMessagePath", "/dev/termination-log")
    container.setdefault("terminationMessagePolicy", "File")
    limits = container["resources"].get("limits") or {}
    if limits:
        requests = container["resources"].setdefault("requests", {})
        for name, amount in limits.items():
            requests.setdefault(name, amount)
    for port in container.get("ports") or []:
        port.setdefault("protocol", "TCP")
        if host_network and "containerPort" in port:
            port.setdefault("hostPort", port["containerPort"])
    for variable in container.get("env") or []:
        if "fieldRef" in (variable.get("valueFrom") or {}):
            variable["valueFrom"]["fieldRef"].setdefault("apiVersion", "v1")
    for name in ("livenessProbe", "readinessProbe", "startupProbe"):
        if name in container:
            for setting, value in _PROBE.items():
                container[name].setdefault(setting, value)
            _scheme(container[name])
    for hook in (container.get("lifecycle") or {}).values():
        if isinstance(hook, dict):
            _scheme(hook)


def _scheme(handler: Json) -> None:
    if "httpGet" in handler:
        handler["httpGet"].setdefault("scheme", "HTTP")
        handler["httpGet"].setdefault("path", "/")


def _pull_policy(image: str) -> str:
    name = image.rsplit("/", 1)[-1]
    latest = "@" not in name and (":" not in name or name.endswith(":latest"))
    return "Always" if latest else "IfNotPresent"


def _volume(volume: Json) -> None:
    if set(volume) == {"name"}:
        volume["emptyDir"] = {}
    for source in _VOLUME_FILES:
        if source in volume:
            volume[source].setdefault("defaultMode", FILE_MODE)
    if "hostPath" in volume:
        volume["hostPath"].setdefault("type", "")


def admit_pod(made: Json, *, priority: int, preemption: str) -> None:
    """What admission adds to a pod itself (not to a template): account, priority, how long it stays on a lost node."""
    spec = made["spec"]
    spec.setdefault("serviceAccountName", "default")
    spec.setdefault("serviceAccount", spec["serviceAccountName"])
    spec.setdefault("enableServiceLinks", True)
    spec.setdefault("priority", priority)
    spec.setdefault("preemptionPolicy", preemption)
    spec["tolerations"] = with_defaults(spec.get("tolerations") or (), requests_of(made))
    made["status"] = {"phase": "Pending", "qosClass": quality(spec)}


def quality(spec: Json) -> str:
    """The quality-of-service class of a pod: Guaranteed, Burstable or BestEffort."""
    guaranteed, any_amount = True, False
    for container in [*(spec.get("initContainers") or []), *(spec.get("containers") or [])]:
        resources = container.get("resources") or {}
        limits, requests = resources.get("limits") or {}, resources.get("requests") or {}
        for name in ("cpu", "memory"):
            any_amount = any_amount or name in limits or name in requests
            guaranteed = guaranteed and name in limits and requests.get(name, limits[name]) == limits[name]
    if not any_amount:
        return "BestEffort"
    return "Guaranteed" if guaranteed else "Burstable"


def own_pods(made: Json) -> None:
    """Gives a Job that was given a uid the selector and the labels by which it knows its pods."""
    spec, meta = made["spec"], made["metadata"]
    if spec.get("manualSelector"):
        return
    labels = spec["template"]["metadata"].setdefault("labels", {})
    for name, value in job_labels(made).items():
        labels.setdefault(name, value)
    spec["selector"] = {"matchLabels": {"batch.kubernetes.io/controller-uid": meta["uid"]}}
