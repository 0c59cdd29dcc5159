"""Results and payloads as JSON text: what a model returns must not be lost between the GPU and the sink."""

import dataclasses
import json
import math
from collections.abc import Mapping
from datetime import date, time
from numbers import Real
from pathlib import PurePath
from typing import Any


class NotJson(ValueError):
    """A value that JSON cannot hold; the text says where and what it is."""


def payload_text(payload: object) -> str:
    """A payload as JSON, equal for equal payloads; raises NotJson, also for NaN: an input should say what it means."""
    try:
        return _PAYLOADS.encode(payload)
    except (TypeError, ValueError, RecursionError) as error:
        raise NotJson(f"the payload is not JSON: {error}") from error


def value_text(value: object) -> str:
    """A result as JSON; raises NotJson for what it cannot hold.

    NumPy and torch numbers and arrays become numbers and lists, dataclasses become objects, moments ISO 8601 texts.
    JSON has no NaN and no infinity: they become null, as in JavaScript's JSON.stringify (ECMA-262,
    SerializeJSONProperty).
    """
    try:
        return _VALUES.encode(value)
    except (TypeError, ValueError, RecursionError):
        pass
    try:
        return json.dumps(_finite(value, "value"), separators=(",", ":"), allow_nan=False)
    except RecursionError as error:
        raise NotJson("the value holds itself, or is nested too deep for JSON") from error


def _plain(value: object) -> object:
    """A foreign value in JSON's own kinds; raises TypeError."""
    tolist = getattr(value, "tolist", None)  # of NumPy's arrays and scalars, and of torch's and JAX's arrays
    if callable(tolist):
        plain: object = tolist()
        if type(plain) is not type(value):
            return plain
        if isinstance(plain, Real):  # NumPy's longdouble, which Python has no kind of its own for
            return float(plain)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {one.name: getattr(value, one.name) for one in dataclasses.fields(value)}
    if isinstance(value, date | time):
        return value.isoformat()
    if isinstance(value, PurePath):
        return str(value)
    raise TypeError(f"{type(value).__module__}.{type(value).__qualname__} is not JSON")


# json.dumps makes an encoder for each call with other than its own settings, which costs as much as a small value does.
_VALUES = json.JSONEncoder(separators=(",", ":"), allow_nan=False, default=_plain)
_PAYLOADS = json.JSONEncoder(separators=(",", ":"), allow_nan=False, default=_plain, sort_keys=True)


def _finite(value: Any, where: str) -> object:
    """The value piece by piece, so that what cannot be kept is named."""
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {_key(name, where): _finite(one, f"{where}[{name!r}]") for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(one, f"{where}[{number}]") for number, one in enumerate(value)]
    try:
        plain = _plain(value)
    except (TypeError, ValueError, RuntimeError) as error:
        raise NotJson(f"{where}: {error}") from error
    return _finite(plain, where)


def _key(name: object, where: str) -> str:
    """Names as json.dumps writes them, and NumPy's numbers as their plain ones."""
    if isinstance(name, str):
        return name
    try:
        plain = name if name is None or isinstance(name, bool | int | float) else _plain(name)
    except TypeError as error:
        raise NotJson(f"a name in {where}: {error}") from error
    if isinstance(plain, list | dict):
        raise NotJson(f"a name in {where} is {type(name).__qualname__}, which is not JSON")
    return str(plain) if isinstance(plain, str) else json.dumps(plain)
