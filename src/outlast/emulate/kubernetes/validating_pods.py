"""What a pod's spec may say. Kubernetes `pkg/apis/core/validation/validation.go`, 2026-11-30, as far as jobs use it."""

from typing import Any

from outlast.emulate.kubernetes.findings import Findings
from outlast.emulate.quantities import amount

Json = dict[str, Any]

_MOST_SECONDS = 2**31 - 1
_PULLING = ("Always", "IfNotPresent", "Never")
_EFFECTS = ("NoExecute", "NoSchedule", "PreferNoSchedule")
_NATIVE = ("cpu", "memory", "ephemeral-storage", "storage")
_HANDLERS = ("exec", "httpGet", "tcpSocket", "grpc", "sleep")
_CHANGEABLE = (
    "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,"
    "`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),"
    "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)"
)


def pod_spec(found: Findings, spec: Json, at: str) -> None:
    """Checks the spec of a pod or of a template."""
    if not spec.get("containers"):
        found.required(f"{at}.containers")
    volumes = spec.get("volumes") or []
    for number, volume in enumerate(volumes):
        _volume(found, volume, f"{at}.volumes[{number}]")
    found.unique(f"{at}.volumes", volumes, "name")
    names = {volume.get("name") for volume in volumes}
    everything = []
    for kind in ("initContainers", "containers"):
        for number, container in enumerate(spec.get(kind) or []):
            _container(found, container, f"{at}.{kind}[{number}]", names)
            if "restartPolicy" in container:
                policies = ("Always", "Never", "OnFailure")
                found.one_of(f"{at}.{kind}[{number}].restartPolicy", container["restartPolicy"], policies)
            if container.get("name") in everything:
                found.duplicate(f"{at}.{kind}[{number}].name", container["name"])
            everything.append(container.get("name"))
    found.one_of(f"{at}.restartPolicy", spec["restartPolicy"], ("Always", "OnFailure", "Never"))
    found.one_of(f"{at}.dnsPolicy", spec["dnsPolicy"], ("ClusterFirst", "ClusterFirstWithHostNet", "Default", "None"))
    found.not_negative(f"{at}.terminationGracePeriodSeconds", spec["terminationGracePeriodSeconds"])
    if not 1 <= spec.get("activeDeadlineSeconds", 1) <= _MOST_SECONDS:
        why = f"must be between 1 and {_MOST_SECONDS}, inclusive"
        found.invalid(f"{at}.activeDeadlineSeconds", spec["activeDeadlineSeconds"], why)
    found.labels(f"{at}.nodeSelector", spec.get("nodeSelector") or {})
    for number, toleration in enumerate(spec.get("tolerations") or []):
        _toleration(found, toleration, f"{at}.tolerations[{number}]")
    _node_affinity(found, (spec.get("affinity") or {}).get("nodeAffinity") or {}, f"{at}.affinity.nodeAffinity")
    for name in ("serviceAccountName", "priorityClassName", "hostname", "subdomain"):
        if spec.get(name):
            (found.label if name in ("hostname", "subdomain") else found.subdomain)(f"{at}.{name}", spec[name])


def _container(found: Findings, container: Json, at: str, volumes: set[Any]) -> None:
    if container.get("name"):
        found.label(f"{at}.name", container["name"])
    image = container.get("image", "")
    if not image:
        found.required(f"{at}.image")
    elif image != image.strip():
        found.invalid(f"{at}.image", image, "must not have leading or trailing whitespace")
    found.one_of(f"{at}.imagePullPolicy", container["imagePullPolicy"], _PULLING)
    policies = ("FallbackToLogsOnError", "File")
    found.one_of(f"{at}.terminationMessagePolicy", container["terminationMessagePolicy"], policies)
    for number, port in enumerate(container.get("ports") or []):
        if not 0 < port.get("containerPort", 0) < 65536:
            why = "must be between 1 and 65535, inclusive"
            found.invalid(f"{at}.ports[{number}].containerPort", port.get("containerPort", 0), why)
        found.one_of(f"{at}.ports[{number}].protocol", port["protocol"], ("SCTP", "TCP", "UDP"))
    for number, variable in enumerate(container.get("env") or []):
        _variable(found, variable, f"{at}.env[{number}]")
    _mounts(found, container.get("volumeMounts") or [], f"{at}.volumeMounts", volumes)
    _resources(found, container["resources"], f"{at}.resources")
    for name in ("livenessProbe", "readinessProbe", "startupProbe"):
        if name in container:
            _handler(found, container[name], f"{at}.{name}")
    for name, hook in (container.get("lifecycle") or {}).items():
        if isinstance(hook, dict):
            _handler(found, hook, f"{at}.lifecycle.{name}")


