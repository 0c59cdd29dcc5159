"""A laptop, a workstation, any machine without a job controller that is known to outlast."""

from collections.abc import Mapping

from outlast.firmware import Firmware
from outlast.platforms import assumed
from outlast.ports import Identity, KnownGrace, PlatformFacts

_FACTS = PlatformFacts(
    name="local",
    grace_seconds=30.0,
    interrupted_exit_code=143,
    default_retries=0,
    max_retries=None,
    mean_seconds_between_interruptions=assumed.DAILY_SECONDS,
    notice_share=assumed.NOTICE_SHARE,
    notice_sources=("SIGTERM",),
    logs="plain",
    procedure="container",
    sources={
        "grace_seconds": "the default of Kubernetes and of torchrun; nobody enforces one locally (2026-11-29)",
        "default_retries": "nothing starts a job again here, unless `outlast run --retries` does",
        "max_retries": "nobody sets a limit here",
        "notice_sources": "kill, a shut-down and a service manager all send SIGTERM first",
        "notice_share": assumed.NOTICE_SHARE_SOURCE,
        "interrupted_exit_code": "128 + SIGTERM, the shell's convention",
        "mean_seconds_between_interruptions": assumed.DAILY_SOURCE,
        "logs": "a terminal is read by people",
    },
)


class LocalPlatform:
    """No controller: no execution identity, one task."""

    facts = _FACTS

    def detect(self, env: Mapping[str, str], firmware: Firmware) -> bool:
        return True

    def identity(self, env: Mapping[str, str]) -> Identity:
        return Identity()

    def environment(self, identity: Identity) -> dict[str, str]:
        return {}

    def graces(self, env: Mapping[str, str]) -> tuple[KnownGrace, ...]:
        return self.facts.known_graces()
