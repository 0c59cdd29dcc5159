"""Rank 0: it takes the others in, asks them, and tells them what all do."""

import socket
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from weakref import WeakMethod

from outlast.clock import Clock, format_duration
from outlast.ranks.agreement import Asking
from outlast.ranks.bond import Bond
from outlast.ranks.fate import RanksApart, RanksDiffer
from outlast.ranks.gathering import Gathering
from outlast.ranks.meeting import Meetings
from outlast.ranks.messages import (
    Agreed,
    Finished,
    Go,
    Gone,
    Hello,
    Here,
    Hold,
    Leave,
    Message,
    Part,
    PartFailed,
    Passed,
    Refused,
    Standing,
    Tried,
    WasRead,
    Welcome,
    Wish,
    WishHeard,
    to_json,
)
from outlast.ranks.threshold import Threshold
from outlast.ranks.wire import Closed, Connection, close_in_children, listener, said_of_end

_ACCEPT_SECONDS = 0.1
_LONG_SECONDS = 10.0
_ALIKE = (
    "Every rank has to do the same steps, with as many batches, and to call job.save() and job.finish() at the same "
    "place. Nothing was saved"
)


@dataclass(frozen=True, slots=True)
class Ears:
    """Whoever is told what members say; methods, held weakly. `on_standing`: a rank, and all that it hears."""

    on_wish: Callable[[bool], None]
    on_standing: Callable[[int, list[list[object]]], None]


