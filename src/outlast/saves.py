"""The saves of a job: when one is due, whether it is written beside the training or at once, what a failure means."""

import atexit
import math
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any
from weakref import WeakMethod

from outlast.checkpoint.attempt import Attempt, Superseded, Wishes
from outlast.checkpoint.buffer import ImageBuffer, free_memory_bytes
from outlast.checkpoint.image import CopiedImage, ImageLayout, LiveImage, lay_out
from outlast.checkpoint.places import CommitName
from outlast.checkpoint.record import CommitRecord
from outlast.checkpoint.write import FULL_EFFORT, Effort
from outlast.clock import format_duration
from outlast.errors import CheckpointCorrupt, SaveFailed, StateUnsupported, StoreUnreachable
from outlast.events import Event, SavePostponed, SaveStarted
from outlast.events import SaveFailed as SaveFailedEvent
from outlast.lazy import LazyShare
from outlast.notices import NoticeBoard
from outlast.options import Options
from outlast.saver import GivenUp, Saver, Speed
from outlast.schedule import schedule_for
from outlast.settings import Surroundings
from outlast.state.parts import Progress, UserState
from outlast.state.randomness import RandomState
from outlast.state.snapshot import Snapshot

_FIRST_PAUSE_SECONDS = 0.05
_MOST_DOUBLINGS = 12
# A smaller state is saved at once on a local disk: handing it over would take about as long as writing it.
_LEAST_BACKGROUND_BYTES = 1 << 20
# How fast a save is written beside the training, unless there is a hurry: so that it takes little of the machine, and
# still ends soon.
_BACKGROUND_BYTES_PER_SECOND = 400e6
_BACKGROUND_SECONDS = 60.0
# What persisting costs the training beside it, as a share of the time that it takes.
_BACKGROUND_SLOWDOWN = 0.03
_NO_PROGRESS_SECONDS = 30.0  # at the end of the process, a save that does not move for so long is given up

Mark = tuple[int, int, int]


@dataclass(slots=True)
class _InFlight:
    """A save being written beside the training. `error` and `superseded` are set when it has ended badly."""

    step: int
    mark: Mark
    wishes: Wishes
    speed: Speed
    taken_at: float
    stall_seconds: float
    beside: bool  # whether it is written beside the training, or only read back there
    error: str | None = None
    superseded: Superseded | None = None
    postponed: bool = False


@dataclass(frozen=True, slots=True)
class _Safe:
    """What nothing can take away any more: the last durable checkpoint, its progress, when its state was taken."""

    name: CommitName | None
    mark: Mark
    since: float


