"""What all ranks do for each other: a notice that one of them hears is heard by all."""

import threading
from collections.abc import Callable, Mapping, Sequence
from queue import SimpleQueue
from typing import Any, Literal

from outlast.clock import Deadline, parse_duration
from outlast.company.doors import Host
from outlast.disruptions import Disruption
from outlast.notices import Notice
from outlast.options import Options
from outlast.ports import Store
from outlast.ranks.bond import Bond
from outlast.ranks.fate import Fate, Parted
from outlast.ranks.meeting import Meetings
from outlast.ranks.messages import Standing
from outlast.ranks.world import World
from outlast.saver import Mark
from outlast.settings import Surroundings

WAIT = "OUTLAST_RANKS_WAIT"  # how long ranks wait for each other at the start
_WAIT_SECONDS = 600.0
_BLAME_SECONDS = 1.0
_OTHER = "rank "  # the source of a notice that another rank has heard: this and its number


_Seen = tuple[str, Sequence[Disruption]]  # a source, and all that it sees


class Telling:
    """One rank's ties: its bond, its borders, what it tells and is told of notices."""

    def __init__(self, world: World, around: Surroundings, host: Host) -> None:
        self.world, self.around, self.host = world, around, host
        self.bond = Bond(world, around.interrupted_exit_code, host.hearing.stranded)
        self._before: tuple[int, int] | None = None
        self._seen = SimpleQueue[_Seen]()
        work, report = _report_all, host.board.report
        threading.Thread(target=work, args=(self._seen, report), name="outlast-ranks-notices", daemon=True).start()

    def meetings(self, store: Store, options: Options) -> Meetings:
        """Where ranks find each other."""
        return Meetings(store, options.job, self.world, self.around.identity.task)

    @property
    def wait_seconds(self) -> float:
        """How long they look for each other."""
        text = self.around.env.get(WAIT, "").strip()
        return parse_duration(text, setting=WAIT) if text else _WAIT_SECONDS

    @property
    def mark(self) -> Mark:
        """Where the loop stands; the same on all ranks that stand at one border."""
        return self.host.progress.mark

    def all_meet_here(self) -> bool:
        """Whether every rank knows by itself that all meet at this border. To be asked once at each."""
        now = self.host.progress.completed, self.host.progress.epoch
        before, self._before = self._before, now
        return before is not None and self.host.saves.crosses(before, now)

    def check(self) -> None:
        """See doors.Company."""
        try:
            self.bond.check()
        except Parted as parted:
            self.host.part_ways(parted.fate)

    def blame(self) -> Fate | None:
        """See doors.Company. The connection of a collective may end a moment before ours does."""
        return self.bond.await_fate(_BLAME_SECONDS)

    def end_if_agreed(self, how: str) -> None:
        """Nobody is stranded by who leaves after all have agreed to.

        After a loss the guard stays: what the program does on its way out may wait for the one who is gone.
        """
        if how in ("stopped", "finished") and self.bond.fate is None:
            self.bond.end()

    def take_standing(self, rank: int, notices: Sequence[Sequence[Any]]) -> None:
        """All that another rank hears of its end. In a thread of the connections.

        Another thread tells it here, which may take long (a journal far away, a standard error that nobody reads):
        what that rank says next, its answer to the leader's question say, is not to wait for that.
        """
        if self.bond.over:
            return
        now = self.around.clock.monotonic_seconds()
        seen = [
            Disruption(str(key), f"{reason} (rank {rank})", _kind(kind), Deadline(now + float(left)))
            for key, reason, kind, left in notices
        ]
        self._seen.put((f"{_OTHER}{rank}", seen))


def _report_all(seen: "SimpleQueue[_Seen]", report: Callable[[str, Sequence[Disruption]], bool]) -> None:
    """The thread that tells; it holds nothing of the program's."""
    while True:
        report(*seen.get())


def told_by(notice: Notice) -> int | None:
    """The rank that has passed a notice on; None for one that was heard here."""
    number = notice.source.removeprefix(_OTHER).partition(" ")[0]
    return int(number) if notice.source.startswith(_OTHER) and number.isdigit() else None


def standing(notice: Notice | None) -> Standing:
    """What is told of it."""
    if notice is None:
        return Standing([])
    return Standing([[notice.source, notice.reason, notice.kind, round(notice.remaining_seconds, 6)]])


def _kind(text: object) -> Literal["final", "advance"]:
    return "final" if text == "final" else "advance"


def agreed_on(options: Options) -> Mapping[str, str]:
    """What leads to other steps, or to another place, where it is not the same on all ranks."""
    return {
        "name": options.job,
        "run": str(options.run),
        "every": repr(options.every),
        "resume": "none" if options.fresh_run else str(options.rollback_to),
    }
