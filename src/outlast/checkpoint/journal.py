"""An attempt's journal: its events as JSON lines in the store, for status, goodput and the crash-loop check."""

import os
from collections.abc import Mapping
from contextlib import suppress
from threading import Lock

from outlast.checkpoint.places import TaskPlace
from outlast.errors import CheckpointCorrupt, ObjectMissing, StoreUnreachable
from outlast.events import Event, Logged, LoopStarted, Recorded, Restored, from_lines, to_line
from outlast.ports import Store
from outlast.settings import EVENTS_FILE, Surroundings


def append_event(path: str | None, line: bytes) -> None:
    """Adds a line, in one write, to the events file that a rehearsal watches; None for no such file."""
    if not path:
        return
    handle = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o666)
    try:
        os.write(handle, line)
    finally:
        os.close(handle)


_MOST_WAITING = 1000  # lines kept for a storage that does not answer


class Journal:
    """Records events. A journal that cannot be written is no reason to stop a job: it says so once."""

    def __init__(self, store: Store, place: TaskPlace, attempt: int, around: Surroundings) -> None:
        self._store, self._name, self._around = store, place.journal(attempt), around
        self.cheap = store.traits.local  # whether a line may be written while the training waits
        self._lock, self._writing = Lock(), Lock()
        self._waiting: list[bytes] = []
        self._warned = self._torn = False

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
        with self._lock:
            self._waiting.append(to_line(event, self._around.clock))

    def _show(self, event: Event) -> None:
        """Keeps an event, and shows it to a rehearsal at once."""
        line = to_line(event, self._around.clock)
        try:
            append_event(self._around.env.get(EVENTS_FILE), line)
        except OSError as error:
            self._warn(str(error))
        with self._lock:
            self._waiting.append(line)

    def flush(self) -> None:
        """Writes what waits."""
        with self._writing:
            with self._lock:  # held for no longer: whoever only keeps an event must not wait for a bucket
                lines, self._waiting = self._waiting, []
            if not lines:
                return
            try:
                # After a failure the journal may end in half a line, which must not swallow the next one.
                self._store.append(self._name, b"\n" * self._torn + b"".join(lines))
            except (StoreUnreachable, CheckpointCorrupt) as error:
                self._torn = True
                with self._lock:
                    self._waiting = (lines + self._waiting)[-_MOST_WAITING:]
                self._warn(str(error))
            else:
                self._torn = False

    def _warn(self, reason: str) -> None:
        if not self._warned:
            self._around.console.warning(f"the journal is not being written: {reason}")
        self._warned = True


def read_journals(store: Store, place: TaskPlace) -> dict[int, list[Recorded]]:
    """The events of each attempt that has a journal which can be read."""
    journals = {}
    for entry in store.list(place.journals):
        attempt = place.journal_of(entry.name)
        if attempt is not None:
            with suppress(ObjectMissing, CheckpointCorrupt, StoreUnreachable):  # it only tells; nothing rests on it
                journals[attempt] = from_lines(store.read(entry.name))
    return journals


def logged_numbers(journals: Mapping[int, list[Recorded]]) -> list[tuple[int, dict[str, float]]]:
    """What `job.log` was given, by step, rewound: what an attempt logged past the point where a later one resumed
    is dropped, since the later one did those steps again."""
    numbers: dict[int, dict[str, float]] = {}
    for attempt in sorted(journals):
        events = [recorded.event for recorded in journals[attempt]]
        began = [event.step for event in events if isinstance(event, Restored | LoopStarted)]
        if not began:
            continue  # it ended before it did a step
        resumed = began[0]
        numbers = {step: values for step, values in numbers.items() if step < resumed}
        for event in events:
            if isinstance(event, Logged):
                numbers.setdefault(event.step, {}).update({name: float(value) for name, value in event.values.items()})
    return sorted(numbers.items())
