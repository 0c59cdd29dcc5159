"""The emulated platform's own clock: documented seconds pass on it, faster than here if the scale says so."""

import time
from dataclasses import dataclass

from outlast.emulate.scale import TimeScale


@dataclass(frozen=True, slots=True)
class PlatformClock:
    """Seconds of the platform; monotonic."""

    scale: TimeScale

    def now(self) -> float:
        """Seconds of the platform since some moment."""
        return time.monotonic() * self.scale.factor
