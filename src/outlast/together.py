"""A job of several processes: what its session has to do with the others at the start, at borders, at the ends.

Rank 0 leads: its session decides as that of a single process does, and tells the others (`Leading`). Theirs do what
they are told (`Following`).
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol

from outlast.checkpoint.attempt import Attempt
from outlast.checkpoint.runs import Finish
from outlast.clock import Deadline, parse_duration
from outlast.disruptions import Disruption
from outlast.notices import Notice, NoticeBoard
from outlast.options import Options
from outlast.ports import Identity, Store
from outlast.ranks.bond import Bond
from outlast.ranks.fate import Fate
from outlast.ranks.following import MemberAttempt
from outlast.ranks.journal import MemberJournal
from outlast.ranks.leader import Heard, Leader
from outlast.ranks.leading import LedRanks
from outlast.ranks.meeting import Meetings
from outlast.ranks.member import Member
from outlast.ranks.messages import Claimed, Finished, Go, Leave, Message, Standing, Started
from outlast.ranks.world import World
from outlast.settings import Surroundings

WAIT = "OUTLAST_RANKS_WAIT"  # how long ranks wait for each other at the start
_WAIT_SECONDS = 600.0
_OWN = "rank "  # the source of a notice that another rank has heard: this and its number
_LONGEST_FAREWELL_SECONDS = 3.0

Mark = tuple[int, int, int]


class Host(Protocol):
    """What is asked of the session that has others beside it. Its methods are held weakly where threads call them."""

    def save_wished(self, pinned: bool) -> None:
        """The program of another rank has called job.save()."""
        ...

    def stranded(self, fate: Fate) -> None:
        """The process ends now, since a rank has left and the step under way may never end."""
        ...


class Others:
    """What both roles do: notices that one rank hears are heard by all."""

    def __init__(self, world: World, around: Surroundings, board: NoticeBoard, host: Host) -> None:
        self.world, self._around, self._board = world, around, board
        self.bond = Bond(world, around.interrupted_exit_code, host.stranded)

    def meetings(self, store: Store, options: Options) -> Meetings:
        """Where ranks find each other."""
        return Meetings(store, options.job, self.world, self._around.identity.task)

    @property
    def wait_seconds(self) -> float:
        text = self._around.env.get(WAIT, "").strip()
        return parse_duration(text, setting=WAIT) if text else _WAIT_SECONDS

    def take_standing(self, rank: int, notices: Sequence[Sequence[Any]]) -> None:
        """All that another rank hears of its end."""
        now = self._around.clock.monotonic_seconds()
        seen = [
            Disruption(str(key), f"{reason} (rank {rank})", _kind(kind), Deadline(now + float(left)))
            for key, reason, kind, left in notices
        ]
        if not self.bond.over:
            self._board.report(f"{_OWN}{rank}", seen)

    @staticmethod
    def heard_by(notice: Notice) -> int | None:
        """The rank that has passed a notice on; None for one that was heard here."""
        number = notice.source.removeprefix(_OWN).partition(" ")[0]
        return int(number) if notice.source.startswith(_OWN) and number.isdigit() else None


def _kind(text: object) -> Any:
    return "final" if text == "final" else "advance"


def _said(notice: Notice | None) -> Standing:
    if notice is None:
        return Standing([])
    return Standing([[notice.source, notice.reason, notice.kind, round(notice.remaining_seconds, 6)]])


class Leading(Others):
    """Rank 0's side."""

    leads = True

    def __init__(self, world: World, around: Surroundings, board: NoticeBoard, host: Host, options: Options) -> None:
        super().__init__(world, around, board, host)
        self._leader = Leader(self.bond, _agreed_on(options), Heard(host.save_wished, self.take_standing))
        self._led: LedRanks | None = None

    def gather(self, store: Store, options: Options, between: Callable[[], None]) -> None:
        """Until all are there. Raises RanksApart, RanksDiffer, Parted."""
        self._leader.gather(self.meetings(store, options), self._around.clock, self.wait_seconds, between)

    def claimed(self, attempt: Attempt) -> None:
        """The attempt is everybody's."""
        place = attempt.place
        attempt.others = self._led = LedRanks(self._leader, place)
        self._leader.tell(Claimed(place.job, place.run, place.index, attempt.number, attempt.token))

    def started(self, path: str, finish: Finish | None) -> None:
        """All go on from this checkpoint."""
        total = -1 if finish is None or finish.total is None else finish.total
        self._leader.tell(Started(path, finish is not None, total))

    # --- borders ------------------------------------------------------------------------------------

    def border(self, mark: Mark, decide: Callable[[], None], *, always: bool) -> None:
        """See Leader.border."""
        self._leader.border(decide, mark, always=always)

    def ready(self) -> bool:
        """See saves.Together."""
        if not self._leader.meets:
            self._leader.call()
        return self._leader.meets

    def order(self, *, beside: bool) -> None:
        """See saves.Together."""
        assert self._led is not None
        self._led.order(beside=beside)

    def call(self, *, soon: bool = False) -> None:
        """All meet at a border: the coming one, if nobody has passed it. `soon`: a meeting before that does as well."""
        self._leader.call(from_border=0 if soon else self.bond.gate.passed)

    def meet(self, mark: Mark, *, at: str) -> None:
        """All stand here: at the finish, or at a save outside of the loop."""
        self._leader.meet(mark, at=at)

    def disperse(self) -> None:
        """They go on from there."""
        self._leader.disperse()

    # --- notices ------------------------------------------------------------------------------------

    def hear(self, notice: Notice | None, *, acts: bool) -> None:
        """A notice that came, has changed or (None) was revoked. `acts`: nothing is trained through."""
        if self.bond.over:
            return
        self._leader.tell(_said(notice), but=None if notice is None else self.heard_by(notice))
        if acts:
            self.call(soon=True)

    # --- the ends -----------------------------------------------------------------------------------

    def leave(self, code: int, reason: str) -> None:
        """At a border where all have met: all leave."""
        self._leader.tell(Leave(code, reason))

    def part(self, how: str, code: int, reason: str) -> None:
        """This process leaves."""
        self._leader.part(how, code, reason)
        if how != "stopped":
            return
        self.bond.end()
        notice = self._board.notice
        left = _LONGEST_FAREWELL_SECONDS if notice is None else notice.remaining_seconds / 8
        self._leader.await_farewells(self._around.clock, min(left, _LONGEST_FAREWELL_SECONDS))

    def finished(self, step: int) -> None:
        """The run is marked finished; nothing is done together any more."""
        self._leader.tell(Finished(step))
        self._leader.part("finished", 0, "")
        self.bond.end()
        self._leader.await_farewells(self._around.clock, _LONGEST_FAREWELL_SECONDS)


