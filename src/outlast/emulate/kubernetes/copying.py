"""Copies of JSON values: what goes into the store and what comes out of it is never shared."""

from typing import Any


def copied(value: Any) -> Any:
    """A deep copy of a value that JSON can express; several times as fast as `copy.deepcopy`."""
    if isinstance(value, dict):
        return {key: copied(one) for key, one in value.items()}
    if isinstance(value, list):
        return [copied(one) for one in value]
    return value
