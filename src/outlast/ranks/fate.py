"""What it means for the others that one rank has left: the rules alone."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from outlast.errors import EXIT_HUMAN, EXIT_RETRY, ExitingError

if TYPE_CHECKING:  # a single process has a fate, and no messages
    from outlast.ranks.messages import Gone


class RanksApart(ExitingError):
    """A rank is not where it should be, or not there at all; nothing was saved. A retry may help."""

    exit_code = EXIT_RETRY


class RanksDiffer(ExitingError):
    """The ranks were not given the same, or did not do the same: their steps do not fit together."""

    exit_code = EXIT_HUMAN


@dataclass(frozen=True, slots=True)
class Fate:
    """This process has to leave, with this code. `strands`: it may be inside of something that never ends without the
    one who left, so it is ended after a short patience.
    `crashed`: that one's program has failed."""

    code: int
    reason: str
    strands: bool
    crashed: bool = False


class Parted(Exception):
    """There is nobody any more to do something together with."""

    def __init__(self, fate: Fate) -> None:
        super().__init__(fate.reason)
        self.fate = fate


def fate_after(gone: "Gone", interrupted_code: int) -> Fate | None:
    """None where that one has done all it had to."""
    who = f"rank {gone.rank}"
    if gone.how == "finished":
        return None
    if gone.how == "error":  # a setting, a state, a store: what it is, it is for all of them
        return Fate(gone.code, f"{who}: {gone.reason}", strands=True)
    if gone.how == "crashed":
        return Fate(interrupted_code, f"{who} crashed: {gone.reason}", strands=True, crashed=True)
    if gone.how in ("stopped", "left"):
        return Fate(interrupted_code, f"{who} has left: {gone.reason}", strands=False)
    return Fate(interrupted_code, f"{who} is gone: {gone.reason}", strands=True)


def fate_of_unequal(rank: int) -> Fate:
    """That one has finished the run, and this rank has not."""
    reason = f"rank {rank} has finished, and this rank has not: every rank has to ask for as many steps or epochs"
    return Fate(EXIT_HUMAN, reason, strands=False)


def graver(first: Fate | None, second: Fate | None) -> Fate | None:
    """Of two, the one that counts: the first that was heard, unless only the second strands anybody."""
    if first is None or second is None:
        return first or second
    return second if second.strands and not first.strands else first
