"""One attempt at a task: its claim, the checkpoint it starts from, its commits, what it retires."""

import os
import socket
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

from outlast.checkpoint.crashes import crash_streak
from outlast.checkpoint.equal import refuse_other_ranks
from outlast.checkpoint.history import TaskHistory, history_of
from outlast.checkpoint.image import Image
from outlast.checkpoint.journal import Journal
from outlast.checkpoint.journals import Journals
from outlast.checkpoint.lineage import Claim, Lineage, claim_next, claimed_attempts, commit_names, superseded_by
from outlast.checkpoint.others import OtherRanks, Shared
from outlast.checkpoint.places import CommitName, TaskPlace
from outlast.checkpoint.read import OpenCheckpoint, Refusal, open_image, verify_data
from outlast.checkpoint.record import CommitRecord, load_record
from outlast.checkpoint.retain import NamedFiles, remove_failed, remove_orphans, retire
from outlast.checkpoint.runs import mark_finished
from outlast.checkpoint.shorten import shorten_ended
from outlast.checkpoint.starting import StartRequest, refuse_vanished, rolled_back, torn_records, was_committed
from outlast.checkpoint.write import FULL_EFFORT, Effort, SaveDetails, persist
from outlast.errors import (
    CheckpointCorrupt,
    NoGoodCheckpoint,
    ObjectExists,
    ObjectMissing,
    OutlastError,
    StoreUnreachable,
)
from outlast.events import (
    AttemptStarted,
    CheckpointRefused,
    Recorded,
    SaveCommitted,
    SaveTakenBack,
    SaveVerified,
)
from outlast.machine import lived_seconds, machine_name, process_birth
from outlast.ports import Store
from outlast.settings import Surroundings
from outlast.threads import nothing


class Superseded(OutlastError):
    """A newer attempt has claimed the task; this one commits and deletes nothing more."""


@dataclass(frozen=True, slots=True)
class Wishes:
    """What the program asked for with a checkpoint: that it be made, that it is kept, the numbers it is rated by."""

    asked: bool = False
    pinned: bool = False
    metrics: Mapping[str, float] = field(default_factory=dict)


NO_WISHES = Wishes()


