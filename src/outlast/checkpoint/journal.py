"""Writing an attempt's journal: its events as JSON lines in the store, for status, goodput and the crash-loop check."""

from threading import Lock

from outlast.checkpoint.places import TaskPlace
from outlast.checkpoint.shorten import thinned_lines, write_short
from outlast.errors import CheckpointCorrupt, ObjectMissing, StoreUnreachable
from outlast.events import Event, append_event, to_line
from outlast.ports import Pace, Store, full_speed
from outlast.settings import EVENTS_FILE, Surroundings
from outlast.telemetry.choice import telemetry_of_job

_MOST_WAITING = 1000  # lines kept for a storage that does not answer
_MOST_UNWRITTEN = 40_000  # lines kept until the next event that is written; beyond, logged numbers are thinned
# A journal is shortened when it has grown by so much; on a bucket also after so many appends, each an object there.
_SHORTEN_BYTES = 4 << 20
_SHORTEN_APPENDS = 128


class Journal:
    """Records events. A journal that cannot be written is no reason to stop a job: it says so once."""

    def __init__(self, store: Store, place: TaskPlace, attempt: int, around: Surroundings) -> None:
        self._store, self._place, self._attempt, self._around = store, place, attempt, around
        self.cheap = store.traits.local  # whether a line may be written while the training waits
        self._lock, self._writing = Lock(), Lock()
        self._waiting: list[bytes] = []
        self._warned = self._torn = False
        self._part = self._bytes = self._appends = 0
        self._limit_bytes = _SHORTEN_BYTES
        self.written_at = around.clock.monotonic_seconds()  # when something was last written
        self.listener = telemetry_of_job(around, place, attempt)

    @property
    def failing(self) -> bool:
        """Whether the storage did not take the last lines."""
        return self._torn

    def record(self, event: Event) -> None:
        """Writes an event, and those that wait, now."""
        self._show(event)
        self.flush()

    def record_soon(self, event: Event) -> None:
        """Writes an event now where that takes no time, on a bucket with the next one; a kill before loses it."""
        self._show(event)
        if self.cheap:
            self.flush()

    def record_later(self, event: Event) -> None:
        """Keeps an event until the next one that is written; a kill before loses it."""
        self._tell(event)
        with self._lock:
            self._waiting.append(to_line(event, self._around.clock))
            if len(self._waiting) > _MOST_UNWRITTEN:
                self._waiting = thinned_lines(self._waiting, _MOST_UNWRITTEN // 2)

    def _show(self, event: Event) -> None:
        """Keeps an event, and shows it to a rehearsal at once."""
        self._tell(event)
        line = to_line(event, self._around.clock)
        try:
            append_event(self._around.env.get(EVENTS_FILE), line)
        except OSError as error:
            self._warn(str(error))
        with self._lock:
            self._waiting.append(line)

    def _tell(self, event: Event) -> None:
        if self.listener is not None:
            self.listener.hear(event)

    def flush(self) -> None:
        """Writes what waits."""
        with self._writing:
            with self._lock:  # held for no longer: whoever only keeps an event must not wait for a bucket
                lines, self._waiting = self._waiting, []
            if not lines:
                return
            # After a failure the journal may end in half a line, which must not swallow the next one.
            data = b"\n" * self._torn + b"".join(lines)
            try:
                self._store.append(self._place.journal(self._attempt, self._part), data)
            except (StoreUnreachable, CheckpointCorrupt) as error:
                self._torn = True
                with self._lock:
                    self._waiting = (lines + self._waiting)[-_MOST_WAITING:]
                self._warn(str(error))
            else:
                self._torn = False
                self._bytes, self._appends = self._bytes + len(data), self._appends + 1
                self.written_at = self._around.clock.monotonic_seconds()

    def shorten_if_long(self, pace: Pace = full_speed) -> None:
        """Writes the journal anew without the lines that nobody needs, if it has grown much; takes up to a second.

        For the thread that saves; `pace` is called on the way, and may give it up by raising. Others go on appending
        meanwhile, to the next part. A death on the way leaves the old parts, which count as long as what stands for
        them is not there whole.
        """
        appends = 0 if self.cheap else self._appends
        if self._bytes < self._limit_bytes and appends < _SHORTEN_APPENDS:
            return
        with self._writing:
            self._part, self._bytes, self._appends = self._part + 1, 0, 0
        try:
            size = write_short(self._store, self._place, self._attempt, self._part, pace=pace)
        except (StoreUnreachable, CheckpointCorrupt, ObjectMissing) as error:
            self._around.console.warning(f"the journal could not be shortened: {error}")
        else:
            self._limit_bytes = max(_SHORTEN_BYTES, 2 * size)

    def _warn(self, reason: str) -> None:
        if not self._warned:
            self._around.console.warning(f"the journal is not being written: {reason}")
        self._warned = True
