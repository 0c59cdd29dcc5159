"""`outlast emulate`: a platform's procedure on loopback, for its own tools and clients."""

import importlib.util
import math
import shlex
import signal
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

import click

from outlast.cli.lazy_group import LazyGroup
from outlast.errors import SettingsError

if TYPE_CHECKING:
    from outlast.emulate.serving import Application

_SPEED_HELP = "How many seconds of the platform pass in one second here."
_EMULATORS = {
    "aws-imds": "outlast.cli.emulate_metadata:aws_imds",
    "azure-events": "outlast.cli.emulate_metadata:azure_events",
    "cloud-run": "outlast.cli.emulate_cloud_run:cloud_run",
    "gce-metadata": "outlast.cli.emulate_metadata:gce_metadata",
    "gke": "outlast.cli.emulate_gke:gke",
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
    speed = click.option(
        "--speed",
        type=click.FloatRange(0, min_open=True),
        default=1.0,
        show_default=True,
        callback=_finite,
        help=_SPEED_HELP,
    )
    command = speed(command)
    ports = click.IntRange(0, 65535)
    return click.option("--port", type=ports, default=0, show_default=True, help="0 takes a free one.")(command)


def _finite(_: click.Context, __: click.Parameter, value: float) -> float:
    if not math.isfinite(value):
        raise click.BadParameter(f"{value} is no number of seconds")
    return value


def serve(application: "Application", *, port: int, hints: Callable[[str], str]) -> None:
    """Serves until a signal; first prints the address and what `hints(url)` says of using it."""
    need_web_server()
    from outlast.emulate.serving import Serving  # noqa: PLC0415 - `outlast emulate --help` needs no web server

    with Serving(application, port=port) as serving:
        wait_for_signal(serving.url, hints(serving.url))


def need_web_server() -> None:
    """Raises SettingsError where the extra that brings it is not installed."""
    missing = [name for name in ("starlette", "uvicorn") if importlib.util.find_spec(name) is None]
    if missing:
        raise SettingsError(f"emulators need {' and '.join(missing)}: pip install 'outlast[web]'")


def wait_for_signal(url: str, hints: str) -> None:
    """Prints where an emulator listens, and how to use it; returns at SIGTERM or Ctrl-C."""
    stopped = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stopped.set())
    click.echo(f"listening on {url}")
    click.echo(hints)
    stopped.wait()


def pairs(option: str, given: tuple[str, ...], *, of: str = "VALUE") -> dict[str, str]:
    """What was given as NAME=VALUE, more than once."""
    for one in given:
        if not one.partition("=")[2] or one.startswith("="):
            raise click.BadParameter(f"'{one}' is not NAME={of}", param_hint=option)
    return {name: value for name, _, value in (one.partition("=") for one in given)}


def commands(option: str, given: tuple[str, ...]) -> dict[str, tuple[str, ...]]:
    """What was given as NAME=COMMAND, each command in words as a shell would split it."""
    found = {}
    for name, said in pairs(option, given, of="COMMAND").items():
        try:
            found[name] = tuple(shlex.split(said))
        except ValueError as error:
            raise click.BadParameter(f"{said}: {error}", param_hint=option) from error
    return found
