"""What containers wrote: kept line by line with its time, as a kubelet keeps it, and followed by readers.

The kubelet appends; the API's `pods/NAME/log` reads. A container that is started again in the same pod has a new
log, and of its earlier ones the last is kept, for `kubectl logs --previous`.
"""

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import NamedTuple

MOST_BYTES = 10 * 1024 * 1024  # a kubelet's default containerLogMaxSize; the oldest lines go


class Line(NamedTuple):
    """One line without its end, and when it was written (UTC)."""

    at: datetime
    text: str


@dataclass(eq=False)
class ContainerLog:
    """The log of one run of one container."""

    lines: list[Line] = field(default_factory=list)
    first: int = 0  # the number of the first line that is still kept
    size: int = 0
    ended: bool = False


class LogBook:
    """Every container's log, by the pod's uid and the container's name. All methods may be called from any thread."""

    def __init__(self, *, most_bytes: int = MOST_BYTES) -> None:
        self._most_bytes = most_bytes
        self._lock = threading.RLock()
        self._logs: dict[tuple[str, str], list[ContainerLog]] = {}
        self._readers: list[Callable[[], object]] = []

    def start(self, pod_uid: str, container: str) -> None:
        """Begins the log of a container that starts, for the first time or again."""
        with self._lock:
            runs = self._logs.setdefault((pod_uid, container), [])
            if runs:
                runs[-1].ended = True
            self._logs[pod_uid, container] = [*runs[-1:], ContainerLog()]
        self._tell()

    def write(self, pod_uid: str, container: str, text: str, *, at: datetime) -> None:
        """Appends one line of a container that has started."""
        with self._lock:
            log = self._logs[pod_uid, container][-1]
            log.lines.append(Line(at, text))
            log.size += len(text) + 1
            while log.size > self._most_bytes and len(log.lines) > 1:
                log.size -= len(log.lines.pop(0).text) + 1
                log.first += 1
        self._tell()

    def end(self, pod_uid: str, container: str) -> None:
        """Says that nothing more will be written: whoever follows the log is done."""
        with self._lock:
            for log in self._logs.get((pod_uid, container), []):
                log.ended = True
        self._tell()

    def forget(self, pod_uid: str) -> None:
        """Drops the logs of a pod that is gone."""
        with self._lock:
            for key in [key for key in self._logs if key[0] == pod_uid]:
                for log in self._logs.pop(key):
                    log.ended = True
        self._tell()

    def find(self, pod_uid: str, container: str, *, previous: bool = False) -> ContainerLog | None:
        """The log of the container's present (or last) run, or of the one before; None if there was no such run."""
        with self._lock:
            runs = self._logs.get((pod_uid, container), [])
            place = 2 if previous else 1
            return runs[-place] if len(runs) >= place else None

    def after(self, log: ContainerLog, number: int) -> tuple[list[Line], int, bool]:
        """The kept lines from a number on, the number to ask for next, and whether none will follow."""
        with self._lock:
            return log.lines[max(0, number - log.first) :], log.first + len(log.lines), log.ended

    def listen(self, wake: Callable[[], object]) -> Callable[[], None]:
        """Calls `wake` after every change, from the thread that wrote; the answer ends that."""
        with self._lock:
            self._readers = [*self._readers, wake]

        def stop() -> None:
            with self._lock:
                self._readers = [one for one in self._readers if one is not wake]

        return stop

    def _tell(self) -> None:
        for wake in self._readers:
            wake()
