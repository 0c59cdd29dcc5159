"""One object of the Kubernetes API, read first, then watched, and read again whenever the watch ends."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from outlast.clock import Clock
from outlast.disruptions import SourceUnavailable
from outlast.sources.kubernetes_api import Forbidden, Json

_POLL_SECONDS = 15.0  # where the object may be read and not watched
_SHORTEST_WATCH_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class Sight:
    """An object, None where nothing new was seen; `unbroken`: no change since the last sight can have been missed."""

    thing: Json | None
    unbroken: bool
    again_seconds: float = 0.0


class WatchedObject:
    """`read` gives the object, `watch` what happens to it from a resource version on; both raise SourceUnavailable."""

    def __init__(
        self, read: Callable[[], Json], watch: Callable[[str], Iterator[tuple[str, Json]]], clock: Clock
    ) -> None:
        self._read, self._open, self._clock = read, watch, clock
        self._watch: Iterator[tuple[str, Json]] | None = None
        self._watched_since = 0.0
        self._may_watch = True

    def look(self) -> Sight:
        """The object, or the next change of it. Raises what `read` raises."""
        if self._watch is None:
            return self._look_anew()
        watch, self._watch = self._watch, None
        try:
            for kind, thing in watch:
                if kind in ("ADDED", "MODIFIED"):
                    self._watch = watch
                    return Sight(thing, unbroken=True)
        except Forbidden:
            self._may_watch = False
            return Sight(None, unbroken=False, again_seconds=_POLL_SECONDS)
        except SourceUnavailable:
            pass  # expired (410), cut, garbled: it is read again, and a server that is out of order shows there
        # A server that ends each watch at once is not asked without pause.
        lasted = self._clock.monotonic_seconds() - self._watched_since
        return Sight(None, unbroken=False, again_seconds=max(0.0, _SHORTEST_WATCH_SECONDS - lasted))

    def _look_anew(self) -> Sight:
        thing = self._read()
        if not self._may_watch:
            return Sight(thing, unbroken=False, again_seconds=_POLL_SECONDS)
        self._watched_since = self._clock.monotonic_seconds()
        metadata = thing.get("metadata")
        version = metadata.get("resourceVersion") if isinstance(metadata, dict) else None
        self._watch = self._open(version if isinstance(version, str) else "")
        return Sight(thing, unbroken=False)
