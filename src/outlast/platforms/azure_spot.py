"""Virtual machines of Azure, Spot ones above all.

Facts as of 2026-11-29, from Microsoft's "Scheduled Events for Linux VMs": `Preempt` comes 30 s or more before a Spot
machine is evicted, as best effort; a failure of the hardware comes without.
"""

from collections.abc import Mapping

from outlast.firmware import Firmware
from outlast.platforms import assumed
from outlast.platforms.variables import read_identity, told_environment
from outlast.ports import Identity, KnownGrace, PlatformFacts

_FACTS = PlatformFacts(
    name="azure-spot",
    grace_seconds=30.0,
    longest_grace_seconds=30.0,
    interrupted_exit_code=143,
    default_retries=0,
    max_retries=None,
    mean_seconds_between_interruptions=assumed.SPOT_SECONDS,
    notice_share=assumed.NOTICE_SHARE,
    notice_sources=("SIGTERM", "azure-scheduled-events"),
    logs="plain",
    procedure="azure",
    provisional=True,
    sources={
        "grace_seconds": "Azure, Scheduled Events for Linux VMs: Preempt, 30 s before, as best effort (2026-11-29)",
        "longest_grace_seconds": "Azure, Scheduled Events for Linux VMs: more than 30 s is not promised (2026-11-29)",
        "interrupted_exit_code": "128 + SIGTERM; who starts the job again on the next machine sees work left",
        "default_retries": "Azure, Spot VMs: an evicted one is deallocated or deleted, and nothing starts it again",
        "max_retries": "a scale set replaces machines without a limit",
        "mean_seconds_between_interruptions": assumed.SPOT_SOURCE,
        "notice_share": assumed.NOTICE_SHARE_SOURCE,
        "notice_sources": "Azure, Scheduled Events for Linux VMs: Preempt; the shut-down sends SIGTERM",
        "logs": "nothing collects standard error unless an agent is installed",
    },
)
# The asset tag of the chassis that all machines of Azure have, and other machines under Hyper-V have not (cloud-init,
# sources/azure/identity.py, 2026-11-29).
_AZURE = "7783-7084-3265-9085-8269-3286-77"


class AzureSpotPlatform:
    """A machine of Azure. Only its metadata server knows whether it is Spot, so it is taken for one."""

    facts = _FACTS

    def detect(self, env: Mapping[str, str], firmware: Firmware) -> bool:
        return firmware.asset_tag == _AZURE

    def identity(self, env: Mapping[str, str]) -> Identity:
        return read_identity(env)

    def environment(self, identity: Identity) -> dict[str, str]:
        return told_environment(identity)

    def graces(self, env: Mapping[str, str]) -> tuple[KnownGrace, ...]:
        return self.facts.known_graces()
