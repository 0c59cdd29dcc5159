"""A table of a TOML file as nodes that YAML would have: one reader for both, with the line of each key."""

import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import cast

import yaml

from outlast.errors import SettingsError
from outlast.yaml_keys import Key

_MISSING = object()
_TAGS = {bool: "bool", int: "int", float: "float"}


def parse_toml_table(text: str, file: str, table: Sequence[str]) -> Key | None:
    """The table ("tool", "outlast") of a TOML text, None where it has none; raises SettingsError for no TOML."""
    try:
        whole = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise SettingsError(f"{file}: this is no TOML: {error}") from error
    found = _at(whole, tuple(table))
    if found is _MISSING:
        return None
    return Key(file, "", _node(found, text, tuple(table)))


def _node(value: object, text: str, path: tuple[str | int, ...]) -> yaml.Node:
    mark = cast(yaml.Mark, _Mark(text, path))  # a Key asks a mark for its line, and for nothing else
    if isinstance(value, dict):
        pairs = []
        for name, one in value.items():
            pairs.append((_node(name, text, (*path, name)), _node(one, text, (*path, name))))
        return yaml.MappingNode("tag:yaml.org,2002:map", pairs, mark, mark)
    if isinstance(value, list):
        items = [_node(one, text, (*path, place)) for place, one in enumerate(value)]
        return yaml.SequenceNode("tag:yaml.org,2002:seq", items, mark, mark)
    tag = _TAGS.get(type(value), "str")
    said = str(value).lower() if isinstance(value, bool) else str(value)
    return yaml.ScalarNode(f"tag:yaml.org,2002:{tag}", said, mark, mark)


@dataclass(frozen=True)
class _Mark:
    """Where a value stands. tomllib does not tell, so the line is looked for when a message needs it."""

    text: str
    path: tuple[str | int, ...]

    @cached_property
    def line(self) -> int:
        """Counted from 0: the first line after the longest beginning of the file that lacks the value."""
        lines = self.text.splitlines(keepends=True)
        start = 0
        for count in range(1, len(lines) + 1):
            try:
                read = tomllib.loads("".join(lines[:count]))
            except tomllib.TOMLDecodeError:
                continue  # the middle of a value of several lines
            if _at(read, self.path) is not _MISSING:
                return start
            start = count
        return 0


def _at(value: object, path: tuple[str | int, ...]) -> object:
    for name in path:
        try:
            value = cast(dict[str | int, object], value)[name]
        except (KeyError, IndexError, TypeError):
            return _MISSING
    return value
