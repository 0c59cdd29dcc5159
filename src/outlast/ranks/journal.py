"""The journal of a rank that is not the first: a few lines beside that of the attempt, which the leader writes."""

from dataclasses import replace
from threading import Lock

from outlast.checkpoint.places import TaskPlace
from outlast.clock import Clock
from outlast.errors import CheckpointCorrupt, StoreUnreachable
from outlast.events import (
    Crashed,
    Event,
    Failed,
    NoticeHeard,
    RestoreChecked,
    Restored,
    SaveFailed,
    Stopped,
    append_event,
    to_line,
)
from outlast.ports import Pace, Store, full_speed

_WRITTEN = Crashed | Failed | NoticeHeard | Restored | SaveFailed | Stopped
_MOST_LINES = 1000  # of a rank; each is an object on a bucket


class MemberJournal:
    """What is told of a rank by itself; all else of the attempt stands in the leader's journal."""

    def __init__(
        self, store: Store, place: TaskPlace, attempt: int, rank: int, clock: Clock, *, shown_in: str | None = None
    ) -> None:
        """`shown_in`: the file that a rehearsal watches, if one does."""
        self._store, self._clock, self._rank, self._shown_in = store, clock, rank, shown_in
        self._name = place.member_journal(attempt, rank)
        self._lock, self._lines = Lock(), 0
        self.cheap = store.traits.local
        self.failing = False
        self.written_at = clock.monotonic_seconds()
        self.listener = None  # the leader's journal tells for all

    def record(self, event: Event) -> None:
        """Writes an event now, if it is of those that count."""
        self.written_at = self._clock.monotonic_seconds()
        self._show(event)
        if not isinstance(event, _WRITTEN):
            return
        with self._lock:
            self._lines += 1
            if self._lines > _MOST_LINES:
                return
            try:
                self._store.append(self._name, to_line(event, self._clock))
            except (StoreUnreachable, CheckpointCorrupt):
                self.failing = True
            else:
                self.failing = False

    def _show(self, event: Event) -> None:
        """A rehearsal is told what each rank restored, and when the first of all heard a notice."""
        if isinstance(event, RestoreChecked):
            event = replace(event, different=[f"rank {self._rank}: {name}" for name in event.different])
        elif not isinstance(event, NoticeHeard):
            return
        try:
            append_event(self._shown_in, to_line(event, self._clock))
        except OSError:
            self.failing = True

    def record_soon(self, event: Event) -> None:
        """The same: what counts is rare."""
        self.record(event)

    def record_later(self, event: Event) -> None:
        """What may be written later is nothing that counts."""

    def flush(self) -> None:
        """Nothing waits."""

    def shorten_if_long(self, pace: Pace = full_speed) -> None:
        """It does not grow long."""
