"""Lets lint ask the Cloud SDK on this machine which flags a command has; without one it knows nothing of them."""

from collections.abc import Sequence
from dataclasses import replace

from outlast.installed_sdk import WIDE_FLAGS, InstalledSdk
from outlast.lint.known import Known


def with_installed_sdk(known: Known, sdk: InstalledSdk | None = None) -> Known:
    """What is known, and the flags of the installed gcloud, which is asked when the first command line is met."""
    found = sdk or InstalledSdk()
    if found.path is None:
        return known

    def flags_of(command: Sequence[str]) -> frozenset[str] | None:
        listed = found.command(command)
        if listed is None:
            return None
        negated = {f"--no-{flag.removeprefix('--')}" for flag in listed.negatable}
        return listed.flags | negated | WIDE_FLAGS

    return replace(known, sdk=flags_of, sdk_version=found.version)
