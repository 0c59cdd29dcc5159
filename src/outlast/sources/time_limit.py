"""The time limit of an attempt that is known beforehand: a notice that no server has to give.

It comes late enough that a job which stops at a notice (`use_grace=False`) loses little, and early enough that one
which trains on has time for its final save: a twentieth of what was left at the start, between 2 min and 1 h, and never
more than a quarter of it.
"""

from collections.abc import Callable

from outlast.clock import Clock
from outlast.disruptions import Disruption, Look, NoticeSource, SourceUnavailable
from outlast.limits import TimeLimit
from outlast.settings import Surroundings

_SHARE, _LEAST_SECONDS, _MOST_SECONDS, _MOST_SHARE = 0.05, 120.0, 3600.0, 0.25
_LONGEST_SLEEP_SECONDS = 600.0
_UNKNOWN_SECONDS = 5.0  # a limit that is still to be read somewhere


class TimeLimitSource:
    """Announces the limit that `find_limit` gives, which may be known later, or change."""

    def __init__(self, find_limit: Callable[[], TimeLimit | None], clock: Clock, *, name: str = "time-limit") -> None:
        self.name = name
        self._find_limit, self._clock = find_limit, clock
        self._limit: TimeLimit | None = None
        self._lead_seconds = 0.0

    def look(self) -> Look:
        """The limit, when it is near."""
        limit = self._find_limit()
        if limit is None:
            return Look((), _UNKNOWN_SECONDS)
        left = limit.until.at_monotonic_seconds - self._clock.monotonic_seconds()
        if limit != self._limit:
            if left <= 0:
                why = f"the time limit ({limit.source}) was over before it was known, and is not believed"
                raise SourceUnavailable(why, absent=True, told=True)
            self._limit, self._lead_seconds = limit, lead_seconds(left)
        if left > self._lead_seconds:
            return Look((), min(left - self._lead_seconds, _LONGEST_SLEEP_SECONDS))
        reason = f"the attempt's time limit ({limit.source})"
        return Look((Disruption("limit", reason, "advance", limit.until),), _LONGEST_SLEEP_SECONDS)


def lead_seconds(left: float) -> float:
    """How long before a limit it is announced, where so much time was left when it became known."""
    return min(max(_SHARE * left, _LEAST_SECONDS), _MOST_SECONDS, _MOST_SHARE * left)


def time_limit_sources(surroundings: Surroundings) -> list[NoticeSource]:
    """The earliest limit that the environment tells of; none where it tells of none."""
    limit = surroundings.time_limit
    return [TimeLimitSource(lambda: limit, surroundings.clock)] if limit is not None else []
