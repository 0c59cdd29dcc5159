"""The `outlast` command; each subcommand lives in a file of its own and is imported when called."""

import importlib
import os
from typing import cast

import click

from outlast.errors import ExitingError, OutlastError
from outlast.settings import console_for

_COMMANDS = {
    "checkpoints": "outlast.cli.checkpoints:checkpoints",
    "emulate": "outlast.cli.emulate:emulate",
    "init": "outlast.cli.init:init",
    "interval": "outlast.cli.interval:interval",
    "platform": "outlast.cli.platform:platform",
    "publish": "outlast.cli.publish:publish",
    "queue": "outlast.cli.queue:queue",
    "rehearse": "outlast.cli.rehearse:rehearse",
    "run": "outlast.cli.run:run",
    "sink": "outlast.cli.sink:sink",
    "status": "outlast.cli.status:status",
    "work": "outlast.cli.work:work",
}


class LazyGroup(click.Group):
    """A group that imports a subcommand when it is asked for, so that `outlast run` starts at once."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        entry = _COMMANDS.get(cmd_name)
        if entry is None:
            return None
        module, _, name = entry.partition(":")
        return cast(click.Command, getattr(importlib.import_module(module), name))

    def invoke(self, ctx: click.Context) -> object:
        """An error of ours is told in one line; it leaves with its own code, or 1."""
        try:
            return super().invoke(ctx)
        except OutlastError as error:
            console = console_for(os.environ)
            if isinstance(error, ExitingError):
                console.tell(error)
                raise
            console.error(str(error))
            raise SystemExit(1) from error


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="outlast")
def main() -> None:
    """Jobs that outlast the machines they run on."""