class Following(Others):
    """The side of any other rank."""

    leads = False

    def __init__(self, world: World, around: Surroundings, board: NoticeBoard, host: Host, options: Options) -> None:
        super().__init__(world, around, board, host)
        self._agreed_on = _agreed_on(options)
        self._member = Member(self.bond, self.take_standing)
        self.attempt: MemberAttempt | None = None

    def join(self, store: Store, options: Options, between: Callable[[], None]) -> MemberAttempt:
        """Finds the leader, and takes part in the attempt that it claims. Raises RanksApart, RanksDiffer, Parted."""
        clock, meetings = self._around.clock, self.meetings(store, options)
        self._member.join(meetings, self._agreed_on, clock, self.wait_seconds, between)
        claimed = self._member.order(between)
        assert isinstance(claimed, Claimed)
        place = MemberAttempt.place_of(claimed)
        journal = MemberJournal(store, place, claimed.attempt, self.world.rank, clock)
        self.attempt = MemberAttempt(store, claimed, self._member, clock, journal)
        return self.attempt

    def order(self, between: Callable[[], None]) -> Message:
        """What the leader says next."""
        return self._member.order(between)

    def say(self, message: Message) -> None:
        """To the leader."""
        self._member.say(message)

    # --- borders ------------------------------------------------------------------------------------

    def border(self, mark: Mark, act: Callable[[Message], None], passing: Callable[[], None], *, always: bool) -> None:
        """One border: it is passed, or all meet there, and `act` does what the leader says. Raises Parted."""
        if self._member.passes(always=always):
            passing()
        else:
            self.meet(mark, act, at="border")

    def meet(self, mark: Mark, act: Callable[[Message], None], *, at: str) -> None:
        """Stands where all meet, and does what the leader says until all go on, or have finished."""
        self._member.arrive(mark, at=at)
        while True:
            order = self._member.order(_nothing)
            if isinstance(order, Go):
                self._member.go(order, counts=at == "border")
                return
            act(order)
            if isinstance(order, Finished):
                return

    def wish(self, *, pinned: bool) -> None:
        """The program has called job.save() inside of a step."""
        self._member.wish(pinned=pinned)

    # --- notices and ends ---------------------------------------------------------------------------

    def hear(self, notice: Notice | None, *, acts: bool) -> None:
        """A notice that was heard here is told to the leader, who acts on it."""
        if not self.bond.over and (notice is None or self.heard_by(notice) is None):
            self._member.say(_said(notice))

    def part(self, how: str, code: int, reason: str) -> None:
        """This process leaves."""
        if how in ("stopped", "finished"):
            self.bond.end()
        self._member.part(how, code, reason)


def _nothing() -> None:
    pass


AnyRanks = Leading | Following


def ranks_of(
    world: World | None, around: Surroundings, board: NoticeBoard, host: Host, options: Options
) -> AnyRanks | None:
    """This process's part among several; None where it is alone."""
    if world is None:
        return None
    kind = Leading if world.leads else Following
    return kind(world, around, board, host, options)


def around_in(around: Surroundings, world: World | None) -> Surroundings:
    """The surroundings of one of several processes. Where these are the tasks of the platform, the job is one task."""
    if world is None:
        return around
    identity = around.identity
    if around.facts.container_per_attempt and world.spans_tasks(identity.tasks):
        identity = Identity(job=identity.job, execution=identity.execution, attempt=identity.attempt)
    return replace(around, rank=world.rank, identity=identity)


def _agreed_on(options: Options) -> Mapping[str, str]:
    """What leads to other steps where it is not the same on all ranks."""
    return {
        "name": options.job,
        "run": str(options.run),
        "every": repr(options.every),
        "resume": "none" if options.fresh_run else str(options.rollback_to),
    }
