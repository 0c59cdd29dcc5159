"""The company of any other rank: rank 0, which it follows."""

from collections.abc import Callable

from outlast.company.doors import Host, farewell
from outlast.company.telling import Telling, agreed_on, standing, told_by
from outlast.notices import Notice
from outlast.options import Options
from outlast.ports import Store
from outlast.ranks.fate import Parted, RanksDiffer
from outlast.ranks.following import MemberAttempt
from outlast.ranks.journal import MemberJournal
from outlast.ranks.member import Member
from outlast.ranks.messages import Claimed, Finished, Go, Leave, Message, Save
from outlast.ranks.world import World
from outlast.settings import EVENTS_FILE, Surroundings
from outlast.threads import nothing


class Following(Telling):
    """See doors.Company."""

    def __init__(self, world: World, around: Surroundings, host: Host) -> None:
        super().__init__(world, around, host)
        self._member = Member(self.bond, self.take_standing)
        self._attempt: MemberAttempt | None = None
        self._failed: str | None = None  # why the save failed that rank 0 ordered last

    # --- the start ----------------------------------------------------------------------------------

    def join(self, store: Store, options: Options, between: Callable[[], None]) -> MemberAttempt:
        """Finds the leader, and takes part in the attempt that it claims. Raises RanksApart, RanksDiffer, Parted."""
        clock = self.around.clock
        self._member.join(self.meetings(store, options), agreed_on(options), clock, self.wait_seconds, between)
        if self.host.board.notice is not None:  # it came before anybody could be told
            self.hear(self.host.board.notice, acts=False)
        claimed = self._member.order(between)
        if not isinstance(claimed, Claimed):
            raise RanksDiffer(f"rank 0 says {type(claimed).__name__} before it has claimed an attempt")
        place = MemberAttempt.place_of(claimed)
        shown_in = self.around.env.get(EVENTS_FILE)
        journal = MemberJournal(store, place, claimed.attempt, self.world.rank, clock, shown_in=shown_in)
        self._attempt = MemberAttempt(store, claimed, self._member, clock, journal)
        return self._attempt

    def order(self, between: Callable[[], None]) -> Message:
        """What the leader says next. Raises Parted."""
        return self._member.order(between)

    def say(self, message: Message) -> None:
        """To the leader."""
        self._member.say(message)

    # --- borders ------------------------------------------------------------------------------------

    def border(self) -> None:
        try:
            if self._member.passes(always=self.all_meet_here()):
                self.host.saves.pass_border(self.host.progress, self.host.held_random)
            else:
                self._meet("border")
        except Parted as parted:
            self.host.part_ways(parted.fate)

    def ready(self) -> bool:
        """What is decided for all is decided elsewhere; a stop outside of borders is this rank's own."""
        return True

    def ask(self, *, pinned: bool) -> None:
        self._member.wish(pinned=pinned)

    def save(self) -> str | None:
        self._failed = "rank 0 has not saved"
        try:
            self._meet("save")
        except Parted as parted:
            self.host.part_ways(parted.fate)
        return self._failed

    def finish(self, finish: Callable[[], None]) -> None:
        try:
            self._meet("finish")
        except Parted as parted:
            self.host.part_ways(parted.fate)

    def _meet(self, at: str) -> None:
        """Stands where all meet, and does what the leader says until all go on, or have finished."""
        self._member.arrive(self.mark, at=at)
        while True:
            order = self._member.order(nothing)
            match order:
                case Save(number=number, beside=beside):
                    self._save(number, beside=beside)
                case Leave(code=code, reason=reason):
                    self.host.leave_as_told(code, reason)
                case Go():
                    self._member.go(order, counts=at == "border")
                    return
                case Finished(step=step) if at == "finish":
                    self._refuse_other_end(step)
                    return
                case _:
                    raise RanksDiffer(f"rank 0 says {type(order).__name__} where all stand at a {at}")

    def _refuse_other_end(self, step: int) -> None:
        here = self.host.progress.completed
        if step != here:
            raise RanksDiffer(f"rank 0 has finished at step {step}, and this rank is at {here}")

    def _save(self, number: int, *, beside: bool) -> None:
        saves, progress = self.host.saves, self.host.progress
        saves.wait()
        assert self._attempt is not None
        self._attempt.ordered(number)
        self._failed = saves.follow(progress, self.host.held_random, beside=beside)

    # --- notices and ends ---------------------------------------------------------------------------

    def hear(self, notice: Notice | None, *, acts: bool) -> None:
        """One that was heard here is told to the leader, who acts on it."""
        if not self.bond.over and (notice is None or told_by(notice) is None):
            self._member.say(standing(notice))

    def leave(self, code: int, reason: str) -> None:
        """That is for the leader to say."""

    def ended(self) -> None:
        self.part("finished", 0, "")

    def part(self, how: str, code: int, reason: str) -> None:
        farewell(self.around, how, code)
        self.end_if_agreed(how)
        self._member.part(how, code, reason[:500])
