"""`outlast emulate gke`: a GKE cluster, for the real kubectl and the official client."""

import importlib.util
import shlex
from pathlib import Path
from re import fullmatch

import click

from outlast.cli.emulate import commands, common_options, need_web_server, pairs, wait_for_signal
from outlast.errors import SettingsError

_FOLDER = click.Path(exists=True, file_okay=False, path_type=Path)
_FOLDER_HELP = "The working folder of the images; no container changes it."
_NODES_HELP = "Kinds of nodes: cpu, spot, gpu, gpu-spot, tpu, tpu-spot; spot=3 for three. Repeatable."
_NEEDED = ("kubernetes", "yaml", "cryptography")  # the last comes with google-auth
_CONFIG = click.Path(dir_okay=False, path_type=Path)


@click.command()
@click.option("--nodes", multiple=True, default=("cpu",), show_default=True, metavar="KIND[=N]", help=_NODES_HELP)
@click.option("--folder", type=_FOLDER, default=".", show_default=True, help=_FOLDER_HELP)
@click.option("--image", "images", multiple=True, metavar="NAME=COMMAND", help="An image's entry point; repeatable.")
@click.option("--bucket", "buckets", multiple=True, metavar="NAME=DIR", help="A folder for a bucket; repeatable.")
@click.option("--env", "variables", multiple=True, metavar="NAME=VALUE", help="A variable of the images; repeatable.")
@click.option("--kubeconfig", type=_CONFIG, help="Where to write the kubeconfig; a temporary file unless told.")
@common_options
def gke(
    *,
    nodes: tuple[str, ...],
    folder: Path,
    images: tuple[str, ...],
    buckets: tuple[str, ...],
    variables: tuple[str, ...],
    kubeconfig: Path | None,
    port: int,
    speed: float,
) -> None:
    """A GKE cluster, for kubectl. The pods are processes of this machine.

    Prints the KUBECONFIG for kubectl. What happens to a node is told by HTTP:

    \b
    curl -X POST ADDRESS/emulator/nodes/gke-gpu-pool-0/maintenance
    curl -X POST ADDRESS/emulator/nodes/gke-spot-pool-0/reclaim
    curl -X POST ADDRESS/emulator/nodes/gke-default-pool-0/host-error
    curl ADDRESS/emulator
    """
    need_web_server()
    missing = [name for name in _NEEDED if importlib.util.find_spec(name) is None]
    if missing:
        raise SettingsError(f"the GKE emulator needs {' and '.join(missing)}: pip install 'outlast[web,kubernetes]'")
    from outlast.emulate.kubernetes.cluster import CannotEmulate, Cluster  # noqa: PLC0415 - help needs no web server
    from outlast.emulate.kubernetes.images import Image  # noqa: PLC0415 - as above

    named = {name: Image(words, working_folder=folder.resolve()) for name, words in commands("--image", images).items()}
    kept = {name: Path(place).resolve() for name, place in pairs("--bucket", buckets, of="DIR").items()}
    kinds = _kinds(nodes)
    try:
        cluster = Cluster(
            kinds, speed=speed, images=named, environment=pairs("--env", variables), buckets=kept, port=port
        )
    except CannotEmulate as error:
        raise SettingsError(str(error)) from error
    with cluster:
        config = cluster.kubeconfig
        if kubeconfig is not None:
            config = _copied(config, kubeconfig)
        names = ", ".join(cluster.fleet.names())
        wait_for_signal(cluster.url, f"export KUBECONFIG={shlex.quote(str(config))}\nnodes: {names}")


def _copied(config: Path, place: Path) -> Path:
    """Where the copy is, from whatever folder kubectl is started."""
    try:
        place.write_text(config.read_text())
    except OSError as error:
        raise click.BadParameter(f"{place} cannot be written: {error.strerror}", param_hint="--kubeconfig") from error
    return place.resolve()


def _kinds(nodes: tuple[str, ...]) -> list[str]:
    from outlast.emulate.kubernetes.machines import MACHINES  # noqa: PLC0415 - help needs none of it

    found = []
    for one in nodes:
        kind, _, many = one.partition("=")
        if kind not in MACHINES or not fullmatch("[1-9][0-9]*", many or "1"):
            raise click.BadParameter(f"'{one}' is no KIND or KIND=N of {', '.join(MACHINES)}", param_hint="--nodes")
        found += [kind] * int(many or "1")
    return found
