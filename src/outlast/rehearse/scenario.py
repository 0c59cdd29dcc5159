"""What goes wrong, as data: which interruptions, in which order, and when in the job's life."""

import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Literal, Protocol

Kind = Literal[
    "SIGTERM",  # an end with notice, by whatever door the platform has
    "SIGKILL",
    "SIGKILL at a save",
    "second attempt",
    "revoked notice",
    "advice",
    "live migration",
    "storage fault",
    "one rank killed",
    "one rank noticed",
]
ROUNDS = 3  # how often a rehearsal is begun again, earlier, when the job finished before all had landed
_EARLIER = 0.5  # each such round comes at half the time into the work
# Those that surely end an attempt first; a program that works on through its grace may finish within it.
_SUREST_FIRST: tuple[Kind, ...] = ("SIGKILL at a save", "SIGKILL", "SIGTERM")
Value = float | int | str


@dataclass(frozen=True, slots=True)
class Moment:
    """When something happens: after a share of the work that is left, or after seconds of the platform.

    Seconds count from the attempt's first sign of work, from its start, or from what happened before in it.
    """

    share: float | None = None
    seconds: float = 0.0
    since: Literal["work", "start", "previous"] = "work"


@dataclass(frozen=True, slots=True)
class Happening:
    """One thing that goes wrong, in the platform's word; `moment` None lets the rehearsal choose."""

    word: str
    moment: Moment | None = None
    settings: tuple[tuple[str, Value], ...] = ()


@dataclass(frozen=True, slots=True)
class Interruption:
    """What happens to one attempt. `share`, from 0 to 1, is its place within its part of the work.

    `kind` is what it means for the proof: that of what ends the attempt. `happenings` empty: the platform's usual
    thing of that kind. `goes_on`: the attempt lives on after it, to be ended by something else or by its own end.
    """

    kind: Kind
    share: float
    happenings: tuple[Happening, ...] = ()
    goes_on: bool = False


@dataclass(frozen=True, slots=True)
class Scenario:
    """Interruptions with a name. `given` is what the platform is set to; `speed` that at which it is made to run."""

    name: str
    interruptions: tuple[Interruption, ...]
    about: str = ""
    given: tuple[tuple[str, Value], ...] = ()
    speed: float = 1.0


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


def play(
    scripted: Sequence[Interruption], *, seed: int, saves: bool, round_number: int = 0
) -> tuple[Interruption, ...]:
    """A scenario that somebody wrote, with what it lacks for a proof, one of each kind, drawn.

    That comes last, so that attempts are numbered as they are written; in later rounds it comes first, since it is
    what has to land. A crash at a save is left out for a program that was not seen to save.
    """
    random_source = random.Random(f"{seed}/{len(scripted)}/{saves}/{round_number}")  # noqa: S311 - as above
    own = _joined([one for one in scripted if saves or one.kind != "SIGKILL at a save"])
    own = [replace(one, share=random_source.uniform(0.5, 1.0)) for one in own]
    lacking = missing_kinds(own, saves=saves)
    drawn = [Interruption(kind, random_source.uniform(0.5, 1.0)) for kind in _SUREST_FIRST if kind in lacking]
    if round_number:
        return (*drawn, *own)
    last = own[-1:] if own and own[-1].goes_on else []
    return (*own[: len(own) - len(last)], *drawn, *last)


def _joined(interruptions: Sequence[Interruption]) -> list[Interruption]:
    """What ends no attempt happens in the one that the next interruption ends."""
    found: list[Interruption] = []
    for one in interruptions:
        if found and found[-1].goes_on:
            before = found.pop().happenings
            found.append(replace(one, happenings=(*before, *one.happenings)))
        else:
            found.append(one)
    return found


class _OfKind(Protocol):
    @property
    def kind(self) -> Kind | None: ...


def missing_kinds(interruptions: Iterable[_OfKind], *, saves: bool) -> tuple[Kind, ...]:
    """What a proof needs, and these do not have."""
    had = {one.kind for one in interruptions}
    return tuple(kind for kind in kinds_needed(saves=saves) if kind not in had)


def seconds_into_work(scenario: Sequence[Interruption], landed: int, *, work_left: float, round_number: int) -> float:
    """When the next interruption comes, in seconds after the attempt's first sign of work.

    The work that is left is divided evenly between those still to come and the end; the share spreads them.
    """
    parts = len(scenario) - landed + 1
    return work_left / parts * scenario[landed].share * _EARLIER**round_number


def seconds_of(moment: Moment, *, work_left: float, here: float, round_number: int) -> float:
    """The seconds of a named moment on this machine, where one of the platform's takes `here`."""
    seconds = moment.seconds * here if moment.share is None else moment.share * work_left
    return seconds if moment.since == "previous" else seconds * _EARLIER**round_number
