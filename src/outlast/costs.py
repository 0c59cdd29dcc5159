"""What the saves of a job take, as it has measured them."""

from collections import deque

from outlast.checkpoint.record import CommitRecord
from outlast.planning.estimates import Times, transfer_times

_KEPT = 100
_ASSUMED_BYTES_PER_SECOND = 200e6  # until a save has been measured: a disk or a bucket of the slower kind


class SaveCosts:
    """How long a save takes without a limit on its rate. Filled by whichever thread has saved.

    By the size of the state, not by what is written: all of it is hashed, however little has changed.
    """

    def __init__(self, state_bytes: int) -> None:
        self._state_bytes = state_bytes
        self._measured: deque[tuple[int, float]] = deque(maxlen=_KEPT)
        self.writes_all = True  # the last save, so that the next one may
        self.at_full_speed = False  # whether what was measured is not more than a save takes

    def note(self, record: CommitRecord, *, waited_seconds: float) -> None:
        """A save is durable; for so long it only waited, to keep to its rate."""
        self._state_bytes = record.total_bytes
        # Where several objects are written at a time, one may wait while another is written.
        alone = len(record.files) == 1
        self._measured.append((record.total_bytes, max(record.seconds - (waited_seconds if alone else 0.0), 0.0)))
        self.at_full_speed = alone or waited_seconds == 0.0
        self.writes_all = record.written_bytes >= record.total_bytes

    @property
    def known(self) -> bool:
        """Whether a save was measured."""
        return bool(self._measured)

    def next_save(self) -> Times:
        """How long the next save may take; infinite at its p99 where nothing was measured."""
        assumed = self._state_bytes / _ASSUMED_BYTES_PER_SECOND
        measured = transfer_times(self._state_bytes, measured=list(self._measured))
        return measured or Times(0, assumed, assumed, float("inf"))
