"""`outlast emulate`: a platform's procedure on loopback, for its own tools and clients."""

import signal
import threading
from collections.abc import Callable
from typing import Any

import click

from outlast.cli.lazy_group import LazyGroup

_SPEED_HELP = "How many seconds of the platform pass in one second here."


_EMULATORS = {
    "aws-imds": "outlast.cli.emulate_metadata:aws_imds",
    "azure-events": "outlast.cli.emulate_metadata:azure_events",
    "gce-metadata": "outlast.cli.emulate_metadata:gce_metadata",
}


class _Emulators(LazyGroup):
    lazy = _EMULATORS


@click.group(cls=_Emulators)
def emulate() -> None:
    """A platform on this machine, for tests of what would run there: its own tools and clients talk to it.

    Serves until Ctrl-C or SIGTERM. Only this machine can reach it. Provisional.
    """


def common_options(command: Callable[..., None]) -> Callable[..., None]:
    """`--port` and `--speed`, which every emulator has."""
    command = click.option("--speed", type=click.FloatRange(0, min_open=True), default=1.0, help=_SPEED_HELP)(command)
    return click.option("--port", type=click.IntRange(0, 65535), default=0, help="0 takes a free one.")(command)


def serve(application: Any, *, port: int, hints: Callable[[str], str]) -> None:
    """Serves until a signal; first prints the address and what `hints(url)` says of using it."""
    from outlast.emulate.serving import Serving  # noqa: PLC0415 - `outlast emulate --help` needs no web server

    stopped = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stopped.set())
    with Serving(application, port=port) as serving:
        click.echo(f"listening on {serving.url}")
        click.echo(hints(serving.url))
        stopped.wait()
