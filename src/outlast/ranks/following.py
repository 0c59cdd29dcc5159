"""The saves of a rank that is not the first: it writes its part, and waits for what the leader makes of all parts."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from typing import Any

from outlast.checkpoint.equal import image_for
from outlast.checkpoint.image import Image
from outlast.checkpoint.others import Shared
from outlast.checkpoint.places import CommitName, TaskPlace
from outlast.checkpoint.read import OpenCheckpoint, open_image, verify_data
from outlast.checkpoint.record import CommitRecord, DataFile, image_fields, load_record
from outlast.checkpoint.write import FULL_EFFORT, Effort, SaveDetails, persist
from outlast.clock import Clock
from outlast.errors import BadObject, CheckpointCorrupt, StoreUnreachable
from outlast.events import Recorded
from outlast.ports import Pace, Store
from outlast.ranks.fate import Parted
from outlast.ranks.journal import MemberJournal
from outlast.ranks.member import Member
from outlast.ranks.messages import (
    Abandoned,
    Claimed,
    Part,
    PartFailed,
    ReadBack,
    Settled,
    WasRead,
    Write,
)
from outlast.threads import nothing

_KNOWN_BASES = 8  # the newest; an older one is not referred to any more


class _Unwanted(Exception):
    """The leader does not wait for this any more."""


class MemberAttempt:
    """The attempt that the leader claimed, as this rank takes part in it. Deletes nothing, and commits nothing."""

    def __init__(self, store: Store, claimed: Claimed, member: Member, clock: Clock, journal: MemberJournal) -> None:
        self.number = claimed.attempt
        self.place = self.place_of(claimed)
        self.journal = journal
        self.earlier: Mapping[int, Sequence[Recorded]] = {}
        self.commit_seconds = 0.0
        self._store, self._token, self._member, self._clock = store, claimed.token, member, clock
        self._rank = member.bond.world.rank
        self._ordered: int | None = None  # the save that is under way, and not answered for yet
        self._committed: tuple[int, CommitRecord, Effort] | None = None
        self._bases: dict[str, CommitRecord] = {}

    @staticmethod
    def place_of(claimed: Claimed) -> TaskPlace:
        """Where the attempt is in the store."""
        return TaskPlace(claimed.job, claimed.run, claimed.task)

    # --- the start ----------------------------------------------------------------------------------

    def open(
        self,
        path: str,
        stack: ExitStack,
        accept: Callable[[OpenCheckpoint], None],
        between_chunks: Callable[[], None],
    ) -> OpenCheckpoint:
        """This rank's image of a checkpoint, accepted. Raises as Attempt.open_newest_good does for one."""
        record = load_record(self._store, path)
        which = image_for(record, self._rank)
        opened = stack.enter_context(open_image(self._store, record, which, between_chunks=between_chunks))
        accept(opened)
        self._note_base(record.of_rank(which))
        return opened

    # --- saving -------------------------------------------------------------------------------------

    def ordered(self, number: int) -> None:
        """The leader begins a save; this rank copies its state for it now."""
        self.abandon("another save begins")
        self._member.forget_saves_before(number - 1)  # of which one may still be read back
        self._ordered = number

    def commit(
        self, image: Image, step: int, wishes: object = None, effort: Effort = FULL_EFFORT, *, tidy: bool = True
    ) -> CommitRecord:
        """Writes this rank's part; returns its share of the record once all is committed; `confirm` follows.

        Raises StoreUnreachable or CheckpointCorrupt where nothing came of it.
        """
        number, began = self._ordered, self._clock.monotonic_seconds()
        if number is None:
            raise StoreUnreachable("the leader has given this save up")
        try:
            record = self._write(number, image, effort)
            outcome = self._member.next_of_save(number)
            if isinstance(outcome, Abandoned):
                raise StoreUnreachable(outcome.why)
        except Parted as parted:
            raise _apart(parted) from parted
        self.commit_seconds = self._clock.monotonic_seconds() - began
        self._committed = number, record, effort
        return record

    def abandon(self, why: str) -> None:
        """This rank cannot do its part; nothing where it has answered."""
        number, self._ordered = self._ordered, None
        if number is not None:
            self._member.say(PartFailed(number, why))

    def confirm(
        self, record: CommitRecord, effort: Effort = FULL_EFFORT, *, has_read: Callable[[], None] = nothing
    ) -> None:
        """Reads back what was committed last, as the leader orders, until that has settled it. Raises as `commit`."""
        assert self._committed is not None
        number, own, at_pace = self._committed
        try:
            self._follow_up(number, own, at_pace)
        except Parted as parted:
            raise _apart(parted) from parted
        finally:
            has_read()
        self._note_base(own)

    def glance(self, record: CommitRecord) -> None:
        """The same: the leader says how closely."""
        self.confirm(record)

    def settle(self, name: CommitName, why: str = "") -> None:
        """The leader says when a save is over."""

    def still_claimed(self) -> bool:
        """Whether this rank's last word can be written."""
        return not self.journal.failing

    def _write(self, number: int, image: Image, effort: Effort) -> CommitRecord:
        """This rank's part, durable and told to the leader."""
        order = self._member.next_of_save(number)
        if not isinstance(order, Write):
            self._ordered = None
            why = order.why if isinstance(order, Abandoned) else "the leader did not say what to write"
            raise StoreUnreachable(why)
        name = CommitName.parse(order.name)
        assert name is not None
        base = self._bases.get(order.base)
        details = SaveDetails(name, self._token, pinned=False, metrics={})
        wanted = Effort(self._while_wanted(number, effort.pace), effort.threads)
        try:
            record = persist(
                self._store,
                self.place,
                image,
                details,
                base=base,
                effort=wanted,
                clock=self._clock,
                rank=self._rank,
                shared=_shared(order.shared),
            )
        except (StoreUnreachable, CheckpointCorrupt, _Unwanted) as error:
            self.abandon(str(error) or "it was given up")
            if isinstance(error, _Unwanted):
                raise StoreUnreachable("the leader has given this save up") from error
            raise
        files: list[list[Any]] = [[file.name, file.bytes] for file in record.files]
        self._ordered = None
        self._member.say(Part(number, files, image_fields(record.images[0]), record.written_bytes))
        return record

    def _while_wanted(self, number: int, pace: Pace) -> Pace:
        """The pace of what the leader waits for; what comes next from it says that it does not any more."""

        def paced(size: int) -> None:
            pace(size)
            if self._member.has_word_of_save(number) or self._member.bond.fate is not None:
                raise _Unwanted

        return paced

    def _follow_up(self, number: int, record: CommitRecord, effort: Effort) -> None:
        """Committed: reads back what it is told to, until the leader has settled it."""
        while True:
            word = self._member.next_of_save(number)
            if isinstance(word, Settled):
                if word.why:
                    raise CheckpointCorrupt(word.why)
                return
            if isinstance(word, ReadBack):
                self._read_back(number, record, word.how, effort)

    def _read_back(self, number: int, record: CommitRecord, how: str, effort: Effort) -> None:
        mine = {file.name for file in record.files if self.place.rank_of(file.name) == self._rank}
        new = {name for name in mine if self.place.data_of(name) == record.name}
        pace = self._while_wanted(number, effort.pace)
        try:
            verify_data(
                self._store,
                record,
                files=new if how == "whole" else set(),
                turn=record.sequence,
                pace=pace,
                threads=effort.threads,
            )
        except _Unwanted:
            return
        except StoreUnreachable as error:
            self._member.say(WasRead(number, str(error), "", unreachable=True))
        except BadObject as error:
            self._member.say(WasRead(number, str(error), error.file or "", unreachable=False))
        else:
            self._member.say(WasRead(number, "", "", unreachable=False))

    def _note_base(self, record: CommitRecord) -> None:
        self._bases[record.name.text] = record
        while len(self._bases) > _KNOWN_BASES:
            del self._bases[next(iter(self._bases))]


def _apart(parted: Parted) -> StoreUnreachable:
    return StoreUnreachable(f"the ranks do not save together any more: {parted.fate.reason}")


def _shared(rows: Sequence[Sequence[Any]]) -> Shared:
    places: dict[tuple[str, int], list[tuple[DataFile, int]]] = {}
    for digest, size, name, file_bytes, offset in rows:
        places.setdefault((str(digest), int(size)), []).append((DataFile(str(name), int(file_bytes)), int(offset)))
    return places
