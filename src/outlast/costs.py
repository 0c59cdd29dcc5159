"""What the saves of a job take, as it has measured them."""

from collections import deque
from dataclasses import dataclass, replace

from outlast.checkpoint.record import CommitRecord
from outlast.planning.estimates import Times, transfer_times
from outlast.planning.planner import Candidate, SaveKind

_KEPT = 100
_ASSUMED_BYTES_PER_SECOND = 200e6  # until a save has been measured: a disk or a bucket of the slower kind
# The next save writes no larger share of the state than the largest of so many before it, is the assumption.
_RECENT = 3
_ALIKE = 2.0  # shares within this factor are
# One request in a hundred is several times as slow as the others, and fewer saves than this need not have met one:
# until then a save may take so many times what it usually takes, however alike those before were.
_SHOWN_BY, _SLOW_TIMES = 99, 2.0


@dataclass(frozen=True, slots=True)
class _Measured:
    bytes: int
    share: float  # of it that was written
    seconds: float


class SaveCosts:
    """How long a save takes without a limit on its rate. Filled by whichever thread has saved.

    By the size of the state, not by what is written, since all of it is hashed; but only from saves that wrote a
    like share of it.
    """

    def __init__(self, state_bytes: int) -> None:
        self._state_bytes = state_bytes
        self._measured: deque[_Measured] = deque(maxlen=_KEPT)
        self.count = 0  # of all that were measured
        self.writes_all = True  # the last save, so that the next one may
        self.at_full_speed = False  # whether what was measured is not more than a save takes

    def note(self, record: CommitRecord, *, took_seconds: float, waited_seconds: float = 0.0) -> None:
        """A save is durable, after `took_seconds` in all; for so long it only waited, to keep to its rate."""
        self._state_bytes = record.total_bytes
        # Where several objects are written at a time, one may wait while another is written.
        alone = sum(record.name.text in file.name for file in record.files) <= 1  # the others are of earlier saves
        share = record.written_bytes / max(record.total_bytes, 1)
        seconds = max(took_seconds - (waited_seconds if alone else 0.0), 0.0)
        self._measured.append(_Measured(record.total_bytes, share, seconds))
        self.count += 1
        self.at_full_speed = alone or waited_seconds == 0.0
        self.writes_all = record.written_bytes >= record.total_bytes

    @property
    def known(self) -> bool:
        """Whether a save was measured."""
        return bool(self._measured)

    def next_save(self) -> Times:
        """How long the next save may take; infinite at its p99 where nothing was measured."""
        assumed = self._state_bytes / _ASSUMED_BYTES_PER_SECOND
        measured = transfer_times(self._state_bytes, measured=self._alike())
        if measured is None:
            return Times(0, assumed, assumed, float("inf"))
        if measured.count >= _SHOWN_BY:
            return measured
        return replace(measured, p99_seconds=max(measured.p99_seconds, _SLOW_TIMES * measured.p50_seconds))

    def candidates(self, step: int, *, in_flight: int | None) -> list[Candidate]:
        """A save of the state now, at `step`; first the one under way of step `in_flight`, if there is one."""
        took, found = self.next_save(), []
        waits_p50 = waits_p99 = 0.0
        if in_flight is not None:
            waits_p50, waits_p99 = took.p50_seconds, took.p99_seconds
            found.append(
                Candidate(kind=SaveKind.IN_FLIGHT, step=in_flight, p99_seconds=waits_p99, p50_seconds=waits_p50)
            )
        found.append(
            Candidate(
                kind=SaveKind.FULL if self.writes_all else SaveKind.INCREMENTAL,
                step=step,
                p99_seconds=waits_p99 + took.p99_seconds,
                p50_seconds=waits_p50 + took.p50_seconds,
            )
        )
        return found

    def _alike(self) -> list[tuple[int, float]]:
        """(bytes, seconds) of the saves that the next one may be like."""
        known = list(self._measured)
        share = max((one.share for one in known[-_RECENT:]), default=1.0)
        return [(one.bytes, one.seconds) for one in known if share / _ALIKE <= one.share <= share * _ALIKE]
