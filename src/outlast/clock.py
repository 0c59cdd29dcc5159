"""Time: clocks, durations and deadlines."""

import re
import time
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Protocol

from outlast.errors import SettingsError

_UNIT_SECONDS = {
    "ms": 0.001,
    "s": 1.0,
    "sec": 1.0,
    "m": 60.0,
    "min": 60.0,
    "h": 3600.0,
    "d": 86400.0,
}
# The longer unit first: an alternation takes the first that fits, and "5min" is not "5m" and "in".
_PART = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|sec|s|min|m|h|d)\s*")


class Clock(Protocol):
    """The door to time."""

    def wall_seconds(self) -> float:
        """Seconds since the epoch; may jump."""
        ...

    def monotonic_seconds(self) -> float:
        """Seconds that only grow, comparable between processes of one boot (CLOCK_MONOTONIC)."""
        ...


class SystemClock:
    """The machine's clock."""

    def wall_seconds(self) -> float:
        return time.time()

    def monotonic_seconds(self) -> float:
        return time.monotonic()


@dataclass(frozen=True, slots=True)
class Deadline:
    """A moment after which the process may be gone, on the monotonic clock."""

    at_monotonic_seconds: float

    def remaining_seconds(self, clock: Clock) -> float:
        """Seconds left, never below 0."""
        return max(0.0, self.at_monotonic_seconds - clock.monotonic_seconds())


def parse_duration(value: str | float | timedelta, *, setting: str) -> float:
    """Seconds in a duration: ``"5min"``, ``"1h30m"``, ``"500ms"``, a timedelta; a bare number is seconds.

    Raises SettingsError naming `setting` for anything else, negative or not finite.
    """
    seconds = _duration_seconds(value)
    if seconds is None or not 0 <= seconds < float("inf"):
        raise SettingsError(
            f"{setting}={value!r} is not a duration; write seconds or a text such as '30s', '5min', '1h30m'"
        )
    return seconds


def _duration_seconds(value: str | float | timedelta) -> float | None:
    if isinstance(value, timedelta):
        return value.total_seconds()
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return None
    try:
        return float(value)
    except (ValueError, OverflowError):  # a text with units, or a whole number beyond any clock
        if not isinstance(value, str):
            return None
    text = value.strip().lower()
    position, total = 0, 0.0
    while position < len(text):
        part = _PART.match(text, position)
        if part is None:
            return None
        total += float(part[1]) * _UNIT_SECONDS[part[2]]
        position = part.end()
    return total if text else None


def format_duration(seconds: float) -> str:
    """A duration for people: ``4.2 ms``, ``0.42 s``, ``12 s``, ``5 min 3 s``, ``2 h 10 min``."""
    if seconds < 0.01:
        return f"{seconds * 1000:.1f} ms"
    if seconds < 10:
        return f"{seconds:.2g} s" if seconds < 1 else f"{seconds:.1f} s"
    if seconds < 120:
        return f"{seconds:.0f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 120:
        return f"{minutes} min {rest} s" if rest else f"{minutes} min"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if minutes else f"{hours} h"


def iso_utc(wall_seconds: float) -> str:
    """A moment as ISO 8601 text in UTC, to the millisecond."""
    return datetime.fromtimestamp(wall_seconds, UTC).isoformat(timespec="milliseconds")
