"""Runs the controllers of a cluster: all of them after every change, and when one has asked to look again."""

import threading
from collections.abc import Callable, Sequence

from outlast.emulate.kubernetes.store import Store
from outlast.emulate.scale import TimeScale

Step = Callable[[], float | None]
_GATHER_SECONDS = 0.002  # changes that come together are looked at together


class Controllers:
    """A thread that takes the steps; each returns after how many of the platform's seconds it is due again."""

    def __init__(self, store: Store, steps: Sequence[Step], scale: TimeScale) -> None:
        self._steps, self._scale = steps, scale
        self._changed, self._stopped = threading.Event(), threading.Event()
        self._error: BaseException | None = None
        self._store = store
        self._subscription = store.subscribe(lambda _: self._changed.set())
        self._thread = threading.Thread(target=self._run, name="outlast-controllers", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Takes no further step; raises what a step raised."""
        self._stopped.set()
        self._changed.set()
        self._thread.join()
        self._store.unsubscribe(self._subscription)
        if self._error is not None:
            raise self._error

    def _run(self) -> None:
        try:
            while not self._stopped.is_set():
                self._changed.clear()
                waits = [seconds for step in self._steps if (seconds := step()) is not None]
                self._changed.wait(self._scale.here(min(waits)) if waits else None)
                self._stopped.wait(_GATHER_SECONDS)
        except Exception as error:
            self._error = error
            raise
