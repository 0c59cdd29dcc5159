"""What a worker does, told to the rehearsal that runs it; to nobody else, so that it costs nothing elsewhere."""

from outlast.events import Event, append_event, to_line
from outlast.settings import EVENTS_FILE, Surroundings


class Telling:
    """Writes events to the file that a rehearsal reads, if there is one."""

    def __init__(self, around: Surroundings) -> None:
        self._clock, self._file = around.clock, around.env.get(EVENTS_FILE)

    def tell(self, event: Event) -> None:
        """Tells it, durable for every reader of this machine when it returns."""
        if self._file:
            append_event(self._file, to_line(event, self._clock))
