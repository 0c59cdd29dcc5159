"""Time that passes faster than a platform's own: an hour's notice within a minute."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TimeScale:
    """`factor` seconds of the platform pass in one second here; 1.0 is real time."""

    factor: float = 1.0

    def __post_init__(self) -> None:
        if not self.factor > 0:
            raise ValueError(f"a time scale is a number above 0, not {self.factor}")

    def here(self, documented_seconds: float) -> float:
        """How long a documented time takes here, in seconds."""
        return documented_seconds / self.factor
