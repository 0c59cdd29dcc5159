"""Whether a process may have been asked to tell monitoring systems of itself; all else is imported only then."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from outlast.checkpoint.places import TaskPlace
from outlast.events import Event
from outlast.settings import Surroundings

if TYPE_CHECKING:
    from outlast.telemetry.pipe import Telemetry
    from outlast.telemetry.wanted import Wanted

METRICS_PORT = "OUTLAST_METRICS_PORT"  # where Prometheus may ask this process: PORT, or ADDRESS:PORT
ENDPOINT = "OTEL_EXPORTER_OTLP_ENDPOINT"
METRICS_ENDPOINT, TRACES_ENDPOINT = "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"
_ASKED_BY = (METRICS_PORT, ENDPOINT, METRICS_ENDPOINT, TRACES_ENDPOINT)


class Watched(Protocol):
    """A job, as far as its numbers want to know more than events tell."""

    @property
    def completed_steps(self) -> int: ...


class Listener(Protocol):
    """What a journal tells its events."""

    def hear(self, event: Event) -> None:
        """One more event; returns at once."""
        ...

    def watch(self, job: Watched) -> None:
        """From now on the number of completed steps is read there, if it is still there."""
        ...


def telemetry_of_job(around: Surroundings, place: TaskPlace, attempt: int) -> Listener | None:
    """What hears the events of an attempt; None where nobody asks for it. The first of several ranks speaks for all."""
    asked = None if around.rank else _asked(around)
    if asked is None:
        return None
    from outlast.telemetry.starting import start_job  # noqa: PLC0415 - most jobs tell nobody, and start without

    return start_job(around, asked, place, attempt)


def telemetry_of_worker(around: Surroundings, queue: str) -> "tuple[Telemetry, Callable[[int], None]] | None":
    """The same for a worker at the queue of that URL; with it what counts failed items."""
    asked = _asked(around)
    if asked is None:
        return None
    from outlast.telemetry.starting import start_worker  # noqa: PLC0415 - as above

    return start_worker(around, asked, queue)


def _asked(around: Surroundings) -> "Wanted | None":
    if not any(around.env.get(name) for name in _ASKED_BY):
        return None
    from outlast.telemetry.wanted import wanted  # noqa: PLC0415 - as above

    return wanted(around.env) or None
