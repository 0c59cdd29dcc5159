"""What an object may say, and what may change in it later, by its kind; the answers are a server's own.

Kubernetes `pkg/apis/{core,batch,apps,policy}/validation`, 2026-11-30, as far as jobs and their nodes use it.
"""

import re
from typing import Any

from outlast.emulate.kubernetes.findings import Findings
from outlast.emulate.kubernetes.kinds import BY_NAME, Kind
from outlast.emulate.kubernetes.problems import invalid
from outlast.emulate.kubernetes.schemas import missing_in_spec
from outlast.emulate.kubernetes.selecting import matches
from outlast.emulate.kubernetes.validating_pods import pod_change, pod_spec, taints

Json = dict[str, Any]

_MOST_ANNOTATIONS = 256 * 1024  # bytes
_MOST_RULES = 20
_MOST_EXIT_CODES = 255
_MOST_INDEXES, _MOST_OF_MANY = 100_000, 10_000
_JOB_NEVER_CHANGES = (
    "completionMode", "podFailurePolicy", "backoffLimitPerIndex", "managedBy", "successPolicy", "selector",
)  # fmt: skip
# What a suspended job's template may still get: where its pods are to run.
_SCHEDULING = ("nodeSelector", "tolerations", "schedulingGates")


def check(made: Json) -> None:
    """Refused (Invalid) with every field that is wrong in a new object, whose defaults are filled in."""
    kind, found = BY_NAME[made["kind"]], Findings()
    _metadata(found, kind, made["metadata"])
    _required(found, kind, made)
    if not found.causes:
        _content(found, made)
    _raise(found, kind, made)


def check_change(old: Json, new: Json) -> None:
    """Refused (Invalid) with every field that is wrong in an object's next state, or may not change."""
    kind, found = BY_NAME[new["kind"]], Findings()
    _metadata(found, kind, new["metadata"])
    _required(found, kind, new)
    _no_new_finalizers(found, old["metadata"], new["metadata"])
    if not found.causes:
        if new["kind"] != "Pod":  # of a pod that exists, admission has filled in more than its spec may say
            _content(found, new)
        _content_change(found, old, new)
    _raise(found, kind, new)


def _content_change(found: Findings, old: Json, new: Json) -> None:
    match new["kind"]:
        case "Pod":
            pod_change(found, old["spec"], new["spec"])
        case "Job":
            _job_change(found, old, new)
        case "DaemonSet":
            found.unchanged("spec.selector", old["spec"].get("selector"), new["spec"].get("selector"))
        case "PersistentVolumeClaim":
            if _bound(old["spec"]) != _bound(new["spec"]):
                except_for = "resources.requests and volumeAttributesClassName for bound claims"
                found.forbidden("spec", f"spec is immutable after creation except {except_for}")
        case "PriorityClass" if old.get("value") != new.get("value"):
            found.forbidden("value", "may not be changed in an update.")
        case "Secret" if old.get("type") != new.get("type"):
            found.unchanged("type", old.get("type"), new.get("type"))
    if old.get("immutable") and new["kind"] in ("ConfigMap", "Secret"):
        for name in ("data", "binaryData", "immutable"):
            if old.get(name) != new.get(name):
                found.forbidden(name, "field is immutable when `immutable` is set")


def _bound(spec: Json) -> Json:
    free = ("resources", "volumeAttributesClassName", "volumeName")
    return {name: value for name, value in spec.items() if name not in free}


def _no_new_finalizers(found: Findings, old: Json, new: Json) -> None:
    added = [one for one in new.get("finalizers") or [] if one not in (old.get("finalizers") or [])]
    if added and "deletionTimestamp" in old:
        why = "no new finalizers can be added if the object is being deleted, found new finalizers"
        found.forbidden("metadata.finalizers", f"{why} {added}")


def _raise(found: Findings, kind: Kind, made: Json) -> None:
    if found.causes:
        raise invalid(kind, made["metadata"].get("name", ""), found.causes)


