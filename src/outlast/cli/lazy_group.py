"""Groups of commands, told in whole sentences and imported when asked for, so that `outlast run` starts at once."""

import importlib
from collections.abc import Mapping
from typing import Any, ClassVar, cast

import click


class ToldGroup(click.Group):
    """A group whose help tells each command's whole first sentence, where click would cut it off."""

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Writes them as click does, with the sentences wrapped."""
        commands = [(name, self.get_command(ctx, name)) for name in self.list_commands(ctx)]
        with formatter.section("Commands"):
            formatter.write_dl([(name, one.get_short_help_str(limit=200)) for name, one in commands if one])


class LazyGroup(ToldGroup):
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
