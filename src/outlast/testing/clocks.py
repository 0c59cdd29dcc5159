"""A clock that only moves when told, for tests."""


class FakeClock:
    """A clock for tests. Both readings stand still until `advance` or `set_wall` moves them. Seconds."""

    def __init__(self, *, wall_seconds: float = 1_700_000_000.0, monotonic_seconds: float = 1000.0) -> None:
        self._wall = wall_seconds
        self._monotonic = monotonic_seconds

    def wall_seconds(self) -> float:
        return self._wall

    def monotonic_seconds(self) -> float:
        return self._monotonic

    def advance(self, seconds: float) -> None:
        """Lets time pass; raises ValueError for a negative amount, since a monotonic clock never goes back."""
        if seconds < 0:
            raise ValueError(f"advance({seconds}): the monotonic clock cannot go back; see set_wall")
        self._wall += seconds
        self._monotonic += seconds

    def set_wall(self, seconds: float) -> None:
        """Makes the wall clock jump, back or forth, as NTP does; the monotonic clock stays."""
        self._wall = seconds
