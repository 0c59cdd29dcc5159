"""`outlast emulate cloud-run`: Cloud Run jobs, for the real gcloud."""

import shlex
from pathlib import Path

import click

from outlast.cli.emulate import commands, common_options, need_web_server, pairs, wait_for_signal

_FOLDER = click.Path(exists=True, file_okay=False, path_type=Path)


@click.command("cloud-run")
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

    named = {name: Image(folder, words) for name, words in commands("--image", images).items()}
    emulator = CloudRun(
        folder=folder,
        images=named,
        buckets=pairs("--bucket", buckets),
        environment={**default_environment(), **pairs("--env", variables)},
        scale=TimeScale(speed),
        port=port,
    )
    with emulator:
        told = emulator.gcloud_environment(project)
        wait_for_signal(emulator.url, "\n".join(f"export {name}={shlex.quote(value)}" for name, value in told.items()))
