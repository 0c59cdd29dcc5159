"""What fields the kinds have and of which type: from the models that the official Python client is made with.

They are generated from the API's own OpenAPI document, so that the emulator refuses what a server of that version
refuses. Messages: sigs.k8s.io/json and the API server's strict decoding, 2026-11-30.
"""

import base64
import binascii
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

from outlast.emulate import rfc3339
from outlast.emulate.kubernetes.kinds import Kind
from outlast.emulate.kubernetes.problems import Refused, bad_request
from outlast.emulate.quantities import amount

Json = dict[str, Any]

_QUANTITY = "^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$"  # as the server's errors say; it reads more closely
_LIST = re.compile(r"^[Ll]ist\[(.+)\]$")
_DICT = re.compile(r"^[Dd]ict[\[(]str, ?(.+)[\])]$")
# Fields of 64 bits; all other whole numbers have 32.
_LONG = {
    "terminationGracePeriodSeconds", "activeDeadlineSeconds", "tolerationSeconds", "runAsUser", "runAsGroup",
    "fsGroup", "generation", "observedGeneration", "expirationSeconds", "deletionGracePeriodSeconds",
}  # fmt: skip
# Fields that hold quantities; to the client's models they are texts.
_QUANTITIES = {"limits", "requests", "capacity", "allocatable", "allocatedResources", "sizeLimit", "divisor"}
_QUANTITY_OWNERS = {
    "V1ResourceRequirements", "V1VolumeResourceRequirements", "V1NodeStatus", "V1EmptyDirVolumeSource",
    "V1ResourceFieldSelector", "V1PersistentVolumeClaimStatus", "V1ContainerStatus",
}  # fmt: skip
_EITHER = {"minAvailable", "maxUnavailable", "maxSurge", "port"}  # whole numbers or texts


@dataclass(frozen=True, slots=True)
class Model:
    """One type of the API: its Go name, and per field in manifests the type."""

    name: str
    fields: dict[str, str]
    required: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _At:
    """Where the decoder stands. `path` names fields only, as Go's errors do; `place` has indices and keys too."""

    kind: Kind
    unknown: list[str]
    owner: str = ""
    path: tuple[str, ...] = ()
    place: tuple[str, ...] = ()

    def field(self, owner: str, name: str) -> "_At":
        return _At(self.kind, self.unknown, owner, (*self.path, name), (*self.place, name))

    def element(self, key: str) -> "_At":
        return _At(self.kind, self.unknown, self.owner, self.path, (*self.place, key))

    @property
    def name(self) -> str:
        return self.path[-1]

    def wrong_type(self, value: Any, wanted: str) -> Refused:
        found = {str: "string", bool: "bool", list: "array", dict: "object"}.get(type(value), "number")
        shown = f"number {value}" if found == "number" and wanted.startswith(("int", "float")) else found
        where = f"{self.owner}.{'.'.join(self.path)}"
        return self.wrong(f"json: cannot unmarshal {shown} into Go struct field {where} of type {wanted}")

    def wrong(self, why: str) -> Refused:
        name, version = self.kind.name, self.kind.version
        return bad_request(f'{name} in version "{version}" cannot be handled as a {name}: {why}')


def decode(kind: Kind, body: Any) -> tuple[Json, list[str]]:
    """A copy of an object with only the fields that its kind has, and what was left out: `unknown field "spec.x"`.

    Fields that are null are left out silently. Refused (BadRequest) if a value has the wrong type.
    """
    unknown: list[str] = []
    made = _object(_At(kind, unknown), model(_model_name(kind)), body)
    return made, unknown


def missing_in_spec(kind: Kind, made: Json) -> Iterator[str]:
    """The paths of the fields that a decoded object's spec must have and has not, or has empty."""
    spec = model(_model_name(kind)).fields.get("spec")
    if spec is not None and "spec" in made:
        yield from _missing(spec, made["spec"], "spec")


def _missing(type_name: str, value: Any, path: str) -> Iterator[str]:
    if matched := _LIST.match(type_name):
        for number, one in enumerate(value):
            yield from _missing(matched[1], one, f"{path}[{number}]")
    elif isinstance(value, dict) and type_name not in _PLAIN and type_name != "object" and not _DICT.match(type_name):
        known = model(type_name)
        yield from (f"{path}.{name}" for name in known.required if value.get(name) in (None, ""))
        for name, one in value.items():
            yield from _missing(known.fields[name], one, f"{path}.{name}")


def _model_name(kind: Kind) -> str:
    """The client's class for a kind."""
    return {"Event": "CoreV1Event"}.get(kind.name, f"V1{kind.name}")