def _metadata(found: Findings, kind: Kind, meta: Json) -> None:
    if not meta.get("name"):
        found.required("metadata.name", "name or generateName is required")
    elif kind.name == "Namespace":
        found.label("metadata.name", meta["name"])
    else:
        found.subdomain("metadata.name", meta["name"])
    found.labels("metadata.labels", meta.get("labels") or {})
    annotations = meta.get("annotations") or {}
    for key in annotations:
        found.qualified("metadata.annotations", key.lower())
    if sum(len(key) + len(value) for key, value in annotations.items()) > _MOST_ANNOTATIONS:
        found.invalid("metadata.annotations", "", f"Too long: must have at most {_MOST_ANNOTATIONS} bytes")
    for finalizer in meta.get("finalizers") or []:
        found.qualified("metadata.finalizers", finalizer)
    for number, owner in enumerate(meta.get("ownerReferences") or []):
        for name in ("apiVersion", "kind", "name", "uid"):
            if not owner.get(name):
                found.invalid(f"metadata.ownerReferences[{number}].{name}", "", f"{name} must not be empty")


def _required(found: Findings, kind: Kind, made: Json) -> None:
    """Fields of the spec that the API's document says must be there."""
    for path in missing_in_spec(kind, made):
        found.required(path)


def _content(found: Findings, made: Json) -> None:
    spec = made.get("spec") or {}
    match made["kind"]:
        case "Pod":
            pod_spec(found, spec, "spec")
        case "Job":
            _job(found, spec, made["metadata"])
        case "DaemonSet":
            _daemon_set(found, spec)
        case "Node":
            taints(found, spec)
        case "PodDisruptionBudget":
            _budget(found, spec)
        case "PersistentVolumeClaim":
            _claim(found, spec)
        case "ConfigMap" | "Secret":
            for key in [*(made.get("data") or {}), *(made.get("binaryData") or {})]:
                if not re.fullmatch(r"[-._a-zA-Z0-9]{1,253}", key):
                    why = "a valid config key must consist of alphanumeric characters, '-', '_' or '.'"
                    found.invalid(f"data[{key}]", key, why)


def _template(found: Findings, template: Json, at: str) -> None:
    found.labels(f"{at}.metadata.labels", template["metadata"].get("labels") or {})
    pod_spec(found, template["spec"], f"{at}.spec")


def _job(found: Findings, spec: Json, meta: Json) -> None:
    for name in (
        "parallelism", "completions", "activeDeadlineSeconds", "backoffLimit", "ttlSecondsAfterFinished",
        "backoffLimitPerIndex", "maxFailedIndexes",
    ):  # fmt: skip
        found.not_negative(f"spec.{name}", spec.get(name))
    if "managedBy" in spec:
        found.domain_prefixed("spec.managedBy", spec["managedBy"])
    _indexes(found, spec, meta)
    _template(found, spec["template"], "spec.template")
    policy = spec["template"]["spec"]["restartPolicy"]
    at = "spec.template.spec.restartPolicy"
    if policy == "Always":
        found.required(at, 'valid values: "OnFailure", "Never"')
    elif policy == "OnFailure" and "podFailurePolicy" in spec:
        found.invalid(at, policy, 'only "Never" is supported when podFailurePolicy is specified')
    if "podFailurePolicy" in spec:
        _failure_policy(found, spec)
    allowed = ("Failed",) if "podFailurePolicy" in spec else ("Failed", "TerminatingOrFailed")
    found.one_of("spec.podReplacementPolicy", spec["podReplacementPolicy"], allowed)
    labels = spec["template"]["metadata"].get("labels") or {}
    if not spec.get("selector"):
        found.required("spec.selector")
    elif not matches(spec["selector"], labels):
        found.invalid("spec.template.metadata.labels", labels, "`selector` does not match template `labels`")


def _indexes(found: Findings, spec: Json, meta: Json) -> None:
    if not found.one_of("spec.completionMode", spec["completionMode"], ("Indexed", "NonIndexed")):
        return
    if spec["completionMode"] == "Indexed":
        _indexed(found, spec, meta)
    else:
        for name in ("backoffLimitPerIndex", "maxFailedIndexes", "successPolicy"):
            if name in spec:
                found.invalid(f"spec.{name}", spec[name], "requires indexed completion mode")
    if "maxFailedIndexes" in spec and "backoffLimitPerIndex" not in spec:
        found.required("spec.backoffLimitPerIndex", "when maxFailedIndexes is specified")


