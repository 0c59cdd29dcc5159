"""How long items take, and so whether one still fits before a deadline."""

import math
from collections import deque

_REMEMBERED = 200
_LEAST = 3


class ItemTimes:
    """Durations of past work. One estimate for all items of a queue: they go through the same function."""

    def __init__(self) -> None:
        self._seconds: deque[float] = deque(maxlen=_REMEMBERED)

    def note(self, seconds: float, items: int) -> None:
        """So many items took so long together."""
        if items > 0:
            self._seconds.append(seconds / items)

    def p95_seconds(self, items: int) -> float | None:
        """What so many items rarely exceed; None while too little is known."""
        if len(self._seconds) < _LEAST:
            return None
        ordered = sorted(self._seconds)
        return items * ordered[math.ceil(0.95 * len(ordered)) - 1]