class Saves:
    """The saves of one job in this process. Every method but `hurry` is for the loop's thread."""

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
            mean_seconds_between_interruptions=around.facts.mean_seconds_between_interruptions,
            state_bytes=state.bytes,
        )
        self._attempt: Attempt | None = None
        self._requested: bool | None = None  # the user's wish: None, or whether the checkpoint is to be pinned
        self._metrics: dict[str, float] = {}
        self._failures = 0
        self._retry_at = 0.0
        self._layout: ImageLayout | None = None
        self._buffer, self._saver = ImageBuffer(), Saver()
        self._background = self._background_pays = self._prepared = self._overdue = False
        self._lazy: LazyShare | None = None
        self._in_flight: _InFlight | None = None
        self.running = False  # whether the loop's thread is in a save
        self._safe = _Safe(None, Progress().mark, self._clock.monotonic_seconds())
        self._taken_mark = self._safe.mark

    def resume(self, attempt: Attempt, last: CommitName | None, mark: Mark) -> None:
        """The attempt is claimed, and goes on from a checkpoint, if there is one."""
        self._attempt, self._safe = attempt, _Safe(last, mark, self._clock.monotonic_seconds())
        self._taken_mark = mark

    @property
    def last(self) -> CommitName | None:
        """The last checkpoint that is durable, None before the first."""
        return self._safe.name

    @property
    def saved_mark(self) -> Mark:
        """The progress that it holds."""
        return self._safe.mark

    def begin(self, progress: Progress, *, local: bool) -> None:
        """The loop starts; `local` is what the store says of itself."""
        small = self._state.bytes < _LEAST_BACKGROUND_BYTES
        saving = self._options.saving
        self._background_pays = not (local and small)
        self._background = saving in ("background", "lazy") or (saving == "auto" and self._background_pays)
        try:
            self._saver.start()
        except RuntimeError as error:
            self._console.warning(f"no thread can be started ({error}): saves are written at once")
            self._background = self._background_pays = False
        if saving == "lazy" and self._background:
            self._lazy = LazyShare(self._state)
        self._safe = replace(self._safe, since=self._clock.monotonic_seconds())
        self._schedule.saved(**self._moment(progress))
        atexit.register(_at_exit, WeakMethod(self.settle_at_exit), os.getpid())

    # --- what is wanted -----------------------------------------------------------------------------

    def ask(self, *, pinned: bool) -> None:
        """A save at the coming border."""
        self._requested = pinned or bool(self._requested)

    def forget(self) -> None:
        """No save is asked for any more, nor is the one that failed to be made up for."""
        self._requested, self._overdue = None, False

    def log(self, numbers: Mapping[str, float]) -> None:
        """Keeps the numbers that go into the next commit record; one that is not finite takes the earlier one away."""
        for name, value in numbers.items():
            self._metrics[name] = value
            if not math.isfinite(value):
                del self._metrics[name]

    def wanted(self, progress: Progress) -> bool:
        """Whether a save would be of any use now."""
        return self._requested is not None or progress.mark != self._taken_mark

    def _moment(self, progress: Progress) -> dict[str, Any]:
        return {"step": progress.completed, "epochs": progress.epoch, "now": self._clock.monotonic_seconds()}

    # --- borders ------------------------------------------------------------------------------------

    def at_border(self, progress: Progress, held: RandomState | None) -> None:
        """Saves when a save is due or was asked for. Raises Superseded, StateUnsupported, SaveFailed (work at risk)."""
        if self._in_flight is not None:
            self._check_in_flight()
        if not self._is_due(progress):
            if self._background and not self._prepared and progress.mark != self.saved_mark:
                self._prepare(progress, held)
            return
        if self._clock.monotonic_seconds() < self._retry_at or not self.wanted(progress):
            return
        if self._in_flight is not None:
            if self._requested is None and not self._schedule.exact:
                self._postpone(progress)
                return
            self.wait(until_notice=True)
            if self._board.notice is not None:
                return
        if self._background:
            self._save_beside(progress, held)
        else:
            self.save(progress, held)

    def _check_in_flight(self) -> None:
        if not self._saver.busy:
            self._collect()
        else:
            self._check_risk()

    def _is_due(self, progress: Progress) -> bool:
        return self._requested is not None or self._overdue or self._schedule.is_due(**self._moment(progress))

    def _postpone(self, progress: Progress) -> None:
        """The store is slower than the interval: the save follows at the first border after the one under way."""
        assert self._in_flight is not None
        if not self._in_flight.postponed:
            self._in_flight.postponed = True
            self._record(SavePostponed(progress.completed, self._in_flight.step))
            since = format_duration(self._clock.monotonic_seconds() - self._in_flight.taken_at)
            self._console.info(
                f"the save due at step {progress.completed} waits: that of step {self._in_flight.step} has been under "
                f"way for {since}"
            )

    # --- saving beside the training -----------------------------------------------------------------

    def _prepare(self, progress: Progress, held: RandomState | None) -> None:
        """After the first step, when an optimizer has its state: memory for the image, so that no save waits for it."""
        self._prepared = True
        snapshot = self._state.snapshot(progress, held)
        layout = self._laid_out(snapshot)
        if self._fits(layout):
            try:
                self._buffer.prepare(layout, snapshot)
            except (OSError, MemoryError) as error:
                self._save_at_once_from_now_on(layout, str(error))

    def _laid_out(self, snapshot: Snapshot) -> ImageLayout:
        if self._layout is None or self._layout.table is not snapshot.table:
            self._layout = lay_out(snapshot.table)
        return self._layout

    def _fits(self, layout: ImageLayout) -> bool:
        """Whether there is memory for a copy of the state; says so, and saves at once from then on, if there is not."""
        more = layout.tree_at - self._buffer.bytes
        free = free_memory_bytes()
        if more <= 0 or free is None or free >= more:
            return True
        self._save_at_once_from_now_on(layout, f"{free / 1e6:.0f} MB of memory are free")
        return False

    def _save_at_once_from_now_on(self, layout: ImageLayout, why: str) -> None:
        self._background = False
        self._console.warning(
            f"a copy of the state takes {layout.tree_at / 1e6:.0f} MB, and {why}: saves are written at once from now "
            "on, while the training waits"
        )

    def _save_beside(self, progress: Progress, held: RandomState | None) -> None:
        began = self._clock.monotonic_seconds()
        snapshot = self._snapshot(progress, held)
        layout = self._laid_out(snapshot)
        self._prepared = True
        if not self._fits(layout):
            self.save(progress, held)
            return
        try:
            memory = self._buffer.take(layout, snapshot, self._lazy.copy if self._lazy is not None else None)
        except (OSError, MemoryError) as error:
            self._save_at_once_from_now_on(layout, str(error) or "there is no memory")
            self.save(progress, held)
            return
        self._record(SaveStarted(progress.completed))
        now = self._clock.monotonic_seconds()
        speed = self._speed(layout)
        wishes = self._take_wishes()
        flight = _InFlight(progress.completed, progress.mark, wishes, speed, now, now - began, beside=True)
        tree = snapshot.tree
        self._in_flight, self._taken_mark = flight, progress.mark
        self._saver.begin(lambda: self._write(flight, layout, memory, tree))
        self._schedule.saved(**self._moment(progress))

    def _write(self, flight: _InFlight, layout: ImageLayout, memory: memoryview, tree: Mapping[str, Any]) -> None:
        """In the saver's thread."""
        try:
            if self._lazy is not None and not self._lazy.is_of_the_border():
                self._copy_at_once_from_now_on()
            image = CopiedImage(layout, memory, tree)
            record = self.attempt.commit(image, flight.step, flight.wishes, Effort(flight.speed.pace, threads=1))
        except Superseded as error:
            flight.superseded = error
        except Exception as error:  # noqa: BLE001 - whatever it is, the loop's thread must hear of it
            self._fail(flight, error)
        else:
            before, self._safe = self._safe, _Safe(record.name, flight.mark, flight.taken_at)
            self._confirm(flight, record, before)

    def _copy_at_once_from_now_on(self) -> None:
        """In the saver's thread: raises CheckpointCorrupt for the copy that is worthless."""
        lazy, self._lazy = self._lazy, None
        if lazy is not None:
            lazy.close()
        raise CheckpointCorrupt(
            "the state changed while it was copied lazily, by something else than an optimizer's step; it is copied at "
            "once from now on"
        )

    def _confirm(self, flight: _InFlight, record: CommitRecord, before: _Safe) -> None:
        """In the saver's thread: reads back what was written, unless a notice makes that unimportant."""
        try:
            self.attempt.confirm(record, Effort(flight.speed.pace_or_give_up, threads=1))
        except GivenUp:
            pass
        except Exception as error:  # noqa: BLE001 - as above
            self._safe = before
            self._fail(flight, error)

    def _fail(self, flight: _InFlight, error: Exception) -> None:
        flight.error = _said(error)
        self._tell_failure(flight.step, flight.error)

    def _speed(self, layout: ImageLayout) -> Speed:
        return Speed(max(_BACKGROUND_BYTES_PER_SECOND, layout.tree_at / _BACKGROUND_SECONDS), self._clock)

    def _collect(self) -> None:
        """Takes the outcome of a save beside the training that has ended."""
        flight, self._in_flight = self._in_flight, None
        if flight is None:
            return
        if flight.superseded is not None:
            raise flight.superseded
        if flight.error is not None:
            self._count_failure(flight.wishes)
            return
        if flight.beside:
            self._succeeded(flight.stall_seconds, self._clock.monotonic_seconds() - flight.taken_at)

    def wait(self, *, until_notice: bool = False) -> None:
        """Waits for the save under way, at full speed. Raises Superseded."""
        self.hurry()
        while not self._saver.wait(0.05 if until_notice else None):
            if until_notice and self._board.notice is not None:
                return
        self._collect()

    def hurry(self) -> None:
        """No limit of rate any more for the save under way; from any thread."""
        flight = self._in_flight
        if flight is not None:
            flight.speed.hurry()

    def hear_notice(self) -> None:
        """A notice has come: what is being written is written at full speed, what is being read back can wait."""
        flight = self._in_flight
        if flight is not None:
            flight.speed.give_up()

    def settle_at_exit(self) -> None:
        """At the end of the process: the save under way is waited for as long as it moves."""
        flight = self._in_flight
        if flight is None or not self._saver.busy:
            return
        self.hurry()
        while not self._saver.wait(0.1):
            if self._clock.monotonic_seconds() - flight.speed.last_moved_at > _NO_PROGRESS_SECONDS:
                self._console.error(f"the save of step {flight.step} does not move and is given up")
                return

    # --- saving at once -----------------------------------------------------------------------------

    def save(self, progress: Progress, held: RandomState | None, *, last: bool = False) -> str | None:
        """Saves now, while the program waits; a large one is read back beside what follows, unless it is the `last`.

        A failure is an event and a loud line, and its text is returned.

        After a failure a save stays due: it is tried again at the next border, then after pauses that double, up to a
        minute. Raises Superseded, StateUnsupported, SaveFailed (too much work is at risk).
        """
        step, began = progress.completed, self._clock.monotonic_seconds()
        self.running = True
        wishes = Wishes()
        try:
            self.wait()
            wishes = self._take_wishes()
            self._record(SaveStarted(step))
            snapshot = self._snapshot(progress, held)
            image = LiveImage(self._laid_out(snapshot), snapshot)
            record = self.attempt.commit(image, step, wishes, FULL_EFFORT)
            before, self._safe = self._safe, _Safe(record.name, progress.mark, began)
            if last or not self._background_pays:
                self._confirm_if_time(record, began, before)
            else:
                now = self._clock.monotonic_seconds()
                speed = self._speed(image.layout)
                flight = _InFlight(step, progress.mark, wishes, speed, now, now - began, beside=False)
                self._in_flight = flight
                self._saver.begin(lambda: self._confirm(flight, record, before))
        except (StoreUnreachable, CheckpointCorrupt) as error:
            self._tell_failure(step, str(error))
            self._count_failure(wishes)
            return str(error)
        finally:
            self.running = False
        self._taken_mark = progress.mark
        self._schedule.saved(**self._moment(progress))
        self._succeeded(self._clock.monotonic_seconds() - began, 0.0)
        return None

    def _confirm_if_time(self, record: CommitRecord, began: float, before: _Safe) -> None:
        """After a notice, reading back must not take the time that leaving needs; the next attempt verifies anyway."""
        notice = self._board.notice
        took = self._clock.monotonic_seconds() - began
        if notice is None or notice.remaining_seconds > 2 * took + self._around.margin_seconds:
            try:
                self.attempt.confirm(record)
            except (StoreUnreachable, CheckpointCorrupt):
                self._safe = before
                raise

    # --- both ---------------------------------------------------------------------------------------

    @property
    def attempt(self) -> Attempt:
        """The attempt that this process claimed."""
        assert self._attempt is not None
        return self._attempt

    def _snapshot(self, progress: Progress, held: RandomState | None) -> Snapshot:
        try:
            return self._state.snapshot(progress, held)
        except StateUnsupported as error:
            self._record(SaveFailedEvent(progress.completed, str(error)))
            raise

    def _take_wishes(self) -> Wishes:
        """What was asked for since the last save."""
        wishes = Wishes(self._requested is not None, bool(self._requested), dict(self._metrics))
        self._requested = None
        self._metrics.clear()
        return wishes

    def _succeeded(self, stall_seconds: float, beside_seconds: float) -> None:
        self._overdue, self._failures, self._retry_at = False, 0, 0.0
        self._schedule.measured(stall_seconds + _BACKGROUND_SLOWDOWN * beside_seconds)

    def _tell_failure(self, step: int, error: str) -> None:
        self._record(SaveFailedEvent(step, error))
        good = f"step {self.last.step}" if self.last else "none yet"
        self._console.error(f"the save at step {step} failed: {error}. Last good checkpoint: {good}")

    def _count_failure(self, wishes: Wishes) -> None:
        """What the save was to do stays to be done."""
        self._taken_mark, self._overdue = self.saved_mark, True
        if wishes.asked:
            self.ask(pinned=wishes.pinned)
        self._metrics = {**wishes.metrics, **self._metrics}
        # No higher than it needs to be: after a thousand failures a doubled pause would be no float any more.
        self._failures = min(self._failures + 1, _MOST_DOUBLINGS)
        now = self._clock.monotonic_seconds()
        self._retry_at = now + min(_FIRST_PAUSE_SECONDS * (2**self._failures - 2), 60.0)
        self._check_risk()

    def _check_risk(self) -> None:
        """Raises SaveFailed when more work is at risk than the user wants to lose."""
        limit, at_risk = self._options.risk_limit_seconds, self._clock.monotonic_seconds() - self._safe.since
        if limit is not None and at_risk > limit:
            raise SaveFailed(
                f"no save has succeeded for {format_duration(at_risk)}, and risk_limit is {format_duration(limit)}: "
                f"leaving, so that another machine can go on from step {self.saved_mark[0]}"
            )


def _said(error: Exception) -> str:
    expected = isinstance(error, StoreUnreachable | CheckpointCorrupt)
    return str(error) if expected else f"{type(error).__name__}: {error}"


def _at_exit(settle: WeakMethod[Callable[[], None]], owner: int) -> None:
    """Held weakly: what atexit leads to, the program's globals among it, is not finalized before the process ends."""
    method = settle()
    if method is not None and os.getpid() == owner:
        method()
