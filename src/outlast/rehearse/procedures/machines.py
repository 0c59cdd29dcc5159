"""Virtual machines of the clouds: the end is announced by the metadata server, the machine shuts down, and is off.

What is announced when, and when the machine is off, are the emulated servers' facts (`outlast.emulate.metadata`). A
machine that shuts down stops its services, and a service manager sends SIGTERM to all processes of each, none of which
is PID 1 (systemd.kill(5), KillMode=control-group, 2026-11-30). On AWS a job runs in a container of AWS Batch, whose
agent sends SIGTERM to the first process when a job is stopped, and SIGKILL 30 s later (ECS, stopTimeout, 2026-11-30).
"""

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import TypeVar

from outlast.containers.container import Mount
from outlast.emulate.metadata.aws import AwsImds
from outlast.emulate.metadata.azure import AzureEvents
from outlast.emulate.metadata.gce import GceMetadata
from outlast.emulate.metadata.server import Ending
from outlast.emulate.scale import TimeScale
from outlast.rehearse.procedures.everywhere import EVERYWHERE, stop, usual
from outlast.rehearse.words import (
    Announce,
    Kill,
    Machine,
    Pause,
    Procedure,
    Revoke,
    Scene,
    Setting,
    Settings,
    Timed,
    Warn,
    Word,
    seconds_in,
)

_ADDRESS = "the metadata server's own address: the job was led to another one by variables"
_REVOKED = Setting("after how long the announcement is taken back; the attempt then goes on", "duration")
_PAUSE = Setting("for how long it stands still", "duration", 0.5, most=60.0)
_PREEMPT_SECONDS = 30.0  # of Azure's Preempt
_FREEZE_SECONDS, _REBOOT_SECONDS = 900.0, 900.0  # the least notice of Azure's Freeze and Reboot


Server = GceMetadata | AwsImds | AzureEvents
S = TypeVar("S", bound=Server)


@dataclass(frozen=True, slots=True)
class Emulated:
    """A machine with a metadata server of its own."""

    server: Server
    environment: Mapping[str, str]
    mounts: tuple[Mount, ...] = ()


@contextmanager
def _serving(server: Server) -> Iterator[Machine]:
    with server.serve() as running:
        yield Emulated(server, server.environment(running.url))


def _server_of(scene: Scene, kind: type[S]) -> S:
    server = scene.machine.server if isinstance(scene.machine, Emulated) else None
    if not isinstance(server, kind):
        raise TypeError(f"{scene.machine!r} has no {kind.__name__}")
    return server


def _off(ending: Ending, *, announced: float = 0.0) -> list[Timed]:
    """Announced, then the shut-down signal, where there is time between that and the end, then off."""
    signal = [Timed(ending.shutdown_in_seconds, Warn(everyone=True))]
    return [
        Timed(announced, Announce()),
        *(signal if ending.shutdown_in_seconds < ending.off_in_seconds else []),
        Timed(ending.off_in_seconds, Kill()),
    ]


# --- Compute Engine ---------------------------------------------------------------------------------------------------


def _gce_machine(given: Settings, scale: TimeScale) -> AbstractContextManager[Machine]:
    notice = 120 if given.get("preemption-notice") == "120s" else 0
    kind = str(given.get("machine-type", "n2-standard-4"))
    spot = given.get("provisioning", "spot") == "spot"
    return _serving(GceMetadata(scale=scale, machine_type=kind, spot=spot, preemption_notice_seconds=notice))


def _gce_reclaim(scene: Scene, _told: Settings) -> list[Timed]:
    return _off(_server_of(scene, GceMetadata).preempt())


def _gce_maintenance(scene: Scene, told: Settings) -> list[Timed]:
    server = _server_of(scene, GceMetadata)
    seconds = seconds_in(told, "notice") if "notice" in told else server.window_seconds
    announced = scene.scale.here(max(0.0, seconds - server.window_seconds))
    ending = server.maintain(seconds)
    if "revoked-after" in told:
        revoked = announced + scene.scale.here(seconds_in(told, "revoked-after"))
        return [Timed(announced, Announce()), Timed(revoked, Revoke(server.revoke))]
    return _off(ending, announced=announced)


def _gce_migration(scene: Scene, told: Settings) -> list[Timed]:
    server = _server_of(scene, GceMetadata)
    ending = server.migrate()
    return [Timed(ending.shutdown_in_seconds, Pause(scene.scale.here(seconds_in(told, "pause"))))]