def _mounts(found: Findings, mounts: list[Json], at: str, volumes: set[Any]) -> None:
    for number, mount in enumerate(mounts):
        if mount.get("name") and mount["name"] not in volumes:
            found.not_found(f"{at}[{number}].name", mount["name"])
    paths = [mount.get("mountPath") for mount in mounts]
    for number, path in enumerate(paths):
        if path in paths[:number]:
            found.invalid(f"{at}[{number}].mountPath", path, "must be unique")


def _variable(found: Findings, variable: Json, at: str) -> None:
    if "=" in variable.get("name", ""):
        why = "a valid environment variable name must consist only of printable ASCII characters other than '='"
        found.invalid(f"{at}.name", variable["name"], why)
    origin = variable.get("valueFrom")
    if origin is None:
        return
    if variable.get("value"):
        found.invalid(f"{at}.valueFrom", "", "may not be specified when `value` is not empty")
    if len(origin) != 1:
        many = "may not have more than one field specified at a time" if origin else "must specify one of: "
        rest = "" if origin else "`fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`"
        found.invalid(f"{at}.valueFrom", "", many + rest)


def _resources(found: Findings, resources: Json, at: str) -> None:
    limits, requests = resources.get("limits") or {}, resources.get("requests") or {}
    for place, amounts in (("limits", limits), ("requests", requests)):
        for name, value in amounts.items():
            whole = amount(value) == int(amount(value))
            if amount(value) < 0:
                found.invalid(f"{at}.{place}[{name}]", value, "must be greater than or equal to 0")
            if "/" not in name and name not in _NATIVE and not name.startswith("hugepages-"):
                found.invalid(f"{at}.{place}[{name}]", name, "must be a standard resource for containers")
            if "/" in name and not whole:
                found.invalid(f"{at}.{place}[{name}]", value, "must be an integer")
    for name, value in requests.items():
        extended = "/" in name
        if name not in limits:
            if extended:
                found.required(f"{at}.limits", "Limit must be set for non overcommitable resources")
        elif extended and amount(value) != amount(limits[name]):
            found.invalid(f"{at}.requests", value, f"must be equal to {name} limit of {limits[name]}")
        elif amount(value) > amount(limits[name]):
            found.invalid(f"{at}.requests", value, f"must be less than or equal to {name} limit of {limits[name]}")


def _handler(found: Findings, handler: Json, at: str) -> None:
    given = [name for name in _HANDLERS if name in handler]
    if not given:
        found.required(at, "must specify a handler type")
    for name in given[1:]:
        found.forbidden(f"{at}.{name}", "may not specify more than 1 handler type")


def _volume(found: Findings, volume: Json, at: str) -> None:
    if volume.get("name"):
        found.label(f"{at}.name", volume["name"])
    sources = [name for name in volume if name != "name"]
    if not sources:
        found.required(at, "must specify a volume type")
    for name in sources[1:]:
        found.forbidden(f"{at}.{name}", "may not specify more than 1 volume type")


