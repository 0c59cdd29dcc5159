"""The moments that platforms name, on our own clocks: what is over, what is near, what is far."""

from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

from outlast.clock import Clock, Deadline
from outlast.disruptions import Disruption

# The longest notice of any platform is that of GPU hosts, 60 min (2026-11-29). What lies further ahead is a plan.
NEAR_SECONDS = 3600.0
# Machines' clocks differ, and an event may start later than it was said; what is older than this is no event any more.
STALE_SECONDS = 600.0
# What a server's Date, of whole seconds, and the way of its answer cannot tell from our own clock.
_SAME_SECONDS = 30.0


class Moments:
    """Turns named moments into deadlines, each once: a wall clock that is set later on moves none of them.

    They are on the clock of the server that names them, which may be hours away from ours.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._ahead_seconds = 0.0
        self._deadlines: dict[float, Deadline] = {}

    def hear_date(self, date: str | None) -> None:
        """What the server's clock says: the header Date of its answer. Without it ours counts."""
        says = parse_moment(date)
        ahead = 0.0 if says is None else says - self._clock.wall_seconds()
        self._ahead_seconds = ahead if abs(ahead) > _SAME_SECONDS else 0.0

    def seconds_to(self, wall_seconds: float) -> float:
        """Until a moment, below 0 when it is over."""
        return self._of(wall_seconds).at_monotonic_seconds - self._clock.monotonic_seconds()

    def judge(self, planned: Disruption, wall_seconds: float) -> Disruption:
        """What is announced for a moment, given that moment.

        Far ahead it is advice, and so it is when it should have been long ago, for the machine still runs. A moment
        that has just passed says that it may happen now, and not when: the deadline is unknown.
        """
        left = self.seconds_to(wall_seconds)
        if left > NEAR_SECONDS:
            return Disruption(planned.key, f"{planned.reason} at {moment_text(wall_seconds)}", "advisory")
        if left < -STALE_SECONDS:
            why = f"{planned.reason} at {moment_text(wall_seconds)}, which is long over and not believed"
            return Disruption(planned.key, why, "advisory")
        return Disruption(planned.key, planned.reason, planned.kind, self._of(wall_seconds) if left > 0 else None)

    def _of(self, wall_seconds: float) -> Deadline:
        if wall_seconds not in self._deadlines:
            if len(self._deadlines) > 1000:  # of a server that names new moments all the time
                self._deadlines.clear()
            left = wall_seconds - self._ahead_seconds - self._clock.wall_seconds()
            self._deadlines[wall_seconds] = Deadline(self._clock.monotonic_seconds() + left)
        return self._deadlines[wall_seconds]


def parse_moment(text: object) -> float | None:
    """Seconds since the epoch of ISO 8601 ("2026-06-23T02:30:00Z"), of RFC 1123 or of an epoch number; else None."""
    if not isinstance(text, str) or not 0 < len(text.strip()) < 64:
        return None
    text = text.strip()
    if text.isascii() and text.isdigit():
        return float(text) if len(text) < 13 else None
    for parse in (datetime.fromisoformat, parsedate_to_datetime):
        try:
            moment = parse(text)
            return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
        except (ValueError, OverflowError, TypeError, IndexError):
            continue
    return None


def moment_text(wall_seconds: float) -> str:
    """A moment for people."""
    try:
        return datetime.fromtimestamp(wall_seconds, UTC).isoformat(timespec="seconds")
    except (ValueError, OverflowError, OSError):
        return "a moment that no calendar has"
