"""The saves of a job: when one is due, whether it is written beside the training or at once, what a failure means."""

import math
import threading
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any
from weakref import WeakMethod

from outlast.checkpoint.attempt import Attempt, Superseded, Wishes
from outlast.checkpoint.image import LiveImage, size_of
from outlast.checkpoint.places import CommitName
from outlast.checkpoint.record import CommitRecord
from outlast.checkpoint.write import FULL_EFFORT, Effort
from outlast.clock import format_duration
from outlast.copies import Copies, StateCopy
from outlast.costs import SaveCosts
from outlast.errors import CheckpointCorrupt, SaveFailed, StateUnsupported, StoreUnreachable
from outlast.events import Event, SavePostponed, SaveStalled, SaveStarted
from outlast.events import SaveFailed as SaveFailedEvent
from outlast.exits import call_at_exit
from outlast.garbage import collector_at_rest
from outlast.lessons import Lessons
from outlast.notices import NoticeBoard
from outlast.options import Options
from outlast.planning.period import ASSUMED_SLOWDOWN
from outlast.planning.planner import Candidate
from outlast.saver import AnyAttempt, Check, Flight, GivenUp, Mark, Safe, Speed, Together, said_of
from outlast.schedule import Expected, schedule_for
from outlast.settings import Surroundings
from outlast.state.parts import Progress, UserState
from outlast.state.randomness import RandomState
from outlast.state.snapshot import Snapshot
from outlast.threads import Worker
from outlast.wanted import Wanted

# A smaller state is saved at once on a local disk: handing it over would take about as long as writing it.
_LEAST_BACKGROUND_BYTES = 1 << 20
# At a notice, a read-back that hangs in one request is left to itself after so long.
_READ_BACK_PATIENCE_SECONDS = 1.0
_POLL_SECONDS = 0.05
_THREAD = "outlast-saver"
# At the end of the process a save that does not move for so long is given up. One request to a bucket may take minutes.
_NO_PROGRESS_SECONDS = 180.0
_FROZEN_SECONDS = 10.0


