"""What ranks say, without sockets: a word too many, too early or without sense makes nobody wait for ever."""

import json
import threading
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from one_attempt import AROUND, Life
from outlast.checkpoint.image import LiveImage, lay_out
from outlast.checkpoint.others import OtherRanks
from outlast.checkpoint.places import CommitName, TaskPlace
from outlast.checkpoint.record import image_fields, load_record
from outlast.clock import Deadline
from outlast.company.following import Following
from outlast.company.telling import Telling
from outlast.errors import EXIT_HUMAN, CheckpointCorrupt, StoreUnreachable
from outlast.notices import Notice
from outlast.ranks.bond import Bond
from outlast.ranks.fate import Parted, RanksDiffer
from outlast.ranks.following import MemberAttempt
from outlast.ranks.journal import MemberJournal
from outlast.ranks.leader import Ears, Leader
from outlast.ranks.leading import LedRanks
from outlast.ranks.member import Member
from outlast.ranks.messages import (
    Agreed,
    Claimed,
    Committed,
    Finished,
    Gone,
    Here,
    Leave,
    Message,
    Part,
    ReadBack,
    Settled,
    Standing,
    Write,
    to_json,
)
from outlast.ranks.wire import Closed, Connection
from outlast.ranks.world import World
from outlast.restoring import Restoring
from outlast.state.parts import Progress
from outlast.state.randomness import RandomState

NOBODY = (0, 0, 0)


class Told:
    """Whoever hears of what ranks say."""

    def __init__(self) -> None:
        self.bonds: list[Bond] = []

    def stranded(self, fate: object) -> None: ...

    def wished(self, pinned: bool) -> None: ...

    def stands(self, rank: int, notices: list[list[object]]) -> None: ...

    def bond(self, rank: int, size: int = 3) -> Bond:
        self.bonds.append(Bond(World(rank, size, rank, size, "launch"), 143, self.stranded))
        return self.bonds[-1]

    def leader(self) -> Leader:
        return Leader(self.bond(0), {}, Ears(self.wished, self.stands))


@pytest.fixture
def told() -> Iterator[Told]:
    told = Told()
    yield told
    for bond in told.bonds:
        bond.end()  # else the guard would end the tests


class Line:
    """In place of a connection: what was said on it, and what is heard on it."""

    def __init__(self, *heard: Message) -> None:
        self.said: list[str] = []
        self.heard, self.closed, self.on_said = list(heard), False, lambda: None

    def send(self, message: Message) -> None:
        self.send_body(to_json(message))

    def send_body(self, body: bytes) -> None:
        self.said.append(json.loads(body)[0])
        self.on_said()

    def receive(self) -> Message:
        if not self.heard:
            raise Closed("the connection ended")
        return self.heard.pop(0)

    def close(self) -> None:
        self.closed = True


def connected(leader: Leader, *lines: Line) -> None:
    leader._members.update({rank: cast(Connection, line) for rank, line in enumerate(lines, start=1)})


def test_a_word_without_sense_is_the_loss_of_the_member_who_said_it(told: Told) -> None:
    leader, bad, other = told.leader(), Line(Here(0, [], "border")), Line()
    connected(leader, bad, other)
    leader.bond.gate.step()
    leader._listen_to(1, cast(Connection, bad))
    assert leader.bond.fate is not None
    assert leader.bond.fate.strands
    assert (bad.closed, other.said) == (True, ["Gone"])


def test_a_word_without_sense_is_the_loss_of_the_leader_who_said_it(told: Told) -> None:
    member = Member(told.bond(1), told.stands)
    member._connection = cast(Connection, Line(Agreed(1, -1)))
    member._listen()
    assert member.bond.fate is not None
    assert member.bond.fate.strands


def test_a_thread_that_still_waits_for_an_old_save_takes_no_word_of_the_next(told: Told) -> None:
    member = Member(told.bond(1), told.stands)
    for word in (ReadBack(1, "whole"), Write(2, "name", "", []), Settled(1, ""), Committed(2)):
        member._hear(word)
    assert [type(member.next_of_save(2)) for _ in range(2)] == [Write, Committed]
    assert [type(member.next_of_save(1)) for _ in range(2)] == [ReadBack, Settled]
    member._hear(Settled(1, ""))
    member.forget_saves_before(2)
    assert not member.has_word_of_save(1)