class Attempt:
    """An attempt that has claimed its task. Use `claim` to make one."""

    def __init__(self, store: Store, request: StartRequest, around: Surroundings, claim: Claim) -> None:
        self.number = claim.attempt
        self.place = request.place
        self._store, self._claim = store, claim
        self._keep, self._around = request.keep, around
        self.journal = Journal(store, request.place, claim.attempt, around)
        self.earlier: Mapping[int, Sequence[Recorded]] = {}  # the journals of earlier attempts, but for logged numbers
        self._resumed_step = 0
        self._verified: list[CommitRecord] = []
        self._noted: set[CommitName] = set()  # those of them that were not read yet
        self._failed: list[CommitName] = []  # saves of which something may be left
        self._unconfirmed: list[CommitName] = []
        self._gone: list[CommitRecord] = []  # whose record was deleted, and perhaps not all of their data
        self._named = NamedFiles(store, request.place)
        self._sequence = 0
        self.commit_seconds = 0.0  # what the last one took, until it was durable; for the thread that made it
        self._cleaned = self._warned = False
        self.others: OtherRanks | None = None  # where several processes make this attempt together

    @property
    def token(self) -> str:
        """What the claim is known by in commit records."""
        return self._claim.token

    @classmethod
    def claim(cls, store: Store, request: StartRequest, around: Surroundings) -> "Attempt":
        """Claims the next attempt, within what the rollback and the crash policy leave of the commits found."""
        journals = Journals(store, request.place, without=("Logged",))
        torn: set[CommitName] = set()

        def choose(found: Lineage) -> tuple[Sequence[CommitName], Sequence[CommitName]]:
            refuse_vanished(request.place, found, committed=was_committed(journals, found))
            torn.update(torn_records(store, request.place, found.counted, journals))
            counted = rolled_back(request, found)
            if counted == found.counted:  # a rollback is the mending that a crash loop asks for
                newest = max((name.step for name in counted if name not in torn), default=0)
                known = (journals, found.claims, request.execution, request.crashes)
                streak = crash_streak(*known, starts_from=newest)
                counted = request.crashes.leave(counted, streak, around.console)
            aside = [name for name in found.counted if name not in counted and name not in torn]
            return [name for name in counted if name not in torn], aside

        claim, lineage = claim_next(store, request.place, choose, _claim_details(request, around))
        for damage in lineage.damaged:
            around.console.warning(f"a claim cannot be read and is passed over: {damage}")
        attempt = cls(store, request, around, claim)
        attempt.earlier = journals
        attempt._failed += sorted(torn)
        attempt.journal.record(_started(claim, request, around))
        return attempt

    def open_newest_good(
        self, stack: ExitStack, accept: Callable[[OpenCheckpoint], None], between_chunks: Callable[[], None]
    ) -> OpenCheckpoint | None:
        """The newest checkpoint that counts, verifies and is accepted, opened on `stack`; None on a first run.

        `accept` may raise CheckpointCorrupt. Worse checkpoints are named, and never deleted. Raises
        NoGoodCheckpoint (78) when there are some and none verifies, StoreUnreachable (75) when the storage rather
        than their content failed each time.
        """
        refusals: list[Refusal] = []
        for name in sorted(self._claim.commits, reverse=True):
            path = self.place.commit(name)
            try:
                opened = self._open(path, stack, accept, between_chunks)
            except (CheckpointCorrupt, ObjectMissing, StoreUnreachable) as error:
                # A record that is listed and not there: the listing is out of date, and the next one will be another.
                stale = isinstance(error, ObjectMissing) and error.file is None
                refusals.append(Refusal(path, str(error), stale or isinstance(error, StoreUnreachable)))
                self._around.console.warning(f"checkpoint {path} is not used: {error}")
                self.journal.record(CheckpointRefused(path, str(error)))
                continue
            self._note_older(name)
            self._verified.append(opened.record)
            self._resumed_step = name.step
            return opened
        if refusals:
            raise _none_good(self.place, refusals)
        return None

    def _open(
        self,
        path: str,
        stack: ExitStack,
        accept: Callable[[OpenCheckpoint], None],
        between_chunks: Callable[[], None],
    ) -> OpenCheckpoint:
        """One checkpoint, accepted by all ranks."""
        record = load_record(self._store, path)
        refuse_other_ranks(self._store, record, self.others.size if self.others else 1)
        if self.others is not None:
            self.others.try_checkpoint(path)
        try:
            opened = stack.enter_context(open_image(self._store, record, 0, between_chunks=between_chunks))
            accept(opened)
        finally:
            if self.others is not None:
                self.others.tried(between_chunks)
        return opened

    def _note_older(self, newest: CommitName) -> None:
        """Older checkpoints count for retention as far as their records can be read."""
        for name in sorted(self._claim.commits):
            if name >= newest:
                break
            try:
                self._verified.append(load_record(self._store, self.place.commit(name)))
                self._noted.add(name)
            except (CheckpointCorrupt, ObjectMissing, StoreUnreachable):
                continue  # it is neither offered nor deleted; `outlast checkpoints verify` names it

    def history(self, *, newest: int) -> TaskHistory:
        """What happened to the task in its newest so many attempts, this one among them. Raises StoreUnreachable."""
        return history_of(self._store, self.place, newest=newest)

    # --- saving -------------------------------------------------------------------------------------

    def commit(
        self, image: Image, step: int, wishes: Wishes = NO_WISHES, effort: Effort = FULL_EFFORT, *, tidy: bool = True
    ) -> CommitRecord:
        """Makes an image a checkpoint: data, the look for newer claims, the record. It is durable then; see `confirm`.

        Raises Superseded, StoreUnreachable or CheckpointCorrupt; in each case the last good checkpoint stands. What
        is left of a save that failed is deleted, so that a full disk does not fill further. With `tidy` the first
        commit also deletes what earlier attempts left: this one may not live to confirm any.
        """
        began = self._around.clock.monotonic_seconds()
        self._sequence += 1
        name = CommitName(step, self.number, self._sequence)
        details = SaveDetails(name, self._claim.token, wishes.pinned, wishes.metrics)
        clock = self._around.clock
        try:
            base = self._base()
            record = self._persisted(image, details, base, effort)
            self.stay_first()
            self._check_base(base)
            self._store.create(self.place.commit(name), record.to_bytes())
        except ObjectExists as error:  # only another process with this very claim could have made it
            raise Superseded(f"another process commits as attempt {self.number}") from error
        except (StoreUnreachable, CheckpointCorrupt) as error:
            self.abandon(str(error))
            self._give_up(name)
            raise
        if self.others is not None:
            self.others.committed()
        self._named.note(record)
        self.commit_seconds = seconds = clock.monotonic_seconds() - began
        self.journal.record(SaveCommitted(step, name.text, record.total_bytes, round(seconds, 6), record.written_bytes))
        if tidy and not self._cleaned:
            self._tidy()
        return record

    def _persisted(self, image: Image, details: SaveDetails, base: CommitRecord | None, effort: Effort) -> CommitRecord:
        """Data is durable, that of all ranks where there are several; the record that commits it."""
        clock, others = self._around.clock, self.others
        if others is None:
            return persist(self._store, self.place, image, details, base=base, effort=effort, clock=clock)
        own_base = None if base is None else base.of_rank(0)

        def tell(shared: Shared) -> None:
            others.write(details.name, None if base is None else base.name, shared)

        own = persist(
            self._store, self.place, image, details, base=own_base, effort=effort, clock=clock, rank=0, tell=tell
        )
        return others.joined(own)

    def abandon(self, why: str) -> None:
        """What is not committed yet will not be; for the other ranks, where there are any."""
        if self.others is not None:
            self.others.abandon(why)

    def confirm(
        self, record: CommitRecord, effort: Effort = FULL_EFFORT, *, has_read: Callable[[], None] = nothing
    ) -> None:
        """Reads back what a save wrote, and a part of what it refers to; only then older checkpoints are retired.

        Raises CheckpointCorrupt when something is not there as it was written: the save is taken back then, and the
        last good one stands. Raises StoreUnreachable when it cannot be read now: it may well be good, and stays until
        a newer one is.
        """
        began = self._around.clock.monotonic_seconds()
        try:
            self._check(record, self._own_files(record), effort, has_read, how="whole")
        finally:
            self.settle(record.name)
        seconds = self._around.clock.monotonic_seconds() - began
        self.journal.record(SaveVerified(record.step, record.name.text, round(seconds, 6)))
        self._verified.append(record)
        self._failed += self._unconfirmed
        self._unconfirmed.clear()
        self._tidy(effort)
        if self.journal.cheap or effort is not FULL_EFFORT:  # else somebody waits
            self.journal.shorten_if_long(effort.pace)

    def glance(self, record: CommitRecord) -> None:
        """For a save that nobody has time to read back: every file's size is looked at, and an eighth of the content.

        Nothing is retired for it. Raises as `confirm`; a file that is cut short, or a disk that has lost what it was
        given, shows in time for another save.
        """
        try:
            self._check(record, set(), FULL_EFFORT, nothing, how="glance")
        finally:
            self.settle(record.name)

    def settle(self, name: CommitName, why: str = "") -> None:
        """A save is over, and taken back if there is a reason; for the other ranks, where there are any."""
        if self.others is not None:
            self.others.settle(name, why)

    def _own_files(self, record: CommitRecord) -> set[str]:
        return {file.name for file in record.files if self.place.data_of(file.name) == record.name}

    def _check(
        self, record: CommitRecord, whole: set[str], effort: Effort, has_read: Callable[[], None], *, how: str
    ) -> None:
        """Reads those files whole and a part of the others; what is bad takes the save back."""
        try:
            self._read(record, whole, effort, has_read, how)
        except StoreUnreachable as error:
            self.settle(record.name, str(error))  # whoever asked for it is told the same on all ranks
            self._unconfirmed.append(record.name)
            raise
        except (CheckpointCorrupt, ObjectMissing) as error:
            self.settle(record.name, str(error))
            self.journal.record(SaveTakenBack(record.step, record.name.text, str(error)))
            if error.file not in self._own_files(record):
                self._forget_sharers(record)
            self._give_up(record.name)
            raise CheckpointCorrupt(str(error)) from error

    def _read(
        self, record: CommitRecord, whole: set[str], effort: Effort, has_read: Callable[[], None], how: str
    ) -> None:
        """Each rank reads what is its own."""
        pace, threads, others = effort.pace, effort.threads, self.others
        rank = None if others is None else 0
        if others is not None:
            others.read_back(record.name, how)
        try:
            verify_data(self._store, record, files=whole, rank=rank, turn=record.sequence, pace=pace, threads=threads)
            if others is not None:
                others.all_read(record.name, pace)
        finally:
            has_read()
            pace(0)  # the last request may have taken long, and nobody may care any more

    def _forget_sharers(self, record: CommitRecord) -> None:
        """A file of an earlier checkpoint is bad: nothing refers to those that have it any more, nor retires them."""
        shared = {file.name for file in record.files}
        self._verified = [one for one in self._verified if shared.isdisjoint(file.name for file in one.files)]

    def _base(self) -> CommitRecord | None:
        """The newest checkpoint that was read and is still there; somebody may have pruned the store."""
        there = set(commit_names(self._store, self.place)) if self._verified else set()
        self._gone += [one for one in self._verified if one.name not in there]
        self._verified = [one for one in self._verified if one.name in there]
        read = [one for one in self._verified if one.name not in self._noted]
        return read[-1] if read else None

    def _give_up(self, name: CommitName) -> None:
        self._failed.append(name)
        self._tidy()

    def _check_base(self, base: CommitRecord | None) -> None:
        """Somebody may have pruned the store: what the new record refers to went with it then."""
        if base is not None and base.name not in commit_names(self._store, self.place):
            self._verified.remove(base)
            self._gone.append(base)
            raise CheckpointCorrupt(f"{self.place.commit(base.name)}, which this save refers to, was removed meanwhile")

    def stay_first(self) -> None:
        """Raises Superseded when a newer attempt has claimed the task."""
        newer = superseded_by(self._store, self.place, self.number)
        if newer is not None:
            raise Superseded(f"attempt {newer} has claimed {self.place.folder}; this is attempt {self.number}")

    def still_claimed(self) -> bool:
        """Whether the task's place is there, with this attempt's claim, and can be written to."""
        try:
            return not self.journal.failing and self.number in claimed_attempts(self._store, self.place)
        except (StoreUnreachable, CheckpointCorrupt):
            return False

    def finish(self, name: CommitName, total: int | None) -> None:
        """Marks the task as finished by a commit. Raises Superseded."""
        self.stay_first()
        mark_finished(self._store, self.place, name, total, self._around.clock)
        self._tidy()

    def _tidy(self, effort: Effort | None = None) -> None:
        """Deletes what need not be kept. With an effort, what is kept instead is read first, if it was not yet.

        A storage that refuses is said, and asked again at the next save.
        """
        try:
            while self._failed:
                if not remove_failed(self._store, self.place, self._failed[0], self._may_delete):
                    return
                del self._failed[0]
            while self._gone:
                if not retire(self._store, self.place, self._gone[0], self._named, self._may_delete):
                    return
                del self._gone[0]
            for record in self._retired(effort):
                if not retire(self._store, self.place, record, self._named, self._may_delete):
                    return
                self._verified.remove(record)
            if not self._cleaned:
                remove_orphans(self._store, self.place, self.number, self._named, self._may_delete)
                self._store.sweep(self.place.folder)
                self._cleaned = True
                shorten_ended(self._store, self.place, self.number, self._resumed_step)
        except (StoreUnreachable, CheckpointCorrupt) as error:
            self._around.console.warning(f"what is old could not be deleted: {error}")

    def _retired(self, effort: Effort | None) -> list[CommitRecord]:
        """What need not be kept. With an effort, older ones are read before they count as kept."""
        unknown = self._keep.unknown_metric(self._verified)
        if unknown is not None and len(self._verified) > self._keep.last:
            if not self._warned:
                self._around.console.warning(f"{unknown}; nothing is retired until one has it")
            self._warned = True
            return []
        while True:
            retired = self._keep.retired(self._verified)
            unread = [one for one in self._verified if one.name in self._noted and one not in retired]
            if effort is None or not retired or not unread:
                return retired
            try:
                verify_data(self._store, unread[-1], pace=effort.pace, threads=effort.threads)
            except (CheckpointCorrupt, ObjectMissing) as error:
                self._around.console.warning(f"an older checkpoint is bad, and left alone: {error}")
                self._verified.remove(unread[-1])
            self._noted.discard(unread[-1].name)

    def _may_delete(self) -> bool:
        return superseded_by(self._store, self.place, self.number) is None


