"""A laptop, a workstation, any machine without a job controller that is known to outlast."""

from collections.abc import Mapping

from outlast.ports import Identity, PlatformFacts

_FACTS = PlatformFacts(
    name="local",
    grace_seconds=30.0,
    interrupted_exit_code=143,
    default_retries=0,
    max_retries=None,
    mean_seconds_between_interruptions=24 * 3600.0,
    notice_sources=("SIGTERM",),
    logs="plain",
    sources={
        "grace_seconds": "the default of Kubernetes and of torchrun; nobody enforces one locally (2026-11-29)",
        "default_retries": "nothing starts a job again here, unless `outlast run --retries` does",
        "notice_sources": "kill, a shut-down and a service manager all send SIGTERM first",
        "interrupted_exit_code": "128 + SIGTERM, the shell's convention",
        "mean_seconds_between_interruptions": "an assumption, until attempts have been counted",
    },
)


class LocalPlatform:
    """No controller: no execution identity, one task."""

    facts = _FACTS

    def detect(self, env: Mapping[str, str]) -> bool:
        return True

    def identity(self, env: Mapping[str, str]) -> Identity:
        return Identity()

    def environment(self, identity: Identity) -> dict[str, str]:
        return {}
