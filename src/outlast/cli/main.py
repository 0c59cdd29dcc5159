"""The `outlast` command; each subcommand lives in a file of its own and is imported when called."""

import os

import click

from outlast.cli.lazy_group import LazyGroup
from outlast.errors import ExitingError, OutlastError
from outlast.settings import console_for

_COMMANDS = {
    "checkpoints": "outlast.cli.checkpoints:checkpoints",
    "deploy": "outlast.cli.deploy:deploy",
    "doctor": "outlast.cli.doctor:doctor",
    "emulate": "outlast.cli.emulate:emulate",
    "explain": "outlast.cli.explain:explain",
    "init": "outlast.cli.init:init",
    "interval": "outlast.cli.interval:interval",
    "lint": "outlast.cli.lint:lint",
    "metrics": "outlast.cli.metrics:metrics",
    "nodes": "outlast.cli.nodes:nodes",
    "platform": "outlast.cli.platform:platform",
    "publish": "outlast.cli.publish:publish",
    "queue": "outlast.cli.queue:queue",
    "rehearse": "outlast.cli.rehearse:rehearse",
    "run": "outlast.cli.run:run",
    "sink": "outlast.cli.sink:sink",
    "status": "outlast.cli.status:status",
    "watch": "outlast.cli.watch:watch",
    "work": "outlast.cli.work:work",
}


class _Commands(LazyGroup):
    """All commands; an error of ours is told in one line."""

    lazy = _COMMANDS

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


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="outlast")
def main() -> None:
    """Jobs that outlast the machines they run on."""
