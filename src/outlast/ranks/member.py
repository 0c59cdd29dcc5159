"""A rank that is not the first: it finds rank 0, answers it, and does what it says."""

import socket
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from weakref import WeakMethod

from outlast.clock import Clock, format_duration
from outlast.errors import StoreUnreachable
from outlast.ranks.bond import Bond
from outlast.ranks.fate import RanksApart, RanksDiffer
from outlast.ranks.meeting import Meeting, Meetings, ways_to
from outlast.ranks.messages import (
    Abandoned,
    Agreed,
    Committed,
    Go,
    Gone,
    Hello,
    Here,
    Hold,
    Message,
    Passed,
    ReadBack,
    Refused,
    Settled,
    Standing,
    Welcome,
    Wish,
    WishHeard,
    Write,
)
from outlast.ranks.wire import Closed, Connection, close_in_children, said_of_end

_CONNECT_SECONDS = 3.0
_FAREWELL_SECONDS = 1.0
_FIRST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS = 0.02, 1.0
OfSave = Write | Committed | Abandoned | ReadBack | Settled


class Member:
    """The connection to rank 0. `on_standing` is told all that the leader hears; a method, held weakly."""

    def __init__(self, bond: Bond, on_standing: Callable[[int, list[list[object]]], None]) -> None:
        self.bond = bond
        self._on_standing = WeakMethod(on_standing)
        self._connection: Connection | None = None
        self._orders: deque[Message] = deque()
        self._of_saves: deque[OfSave] = deque()
        self._parted = self._heard_all = False
        self._wishes = 0  # of this rank that the leader has not heard yet

    # --- the start ----------------------------------------------------------------------------------

    def join(
        self,
        meetings: Meetings,
        agreed_on: Mapping[str, str],
        clock: Clock,
        wait_seconds: float,
        between: Callable[[], None],
    ) -> None:
        """Finds the leader. Raises RanksApart, RanksDiffer, and what `between` raises."""
        close_in_children()
        hello = Hello(self.bond.world.rank, self.bond.world.size, dict(agreed_on))
        until, pause = clock.monotonic_seconds() + wait_seconds, _FIRST_PAUSE_SECONDS
        why = "there is no record of it in the store"
        while True:
            between()
            try:
                for connection in self._ways(meetings.find(), between):
                    why = self._not_welcome(connection, hello)
                    if not why:
                        self._connection = connection
                        threading.Thread(target=self._listen, name="outlast-ranks-leader", daemon=True).start()
                        return
            except StoreUnreachable as error:
                why = str(error)
            if clock.monotonic_seconds() > until:
                raise RanksApart(
                    f"rank {self.bond.world.rank} did not find rank 0 within {format_duration(wait_seconds)}: {why}. "
                    "Each rank has to make its Job with the same store, and to reach rank 0 over the network; "
                    "OUTLAST_RANKS_WAIT is how long they wait"
                )
            time.sleep(pause)
            pause = min(pause * 1.5, _LONGEST_PAUSE_SECONDS)

    def _ways(self, meetings: list[Meeting], between: Callable[[], None]) -> Iterator[Connection]:
        for meeting in meetings:
            for address in ways_to(meeting, self.bond.world):
                between()  # each may take seconds
                try:
                    sock = socket.create_connection((address, meeting.port), timeout=_CONNECT_SECONDS)
                    yield Connection(sock, meeting.secret, leads=False)
                except (OSError, Closed):
                    continue
                break  # whoever answers there was found

    def _not_welcome(self, connection: Connection, hello: Hello) -> str:
        """Why this one does not take this rank in; "" where it does. Raises RanksDiffer where no other one would."""
        try:
            connection.send(hello)
            answer = connection.receive(first=True)
        except Closed:
            connection.close()
            return "its record is there, and it does not answer as it should"
        if isinstance(answer, Refused) and answer.final:
            raise RanksDiffer(f"{answer.why}: every rank has to be given the same")
        if not isinstance(answer, Welcome):
            connection.close()
            said = answer.why if isinstance(answer, Refused) else type(answer).__name__
            return f"its record is there, and it says: {said}"
        connection.settle()
        return ""

    def _listen(self) -> None:
        """The thread of the connection."""
        assert self._connection is not None
        try:
            while True:
                self._hear(self._connection.receive())
        except Exception as error:  # noqa: BLE001 - who is not heard any more is lost; else this rank waits for ever
            with self.bond.changed:
                self._heard_all = True
                self.bond.changed.notify_all()
            if not self._parted:
                self.bond.lose(0, said_of_end(error))
            self._connection.close()

    def _hear(self, message: Message) -> None:
        match message:
            case Hold(round=number):
                with self.bond.changed:
                    passed = self.bond.gate.ask(number)
                self.say(Passed(number, passed))
                return
            case Standing(notices=notices):
                if on_standing := self._on_standing():
                    on_standing(0, notices)
                return
            case Gone():
                self.bond.part_with(message)
                return
        with self.bond.changed:
            match message:
                case Agreed(round=number, border=border):
                    self.bond.gate.agree(number, border)
                case WishHeard():
                    self._wishes -= 1
                case Write() | Committed() | Abandoned() | ReadBack() | Settled():
                    self._of_saves.append(message)
                case _:
                    self._orders.append(message)
            self.bond.changed.notify_all()

    def say(self, message: Message) -> None:
        """To the leader; if that is gone, its thread says so."""
        if self._connection is not None:
            try:
                self._connection.send(message)
            except Closed:
                self._connection.close()

    # --- borders ------------------------------------------------------------------------------------

    def wish(self, *, pinned: bool) -> None:
        """A save at the coming border, please: it is not passed before the leader has heard."""
        with self.bond.changed:
            self._wishes += 1
            border = self.bond.gate.passed
        self.say(Wish(border, pinned))

    def passes(self, *, always: bool) -> bool:
        """Passes the next border, unless all meet there; waits while nobody knows. Raises Parted."""
        bond = self.bond
        if always:
            return False
        with bond.changed:
            if bond.fate is not None:
                bond.check()
            bond.wait(lambda: self._wishes == 0 and bond.gate.look() != "wait")
            if bond.gate.look() == "meet":
                return False
            bond.gate.step()
            return True

    def arrive(self, mark: tuple[int, int, int], *, at: str) -> None:
        """Stands at a border where all meet; `order` follows."""
        self.bond.check()
        self.say(Here(self.bond.gate.passed, list(mark), at))

    def order(self, meanwhile: Callable[[], None]) -> Message:
        """What the leader says next. Raises Parted."""
        with self.bond.changed:
            self.bond.wait(lambda: bool(self._orders), meanwhile)
            return self._orders.popleft()

    def go(self, order: Go, *, counts: bool) -> None:
        """All is done at this border: it is passed, if it `counts` as one."""
        bond = self.bond
        if order.border != bond.gate.passed:
            raise RanksDiffer(f"rank 0 goes on from border {order.border}, and this rank is at {bond.gate.passed}")
        if not counts:
            return
        with bond.changed:
            bond.gate.met()
            bond.wait(lambda: bond.gate.look() != "wait")
            bond.gate.step()

    # --- saves, in whichever thread does them -------------------------------------------------------

    def next_of_save(self, number: int) -> OfSave:
        """What the leader says next of a save. Raises Parted.

        Words of others stay: while reading one back hangs in its thread, another one makes the next.
        """
        with self.bond.changed:
            self.bond.wait(lambda: self._first_of_save(number) is not None)
            found = self._first_of_save(number)
            assert found is not None
            self._of_saves.remove(found)
            return found

    def forget_saves_before(self, number: int) -> None:
        """Whatever was said of them and not taken is for nobody."""
        with self.bond.changed:
            self._of_saves = deque(one for one in self._of_saves if one.number >= number)

    def _first_of_save(self, number: int) -> OfSave | None:
        return next((one for one in self._of_saves if one.number == number), None)

    def has_word_of_save(self, number: int) -> bool:
        """Whether the leader has said something of a save that nobody has taken yet."""
        with self.bond.changed:
            return self._first_of_save(number) is not None

    # --- the end ------------------------------------------------------------------------------------

    def part(self, how: str, code: int, reason: str) -> None:
        """This process leaves; returns when the leader has heard that, or after a moment."""
        connection = self._connection
        if self._parted or connection is None:
            return
        self.say(Gone(self.bond.world.rank, how, code, reason))
        self._parted = True
        connection.say_no_more()
        with self.bond.changed:
            self.bond.changed.wait_for(lambda: self._heard_all, _FAREWELL_SECONDS)
