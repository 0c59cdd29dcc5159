"""Virtual machines of Compute Engine, Spot ones above all.

Facts as of 2026-11-29, from the Compute Engine documentation: "Spot VMs" (an ACPI signal, then about 30 s, as best
effort), "Get live migration notices" (metadata `maintenance-event`); from the provider's text on
`preemptionNoticeDuration` (beta, 0 or 120 s): metadata `preempted` turns TRUE that long before the ACPI signal.
"""

from collections.abc import Mapping

from outlast.firmware import Firmware
from outlast.platforms import assumed
from outlast.platforms.variables import read_identity, told_environment
from outlast.ports import Identity, KnownGrace, PlatformFacts

_FACTS = PlatformFacts(
    name="gce-spot",
    grace_seconds=30.0,
    longest_grace_seconds=150.0,
    interrupted_exit_code=143,
    default_retries=0,
    max_retries=None,
    mean_seconds_between_interruptions=assumed.SPOT_SECONDS,
    notice_share=assumed.NOTICE_SHARE,
    notice_sources=("SIGTERM", "gce-metadata"),
    logs="plain",
    procedure="gce",
    provisional=True,
    sources={
        "grace_seconds": "Compute Engine, Spot VMs: about 30 s after the ACPI signal, as best effort (2026-11-29)",
        "longest_grace_seconds": "Compute Engine: 30 s after a preemptionNoticeDuration of 120 s, beta (2026-11-29)",
        "interrupted_exit_code": "128 + SIGTERM; who starts the job again on the next machine sees work left",
        "default_retries": "Compute Engine, Spot VMs: a preempted one is stopped, and nothing starts it again",
        "max_retries": "a managed instance group replaces machines without a limit",
        "mean_seconds_between_interruptions": assumed.SPOT_SOURCE,
        "notice_share": assumed.NOTICE_SHARE_SOURCE,
        "notice_sources": "Compute Engine, metadata: preempted, maintenance-event; the shut-down sends SIGTERM",
        "logs": "nothing collects standard error unless an agent is installed",
    },
)


class GceSpotPlatform:
    """A machine of Compute Engine. Only its metadata server knows whether it is Spot, so it is taken for one."""

    facts = _FACTS

    def detect(self, env: Mapping[str, str], firmware: Firmware) -> bool:
        return firmware.product == "Google Compute Engine"

    def identity(self, env: Mapping[str, str]) -> Identity:
        return read_identity(env)

    def environment(self, identity: Identity) -> dict[str, str]:
        return told_environment(identity)

    def graces(self, env: Mapping[str, str]) -> tuple[KnownGrace, ...]:
        return self.facts.known_graces()
