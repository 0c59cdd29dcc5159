"""What goes wrong, as seeded data: which interruptions, in which order, and when in the job's life."""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

Kind = Literal["SIGTERM", "SIGKILL", "SIGKILL at a save"]
ROUNDS = 3  # how often a rehearsal is begun again, earlier, when the job finished before all had landed
_EARLIER = 0.5  # each such round comes at half the time into the work
# Those that surely end an attempt first; a program that works on through its grace may finish within it.
_SUREST_FIRST: tuple[Kind, ...] = ("SIGKILL at a save", "SIGKILL", "SIGTERM")


@dataclass(frozen=True, slots=True)
class Interruption:
    """One interruption. `share`, from 0 to 1, is its place within its part of the work."""

    kind: Kind
    share: float


def kinds_needed(*, saves: bool) -> tuple[Kind, ...]:
    """The kinds that a proof needs: a notice, none, and for a program that saves one in the middle of that."""
    return ("SIGTERM", "SIGKILL", "SIGKILL at a save") if saves else ("SIGTERM", "SIGKILL")


def draw_scenario(count: int, *, seed: int, saves: bool, round_number: int = 0) -> tuple[Interruption, ...]:
    """`count` interruptions, each needed kind at least once. The same arguments give the same scenario."""
    random_source = random.Random(f"{seed}/{count}/{saves}/{round_number}")  # noqa: S311 - a plan, not a secret
    needed = kinds_needed(saves=saves)
    kinds = [*needed, *random_source.choices(needed, k=count - len(needed))][:count]
    if round_number == 0:
        random_source.shuffle(kinds)
    else:
        kinds.sort(key=_SUREST_FIRST.index)
    shares = [random_source.uniform(0.5, 1.0) for _ in kinds]
    return tuple(Interruption(kind, share) for kind, share in zip(kinds, shares, strict=True))


def seconds_into_work(scenario: Sequence[Interruption], landed: int, *, work_left: float, round_number: int) -> float:
    """When the next interruption comes, in seconds after the attempt's first sign of work.

    The work that is left is divided evenly between those still to come and the end; the share spreads them.
    """
    parts = len(scenario) - landed + 1
    return work_left / parts * scenario[landed].share * _EARLIER**round_number
