"""What a worker does, told to the rehearsal that runs it and to monitoring systems, where they are wanted."""

from outlast.events import Event, append_event, to_line
from outlast.settings import EVENTS_FILE, Surroundings
from outlast.telemetry.choice import telemetry_of_worker


class Telling:
    """Writes events to the file that a rehearsal reads, and tells telemetry, if there is either.

    `queue`: the URL of what the worker works through.
    """

    def __init__(self, around: Surroundings, queue: str) -> None:
        self._clock, self._file = around.clock, around.env.get(EVENTS_FILE)
        self._telemetry = telemetry_of_worker(around, queue)

    def tell(self, event: Event) -> None:
        """Tells it, durable for every reader of this machine when it returns."""
        if self._file:
            append_event(self._file, to_line(event, self._clock))
        if self._telemetry is not None:
            self._telemetry[0].hear(event)

    def failed(self, items: int) -> None:
        """So many items have failed."""
        if self._telemetry is not None:
            self._telemetry[1](items)

    def close(self) -> None:
        """The worker ends, or its process does: what is left is told, if there is time."""
        if self._telemetry is not None:
            self._telemetry[0].close()