def test_a_members_save_is_durable_before_it_is_read_back(store: Path, told: Told) -> None:
    """So that a notice finds it in its reading, and leaves that to itself where it hangs."""
    life, line, member = Life(store), Line(), Member(told.bond(1), told.stands)
    line.on_said = lambda: member._hear(Committed(1))
    member._connection = cast(Connection, line)
    claimed = Claimed(life.place.job, life.place.run, life.place.index, 0, "token")
    attempt = MemberAttempt(life.store, claimed, member, AROUND.clock, cast(MemberJournal, None))
    attempt.ordered(1)
    member._hear(Write(1, CommitName(2, 0, 2).text, "", []))
    snapshot = life.state.snapshot(Progress(completed=2))
    record = attempt.commit(LiveImage(lay_out(snapshot.table), snapshot), 2)
    assert line.said == ["Part"]
    for word in (ReadBack(1, "whole"), Settled(1, "it is bad on rank 2")):
        member._hear(word)
    reading = [True]
    with pytest.raises(CheckpointCorrupt, match="it is bad on rank 2"):
        attempt.confirm(record, has_read=reading.clear)
    assert not reading


def test_nobody_waits_for_a_rank_that_has_finished(told: Told) -> None:
    bond = told.bond(0)
    bond.part_with(Gone(2, "finished", 0, ""))
    bond.check()
    with bond.changed:
        bond.wait(lambda: True)
        with pytest.raises(Parted, match="rank 2 has finished, and this rank has not") as parted:
            bond.wait(lambda: False)
    assert parted.value.fate.code == EXIT_HUMAN


@pytest.mark.parametrize(
    ("order", "how"), [(Leave(75, "a notice"), "stopped"), (Finished(9), "finished")], ids=["leave", "finished"]
)
def test_nobody_hears_of_anothers_leaving_before_it_is_told_to_leave_itself(
    order: Leave | Finished, how: str, told: Told
) -> None:
    leader, quick, slow = told.leader(), Line(), Line()
    connected(leader, quick, slow)
    quick.on_said = lambda: leader._hear(1, Gone(1, how, 75, "a notice"))
    leader.dismiss(order)
    assert slow.said == [type(order).__name__]


def test_a_rank_that_stops_by_itself_is_told_of(told: Told) -> None:
    leader, one, other = told.leader(), Line(), Line()
    connected(leader, one, other)
    leader._hear(1, Gone(1, "stopped", 143, "a notice"))
    assert (one.said, other.said) == ([], ["Gone"])


def test_of_many_who_leave_since_one_is_lost_only_the_first_is_told_of(told: Told) -> None:
    leader, one, other = told.leader(), Line(), Line()
    connected(leader, one, other)
    leader._hear(1, Gone(1, "crashed", 1, "ValueError"))
    leader._hear(2, Gone(2, "stopped", 143, "rank 1 crashed"))
    assert (one.said, other.said) == ([], ["Gone"])


def test_a_save_outside_of_the_loop_leaves_the_meeting_at_the_next_border(told: Told) -> None:
    leader = told.leader()
    leader.bond.gate.ask(1)
    leader.bond.gate.agree(1, 0)
    leader._here.update({rank: Here(0, [0, 0, 0], "save") for rank in (1, 2)})
    leader.meet(NOBODY, at="save")
    leader.disperse()
    assert leader.bond.gate.look() == "meet"


def test_nothing_counts_as_read_by_all_once_another_save_has_begun(told: Told) -> None:
    led = LedRanks(told.leader(), TaskPlace("job", "run-1", 0))
    old = CommitName(1, 0, 1)
    led.order(beside=True)
    led.write(old, None, {})
    led.committed()
    led.order(beside=True)
    with pytest.raises(StoreUnreachable, match="another save has begun"):
        led.all_read(old, lambda size: None)


def test_parts_that_make_no_readable_record_together_are_not_committed(store: Path, told: Told) -> None:
    life, leader = Life(store), told.leader()
    life.save(1)
    own = load_record(life.store, life.place.commit(life.last))
    led = LedRanks(leader, life.place)
    for rank_1_says in (0, 1):
        led.order(beside=False)
        for rank, more in ((1, rank_1_says), (2, 0)):
            files: list[list[Any]] = [[file.name, file.bytes + more] for file in own.files]
            image = image_fields(replace(own.images[0], rank=rank))
            assert leader.parts.take(rank, leader.parts.number, Part(leader.parts.number, files, image, 0))
        if not rank_1_says:
            assert len(led.joined(own).images) == 3
    with pytest.raises(StoreUnreachable, match="it names a file twice"):
        led.joined(own)


class Others:
    """In place of the other ranks: their storage does not answer."""

    def __init__(self) -> None:
        self.settled: list[tuple[CommitName, str]] = []

    def read_back(self, name: CommitName, how: str) -> None:
        raise StoreUnreachable("rank 1: no answer")

    def settle(self, name: CommitName, why: str = "") -> None:
        self.settled.append((name, why))