@cache
def model(name: str) -> Model:
    """A model of the client by its class's name."""
    from kubernetes.client import models  # noqa: PLC0415 - an extra, which `import outlast` does not need

    found = getattr(models, name)
    names: dict[str, str] = found.attribute_map
    fields = {names[attribute]: str(kind) for attribute, kind in found.openapi_types.items()}
    return Model(re.sub(r"^(Core)?V1", "", name), fields, tuple(names[one] for one in _required(found)))


def _required(found: Any) -> list[str]:
    """Attributes that may not be missing: pydantic's fields know (client 37), of earlier clients the setters."""
    if hasattr(found, "model_fields"):
        return [name for name, one in found.model_fields.items() if one.is_required()]
    from kubernetes.client import Configuration  # noqa: PLC0415 - as above

    lax, strict = Configuration(), Configuration()
    lax.client_side_validation = False
    made = found(local_vars_configuration=lax)
    made.local_vars_configuration = strict
    return [name for name in found.openapi_types if _refuses_none(made, name)]


def _refuses_none(made: Any, name: str) -> bool:
    try:
        setattr(made, name, None)
    except ValueError:
        return True
    return False


def _object(at: _At, model_: Model, value: Json) -> Json:
    made = {}
    for name, one in value.items():
        inner = at.field(model_.name, str(name))
        if name not in model_.fields:
            at.unknown.append(f'unknown field "{".".join(inner.place).replace(".[", "[")}"')
        elif one is not None:
            made[name] = _value(inner, _type_of(model_, name), one)
    if at.path[:1] == ("status",):  # what Go writes for a text that was not given; elsewhere validation asks for it
        made |= {name: "" for name in model_.required if name not in made and model_.fields[name] == "str"}
    return made


def _type_of(model_: Model, name: str) -> str:
    kind = model_.fields[name]
    if name in _QUANTITIES and f"V1{model_.name}" in _QUANTITY_OWNERS:
        return kind.replace("str]", "quantity]").replace("str)", "quantity)") if kind != "str" else "quantity"
    return "int-or-str" if kind == "object" and name in _EITHER else kind


def _value(at: _At, kind: str, value: Any) -> Any:
    if matched := _LIST.match(kind):
        if not isinstance(value, list):
            raise at.wrong_type(value, _go(kind, at.name))
        return [_value(at.element(f"[{number}]"), matched[1], one) for number, one in enumerate(value)]
    if matched := _DICT.match(kind):
        if not isinstance(value, dict):
            raise at.wrong_type(value, _go(kind, at.name))
        return {key: _value(at.element(key), matched[1], one) for key, one in value.items() if one is not None}
    if kind in _PLAIN:
        return _plain(at, kind, value)
    if kind == "object":
        return value
    if not isinstance(value, dict):
        raise at.wrong_type(value, _go(kind, at.name))
    return _object(at, model(kind), value)


_PLAIN: dict[str, tuple[type, ...]] = {
    "str": (str,),
    "bool": (bool,),
    "int": (int,),
    "float": (int, float),
    "datetime": (str,),
    "bytes": (str,),
    "quantity": (str, int, float),
    "int-or-str": (str, int),
}


def _plain(at: _At, kind: str, value: Any) -> Any:
    if type(value) not in _PLAIN[kind]:
        raise at.wrong_type(value, _go(kind, at.name))
    match kind:
        case "quantity":
            text = str(value)
            try:
                amount(text)
            except ValueError:
                raise at.wrong(f"quantities must match the regular expression '{_QUANTITY}'") from None
            return text
        case "datetime":
            try:
                rfc3339.parsed(value)
            except ValueError:
                raise at.wrong(f'parsing time "{value}" as "2006-01-02T15:04:05Z07:00": cannot parse') from None
        case "bytes":
            try:
                base64.b64decode(value, validate=True)
            except binascii.Error:
                raise at.wrong("illegal base64 data at input byte 0") from None
        case "int-or-str" if isinstance(value, int) and not -(2**31) <= value < 2**31:
            raise at.wrong_type(value, "int32")
        case "int" if not -(2**63) <= value < 2**63 or (at.name not in _LONG and not -(2**31) <= value < 2**31):
            raise at.wrong_type(value, _go(kind, at.name))
    return value


def _go(kind: str, name: str) -> str:
    """A type as Go names it in its errors."""
    if matched := _LIST.match(kind):
        return f"[]{_go(matched[1], name)}"
    if matched := _DICT.match(kind):
        return f"map[string]{_go(matched[1], name)}"
    plain = {"str": "string", "bool": "bool", "float": "float64", "datetime": "string", "bytes": "[]uint8"}
    plain |= {"int": "int64" if name in _LONG else "int32", "quantity": "resource.Quantity", "int-or-str": "intstr"}
    return plain.get(kind) or "v1." + re.sub(r"^(Core)?V1", "", kind)