GCE = Procedure(
    words={
        "spot-reclaim": Word("the Spot machine is preempted: metadata and SIGTERM, 30 s, off", "SIGTERM", _gce_reclaim),
        "maintenance": Word(
            "the host is maintained, and the machine ends: metadata, their notice, SIGTERM, 30 s, off",
            "SIGTERM",
            _gce_maintenance,
            {
                "notice": Setting("how long before; the window of the machine type unless given", "duration"),
                "revoked-after": _REVOKED,
            },
            {"revoked-after": "revoked notice"},
        ),
        "live-migration": Word(
            "the machine is moved to another host: metadata, 60 s, a pause; not one that is Spot or has GPUs",
            "live migration",
            _gce_migration,
            {"pause": _PAUSE},
        ),
        **EVERYWHERE,
    },
    usual=usual("spot-reclaim"),
    open_machine=_gce_machine,
    given={
        "machine-type": Setting(
            "what the machine is; those with GPUs and TPUs have longer notices",
            "choice",
            choices=("n2-standard-4", "g2-standard-8", "a2-highgpu-1g", "a3-highgpu-8g", "ct5lp-hightpu-4t"),
        ),
        "preemption-notice": Setting("preemptionNoticeDuration of the Spot machine", "choice", choices=("0s", "120s")),
        "provisioning": Setting("whether the machine is Spot", "choice", choices=("spot", "standard")),
    },
    first_is_pid_1=False,
    not_exercised=(_ADDRESS,),
)

# --- EC2 --------------------------------------------------------------------------------------------------------------


def _ec2_machine(_given: Settings, scale: TimeScale) -> AbstractContextManager[Machine]:
    return _serving(AwsImds(scale=scale))


def _ec2_reclaim(scene: Scene, told: Settings) -> list[Timed]:
    return _off(_server_of(scene, AwsImds).preempt(str(told["action"])))


def _ec2_advice(scene: Scene, _told: Settings) -> list[Timed]:
    _server_of(scene, AwsImds).recommend_rebalance()
    return []


EC2 = Procedure(
    words={
        "spot-reclaim": Word(
            "the Spot instance is interrupted: instance metadata, 2 min, off",
            "SIGTERM",
            _ec2_reclaim,
            {"action": Setting("what happens to it then", "choice", "terminate", ("terminate", "stop", "hibernate"))},
        ),
        "rebalance-advice": Word("the instance is at an elevated risk; it goes on", "advice", _ec2_advice),
        "stop": Word("the task is stopped: SIGTERM, 30 s, SIGKILL", "SIGTERM", stop, counts_as="cancelled"),
        **EVERYWHERE,
    },
    usual=usual("spot-reclaim"),
    open_machine=_ec2_machine,
    not_exercised=(_ADDRESS,),
)

# --- Azure ------------------------------------------------------------------------------------------------------------


def _azure_machine(_given: Settings, scale: TimeScale) -> AbstractContextManager[Machine]:
    return _serving(AzureEvents(scale=scale))


def _azure_reclaim(scene: Scene, _told: Settings) -> list[Timed]:
    _server_of(scene, AzureEvents).preempt()
    here = scene.scale.here(_PREEMPT_SECONDS)
    return _off(Ending(here, here))


def _azure_maintenance(scene: Scene, told: Settings) -> list[Timed]:
    server = _server_of(scene, AzureEvents)
    seconds = max(_REBOOT_SECONDS, seconds_in(told, "notice"))
    server.schedule("Reboot", in_seconds=seconds)
    if "revoked-after" in told:
        revoked = scene.scale.here(seconds_in(told, "revoked-after"))
        return [Timed(0.0, Announce()), Timed(revoked, Revoke(server.revoke))]
    here = scene.scale.here(seconds)
    return _off(Ending(here, here))


def _azure_freeze(scene: Scene, told: Settings) -> list[Timed]:
    _server_of(scene, AzureEvents).schedule("Freeze")
    return [scene.at(_FREEZE_SECONDS, Pause(scene.scale.here(seconds_in(told, "pause"))))]


AZURE = Procedure(
    words={
        "spot-reclaim": Word("the Spot machine is evicted: Preempt, 30 s, off", "SIGTERM", _azure_reclaim),
        "maintenance": Word(
            "the machine is restarted for maintenance: Reboot, its notice of 15 min or more, off",
            "SIGTERM",
            _azure_maintenance,
            {"notice": Setting("how long before", "duration", _REBOOT_SECONDS), "revoked-after": _REVOKED},
            {"revoked-after": "revoked notice"},
        ),
        "live-migration": Word(
            "the machine is frozen for a moment: Freeze, 15 min, a pause",
            "live migration",
            _azure_freeze,
            {"pause": _PAUSE},
        ),
        **EVERYWHERE,
    },
    usual=usual("spot-reclaim"),
    open_machine=_azure_machine,
    first_is_pid_1=False,
    not_exercised=(_ADDRESS,),
)
