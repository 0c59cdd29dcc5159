"""What is wanted of the next save: what the program asked for, and what saves that failed have left undone."""

import math
from collections.abc import Mapping

from outlast.checkpoint.attempt import Wishes
from outlast.clock import Clock

# After a failure the next border tries again; after more, pauses that double, up to a minute.
_FIRST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS = 0.05, 60.0
_MOST_DOUBLINGS = 12


class Wanted:
    """The wishes for one job's saves. `requested`: the program's wish, None, or whether the checkpoint is to be pinned;
    `overdue`: a save has failed, and is to be made up for.
    """

    def __init__(self, clock: Clock) -> None:
        self.requested: bool | None = None
        self.overdue = False
        self._clock, self._metrics = clock, dict[str, float]()
        self._failures, self._retry_at = 0, 0.0

    def ask(self, *, pinned: bool) -> None:
        """A save at the coming border."""
        self.requested = pinned or bool(self.requested)

    def forget(self) -> None:
        """No save is asked for any more, nor is the one that failed to be made up for."""
        self.requested, self.overdue = None, False

    def log(self, numbers: Mapping[str, float]) -> None:
        """Keeps the numbers that go into the next commit record; one that is not finite takes the earlier one away."""
        for name, value in numbers.items():
            self._metrics[name] = value
            if not math.isfinite(value):
                del self._metrics[name]

    def take(self) -> Wishes:
        """What was asked for since the last save: this one is to do it."""
        wishes = Wishes(self.requested is not None, bool(self.requested), dict(self._metrics))
        self.forget()
        self._metrics.clear()
        return wishes

    def failed(self, wishes: Wishes) -> None:
        """What the save was to do stays to be done."""
        self.overdue = True
        if wishes.asked:
            self.ask(pinned=wishes.pinned)
        self._metrics = {**wishes.metrics, **self._metrics}
        # No higher than it needs to be: after a thousand failures a doubled pause would be no float any more.
        self._failures = min(self._failures + 1, _MOST_DOUBLINGS)
        pause = min(_FIRST_PAUSE_SECONDS * (2**self._failures - 2), _LONGEST_PAUSE_SECONDS)
        self._retry_at = self._clock.monotonic_seconds() + pause

    def succeeded(self) -> None:
        """The storage takes saves again, if it did not."""
        self._failures, self._retry_at = 0, 0.0

    @property
    def failing(self) -> bool:
        """Whether the last save failed."""
        return self._failures > 0

    @property
    def may_try(self) -> bool:
        """Whether the pause after a failure is over."""
        return self._clock.monotonic_seconds() >= self._retry_at
