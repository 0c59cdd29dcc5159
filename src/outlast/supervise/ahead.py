"""A notice ahead of SIGTERM: heard at once, and passed on as soon as the command can hear it, too.

Most signals end a program that has no handler for them, and a Python that is still importing has none.
"""

import math
import signal
from collections.abc import Callable

from outlast.notices.signals import disruption_of
from outlast.supervise.decisions import Ended, signal_name
from outlast.supervise.doors import World
from outlast.supervise.plan import Plan
from outlast.supervise.reports import Reports

_LOOK_SECONDS = 0.1  # how soon a new handler of the command is noticed


class AdvanceNotice:
    """Whether the end was announced to this supervisor, by which signals, and who knows of it."""

    def __init__(self, plan: Plan, world: World, reports: Reports) -> None:
        self._plan, self._world, self._reports = plan, world, reports
        self._signals = {int(signal.Signals[name]) for name in plan.advance_signals}
        self._waiting: list[int] = []
        self._passed_on = False
        self.heard = False

    def is_announced_by(self, number: int) -> bool:
        """Whether this signal announces the end on this platform."""
        return number in self._signals

    def hear(self, number: int, *, then: str) -> None:
        """Reports the first one; `then` says what follows from it. Each waits to be passed on."""
        if number not in self._waiting:
            self._waiting.append(number)
        if self.heard:
            return
        self.heard = True
        around, name = self._plan.surroundings, signal_name(number)
        disruption = disruption_of(name, around)
        left = around.grace_after(name).seconds
        if disruption.deadline is not None:
            left = disruption.deadline.remaining_seconds(around.clock)
        self._reports.notice(name, reason=disruption.reason, grace_seconds=left, kind="advance", then=then)

    def pass_on(self, pid: int, send: Callable[[int], None]) -> None:
        """Sends what waits, if the command catches it by now."""
        for number in list(self._waiting):
            if self._world.processes.catches(pid, number):
                self._waiting.remove(number)
                self._passed_on = True
                send(number)

    @property
    def seconds_to_next_look(self) -> float:
        """Infinite when nothing waits."""
        return _LOOK_SECONDS if self._waiting else math.inf

    def has_ended(self, ended: Ended) -> bool:
        """Whether the command left because of it: it was told, or died of it, where the platform tells everybody."""
        return self.heard and (self._passed_on or ended.signal_number in self._signals)
