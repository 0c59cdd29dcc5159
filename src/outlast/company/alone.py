"""The company of a single process: nobody."""

from collections.abc import Callable

from outlast.company.doors import Host, farewell
from outlast.notices import Notice
from outlast.ranks.fate import Fate
from outlast.settings import Surroundings


class Alone:
    """See doors.Company."""

    def __init__(self, host: Host, around: Surroundings) -> None:
        self._host, self._around = host, around
        self.border = host.decide

    def check(self) -> None:
        """Nobody can be missing."""

    def ready(self) -> bool:
        """Always."""
        return True

    def ask(self, *, pinned: bool) -> None:
        """At the coming border of this process."""
        self._host.saves.ask(pinned=pinned)

    def save(self) -> str | None:
        """At once."""
        return self._host.save_now()

    def finish(self, finish: Callable[[], None]) -> None:
        """Here."""
        finish()

    def ended(self) -> None:
        """Nobody waits."""

    def hear(self, notice: Notice | None, *, acts: bool) -> None:
        """Nobody else has to know."""

    def blame(self) -> Fate | None:
        """Nobody else can have failed."""
        return None

    def leave(self, code: int, reason: str) -> None:
        """Nobody else does."""

    def part(self, how: str, code: int, reason: str) -> None:
        """But for `outlast run`, nobody hears."""
        farewell(self._around, how, code)