def _toleration(found: Findings, toleration: Json, at: str) -> None:
    if toleration.get("key"):
        found.qualified(f"{at}.key", toleration["key"])
    operator = toleration.get("operator") or "Equal"
    if not toleration.get("key") and operator != "Exists":
        found.invalid(
            f"{at}.operator",
            operator,
            'operator must be Exists when `key` is empty, which means "match all values and all keys"',
        )
    if "tolerationSeconds" in toleration and toleration.get("effect") != "NoExecute":
        found.invalid(
            f"{at}.effect", toleration.get("effect", ""), "effect must be 'NoExecute' when `tolerationSeconds` is set"
        )
    if (
        found.one_of(f"{at}.operator", operator, ("Equal", "Exists"))
        and operator == "Exists"
        and toleration.get("value")
    ):
        found.invalid(f"{at}.operator", toleration["value"], "value must be empty when `operator` is 'Exists'")
    if toleration.get("effect"):
        found.one_of(f"{at}.effect", toleration["effect"], _EFFECTS)


def _node_affinity(found: Findings, affinity: Json, at: str) -> None:
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution")
    here = f"{at}.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms"
    if required is not None and not required.get("nodeSelectorTerms"):
        found.required(here, "must have at least one node selector term")
    terms = [(f"{here}[{n}]", term) for n, term in enumerate((required or {}).get("nodeSelectorTerms") or [])]
    for number, one in enumerate(affinity.get("preferredDuringSchedulingIgnoredDuringExecution") or []):
        place = f"{at}.preferredDuringSchedulingIgnoredDuringExecution[{number}]"
        if not 1 <= one.get("weight", 0) <= 100:
            found.invalid(f"{place}.weight", one.get("weight", 0), "must be in the range 1-100")
        terms.append((f"{place}.preference", one.get("preference") or {}))
    for place, term in terms:
        for number, expression in enumerate(term.get("matchExpressions") or []):
            _node_expression(found, expression, f"{place}.matchExpressions[{number}]")


def _node_expression(found: Findings, expression: Json, at: str) -> None:
    values = expression.get("values") or []
    match expression.get("operator"):
        case "In" | "NotIn":
            if not values:
                found.required(f"{at}.values", "must be specified when `operator` is 'In' or 'NotIn'")
        case "Exists" | "DoesNotExist":
            if values:
                found.forbidden(f"{at}.values", "may not be specified when `operator` is 'Exists' or 'DoesNotExist'")
        case "Gt" | "Lt":
            if len(values) != 1:
                found.required(f"{at}.values", "must be specified single value when `operator` is 'Lt' or 'Gt'")
        case other:
            found.invalid(f"{at}.operator", other, "not a valid selector operator")
    found.qualified(f"{at}.key", expression.get("key", ""))


def taints(found: Findings, spec: Json) -> None:
    """The taints of a node."""
    seen = set()
    for number, taint in enumerate(spec.get("taints") or []):
        at = f"spec.taints[{number}]"
        found.qualified(f"{at}.key", taint.get("key", ""))
        found.label_value(f"{at}.value", taint.get("value", ""))
        found.one_of(f"{at}.effect", taint.get("effect", ""), _EFFECTS)
        if (one := (taint.get("key"), taint.get("effect"))) in seen:
            found.duplicate(at, taint)
        seen.add(one)


def pod_change(found: Findings, old: Json, new: Json) -> None:
    """What may change in a pod that exists: images, the deadline, tolerations that are added, gates that go."""
    kept, gates = old.get("tolerations") or [], old.get("schedulingGates") or []
    lost = [one for one in new.get("tolerations") or [] if one in kept] != kept
    gated = any(one not in gates for one in new.get("schedulingGates") or [])
    if lost or gated or _fixed(old) != _fixed(new):
        found.forbidden("spec", _CHANGEABLE)


def _fixed(spec: Json) -> Json:
    free = ("activeDeadlineSeconds", "tolerations", "schedulingGates")
    fixed = {name: value for name, value in spec.items() if name not in free}
    for kind in ("initContainers", "containers"):
        if kind in spec:
            fixed[kind] = [{name: one[name] for name in one if name != "image"} for one in spec[kind]]
    return fixed
