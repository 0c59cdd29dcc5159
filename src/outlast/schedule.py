"""How often to save: every step, every n steps or epochs, every so often, or by cost and rate."""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Protocol

from outlast.clock import parse_duration
from outlast.console import Console
from outlast.errors import SettingsError
from outlast.planning.estimates import Learned, learn, usable_notice_share
from outlast.planning.formulae import is_step_border_due
from outlast.planning.period import Situation

# Until a save has been measured: a copy in memory, then a disk or a bucket of the slower kind.
ASSUMED_COPY_BYTES_PER_SECOND = 5e9
_ASSUMED_WRITE_BYTES_PER_SECOND = 200e6
_NEWEST_WEIGHT = 0.3  # of a measurement, against those before: one slow moment of the machine is no rule


@dataclass(frozen=True, slots=True)
class Steps:
    """Save after every `count` completed steps."""

    count: int

    def __post_init__(self) -> None:
        _check_count("Steps", self.count)


@dataclass(frozen=True, slots=True)
class Epochs:
    """Save after every `count` completed epochs."""

    count: int

    def __post_init__(self) -> None:
        _check_count("Epochs", self.count)


Every = str | int | float | timedelta | Steps | Epochs


class Schedule(Protocol):
    """When a save is due at a border."""

    @property
    def exact(self) -> bool:
        """Whether a save belongs to its very border, so that none can stand for another."""
        ...

    def is_due(self, *, step: int, epochs: int, now: float) -> bool:
        """Whether to save now: `step` completed steps, `epochs` completed epochs, `now` monotonic seconds."""
        ...

    def saved(self, *, step: int, epochs: int, now: float) -> None:
        """The state was taken at this moment; also called once when the loop starts."""
        ...

    def measured(self, stall_seconds: float, *, persist_seconds: float = 0.0, slowdown: float = 0.0) -> None:
        """A save went well: the training stood still, and then it was written beside it, which slowed it by a share."""
        ...

    def learn(self, learned: Learned, *, final_save_p99_seconds: float | None = None) -> None:
        """What earlier attempts of the run say, and how long a final save takes, where that is known better."""
        ...

    def crosses(self, before: tuple[int, int], now: tuple[int, int]) -> bool:
        """Whether a save belongs to this border whatever came before: the same for all who come by, at any speed.

        (completed steps, completed epochs) at the border before, and at this one.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Expected:
    """What "auto" expects before anything was measured. Seconds, bytes; `longest_loss_seconds` is the user's bound.

    A notice counts for something only where a final save fits into the grace less the margin.
    """

    between_seconds: float
    state_bytes: int
    grace_seconds: float = 0.0
    margin_seconds: float = 0.0
    longest_loss_seconds: float = math.inf
    saves_in_flight: int = 1


def schedule_for(every: Every, *, expected: Expected) -> Schedule:
    """The schedule of the setting `every`. Raises SettingsError."""
    if isinstance(every, Steps):
        return _Counted(every.count, lambda step, _epochs: step)
    if isinstance(every, Epochs):
        return _Counted(every.count, lambda _step, epochs: epochs)
    if every == "auto":
        return AutoSchedule(expected)
    return _EverySeconds(parse_duration(every, setting="every"))


@dataclass(slots=True)
class _Counted:
    """After every so many steps, or epochs: `of` chooses which."""

    count: int
    of: Callable[[int, int], int]
    last: int = 0
    exact: bool = True

    def is_due(self, *, step: int, epochs: int, now: float) -> bool:
        return self.of(step, epochs) // self.count > self.last // self.count

    def crosses(self, before: tuple[int, int], now: tuple[int, int]) -> bool:
        return self.of(*now) // self.count > self.of(*before) // self.count

    def saved(self, *, step: int, epochs: int, now: float) -> None:
        self.last = self.of(step, epochs)

    def measured(self, stall_seconds: float, *, persist_seconds: float = 0.0, slowdown: float = 0.0) -> None:
        pass

    def learn(self, learned: Learned, *, final_save_p99_seconds: float | None = None) -> None:
        pass


@dataclass(slots=True)
class _EverySeconds:
    interval: float
    last: float = field(default=-math.inf)

    @property
    def exact(self) -> bool:
        """0 seconds is every step."""
        return self.interval == 0

    def is_due(self, *, step: int, epochs: int, now: float) -> bool:
        return is_step_border_due(now - self.last, threshold_seconds=self.interval)

    def crosses(self, before: tuple[int, int], now: tuple[int, int]) -> bool:
        return self.exact and now > before

    def saved(self, *, step: int, epochs: int, now: float) -> None:
        self.last = now

    def measured(self, stall_seconds: float, *, persist_seconds: float = 0.0, slowdown: float = 0.0) -> None:
        pass

    def learn(self, learned: Learned, *, final_save_p99_seconds: float | None = None) -> None:
        pass


@dataclass(slots=True)
class _Cost:
    """What saves take, from the first measurement on: a mean in which the newest weigh most."""

    value: float
    known: bool = False

    def see(self, value: float) -> None:
        self.value += (value - self.value) * (_NEWEST_WEIGHT if self.known else 1.0)
        self.known = True


class AutoSchedule:
    """By what saves cost, how often interruptions come and how often with a notice that a final save fits into.

    The period is that of `outlast.planning.period.Situation`. A save is due at the first border after it (formula 7).
    It starts from what earlier attempts measured, and follows what this one does; the longer this one runs without an
    interruption, the rarer they are taken to be (formula 9).
    """

    exact = False

    def __init__(self, expected: Expected) -> None:
        self._expected = expected
        self._learned = learn([], prior_between_seconds=expected.between_seconds)
        self._notice_share = 0.0
        self._since: float | None = None  # the time after which is not in what was learned
        self._stall = _Cost(expected.state_bytes / ASSUMED_COPY_BYTES_PER_SECOND)
        self._persist = _Cost(expected.state_bytes / _ASSUMED_WRITE_BYTES_PER_SECOND)
        self._slowdown = 0.0
        self._last = -math.inf
        self._period_seconds = self._plan()

    @property
    def period_seconds(self) -> float:
        """Seconds from one save to the next."""
        return self._period_seconds

    def is_due(self, *, step: int, epochs: int, now: float) -> bool:
        return is_step_border_due(now - self._last, threshold_seconds=self._period_seconds)

    def crosses(self, before: tuple[int, int], now: tuple[int, int]) -> bool:
        return False

    def saved(self, *, step: int, epochs: int, now: float) -> None:
        self._since = now if self._since is None else self._since
        self._last = now
        self._period_seconds = self._plan()

    def measured(self, stall_seconds: float, *, persist_seconds: float = 0.0, slowdown: float = 0.0) -> None:
        self._stall.see(stall_seconds)
        self._persist.see(persist_seconds)
        self._slowdown = slowdown
        self._period_seconds = self._plan()

    def learn(self, learned: Learned, *, final_save_p99_seconds: float | None = None) -> None:
        self._learned, self._since = learned, None
        final = final_save_p99_seconds
        if final is None and learned.final_save is not None:
            final = learned.final_save.p99_seconds
        self._notice_share = usable_notice_share(
            learned.notice_share,
            final_save_p99_seconds=final,
            grace_seconds=self._expected.grace_seconds,
            margin_seconds=self._expected.margin_seconds,
        )
        for cost, times in ((self._stall, learned.stall), (self._persist, learned.persist)):
            if times is not None and not cost.known:
                cost.see(times.mean_seconds)
        self._period_seconds = self._plan()

    def _plan(self) -> float:
        ran = 0.0 if self._since is None else self._last - self._since
        return Situation(
            stall_seconds=self._stall.value,
            persist_seconds=self._persist.value,
            slowdown=self._slowdown,
            between_seconds=self._learned.between_after(ran),
            notice_share=self._notice_share,
            longest_loss_seconds=self._expected.longest_loss_seconds,
            saves_in_flight=self._expected.saves_in_flight,
        ).period_seconds


def _check_count(name: str, count: int) -> None:
    if type(count) is not int or count < 1:
        error = SettingsError(f"every={name}({count!r}): the count is a whole number of 1 or more")
        Console().tell(error)
        raise error
