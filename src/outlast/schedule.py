"""How often to save: every step, every n steps or epochs, every so often, or by cost and rate."""

import math
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Protocol

from outlast.clock import parse_duration
from outlast.console import Console
from outlast.errors import SettingsError

# Saving may cost this share of the time at most, and this much work may be lost at most, when outlast decides.
AUTO_LARGEST_SHARE = 0.05
AUTO_LONGEST_SECONDS = 600.0
_ASSUMED_BYTES_PER_SECOND = 200e6  # until a save has been measured


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


def young_interval_seconds(save_seconds: float, mean_seconds_between_interruptions: float) -> float:
    """The compute between two saves that wastes least: sqrt(2 s M).

    J. W. Young, "A first order approximation to the optimum checkpoint interval", CACM 17 (9), 1974.
    """
    return math.sqrt(2.0 * save_seconds * mean_seconds_between_interruptions)


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

    def measured(self, seconds: float) -> None:
        """A save that went well cost the training so many seconds."""
        ...


def schedule_for(every: Every, *, mean_seconds_between_interruptions: float, state_bytes: int) -> Schedule:
    """The schedule of the setting `every`. Raises SettingsError."""
    if isinstance(every, Steps):
        return _EverySteps(every.count)
    if isinstance(every, Epochs):
        return _EveryEpochs(every.count)
    if every == "auto":
        return _Auto(mean_seconds_between_interruptions, state_bytes / _ASSUMED_BYTES_PER_SECOND)
    return _EverySeconds(parse_duration(every, setting="every"))


@dataclass(slots=True)
class _EverySteps:
    count: int
    last: int = 0
    exact: bool = True

    def is_due(self, *, step: int, epochs: int, now: float) -> bool:
        return step // self.count > self.last // self.count

    def saved(self, *, step: int, epochs: int, now: float) -> None:
        self.last = step

    def measured(self, seconds: float) -> None:
        pass


@dataclass(slots=True)
class _EveryEpochs:
    count: int
    last: int = 0
    exact: bool = True

    def is_due(self, *, step: int, epochs: int, now: float) -> bool:
        return epochs // self.count > self.last // self.count

    def saved(self, *, step: int, epochs: int, now: float) -> None:
        self.last = epochs

    def measured(self, seconds: float) -> None:
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
        return now - self.last >= self.interval

    def saved(self, *, step: int, epochs: int, now: float) -> None:
        self.last = now

    def measured(self, seconds: float) -> None:
        pass


@dataclass(slots=True)
class _Auto:
    """Young's interval from the measured cost of a save, within bounds on share and loss."""

    mean_seconds_between_interruptions: float
    save_seconds: float
    last: float = field(default=-math.inf)
    exact: bool = False

    def is_due(self, *, step: int, epochs: int, now: float) -> bool:
        return now - self.last >= self.interval

    @property
    def interval(self) -> float:
        """Seconds between two saves."""
        best = young_interval_seconds(self.save_seconds, self.mean_seconds_between_interruptions)
        return max(min(best, AUTO_LONGEST_SECONDS), self.save_seconds / AUTO_LARGEST_SHARE, 1.0)

    def saved(self, *, step: int, epochs: int, now: float) -> None:
        self.last = now

    def measured(self, seconds: float) -> None:
        self.save_seconds = seconds


def _check_count(name: str, count: int) -> None:
    if type(count) is not int or count < 1:
        error = SettingsError(f"every={name}({count!r}): the count is a whole number of 1 or more")
        Console().tell(error)
        raise error
