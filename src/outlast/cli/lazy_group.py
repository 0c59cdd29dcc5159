"""A group of commands that imports each one when it is asked for, so that `outlast run` starts at once."""

import importlib
from collections.abc import Mapping
from typing import Any, ClassVar, cast

import click


class LazyGroup(click.Group):
    """Its commands stand in `lazy`, by name: "module:attribute"."""

    lazy: ClassVar[Mapping[str, str]] = {}

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(self.lazy)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        entry = self.lazy.get(cmd_name)
        if entry is None:
            return None
        module, _, name = entry.partition(":")
        found: Any = getattr(importlib.import_module(module), name)
        return cast(click.Command, found)