class Leader:
    """The connections of rank 0, one for each member. Public methods are for the loop's thread and the saver's."""

    def __init__(self, bond: Bond, agreed_on: Mapping[str, str], heard: Ears) -> None:
        self.bond = bond
        self._agreed_on = dict(agreed_on)
        self._on_wish, self._on_standing = WeakMethod(heard.on_wish), WeakMethod(heard.on_standing)
        self._members: dict[int, Connection] = {}
        others = frozenset(range(1, bond.world.size))
        self._asking = Asking(bond.world.size)
        self._here: dict[int, Here] = {}
        self.tried = Gathering[Tried](others)
        self.parts = Gathering[Part | PartFailed](others)
        self.read = Gathering[WasRead](others)
        self._threshold, self._turned_away = Threshold(), ""
        self._apart: str | None = None
        self.parted = False  # whether this process has said that it leaves
        self._dismissed = False  # whether all were told to leave
        self.meets = False  # whether all stand at this border now
        self._called = False  # whether something was asked for since the last decision

    # --- the start ----------------------------------------------------------------------------------

    def gather(
        self,
        meetings: Meetings,
        clock: Clock,
        wait_seconds: float,
        between: Callable[[], None],
        tell: Callable[[str], None],
    ) -> None:
        """Until all members are there. Raises RanksApart, RanksDiffer, and what `between` raises.

        `tell`: what to say once it takes long.
        """
        close_in_children()
        until = clock.monotonic_seconds() + wait_seconds
        tell_at = clock.monotonic_seconds() + _LONG_SECONDS
        with listener(only_here=self.bond.world.on_one_machine) as listening:
            listening.settimeout(_ACCEPT_SECONDS)
            meeting = meetings.publish(listening.getsockname()[1])
            try:
                while len(self._members) < self.bond.world.size - 1:
                    between()
                    self._check_apart()
                    self.bond.check()
                    now = clock.monotonic_seconds()
                    if now > until:
                        raise RanksApart(
                            f"of {self.bond.world.size} ranks {self._missing} did not come within "
                            f"{format_duration(wait_seconds)}{self._turned_away}. Each has to make its Job with the "
                            "same store, and to reach rank 0 over the network; OUTLAST_RANKS_WAIT is how long they wait"
                        )
                    if now > tell_at:
                        tell_at = until + 1
                        tell(f"waiting for the ranks {self._missing} of {self.bond.world.size} to make their Job")
                    self._take_in(listening, meeting.secret)
            finally:
                meetings.remove(meeting)

    def _take_in(self, listening: socket.socket, secret: str) -> None:
        """Whoever has connected, each in a thread of its own. Those for whom there is no file or thread wait."""
        try:
            sock, _ = listening.accept()
        except TimeoutError:
            return
        except OSError as error:  # too many files are open, or it is gone again
            self._turned_away = f" (rank 0 could not take one in: {error})"
            time.sleep(_ACCEPT_SECONDS)
            return
        self._threshold.enter(sock)
        try:
            work = partial(self._serve, sock, secret)
            threading.Thread(target=work, name="outlast-ranks-member", daemon=True).start()
        except RuntimeError as error:  # a container's limit of threads
            self._turned_away = f" (rank 0 could not take one in: {error})"
            self._threshold.leave(sock)
            sock.close()

    @property
    def _missing(self) -> list[int]:
        """Some of those that are not there."""
        return sorted(set(range(1, self.bond.world.size)) - self._members.keys())[:10]

    def _serve(self, sock: socket.socket, secret: str) -> None:
        """The thread of one connection."""
        connection = None
        try:
            connection = Connection(sock, secret, leads=True)
            hello = connection.receive(first=True)
            refused = self._refusal(hello)
            if not isinstance(hello, Hello) or refused is not None:
                self._refuse(connection, refused or Refused("a rank says hello first", final=False))
                return
            connection.settle()
            connection.send(Welcome())
        except Closed:  # nobody of ours, or one that will try again
            if connection is not None:
                connection.close()
            return
        finally:
            self._threshold.leave(sock)
        with self.bond.changed:
            if hello.rank in self._members:
                connection.close()
                return
            self._members[hello.rank] = connection
            self.bond.changed.notify_all()
        self._listen_to(hello.rank, connection)

    def _refusal(self, hello: Message) -> Refused | None:
        if not isinstance(hello, Hello) or not 0 < hello.rank < self.bond.world.size:
            return Refused("no rank of this launch", final=False)
        if hello.rank in self._members:
            return Refused(f"rank {hello.rank} is there already", final=False)
        theirs = {**hello.agreed_on, "WORLD_SIZE": str(hello.size)}
        ours = {**self._agreed_on, "WORLD_SIZE": str(self.bond.world.size)}
        for name in sorted(theirs.keys() | ours.keys()):
            if theirs.get(name) != ours.get(name):
                why = f"rank {hello.rank} has {name}={theirs.get(name)}, and rank 0 has {name}={ours.get(name)}"
                return Refused(why, final=True)
        return None

    def _refuse(self, connection: Connection, refused: Refused) -> None:
        try:
            connection.send(refused)
            connection.close()
        finally:
            if refused.final:  # only now: this process leaves at once, and the other one must have heard why
                self._apart = self._apart or refused.why

    def _listen_to(self, rank: int, connection: Connection) -> None:
        try:
            while True:
                self._hear(rank, connection.receive())
        except Exception as error:  # noqa: BLE001 - whoever is not heard any more is lost; else all wait for ever
            gone = self.bond.lose(rank, said_of_end(error))
            if gone is not None:
                self.tell(gone, but=gone.rank)
            connection.close()

    def _hear(self, rank: int, message: Message) -> None:
        """In the member's thread."""
        match message:
            case Passed(round=round_, borders=borders):
                self._answered(rank, round_, borders)
            case Here():
                self._arrived(rank, message)
            case Wish(border=border, pinned=pinned):
                if on_wish := self._on_wish():
                    on_wish(pinned)
                self.call(from_border=border)
                self._send(rank, to_json(WishHeard()))
            case Standing(notices=notices):
                if on_standing := self._on_standing():
                    on_standing(rank, notices)
            case Gone():
                if self._is_news(message):
                    self.tell(message, but=rank)
            case _:
                self._take(rank, message)

    def _is_news(self, gone: Gone) -> bool:
        """Whether the others have to hear of it: what all were told to do might reach one before it is told itself,
        and of many who leave since one is lost the first says it."""
        before = self.bond.fate
        agreed = gone.how == "finished" or (gone.how == "stopped" and self._dismissed)
        return self.bond.part_with(gone) and not agreed and (before is None or not before.strands)

    def _take(self, rank: int, message: Message) -> None:
        with self.bond.changed:
            match message:
                case Tried():
                    self.tried.take(rank, self.tried.number, message)
                case Part(number=number) | PartFailed(number=number):
                    self.parts.take(rank, number, message)
                case WasRead(number=number):
                    self.read.take(rank, number, message)
            self.bond.changed.notify_all()

    def tell(self, message: Message, *, but: int | None = None) -> None:
        """All members. One that is gone will be missed by its own thread."""
        body = to_json(message)
        for rank in list(self._members):
            if rank != but:
                self._send(rank, body)

    def _send(self, rank: int, body: bytes) -> None:
        try:
            self._members[rank].send_body(body)
        except Closed:
            self._members[rank].close()  # its thread says that it is gone

    # --- borders ------------------------------------------------------------------------------------

    def call(self, *, from_border: int = 0) -> None:
        """Something is to be done by all: they agree on a border, unless they are to meet at one from this on anyway.

        For any thread.
        """
        with self.bond.changed:
            self._called = True
            gate = self.bond.gate
            if self._asking.is_open or gate.meets_from(from_border) or self.bond.fate is not None:
                return
            if self.meets and gate.passed >= from_border:  # it is decided once more before they go on
                return
            number = self._asking.open()
            own = gate.ask(number)
            self.tell(Hold(number))
            self._answered(0, number, own)

    def _answered(self, rank: int, number: int, passed: int) -> None:
        with self.bond.changed:
            border = self._asking.answer(rank, number, passed)
            if border is not None:
                self.tell(Agreed(number, border))
                self.bond.gate.agree(number, border)
                self.bond.changed.notify_all()

    def _arrived(self, rank: int, here: Here) -> None:
        with self.bond.changed:
            if here.border < self.bond.gate.passed:
                self._apart = self._apart or (
                    f"rank {rank} waits for the others at its {here.at} after {here.mark[0]} steps, which rank 0 has "
                    f"passed. {_ALIKE}"
                )
            self._here[rank] = here
            self.bond.changed.notify_all()

    def border(self, decide: Callable[[], None], mark: tuple[int, int, int], *, always: bool) -> None:
        """One border: `decide` is called, more than once where something was asked for meanwhile. `always`: all ranks
        know by themselves that they meet here. Raises Parted, RanksDiffer, and what `decide` raises."""
        self.bond.check()
        self._check_apart()
        if always or self.bond.gate.look() == "meet":
            self.meet(mark, at="border")
        while True:
            self._called = False
            decide()
            if not self._stays(mark):
                return

    def _stays(self, mark: tuple[int, int, int]) -> bool:
        """Passes the border, and lets the others pass; not where all are to meet here, or something was asked for."""
        bond = self.bond
        with bond.changed:
            if self.meets and self._called:
                return True
            bond.wait(lambda: bond.gate.look() != "wait")
            if bond.gate.look() == "pass":
                number, met = bond.gate.passed, self.meets
                bond.gate.step()
                self.meets = False
                if met:
                    self._here.clear()
                    self.tell(Go(number))
                return False
        if self.meets:
            bond.gate.met()
        else:
            self.meet(mark, at="border")
        return True

    def meet(self, mark: tuple[int, int, int], *, at: str) -> None:
        """Waits until all stand at this border. Raises Parted, RanksDiffer."""
        if self.meets:
            return
        bond = self.bond
        with bond.changed:
            bond.wait(lambda: len(self._here) == bond.world.size - 1, self._check_apart)
            for rank, here in sorted(self._here.items()):
                if (here.border, tuple(here.mark), here.at) != (bond.gate.passed, mark, at):
                    raise RanksDiffer(
                        f"rank {rank} has done {here.mark[0]} steps (epoch {here.mark[1]}, batch {here.mark[2]}) and "
                        f"is at its {here.at}; rank 0 has done {mark[0]} (epoch {mark[1]}, batch {mark[2]}) and is at "
                        f"its {at}. {_ALIKE}"
                    )
            if at == "border":  # elsewhere they stand before it, and may be to meet there as well
                bond.gate.met()
            self.meets = True

    def _check_apart(self) -> None:
        if self._apart is not None:
            raise RanksDiffer(self._apart)

    def disperse(self) -> None:
        """All go on from a place that is no border of the loop."""
        with self.bond.changed:
            number = self.bond.gate.passed
            self.meets = False
            self._here.clear()
        self.tell(Go(number))

    # --- the end ------------------------------------------------------------------------------------

    def dismiss(self, message: Leave | Finished) -> None:
        """All leave, as they are told."""
        self._dismissed = True
        self.tell(message)

    def part(self, how: str, code: int, reason: str) -> None:
        """This process leaves. Only the first word counts."""
        if not self.parted:
            self.parted = True
            self.tell(Gone(0, how, code, reason))

    def await_farewells(self, clock: Clock, seconds: float) -> None:
        """A moment, so that all who have come have heard before the connections end."""
        until = clock.monotonic_seconds() + seconds
        with self.bond.changed:
            while not self._members.keys() <= self.bond.parted.keys() and clock.monotonic_seconds() < until:
                self.bond.changed.wait(0.05)
