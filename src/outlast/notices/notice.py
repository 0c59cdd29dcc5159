"""What a job is told of its end: who said so, why, and until when."""

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Literal

from outlast.clock import Clock, Deadline

# No calendar goes further, and no notice is worth more than saying "far away".
_FARTHEST_SECONDS = 366 * 24 * 3600.0


@dataclass(frozen=True, slots=True)
class Notice:
    """A warning that this process will be ended.

    `source` is what said so ("SIGTERM", "gce-metadata maintenance-event"), `deadline` when the process may be gone
    (UTC), `grace_seconds` what was left until then when it was heard, `heard_monotonic_seconds` when that was on the
    monotonic clock. `kind` is "final" when the platform has begun to end the process, and "advance" when it has
    announced that it will: such a notice may be revoked. The merged notice is final as soon as anything is, and has
    the source, the reason and the deadline of whatever ends first.
    """

    source: str
    reason: str
    grace_seconds: float
    deadline: datetime
    heard_monotonic_seconds: float
    _until: Deadline
    _clock: Clock
    kind: Literal["final", "advance"] = "final"

    @property
    def remaining_seconds(self) -> float:
        """Seconds until the deadline, never below 0."""
        return self._until.remaining_seconds(self._clock)

    @property
    def until(self) -> Deadline:
        """The deadline on the monotonic clock."""
        return self._until


def make_notice(
    source: str, reason: str, grace_seconds: float, clock: Clock, *, kind: Literal["final", "advance"] = "final"
) -> Notice:
    """A notice heard now, which leaves `grace_seconds`."""
    heard = clock.monotonic_seconds()
    grace_seconds = min(max(0.0, grace_seconds), _FARTHEST_SECONDS)
    return Notice(
        source=source,
        reason=reason,
        grace_seconds=grace_seconds,
        deadline=datetime.fromtimestamp(clock.wall_seconds() + grace_seconds, UTC),
        heard_monotonic_seconds=heard,
        _until=Deadline(heard + grace_seconds),
        _clock=clock,
        kind=kind,
    )