def test_a_save_that_could_not_be_read_back_counts_on_no_rank(store: Path) -> None:
    life, others = Life(store), Others()
    life.save(1)
    record = load_record(life.store, life.place.commit(life.last))
    life.attempt.others = cast(OtherRanks, others)
    with pytest.raises(StoreUnreachable):
        life.attempt.confirm(record)
    assert others.settled[0] == (life.last, "rank 1: no answer")


# --- the company of a session -----------------------------------------------------------------------


class Clock:
    def monotonic_seconds(self) -> float:
        return 100.0


class Followed:
    """In place of the connection to rank 0."""

    def __init__(self, *orders: Message) -> None:
        self.orders, self.said = list(orders), list[Message]()
        self.bond = SimpleNamespace(world=SimpleNamespace(rank=1))

    def join(self, *_: object) -> None: ...

    def arrive(self, mark: object, *, at: str) -> None: ...

    def say(self, message: Message) -> None:
        self.said.append(message)

    def order(self, between: object) -> Message:
        return self.orders.pop(0)

    def part(self, how: str, code: int, reason: str) -> None: ...


def host(told: Told, report: Any, notice: Notice | None = None) -> Any:
    board = SimpleNamespace(report=report, notice=notice)
    return SimpleNamespace(hearing=told, board=board, progress=Progress(completed=7))


def following(told: Told, member: Followed, notice: Notice | None = None) -> Following:
    identity = SimpleNamespace(task=0)
    around: Any = SimpleNamespace(interrupted_exit_code=143, clock=Clock(), env={}, identity=identity)
    company = Following(World(1, 2, 1, 2, "launch"), around, host(told, lambda source, seen: True, notice))
    told.bonds.append(company.bond)
    company._member = cast(Member, member)
    return company


def test_a_journal_that_hangs_keeps_no_answer_of_a_rank_back(told: Told) -> None:
    reported, go_on, seen = threading.Event(), threading.Event(), list[tuple[str, Any]]()

    def report(source: str, what: Any) -> bool:
        seen.append((source, what))
        reported.set()
        return go_on.wait(60)

    around: Any = SimpleNamespace(interrupted_exit_code=143, clock=Clock(), env={})
    company = Telling(World(0, 2, 0, 2, "launch"), around, host(told, report))
    told.bonds.append(company.bond)
    company.take_standing(1, [["SIGTERM", "why", "final", 30.0]])
    company.take_standing(1, [])
    assert reported.wait(60)
    [(source, [disruption])] = seen  # the first hangs, and the second waits behind it
    assert (source, disruption.reason) == ("rank 1", "why (rank 1)")
    go_on.set()


def test_a_notice_that_came_before_rank_0_was_found_is_told_once_it_is(told: Told) -> None:
    clock: Any = Clock()
    when = datetime(2026, 11, 30, tzinfo=UTC)
    notice = Notice("SIGTERM", "why", 30.0, when, 100.0, Deadline(130.0), clock)
    member = Followed(Claimed("job", "run-1", 0, 3, "token"))
    store: Any = SimpleNamespace(traits=SimpleNamespace(local=True))
    options: Any = SimpleNamespace(job="job", run=None, every=1, fresh_run=False, rollback_to=None)
    following(told, member, notice).join(store, options, lambda: None)
    [standing] = member.said
    assert isinstance(standing, Standing)
    assert standing.notices == [["SIGTERM", "why", "final", 30.0]]


@pytest.mark.parametrize(("at", "step"), [("border", 7), ("save", 7), ("finish", 6)])
def test_a_run_that_rank_0_has_finished_elsewhere_is_not_finished_here(at: str, step: int, told: Told) -> None:
    with pytest.raises(RanksDiffer):
        following(told, Followed(Finished(step)))._meet(at)


def test_a_run_that_rank_0_has_finished_at_this_step_is_finished(told: Told) -> None:
    following(told, Followed(Finished(7)))._meet("finish")


def test_a_rank_that_was_not_there_goes_on_at_the_same_border_as_the_others() -> None:
    saved = RandomState({"python": 1}, {})
    resumed = SimpleNamespace(progress=Progress(at_epoch=saved, at_iter=saved), random=saved)
    account: Any = SimpleNamespace(stopwatch=lambda: lambda: 0.0)
    session: Any = SimpleNamespace(claimed=lambda *_: None, around=SimpleNamespace(rank=2))
    attempt: Any = None
    restoring = Restoring(session, attempt, account)
    accepted: Any = SimpleNamespace(restore=lambda: resumed)
    restoring._accepted = accepted
    opened: Any = SimpleNamespace(rank=0)
    restoring.begun(opened, None)
    nothing = RandomState({}, {})
    assert (resumed.random, resumed.progress.at_epoch, resumed.progress.at_iter) == (nothing, nothing, None)