class Saves:
    """The saves of one job in this process. Public methods are for the loop's thread, but for `hear_notice`."""

    def __init__(
        self,
        state: UserState,
        options: Options,
        around: Surroundings,
        *,
        board: NoticeBoard,
        record: Callable[[Event], None],
    ) -> None:
        self._state, self._options, self._around, self._board, self._record = state, options, around, board, record
        self._console, self._clock = around.console, around.clock
        self._schedule = schedule_for(
            options.every,
            expected=Expected(
                between_seconds=around.facts.mean_seconds_between_interruptions,
                state_bytes=state.bytes,
                grace_seconds=around.grace_seconds,
                margin_seconds=around.margin_seconds,
                # Half, so that one save may fail before more than the limit is at risk.
                longest_loss_seconds=math.inf if options.risk_limit_seconds is None else options.risk_limit_seconds / 2,
            ),
        )
        self.costs = SaveCosts(state.bytes)
        self._when_idle: WeakMethod[Callable[[], float]] | None = None
        self._lessons = Lessons(around.facts.mean_seconds_between_interruptions)
        self._attempt: AnyAttempt | None = None
        self.together: Together | None = None  # the other processes, where several save and this one leads
        self._wanted = Wanted(around.clock)
        self.rests_from = math.inf  # from when on only a save that was asked for begins: the last one is near
        self._saver = Worker(_THREAD)
        self._copies = Copies(state, self._console, wanted=False, lazily=False)
        self._hurried = self._large = False  # large: it pays to do things beside the training
        self._flight: Flight | None = None
        self._at_rest = threading.Event()
        self._at_rest.set()
        self._safe = Safe(None, Progress().mark, self._clock.monotonic_seconds())
        self._taken_mark = self._safe.mark

    def resume(self, attempt: AnyAttempt, last: CommitName | None, mark: Mark) -> None:
        """The attempt is claimed, and goes on from a checkpoint, if there is one."""
        self._attempt, self._safe = attempt, Safe(last, mark, self._clock.monotonic_seconds())
        self._taken_mark = mark

    @property
    def last(self) -> CommitName | None:
        """The last checkpoint that is durable, None before the first."""
        return self._safe.name

    @property
    def saved_mark(self) -> Mark:
        """The progress that it holds."""
        return self._safe.mark

    @property
    def _urgent(self) -> bool:
        """Whether a notice stands that leaves no time but for the last save, or no more than one that would."""
        notice = self._board.notice
        return notice is not None and (self._hurried or notice.remaining_seconds < self._around.long_notice_seconds)

    @property
    def running(self) -> bool:
        """Whether the loop's thread is in a save."""
        return not self._at_rest.is_set()

    def wait_at_most(self, seconds: float) -> None:
        """Until it is not; for another thread."""
        self._at_rest.wait(seconds)

    def begin(self, progress: Progress, *, local: bool, when_idle: WeakMethod[Callable[[], float]]) -> None:
        """The loop starts; `local` is what the store says of itself. `when_idle`: see Worker.start."""
        saving, self._when_idle = self._options.saving, when_idle
        self._large = not local or self._state.bytes >= _LEAST_BACKGROUND_BYTES
        beside = saving in ("background", "lazy") or (saving == "auto" and self._large)
        try:
            self._saver.start(when_idle)
        except RuntimeError as error:
            self._console.warning(f"no thread can be started ({error}): saves are written at once")
            self._large = beside = False
        self._copies = Copies(self._state, self._console, wanted=beside, lazily=saving == "lazy")
        self._safe = replace(self._safe, since=self._clock.monotonic_seconds())
        self._schedule.saved(**self._moment(progress))
        if self._options.every == "auto" and isinstance(self.attempt, Attempt):
            self._lessons.begin(self.attempt)
        call_at_exit(self.settle_at_exit)

    # --- what is wanted -----------------------------------------------------------------------------

    def ask(self, *, pinned: bool) -> None:
        """A save at the coming border."""
        self._wanted.ask(pinned=pinned)

    def forget(self) -> None:
        """No save is asked for any more, nor is the one that failed to be made up for."""
        self._wanted.forget()

    def log(self, numbers: Mapping[str, float]) -> None:
        """Keeps the numbers that go into the next commit record; see Wanted."""
        self._wanted.log(numbers)

    def wanted(self, progress: Progress) -> bool:
        """Whether a save would be of any use now."""
        return self._wanted.requested is not None or progress.mark != self._taken_mark

    def _moment(self, progress: Progress) -> dict[str, Any]:
        return {"step": progress.completed, "epochs": progress.epoch, "now": self._clock.monotonic_seconds()}

    @property
    def writes(self) -> bool:
        """Whether one is being written beside the training, and may yet succeed."""
        flight = self._flight
        return flight is not None and not (flight.committed or flight.error or flight.superseded)

    def candidates(self, progress: Progress) -> list[Candidate]:
        """The saves that could be made at this border, each with the time until it is committed.

        One of the state now is always among them: it tells how long a later one will take.
        """
        flight = self._flight if self.writes else None
        return self.costs.candidates(progress.completed, in_flight=None if flight is None else flight.step)

    # --- borders ------------------------------------------------------------------------------------

    def at_border(self, progress: Progress, held: RandomState | None) -> None:
        """Saves when a save is due or was asked for. Raises Superseded, StateUnsupported, SaveFailed (work at risk)."""
        if self._hurried and self._board.notice is None:  # it was revoked
            self._hurried = False
        if learned := self._lessons.take():
            self._schedule.learn(learned)
        if self._flight is not None and not self._saver.busy:
            self._collect()
        if self._flight is not None or self._wanted.failing:
            self._check_risk()
        if not self._is_due(progress):
            self._get_ready(progress, held)
            return
        if not self._wanted.may_try or not self.wanted(progress):
            return
        if self._flight is not None and self._wanted.requested is None and not self._schedule.exact:
            self._postpone(progress, self._flight)
            return
        if self.together is not None and not self.together.ready():
            return
        if self._flight is not None:
            began = self._clock.monotonic_seconds()
            self.wait(until_notice=True)
            self.note_stall(progress.completed, began)
            if self._urgent:
                return
        if not self._copies.possible or not self._save_beside(progress, held):
            self.save(progress, held)

    def _get_ready(self, progress: Progress, held: RandomState | None) -> None:
        """Has the memory of the first copy made while the training goes on."""
        if self._large and not self._copies.ready and not self._saver.busy and progress.mark != self.saved_mark:
            self._copies.prepare(self._snapshot(progress, held))
            if self._copies.possible:
                self._saver.begin(self._copies.touch)

    @property
    def crosses(self) -> Callable[[tuple[int, int], tuple[int, int]], bool]:
        return self._schedule.crosses

    def pass_border(self, progress: Progress, held: RandomState | None) -> None:
        """At a border where another process decides when to save, and has not."""
        if self._flight is not None and not self._saver.busy:
            self._collect()
        self._get_ready(progress, held)

    def follow(self, progress: Progress, held: RandomState | None, *, beside: bool) -> str | None:
        """Saves now since another process says so, after `wait`; a failure's text. Raises StateUnsupported."""
        if beside and self._copies.possible and self._save_beside(progress, held):
            return None
        return self.save(progress, held, check="told")

    def _is_due(self, progress: Progress) -> bool:
        if self._wanted.requested is not None:
            return True
        moment = self._moment(progress)
        return moment["now"] < self.rests_from and (self._wanted.overdue or self._schedule.is_due(**moment))

    def _postpone(self, progress: Progress, flight: Flight) -> None:
        """The store is slower than the interval: the save follows at the first border after the one under way."""
        if not flight.postponed:
            flight.postponed = True
            self._record(SavePostponed(progress.completed, flight.step))
            since = format_duration(self._clock.monotonic_seconds() - flight.taken_at)
            self._console.info(
                f"the save due at step {progress.completed} waits: that of step {flight.step} has been under way for "
                f"{since}"
            )

    def _check_risk(self) -> None:
        """Raises SaveFailed when more work is at risk than the user wants to lose."""
        limit, at_risk = self._options.risk_limit_seconds, self._clock.monotonic_seconds() - self._safe.since
        if limit is not None and at_risk > limit:
            raise SaveFailed(
                f"no save has succeeded for {format_duration(at_risk)}, and risk_limit is {format_duration(limit)}: "
                f"leaving, so that another machine can go on from step {self.saved_mark[0]}"
            )

    # --- saving beside the training -----------------------------------------------------------------

    def _save_beside(self, progress: Progress, held: RandomState | None) -> bool:
        """Copies the state and has it written; False where there is no memory for a copy."""
        began = self._clock.monotonic_seconds()
        self._saver.wait()  # for memory that is still being touched
        if self.together is not None:
            self.together.order(beside=True)
        copy = self._copies.take(self._snapshot(progress, held))
        if copy is None:
            return False
        self.note_stall(progress.completed, began)
        self._record(SaveStarted(progress.completed))
        flight = self._take_off(progress, copy.layout.tree_at, began, written_beside=True)
        self._saver.begin(lambda: self._write(flight, copy))
        self._schedule.saved(**self._moment(progress))
        return True

    def _take_off(self, progress: Progress, size: int, began: float, *, written_beside: bool) -> Flight:
        now = self._clock.monotonic_seconds()
        speed = Speed(size, self._clock)
        wishes = self._wanted.take() if written_beside else Wishes()
        flight = Flight(progress.completed, progress.mark, wishes, speed, now, now - began, written_beside)
        flight.committed = not written_beside
        self._flight, self._taken_mark = flight, progress.mark
        if self._urgent:
            flight.speed.give_up()
        return flight

    def _write(self, flight: Flight, copy: StateCopy) -> None:
        """In the saver's thread."""
        try:
            effort = Effort(flight.speed.pace, threads=1)
            record = self.attempt.commit(self._copies.image(copy), flight.step, flight.wishes, effort)
        except Superseded as error:
            self.attempt.abandon(said_of(error))
            flight.superseded = error
        except BaseException as error:  # noqa: BLE001 - whatever it is, the loop's thread must hear of it
            self.attempt.abandon(said_of(error))
            self._fail(flight, error)
        else:
            before, self._safe = self._safe, Safe(record.name, flight.mark, flight.taken_at)
            took = self.attempt.commit_seconds
            self.costs.note(record, took_seconds=took, waited_seconds=flight.speed.waited_seconds)
            flight.committed = True
            self._confirm(flight, record, before)
        flight.ended_at = self._clock.monotonic_seconds()

    def _confirm(self, flight: Flight, record: CommitRecord, before: Safe) -> None:
        """In the saver's thread: reads back what was written, unless a notice makes that unimportant."""
        flight.reading = True
        try:
            self.attempt.confirm(record, Effort(flight.speed.pace_or_give_up, threads=1), has_read=flight.has_read)
        except GivenUp:
            pass
        except BaseException as error:  # noqa: BLE001 - as above
            if not flight.left:
                self._safe = before
                self._fail(flight, error)

    def _fail(self, flight: Flight, error: BaseException) -> None:
        flight.error = said_of(error)
        self._tell_failure(flight.step, flight.error)

    def _collect(self) -> None:
        """Takes the outcome of what was under way beside the training and has ended. Raises Superseded."""
        flight, self._flight = self._flight, None
        if flight is None:
            return
        if flight.superseded is not None:
            raise flight.superseded
        if flight.error is not None:
            self._count_failure(flight.wishes)
            return
        self._wanted.succeeded()
        if flight.written_beside:
            beside = flight.ended_at - flight.taken_at
            self._schedule.measured(flight.stall_seconds, persist_seconds=beside, slowdown=ASSUMED_SLOWDOWN)

    def wait(self, *, until_notice: bool = False) -> None:
        """Waits for what is under way, at full speed; what is read back is left at a notice. Raises Superseded."""
        flight = self._flight
        self._copies.hurry()
        if flight is not None and self._urgent:
            flight.speed.give_up()
        elif flight is not None:
            flight.speed.hurry()
        before, left_at = self.running, math.inf
        self._at_rest.clear()
        try:
            while not self._saver.wait(0.0 if until_notice and self._urgent else _POLL_SECONDS):
                if not self._urgent:
                    continue
                if until_notice:
                    return
                now = self._clock.monotonic_seconds()
                left_at = min(left_at, now + _READ_BACK_PATIENCE_SECONDS)
                if now >= left_at and flight is not None and flight.reading:
                    self._leave(flight)
                    return
        finally:
            if not before:
                self._at_rest.set()
        self._collect()

    def _leave(self, flight: Flight) -> None:
        """What is being read back hangs: it is durable, and another thread takes what is still to be saved."""
        flight.left = True
        self._flight = None
        self._saver = Worker(_THREAD)
        try:
            self._saver.start(self._when_idle)
        except RuntimeError:  # the interpreter is on its way out
            self._large = self._copies.possible = False

    def hear_notice(self) -> None:
        """A notice leaves no time: what is being written is written at full speed, what is being read back can wait."""
        self._hurried = True
        flight = self._flight
        self._copies.hurry()
        if flight is not None:
            flight.speed.give_up()

    def settle_at_exit(self) -> None:
        """At the end of the process: the save under way is waited for as long as it moves."""
        flight = self._flight
        if flight is None or not self._saver.busy:
            return
        flight.speed.hurry()
        now, stood_still = self._clock.monotonic_seconds(), 0.0
        while not self._saver.wait(0.1):
            before, now = now, self._clock.monotonic_seconds()
            # A process that was frozen, as a migration does it, has had no time to move anything.
            stood_still = stood_still + now - before if now - before < _FROZEN_SECONDS else 0.0
            if min(stood_still, now - flight.speed.last_moved_at) > _NO_PROGRESS_SECONDS:
                self._console.error(f"the save of step {flight.step} does not move and is given up")
                return

    # --- saving at once -----------------------------------------------------------------------------

    def save(self, progress: Progress, held: RandomState | None, *, check: Check = "beside") -> str | None:
        """Saves now, while the program waits. A large one is read back as `check` says.

        A failure is an event and a loud line, and its text is returned. After it a save stays due: it is tried again
        at the next border, then after pauses that double, up to a minute. Raises Superseded, StateUnsupported.
        """
        step, began = progress.completed, self._clock.monotonic_seconds()
        self._at_rest.clear()
        wishes = Wishes()
        try:
            self.wait()
            if self.together is not None:
                self.together.order(beside=False)
            wishes = self._wanted.take()
            self._record(SaveStarted(step))
            with collector_at_rest():
                snapshot = self._snapshot(progress, held)
                image = LiveImage(self._copies.laid_out(snapshot), snapshot)
                record = self.attempt.commit(image, step, wishes, FULL_EFFORT, tidy=not self._urgent)
            before, self._safe = self._safe, Safe(record.name, progress.mark, began)
            self.costs.note(record, took_seconds=self.attempt.commit_seconds)
            self._read_back(progress, record, before, began, size_of(image), check=check)
        except (StoreUnreachable, CheckpointCorrupt) as error:
            self.attempt.abandon(str(error))
            self._tell_failure(step, str(error))
            self._count_failure(wishes)
            return str(error)
        except BaseException as error:
            self.attempt.abandon(said_of(error))
            raise
        finally:
            self._at_rest.set()
            self.note_stall(step, began)
        self._taken_mark = progress.mark
        self._schedule.saved(**self._moment(progress))
        self._schedule.measured(self._clock.monotonic_seconds() - began)
        return None

    def _read_back(
        self, progress: Progress, record: CommitRecord, before: Safe, began: float, size: int, *, check: Check
    ) -> None:
        """After a notice it must not take the time that leaving needs; the next attempt verifies all of it anyway."""
        notice, took = self._board.notice, self._clock.monotonic_seconds() - began
        leaves = notice is not None and notice.remaining_seconds < 2 * took + self._board.margin_seconds(notice)
        if leaves and check != "told":
            self.attempt.settle(record.name)
            return
        if check == "beside" and self._large:
            flight = self._take_off(progress, size, began, written_beside=False)
            self._saver.begin(lambda: self._read_back_beside(flight, record, before))
            return
        try:
            if check == "glance" and notice is not None and self._large:
                self._glance(self._take_off(progress, size, began, written_beside=False), record)
            else:
                self.attempt.confirm(record)
        except (StoreUnreachable, CheckpointCorrupt):
            self._safe = before
            raise
        self._wanted.succeeded()

    def _glance(self, flight: Flight, record: CommitRecord) -> None:
        """In a thread, which is left when it hangs: the process would wait for it until the guard ends it."""
        found: list[BaseException] = []

        def look() -> None:
            flight.reading = True
            try:
                self.attempt.glance(record)
            except BaseException as error:  # noqa: BLE001 - it is for the loop's thread
                found.append(error)
            flight.ended_at = self._clock.monotonic_seconds()

        self._saver.begin(look)
        self.wait()
        if found and not flight.left:
            raise found[0]

    def _read_back_beside(self, flight: Flight, record: CommitRecord, before: Safe) -> None:
        """In the saver's thread."""
        self._confirm(flight, record, before)
        flight.ended_at = self._clock.monotonic_seconds()

    # --- both ---------------------------------------------------------------------------------------

    def note_stall(self, step: int, began: float) -> None:
        """The training has waited for a save since `began`; told with the next event, so that it costs nothing."""
        self.attempt.journal.record_later(SaveStalled(step, round(self._clock.monotonic_seconds() - began, 6)))

    @property
    def attempt(self) -> AnyAttempt:
        """The attempt that this process claimed."""
        assert self._attempt is not None
        return self._attempt

    def _snapshot(self, progress: Progress, held: RandomState | None) -> Snapshot:
        try:
            return self._state.snapshot(progress, held)
        except StateUnsupported as error:
            self._record(SaveFailedEvent(progress.completed, str(error)))
            raise

    def _tell_failure(self, step: int, error: str) -> None:
        self._record(SaveFailedEvent(step, error))
        good = f"step {self.last.step}" if self.last else "none yet"
        self._console.error(f"the save at step {step} failed: {error}. Last good checkpoint: {good}")

    def _count_failure(self, wishes: Wishes) -> None:
        self._taken_mark = self.saved_mark
        self._wanted.failed(wishes)
