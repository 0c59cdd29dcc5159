"""What the saves of a job cost, as it has measured them: the planner's and the schedule's figures."""

from collections import deque

from outlast.checkpoint.record import CommitRecord
from outlast.planning.estimates import Times, transfer_times

_KEPT = 100
_ASSUMED_BYTES_PER_SECOND = 200e6  # until a save has been measured: a disk or a bucket of the slower kind
_RECENT = 3  # saves that say how much of the state changes from one to the next


class SaveCosts:
    """How long a save takes at full speed. Filled by whichever thread has saved, asked by the loop's."""

    def __init__(self, state_bytes: int) -> None:
        self._state_bytes = state_bytes
        self._measured: deque[tuple[int, float]] = deque(maxlen=_KEPT)
        self._shares: deque[float] = deque(maxlen=_RECENT)

    def note(self, record: CommitRecord, *, waited_seconds: float) -> None:
        """A save is durable; for so long it only waited, to keep to its rate."""
        self._state_bytes = record.total_bytes
        # Where several objects are written at a time, one of them may wait while another is written.
        idle = waited_seconds if len(record.files) == 1 else 0.0
        self._measured.append((record.written_bytes, max(record.seconds - idle, 0.0)))
        self._shares.append(record.written_bytes / max(record.total_bytes, 1))

    @property
    def known(self) -> bool:
        """Whether a save was measured."""
        return bool(self._measured)

    @property
    def written_share(self) -> float:
        """How much of the state the next save may have to write, from 0 to 1."""
        return min(max(self._shares, default=1.0), 1.0)

    def next_save(self) -> Times:
        """How long the next save may take; infinite at its p99 where nothing was measured."""
        size = round(self._state_bytes * self.written_share)
        assumed = size / _ASSUMED_BYTES_PER_SECOND
        return transfer_times(size, measured=list(self._measured)) or Times(0, assumed, assumed, float("inf"))
