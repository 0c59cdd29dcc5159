"""One object of the Kubernetes API, read first, then watched, and read again whenever the watch ends."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from outlast.clock import Clock
from outlast.disruptions import SourceUnavailable
from outlast.sources.kubernetes_api import Forbidden, Json, part, text

_POLL_SECONDS = 15.0  # where the object may be read and not watched
_SHORTEST_WATCH_SECONDS = 5.0
_WITHOUT_RIGHT_SECONDS = 300.0  # until watching is tried again: a right may be given later, or a refusal be a fault
# A kubelet reports every 10 s at most. What comes faster than this for long is read every 5 s instead.
_QUICK_CHANGES, _CHANGES_A_SECOND = 20, 2.0


@dataclass(frozen=True, slots=True)
class Sight:
    """An object, None where nothing new was seen; `unbroken`: no change since the last sight can have been missed."""

    thing: Json | None
    unbroken: bool
    again_seconds: float = 0.0


class WatchedObject:
    """The object of a name: `read` gives it, `watch` what happens to it from a resource version on.

    Both raise SourceUnavailable. An object of another name is not believed.
    """

    def __init__(
        self, name: str, read: Callable[[], Json], watch: Callable[[str], Iterator[tuple[str, Json]]], clock: Clock
    ) -> None:
        self._name, self._read, self._open, self._clock = name, read, watch, clock
        self._watch: Iterator[tuple[str, Json]] | None = None
        self._watched_since, self._changes = 0.0, 0
        self._may_watch_from: float | None = None

    def look(self) -> Sight:
        """The object, or the next change of it. Raises what `read` raises."""
        if self._watch is None:
            return self._look_anew()
        watch, self._watch = self._watch, None
        try:
            for kind, thing in watch:
                self._changes += 1
                if self._is_flooded():
                    break
                if kind in ("ADDED", "MODIFIED") and _metadata(thing, "name") == self._name:
                    self._watch = watch
                    return Sight(thing, unbroken=True)
        except Forbidden:
            self._may_watch_from = self._clock.monotonic_seconds() + _WITHOUT_RIGHT_SECONDS
            return Sight(None, unbroken=False, again_seconds=_POLL_SECONDS)
        except SourceUnavailable:
            pass  # expired (410), cut, garbled: it is read again, and a server that is out of order shows there
        # A server that ends each watch at once is not asked without pause.
        lasted = self._clock.monotonic_seconds() - self._watched_since
        return Sight(None, unbroken=False, again_seconds=max(0.0, _SHORTEST_WATCH_SECONDS - lasted))

    def _is_flooded(self) -> bool:
        lasted = self._clock.monotonic_seconds() - self._watched_since
        return self._changes > _QUICK_CHANGES + _CHANGES_A_SECOND * lasted

    def _look_anew(self) -> Sight:
        thing = self._read()
        if _metadata(thing, "name") != self._name:
            raise SourceUnavailable(f"the API server answers with something else than {self._name!r}")
        now = self._clock.monotonic_seconds()
        if self._may_watch_from is not None and now < self._may_watch_from:
            return Sight(thing, unbroken=False, again_seconds=_POLL_SECONDS)
        self._watched_since, self._changes = now, 0
        self._watch = self._open(_metadata(thing, "resourceVersion"))
        return Sight(thing, unbroken=False)


def _metadata(thing: Json, name: str) -> str:
    return text(part(thing, "metadata").get(name))
