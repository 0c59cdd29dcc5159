"""What lint may know besides the files: measured times and sizes, the user's own limits, the installed tools."""

from collections.abc import Callable
from dataclasses import dataclass

Probe = Callable[[tuple[str, ...]], frozenset[str] | None]
"""The flags that the installed SDK has for a command, such as ("beta", "run", "jobs", "deploy"); None: cannot tell."""


def _no_sdk(_command: tuple[str, ...]) -> frozenset[str] | None:
    return None


@dataclass(frozen=True, slots=True)
class Known:
    """None means not known, and a rule that needs it stays silent.

    `save_seconds`: a final save, as measured. `state_bytes`: what a checkpoint holds. `bucket_regions`: by bucket name.
    `sdk`: the installed gcloud, asked only where a command line is found; `sdk_version` for messages.
    `exposure_hours`: GPU hours above which an exposure is a warning.
    """

    save_seconds: float | None = None
    state_bytes: int | None = None
    work_seconds: float | None = None
    bucket_regions: tuple[tuple[str, str], ...] = ()
    exposure_hours: float = 100.0
    sdk: Probe = _no_sdk
    sdk_version: str | None = None
