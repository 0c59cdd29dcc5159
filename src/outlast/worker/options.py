"""What a worker is told, checked once."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta

from outlast.clock import parse_duration
from outlast.errors import SettingsError
from outlast.worker.arguments import refuse_other_arguments

Load = Callable[..., object]
Duration = str | float | timedelta

_SHORTEST_LEASE_SECONDS = 0.5
_LONGEST_SECONDS = 366 * 24 * 3600.0
_MOST = 2**31 - 1  # what every database can count


@dataclass(frozen=True, slots=True)
class WorkerOptions:
    """Durations in seconds; see outlast.batch for what each means."""

    chunk: int
    version: str | None
    load: Load | None
    prefetch: int
    lease_seconds: float
    item_timeout_seconds: float | None
    max_errors: int
    max_deaths: int
    idle_seconds: float


def checked_options(
    *,
    chunk: int = 1,
    version: str | None = None,
    load: Load | None = None,
    prefetch: int = 1,
    lease: Duration = "60s",
    item_timeout: Duration | None = None,
    max_errors: int = 3,
    max_deaths: int = 3,
    idle: Duration = "30s",
) -> WorkerOptions:
    """The options; raises SettingsError naming the one that cannot work."""
    lease_seconds = _seconds(lease, "lease")
    if lease_seconds < _SHORTEST_LEASE_SECONDS:
        raise SettingsError(
            f"lease={lease!r} is shorter than {_SHORTEST_LEASE_SECONDS} s, too short to be renewed in time"
        )
    limit = None if item_timeout is None else _seconds(item_timeout, "item_timeout")
    if limit == 0:
        raise SettingsError("item_timeout=0 leaves no time for an item; None is no limit")
    if version is not None and not isinstance(version, str):
        raise SettingsError(f"version={version!r} is {type(version).__name__}; write a text, such as 'model-3'")
    if load is not None:
        refuse_other_arguments(load, "an item", setting="load")
    return WorkerOptions(
        chunk=_whole(chunk, "chunk", least=1),
        version=version,
        load=load,
        prefetch=_whole(prefetch, "prefetch", least=0),
        lease_seconds=lease_seconds,
        item_timeout_seconds=limit,
        max_errors=_whole(max_errors, "max_errors", least=0),
        max_deaths=_whole(max_deaths, "max_deaths", least=0),
        idle_seconds=_seconds(idle, "idle"),
    )


def _whole(value: object, setting: str, *, least: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= _MOST:
        raise SettingsError(f"{setting}={value!r} is not a whole number from {least} to {_MOST}")
    return value


def _seconds(value: Duration, setting: str) -> float:
    seconds = parse_duration(value, setting=setting)
    if seconds > _LONGEST_SECONDS:
        raise SettingsError(f"{setting}={value!r} is longer than a year")
    return seconds
