"""`outlast emulate gce-metadata`, `aws-imds`, `azure-events`: the metadata servers of three clouds."""

from typing import TYPE_CHECKING, Protocol

import click

from outlast.cli.emulate import common_options, serve
from outlast.emulate.scale import TimeScale

if TYPE_CHECKING:
    from outlast.emulate.serving import Application


class _Machine(Protocol):
    application: "Application"

    def environment(self, url: str) -> dict[str, str]: ...


@click.command("gce-metadata")
@common_options
@click.option(
    "--machine-type", default="n2-standard-4", show_default=True, help="Its family says how long a notice is."
)
@click.option("--spot/--on-demand", default=True, show_default=True)
@click.option("--preemption-notice", type=click.Choice(["0", "120"]), default="0", show_default=True, help="Seconds.")
def gce_metadata(*, port: int, speed: float, machine_type: str, spot: bool, preemption_notice: str) -> None:
    """The metadata server of a machine of Compute Engine.

    \b
    curl -X POST http://127.0.0.1:8080/emulator/preemption
    curl -X POST http://127.0.0.1:8080/emulator/maintenance -d '{"in_seconds": 3600}'
    curl -X POST http://127.0.0.1:8080/emulator/revocation
    """
    from outlast.emulate.metadata.gce import GceMetadata  # noqa: PLC0415 - help needs no web server

    notice = int(preemption_notice)
    if notice and not spot:
        raise click.UsageError("only a Spot machine has a --preemption-notice")
    scale = TimeScale(speed)
    _serve(GceMetadata(scale=scale, machine_type=machine_type, spot=spot, preemption_notice_seconds=notice), port)


@click.command("aws-imds")
@common_options
@click.option("--instance-type", default="g5.xlarge", show_default=True)
@click.option("--spot/--on-demand", default=True, show_default=True)
def aws_imds(*, port: int, speed: float, instance_type: str, spot: bool) -> None:
    """The metadata service, version 2, of an EC2 instance.

    \b
    curl -X POST http://127.0.0.1:8080/emulator/preemption -d '{"action": "terminate"}'
    curl -X POST http://127.0.0.1:8080/emulator/rebalance
    curl -X POST http://127.0.0.1:8080/emulator/maintenance -d '{"in_seconds": 3600, "code": "system-reboot"}'
    """
    from outlast.emulate.metadata.aws import AwsImds  # noqa: PLC0415 - help needs no web server

    _serve(AwsImds(scale=TimeScale(speed), instance_type=instance_type, spot=spot), port)


@click.command("azure-events")
@common_options
@click.option("--vm", default="worker_0", show_default=True, help="The machine's name, as Resources have it.")
@click.option("--spot/--on-demand", default=True, show_default=True)
def azure_events(*, port: int, speed: float, vm: str, spot: bool) -> None:
    """The Scheduled Events of a virtual machine of Azure.

    \b
    curl -X POST http://127.0.0.1:8080/emulator/preemption
    curl -X POST http://127.0.0.1:8080/emulator/event -d '{"event_type": "Redeploy"}'
    curl -X POST http://127.0.0.1:8080/emulator/revocation
    """
    from outlast.emulate.metadata.azure import AzureEvents  # noqa: PLC0415 - help needs no web server

    _serve(AzureEvents(scale=TimeScale(speed), vm=vm, spot=spot), port)


def _serve(machine: _Machine, port: int) -> None:
    def hints(url: str) -> str:
        lines = [f"export {name}={value}" for name, value in machine.environment(url).items()]
        return "\n".join([*lines, f"what it can be made to do: curl {url}/emulator"])

    serve(machine.application, port=port, hints=hints)
