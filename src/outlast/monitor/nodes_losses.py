"""What a run would lose if its machine went now: the door through which the view of nodes asks the stores."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from outlast.urls import masked


@dataclass(frozen=True, slots=True)
class AtRisk:
    """One task of a run, or a queue, as the store at `url` tells. None: not known, or none.

    `state` in the words of `outlast status`. `checkpoint_step` and `checkpoint_age_seconds`: of the last good one.
    `risk_seconds` and `risk_steps`: what was done since, and would be done again. `problem`: why nothing is known.
    """

    url: str
    what: str = ""
    state: str = ""
    step: int | None = None
    checkpoint_step: int | None = None
    checkpoint_age_seconds: float | None = None
    risk_seconds: float | None = None
    risk_steps: int | None = None
    problem: str = ""

    def later(self, seconds: float) -> "AtRisk":
        """The same, so many seconds after it was read."""
        age, risk = self.checkpoint_age_seconds, self.risk_seconds
        return replace(
            self,
            checkpoint_age_seconds=None if age is None else age + seconds,
            risk_seconds=None if risk is None else risk + (seconds if self.state == "running" else 0.0),
        )


@dataclass(frozen=True, slots=True)
class Worksite:
    """Where a process works, as far as the platform knows. None: unknown.

    `urls`: stores and queues, as they are seen from outside. `job`: its name in them, mostly. `host`: the name of its
    machine, which its journal has.
    """

    urls: tuple[str, ...]
    job: str | None = None
    task: int | None = None
    host: str = ""


class Losses(Protocol):
    """Who knows what processes would lose."""

    def __call__(self, sites: Sequence[Worksite]) -> Sequence[tuple[AtRisk, ...]]:
        """For each site one for each task of a run, or queue, that the process works at; never raises."""
        ...


def no_losses(sites: Sequence[Worksite]) -> Sequence[tuple[AtRisk, ...]]:
    """Asks no store: the URLs are named, and nothing is known of them."""
    return [tuple(AtRisk(masked(url), problem="not asked") for url in site.urls) for site in sites]