def _started(claim: Claim, request: StartRequest, around: Surroundings) -> AttemptStarted:
    birth = process_birth(os.getpid())
    return AttemptStarted(
        attempt=claim.attempt,
        platform=around.facts.name,
        pid=os.getpid(),
        host=socket.gethostname(),
        execution=request.execution,
        platform_attempt=around.identity.attempt,
        machine=machine_name(),
        birth=birth,
        lived_seconds=round(lived_seconds(birth), 3),
    )


def _claim_details(request: StartRequest, around: Surroundings) -> dict[str, Any]:
    return {
        "execution": request.execution,
        "platform": around.facts.name,
        "platform_attempt": around.identity.attempt,
        "rollback_to": request.rollback_to,
        "host": socket.gethostname(),
        "pid": os.getpid(),
    }


def _none_good(place: TaskPlace, refusals: Sequence[Refusal]) -> NoGoodCheckpoint | StoreUnreachable:
    reasons = "; ".join(f"{refusal.name}: {refusal.reason}" for refusal in refusals)
    if all(refusal.unreachable for refusal in refusals):
        return StoreUnreachable(f"none of the {len(refusals)} checkpoints of {place.folder} can be read: {reasons}")
    return NoGoodCheckpoint(
        f"{place.folder} has {len(refusals)} checkpoints and none verifies, so nothing was started or changed. "
        f'{reasons}. Mend or remove them, or start anew with resume="none"'
    )
