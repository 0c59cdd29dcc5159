"""Reads what is watched, each thing in a thread of its own, and as often as it is cheap to read."""

import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from outlast.errors import OutlastError

_SHARE = 0.1  # of the time may go into reading, at most
_MOST_SECONDS = 300.0
_AFTER_ERRORS = (1, 2, 4, 8)  # times as long, while nothing answers

Read = TypeVar("Read")


@dataclass(frozen=True, slots=True)
class Reading(Generic[Read]):
    """The last thing that was read, `at` on the monotonic clock, and what has gone wrong since; None: nothing yet."""

    value: Read | None = None
    at: float = 0.0
    problem: str = ""

    @property
    def known(self) -> bool:
        """Whether there is anything to tell."""
        return self.value is not None or bool(self.problem)


def wait_seconds(cost_seconds: float, *, least: float, failures: int = 0) -> float:
    """How long to wait before the next reading, when the last one took `cost_seconds`: at least `least`."""
    pause = max(least, cost_seconds / _SHARE)
    return min(_MOST_SECONDS, pause * _AFTER_ERRORS[min(failures, len(_AFTER_ERRORS) - 1)])


def stopped(pollers: "Iterable[Poller[Any]]", seconds: float) -> bool:
    """Stops all of them, within so many seconds; whether each has ended."""
    every = list(pollers)
    for poller in every:
        poller.stop(0.0)
    until = time.monotonic() + seconds
    return all(poller.stop(max(0.0, until - time.monotonic())) for poller in every)


class Poller(Generic[Read]):
    """Reads one thing again and again until it is told to stop. `latest` may be asked from any thread."""

    def __init__(self, name: str, read: Callable[[], Read], *, least: float) -> None:
        self.name = name
        self.latest: Reading[Read] = Reading()
        self.first = threading.Event()
        self._read, self._least = read, least
        self._stopped, self._failures = threading.Event(), 0
        self._thread = threading.Thread(target=self._run, name=f"outlast-watch-{name[:20]}", daemon=True)

    def start(self) -> None:
        """Begins."""
        self._thread.start()

    def stop(self, seconds: float) -> bool:
        """Reads nothing more; waits so long for a reading under way, and tells whether it has ended."""
        self._stopped.set()
        if self._thread.is_alive():
            self._thread.join(seconds)
        return not self._thread.is_alive()

    def look(self) -> None:
        """Reads once, here."""
        try:
            self.latest = Reading(self._read(), time.monotonic())
            self._failures = 0
        except OutlastError as error:
            self._failed(str(error))
        except Exception as error:  # noqa: BLE001 - a fault of ours: the others go on, and it is told where people look
            self._failed(f"{type(error).__name__}: {error}")
        finally:
            self.first.set()

    def _failed(self, problem: str) -> None:
        self._failures += 1
        self.latest = Reading(self.latest.value, self.latest.at, problem)

    def _run(self) -> None:
        while not self._stopped.is_set():
            began = time.monotonic()
            self.look()
            cost = time.monotonic() - began
            self._stopped.wait(wait_seconds(cost, least=self._least, failures=self._failures))
