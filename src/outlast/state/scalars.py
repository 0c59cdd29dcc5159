"""Immutable values as JSON nodes and back, each bit for bit: numbers, text, bytes, times, identifiers.

A node is a JSON value; anything that JSON cannot hold exactly is an object with the key "$" naming its kind.
"""

import base64
import datetime as dt
import fractions
import pathlib
import struct
import uuid
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any

from outlast.ports import Unsupported

Node = Any  # a JSON value: None, bool, int, float, str, list or dict of nodes
_JSON_INT_LIMIT = 1 << 63


def float_node(value: float) -> Node:
    """A float, exactly: JSON writes finite ones shortest-exact; infinities and NaN keep all their bits."""
    if value - value == 0:
        return value
    return {"$": "float", "bits": struct.pack(">d", value).hex()}


def _float(node: Mapping[str, Any]) -> float:
    return float(struct.unpack(">d", bytes.fromhex(node["bits"]))[0])


def int_node(value: int) -> Node:
    """An int of any size; large ones in hex, since Python bounds the digits of decimal text."""
    return value if -_JSON_INT_LIMIT < value < _JSON_INT_LIMIT else {"$": "int", "hex": hex(value)}


def _complex_node(value: complex) -> Node:
    return {"$": "complex", "bits": struct.pack(">dd", value.real, value.imag).hex()}


def _complex(node: Mapping[str, Any]) -> complex:
    return complex(*struct.unpack(">dd", bytes.fromhex(node["bits"])))


def _check_zone(zone: dt.tzinfo | None) -> None:
    if zone is None:
        return
    if type(zone) is not dt.timezone or repr(zone) not in (
        repr(dt.UTC),
        repr(dt.timezone(zone.utcoffset(None))),
    ):
        raise Unsupported(f"its time zone {zone!r} is not a plain offset from UTC")


def _datetime_node(value: dt.datetime) -> Node:
    _check_zone(value.tzinfo)
    return {"$": "datetime", "iso": value.isoformat(), "fold": value.fold}


def _time_node(value: dt.time) -> Node:
    _check_zone(value.tzinfo)
    return {"$": "time", "iso": value.isoformat(), "fold": value.fold}


def _range_node(value: range) -> Node:
    return {"$": "range", "v": [int_node(value.start), int_node(value.stop), int_node(value.step)]}


def _plain_int(node: Node) -> int:
    return node if isinstance(node, int) else int(node["hex"], 16)


_PATHS: dict[str, type[pathlib.PurePath]] = {
    kind.__name__: kind
    for kind in (
        pathlib.PurePosixPath,
        pathlib.PureWindowsPath,
        pathlib.PosixPath,
        pathlib.WindowsPath,
    )
}

# By exact type, so that no subclass loses what it adds.
TO_NODE: dict[type, Callable[[Any], Node]] = {
    type(None): lambda value: value,
    bool: lambda value: value,
    str: lambda value: value,
    int: int_node,
    float: float_node,
    complex: _complex_node,
    bytes: lambda value: {"$": "bytes", "b64": base64.b64encode(value).decode()},
    dt.datetime: _datetime_node,
    dt.date: lambda value: {"$": "date", "iso": value.isoformat()},
    dt.time: _time_node,
    dt.timedelta: lambda value: {"$": "timedelta", "v": [value.days, value.seconds, value.microseconds]},
    Decimal: lambda value: {"$": "decimal", "text": str(value)},
    fractions.Fraction: lambda value: {
        "$": "fraction",
        "v": [int_node(value.numerator), int_node(value.denominator)],
    },
    uuid.UUID: lambda value: {"$": "uuid", "hex": value.hex},
    range: _range_node,
    **{
        kind: (lambda value: {"$": "path", "kind": type(value).__name__, "text": str(value)})
        for kind in _PATHS.values()
    },
}

FROM_NODE: dict[str, Callable[[Mapping[str, Any]], Any]] = {
    "int": _plain_int,
    "float": _float,
    "complex": _complex,
    "bytes": lambda node: base64.b64decode(node["b64"], validate=True),
    "datetime": lambda node: dt.datetime.fromisoformat(node["iso"]).replace(fold=node["fold"]),
    "date": lambda node: dt.date.fromisoformat(node["iso"]),
    "time": lambda node: dt.time.fromisoformat(node["iso"]).replace(fold=node["fold"]),
    "timedelta": lambda node: dt.timedelta(*node["v"]),
    "decimal": lambda node: Decimal(node["text"]),
    "fraction": lambda node: fractions.Fraction(*map(_plain_int, node["v"])),
    "uuid": lambda node: uuid.UUID(hex=node["hex"]),
    "range": lambda node: range(*map(_plain_int, node["v"])),
    "path": lambda node: _PATHS[node["kind"]](node["text"]),
}