def _indexed(found: Findings, spec: Json, meta: Json) -> None:
    completions, failed = spec.get("completions"), spec.get("maxFailedIndexes", 0)
    if completions is None:
        found.required("spec.completions", "when completion mode is Indexed")
        return
    if spec["parallelism"] > _MOST_INDEXES:
        why = f"must be less than or equal to {_MOST_INDEXES} when completion mode is Indexed"
        found.invalid("spec.parallelism", spec["parallelism"], why)
    if failed > completions:
        found.invalid("spec.maxFailedIndexes", failed, "must be less than or equal to completions")
    if failed > _MOST_INDEXES:
        found.invalid("spec.maxFailedIndexes", failed, f"must be less than or equal to {_MOST_INDEXES}")
    if completions > _MOST_INDEXES and "backoffLimitPerIndex" in spec:
        if "maxFailedIndexes" not in spec:
            found.required("spec.maxFailedIndexes", f"must be specified when completions is above {_MOST_INDEXES}")
        for name, value in (("parallelism", spec["parallelism"]), ("maxFailedIndexes", failed)):
            if value > _MOST_OF_MANY:
                when = f"when completions are above {_MOST_INDEXES} and used with backoff limit per index"
                found.invalid(f"spec.{name}", value, f"must be less than or equal to {_MOST_OF_MANY} {when}")
    host = f"{meta['name']}-{max(0, completions - 1)}"
    if not found.is_label(host):
        found.invalid("metadata.name", meta["name"], f"will not able to create pod with invalid DNS label: {host}")
    for number, rule in enumerate(_success_rules(found, spec)):
        at = f"spec.successPolicy.rules[{number}]"
        if "succeededCount" not in rule and "succeededIndexes" not in rule:
            found.required(at, "at least one of succeededCount or succeededIndexes must be specified")
        if (count := rule.get("succeededCount", 0)) > completions:
            why = f"must be less than or equal to {completions} (the number of specified completions)"
            found.invalid(f"{at}.succeededCount", count, why)


def _success_rules(found: Findings, spec: Json) -> list[Json]:
    if "successPolicy" not in spec:
        return []
    rules: list[Json] = spec["successPolicy"].get("rules") or []
    if not rules:
        why = "at least one rules must be specified when the successPolicy is specified"
        found.required("spec.successPolicy.rules", why)
    found.at_most_items("spec.successPolicy.rules", rules, _MOST_RULES)
    return rules


def _failure_policy(found: Findings, spec: Json) -> None:
    rules, at = spec["podFailurePolicy"].get("rules") or [], "spec.podFailurePolicy.rules"
    found.at_most_items(at, rules, _MOST_RULES)
    pod = spec["template"]["spec"]
    containers = {one.get("name") for one in [*(pod.get("initContainers") or []), *(pod.get("containers") or [])]}
    for number, rule in enumerate(rules):
        here = f"{at}[{number}]"
        actions = ("Count", "FailIndex", "FailJob", "Ignore")
        found.one_of(f"{here}.action", rule.get("action"), actions)
        if rule.get("action") == "FailIndex" and "backoffLimitPerIndex" not in spec:
            found.invalid(f"{here}.action", "FailIndex", "requires the backoffLimitPerIndex to be set")
        codes, conditions = rule.get("onExitCodes"), rule.get("onPodConditions")
        if codes and conditions:
            found.wrong(here, "specifying both OnExitCodes and OnPodConditions is not supported")
        elif not codes and not conditions:
            found.wrong(here, "specifying one of OnExitCodes and OnPodConditions is required")
        if codes:
            _exit_codes(found, codes, f"{here}.onExitCodes", containers)
        for place, condition in enumerate(conditions or []):
            found.qualified(f"{here}.onPodConditions[{place}].type", condition.get("type", ""))
            statuses = ("False", "True", "Unknown")
            found.one_of(f"{here}.onPodConditions[{place}].status", condition["status"], statuses)


