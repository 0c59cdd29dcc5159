"""Looks into the plain data of YAML and JSON, whatever shape it turns out to have: nothing here raises."""

from collections.abc import Mapping
from typing import Any

Keys = tuple[str | int, ...]


def at(made: Any, path: Keys) -> Any:
    """What is there; None where nothing is."""
    for name in path:
        if isinstance(made, Mapping):
            made = made.get(name)
        elif isinstance(made, list) and isinstance(name, int) and name < len(made):
            made = made[name]
        else:
            return None
    return made


def list_at(made: Any, path: Keys) -> list[Any]:
    """A list; empty where there is none."""
    found = at(made, path)
    return found if isinstance(found, list) else []


def text_at(made: Any, path: Keys) -> str:
    """A text; empty where there is none."""
    found = at(made, path)
    return found if isinstance(found, str) else ""


def scalar_text(value: Any) -> str:
    """A value as text; "" for a list or mapping, which aliases may have made larger than any memory."""
    return str(value) if isinstance(value, str | int | float) else ""
