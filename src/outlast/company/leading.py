"""The company of rank 0: the ranks that it leads."""

from collections.abc import Callable

from outlast.checkpoint.attempt import Attempt
from outlast.checkpoint.runs import Finish
from outlast.company.doors import Host, farewell
from outlast.company.telling import Telling, agreed_on, standing, told_by
from outlast.notices import Notice
from outlast.options import Options
from outlast.ports import Store
from outlast.ranks.fate import Parted
from outlast.ranks.leader import Ears, Leader
from outlast.ranks.leading import LedRanks
from outlast.ranks.messages import Claimed, Finished, Leave, Started
from outlast.ranks.world import World
from outlast.settings import Surroundings

_LONGEST_FAREWELL_SECONDS, _FAREWELL_SHARE = 3.0, 1 / 8


class Leading(Telling):
    """See doors.Company."""

    def __init__(self, world: World, around: Surroundings, host: Host) -> None:
        super().__init__(world, around, host)
        self._leader = Leader(self.bond, agreed_on(host.options), Ears(host.hearing.save_wished, self.take_standing))
        self._led: LedRanks | None = None
        host.saves.together = self

    # --- the start ----------------------------------------------------------------------------------

    def gather(self, store: Store, options: Options, between: Callable[[], None]) -> None:
        """Until all are there. Raises RanksApart, RanksDiffer, Parted."""
        around = self.around
        meetings = self.meetings(store, options)
        self._leader.gather(meetings, around.clock, self.wait_seconds, between, around.console.info)

    def claimed(self, attempt: Attempt) -> None:
        """The attempt is everybody's."""
        place = attempt.place
        attempt.others = self._led = LedRanks(self._leader, place)
        self._leader.tell(Claimed(place.job, place.run, place.index, attempt.number, attempt.token))
        if self.host.board.notice is not None:  # it came before all were there
            self.hear(self.host.board.notice, acts=False)

    def started(self, path: str, finish: Finish | None) -> None:
        """All go on from this checkpoint."""
        total = -1 if finish is None or finish.total is None else finish.total
        self._leader.tell(Started(path, finish is not None, total))

    # --- borders ------------------------------------------------------------------------------------

    def border(self) -> None:
        try:
            self._leader.border(self.host.decide, self.mark, always=self.all_meet_here())
        except Parted as parted:
            self.host.part_ways(parted.fate)

    def ready(self) -> bool:
        """Also for saves.Together."""
        if not self._leader.meets:
            self._leader.call()
        return self._leader.meets

    def order(self, *, beside: bool) -> None:
        """See saves.Together."""
        assert self._led is not None
        self._led.order(beside=beside)

    def ask(self, *, pinned: bool) -> None:
        self.host.saves.ask(pinned=pinned)
        self._leader.call(from_border=self.bond.gate.passed)

    def save(self) -> str | None:
        try:
            self._leader.meet(self.mark, at="save")
            error = self.host.save_now()
            self._leader.disperse()
        except Parted as parted:
            self.host.part_ways(parted.fate)
        return error

    def finish(self, finish: Callable[[], None]) -> None:
        try:
            self._leader.meet(self.mark, at="finish")
            finish()
        except Parted as parted:
            self.host.part_ways(parted.fate)

    # --- notices and ends ---------------------------------------------------------------------------

    def hear(self, notice: Notice | None, *, acts: bool) -> None:
        if self.bond.over:
            return
        self._leader.tell(standing(notice), but=None if notice is None else told_by(notice))
        if acts:  # at once, and not at the next border: others may have begun one more step by then
            self._leader.call()

    def leave(self, code: int, reason: str) -> None:
        self._leader.dismiss(Leave(code, reason))

    def ended(self) -> None:
        self._leader.dismiss(Finished(self.host.progress.completed))
        self.part("finished", 0, "")

    def part(self, how: str, code: int, reason: str) -> None:
        farewell(self.around, how, code)
        if self._leader.parted:
            return
        self._leader.part(how, code, reason[:500])
        self.end_if_agreed(how)
        if how in ("stopped", "finished", "error"):
            notice = self.host.board.notice
            left = _LONGEST_FAREWELL_SECONDS if notice is None else _FAREWELL_SHARE * notice.remaining_seconds
            self._leader.await_farewells(self.around.clock, min(left, _LONGEST_FAREWELL_SECONDS))
