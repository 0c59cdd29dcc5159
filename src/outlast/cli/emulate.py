"""`outlast emulate`: a platform's procedure on loopback, for its own tools and clients."""

import importlib.util
import shlex
import signal
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from outlast.errors import SettingsError

_FOLDER = click.Path(exists=True, file_okay=False, path_type=Path)
_SPEED_HELP = "How many seconds of the platform pass in one second here."


@click.group()
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


@emulate.command("cloud-run")
@click.option("--folder", type=_FOLDER, default=".", help="The files of the images; each attempt gets a fresh copy.")
@click.option("--image", "images", multiple=True, metavar="NAME=COMMAND", help="An image's entry point; repeatable.")
@click.option("--bucket", "buckets", multiple=True, metavar="NAME=DIR", help="A folder for a bucket; repeatable.")
@click.option("--env", "variables", multiple=True, metavar="NAME=VALUE", help="A variable of the images; repeatable.")
@click.option("--project", default="demo", help="The project that gcloud is led to.")
@common_options
def cloud_run(
    *,
    folder: Path,
    images: tuple[str, ...],
    buckets: tuple[str, ...],
    variables: tuple[str, ...],
    project: str,
    port: int,
    speed: float,
) -> None:
    """Cloud Run jobs: for gcloud, and with the tasks as processes of this machine.

    Prints the variables that lead gcloud here. `curl -X POST URL/emulator/maintenance` starts a maintenance: it ends
    the tasks that have a GPU, and moves the others. `/emulator/crash` kills them with no notice.
    """
    need_web_server()
    from outlast.emulate.cloud_run.images import Image  # noqa: PLC0415 - `outlast emulate --help` needs no web server
    from outlast.emulate.cloud_run.server import CloudRun, default_environment  # noqa: PLC0415 - as above
    from outlast.emulate.scale import TimeScale  # noqa: PLC0415 - as above

    named = {name: Image(folder, tuple(shlex.split(said))) for name, said in _pairs("--image", images).items()}
    emulator = CloudRun(
        folder=folder,
        images=named,
        buckets=_pairs("--bucket", buckets),
        environment={**default_environment(), **_pairs("--env", variables)},
        scale=TimeScale(speed),
        port=port,
    )
    with emulator:
        told = emulator.gcloud_environment(project)
        wait_for_signal(emulator.url, "\n".join(f"export {name}={shlex.quote(value)}" for name, value in told.items()))


def _pairs(option: str, given: tuple[str, ...]) -> dict[str, str]:
    for one in given:
        if not one.partition("=")[2] or one.startswith("="):
            raise click.BadParameter(f"'{one}' is not NAME=VALUE", param_hint=option)
    return {name: value for name, _, value in (one.partition("=") for one in given)}
