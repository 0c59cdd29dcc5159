"""The saves of all ranks as rank 0 leads them: their parts, one record, what they read back."""

from collections.abc import Callable
from typing import Any

from outlast.checkpoint.others import Shared
from outlast.checkpoint.places import CommitName, TaskPlace
from outlast.checkpoint.record import CommitRecord, DataFile, RankPart, checked, parsed_image
from outlast.errors import CheckpointCorrupt, ExitingError, StoreUnreachable
from outlast.ports import Pace
from outlast.ranks.fate import Parted
from outlast.ranks.leader import Leader
from outlast.ranks.messages import (
    Abandoned,
    Committed,
    Part,
    PartFailed,
    ReadBack,
    Save,
    Settled,
    TryCheckpoint,
    Write,
)


class RankRefused(ExitingError):
    """A rank cannot go on, whatever checkpoint it is given; the text names it."""

    def __init__(self, message: str, code: int) -> None:
        self.exit_code = code
        super().__init__(message)


class LedRanks:
    """The other ranks of an attempt, through the leader's connections; see checkpoint.others.OtherRanks."""

    def __init__(self, leader: Leader, place: TaskPlace) -> None:
        self._leader, self._bond, self._place = leader, leader.bond, place
        self.size = self._bond.world.size
        self._number = 0
        self._open = self._asked = False  # whether a save is under way; whether anybody writes a part of it
        self._name: CommitName | None = None  # of that save, once it has one
        self._is_durable = False

    # --- the start ----------------------------------------------------------------------------------

    def try_checkpoint(self, path: str) -> None:
        with self._bond.changed:
            tried = self._leader.tried
            tried.begin(tried.number + 1)
        self._leader.tell(TryCheckpoint(path))

    def tried(self, meanwhile: Callable[[], None]) -> None:
        try:
            with self._bond.changed:
                self._bond.wait(lambda: self._leader.tried.is_whole, meanwhile)
                answers = sorted(self._leader.tried.words.items())
        except Parted as parted:
            raise RankRefused(parted.fate.reason, parted.fate.code) from parted
        for rank, answer in answers:
            if answer.why and answer.code:
                raise RankRefused(f"rank {rank}: {answer.why}", answer.code)
        refused = [f"rank {rank}: {answer.why}" for rank, answer in answers if answer.why]
        if refused:
            raise CheckpointCorrupt("; ".join(refused[:3]))

    # --- one save -----------------------------------------------------------------------------------

    def order(self, *, beside: bool) -> None:
        """At a border where all have met: all copy their state, or save it at once."""
        if self._is_durable and self._name is not None:
            self.settle(self._name)  # it was left: what reads it back hangs
        self.abandon("another save begins")
        self._number, self._name, self._is_durable = self._number + 1, None, False
        with self._bond.changed:
            self._leader.parts.begin(self._number)
            self._leader.read.begin(self._number)
        self._open, self._asked = True, False
        self._leader.tell(Save(self._number, beside))

    def write(self, name: CommitName, base: CommitName | None, shared: Shared) -> None:
        self._asked, self._name = True, name
        rows: list[list[Any]] = [
            [digest, size, file.name, file.bytes, offset]
            for (digest, size), places in shared.items()
            for file, offset in places
        ]
        self._leader.tell(Write(self._number, name.text, base.text if base else "", rows))

    def joined(self, own: CommitRecord) -> CommitRecord:
        try:
            with self._bond.changed:
                self._bond.wait(lambda: self._leader.parts.is_whole)
                words = sorted(self._leader.parts.words.items())
        except Parted as parted:
            raise StoreUnreachable(f"the ranks do not save together any more: {parted.fate.reason}") from parted
        failed = [f"rank {rank}: {word.why}" for rank, word in words if isinstance(word, PartFailed)]
        if failed:
            raise StoreUnreachable("; ".join(failed[:3]))
        record = own.joined_by([self._part(rank, word) for rank, word in words if isinstance(word, Part)])
        try:  # what no reader would take must not take the place of an older checkpoint
            return checked(record, self._place.commit(record.name))
        except (ValueError, TypeError, IndexError) as error:
            raise StoreUnreachable(f"the parts of the ranks make no checkpoint together: {error!r}") from error

    def _part(self, rank: int, word: Part) -> RankPart:
        try:
            files = tuple(DataFile(str(name), int(size)) for name, size in word.files)
            part = RankPart(parsed_image(word.image), files, word.written)
            good = part.image.rank == rank and all(self._place.data_of(file.name) for file in files)
            good = good and all(piece.file < len(files) for piece in part.image.pieces)
        except (ValueError, TypeError, KeyError) as error:
            raise StoreUnreachable(f"rank {rank}: its part makes no sense: {error!r}") from error
        if not good:
            raise StoreUnreachable(f"rank {rank}: its part is not its own")
        return part

    def committed(self) -> None:
        self._is_durable = True
        self._leader.tell(Committed(self._number))

    def abandon(self, why: str) -> None:
        if not self._open or self._is_durable:
            return
        self._open = False
        self._leader.tell(Abandoned(self._number, why))
        if not self._asked:
            return
        try:
            with self._bond.changed:  # what is deleted while somebody writes it would stay
                self._bond.wait(lambda: self._leader.parts.is_whole)
        except Parted:
            return

    def read_back(self, name: CommitName, how: str) -> None:
        if name == self._name:
            self._leader.tell(ReadBack(self._number, how))

    def all_read(self, name: CommitName, pace: Pace) -> None:
        if name != self._name:  # older checkpoints are retired for one that all have read
            raise StoreUnreachable(f"not all ranks have read {name.text} back: another save has begun since")
        try:
            with self._bond.changed:
                self._bond.wait(lambda: self._leader.read.is_whole, lambda: pace(0))
                words = sorted(self._leader.read.words.items())
        except Parted as parted:
            raise StoreUnreachable(f"not all ranks have read their parts back: {parted.fate.reason}") from parted
        for rank, word in words:
            if word.why and not word.unreachable:
                error = CheckpointCorrupt(f"rank {rank}: {word.why}")
                error.file = word.file or None
                raise error
        for rank, word in words:
            if word.why:
                raise StoreUnreachable(f"rank {rank}: {word.why}")

    def settle(self, name: CommitName, why: str = "") -> None:
        if self._open and name == self._name:
            self._open = False
            self._leader.tell(Settled(self._number, why))