def _exit_codes(found: Findings, codes: Json, at: str, containers: set[Any]) -> None:
    found.one_of(f"{at}.operator", codes.get("operator"), ("In", "NotIn"))
    name = codes.get("containerName")
    if name is not None and name not in containers:
        why = "must be one of the container or initContainer names in the pod template"
        found.invalid(f"{at}.containerName", name, why)
    values = codes.get("values") or []
    if not values:
        found.invalid(f"{at}.values", values, "at least one value is required")
    found.at_most_items(f"{at}.values", values, _MOST_EXIT_CODES)
    if values != sorted(values):
        found.invalid(f"{at}.values", values, "must be ordered")
    for number, value in enumerate(values):
        if value == 0 and codes.get("operator") == "In":
            found.invalid(f"{at}.values[{number}]", 0, "must not be 0 for the In operator")
        if value in values[:number]:
            found.duplicate(f"{at}.values[{number}]", value)


def _job_change(found: Findings, old: Json, new: Json) -> None:
    before, after = old["spec"], new["spec"]
    for name in _JOB_NEVER_CHANGES:
        found.unchanged(f"spec.{name}", before.get(name), after.get(name))
    elastic = after["completionMode"] == "Indexed" and after.get("completions") == after.get("parallelism")
    if before.get("completions") != after.get("completions") and not elastic:
        found.invalid("spec.completions", after.get("completions"), "field is immutable")
    was, now = before["template"], after["template"]
    if before.get("suspend") and not (old.get("status") or {}).get("startTime"):
        was, now = _unscheduled(was), _unscheduled(now)
    if was != now:
        found.invalid("spec.template", after["template"], "field is immutable")


def _unscheduled(template: Json) -> Json:
    """A template without what may change while its job is suspended."""
    spec = {name: value for name, value in template["spec"].items() if name not in _SCHEDULING}
    affinity = {name: value for name, value in spec.pop("affinity", {}).items() if name != "nodeAffinity"}
    return spec | ({"affinity": affinity} if affinity else {})


def _daemon_set(found: Findings, spec: Json) -> None:
    _template(found, spec["template"], "spec.template")
    labels = spec["template"]["metadata"].get("labels") or {}
    if "selector" in spec:
        found.selector("spec.selector", spec["selector"])
        if not found.causes and not matches(spec["selector"], labels):
            found.invalid("spec.template.metadata.labels", labels, "`selector` does not match template `labels`")
    policy = spec["template"]["spec"]["restartPolicy"]
    if policy != "Always":
        found.one_of("spec.template.spec.restartPolicy", policy, ("Always",))


def _budget(found: Findings, spec: Json) -> None:
    if "minAvailable" in spec and "maxUnavailable" in spec:
        why = "minAvailable and maxUnavailable cannot be both set"
        found.invalid("spec", {name: spec[name] for name in ("minAvailable", "maxUnavailable")}, why)
    for name in ("minAvailable", "maxUnavailable"):
        value = spec.get(name)
        if isinstance(value, str) and not re.fullmatch(r"[0-9]+%", value):
            why = "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or '93%')"
            found.invalid(f"spec.{name}", value, why)
        elif isinstance(value, int):
            found.not_negative(f"spec.{name}", value)
    if "selector" in spec:
        found.selector("spec.selector", spec["selector"])
    if "unhealthyPodEvictionPolicy" in spec:
        policies = ("AlwaysAllow", "IfHealthyBudget")
        found.one_of("spec.unhealthyPodEvictionPolicy", spec["unhealthyPodEvictionPolicy"], policies)


def _claim(found: Findings, spec: Json) -> None:
    if not spec.get("accessModes"):
        found.required("spec.accessModes", "at least 1 access mode is required")
    for mode in spec.get("accessModes") or []:
        modes = ("ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod")
        found.one_of("spec.accessModes", mode, modes)
    if "storage" not in ((spec.get("resources") or {}).get("requests") or {}):
        found.required("spec.resources[storage]")
