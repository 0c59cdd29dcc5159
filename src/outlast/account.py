"""What a job tells its journal beside its saves: what it runs on, what drifted, that it lives, how it ends."""

from collections.abc import Callable
from typing import Protocol
from weakref import WeakMethod

from outlast.checkpoint.read import OpenCheckpoint
from outlast.checkpoint.signs import silence_seconds
from outlast.drift import OnDrift, drift_between, in_one_line, look_at_environment
from outlast.errors import EXIT_RETRY, ExitingError, StateMismatch
from outlast.events import (
    Drifted,
    EnvironmentSeen,
    Failed,
    FirstStepDone,
    Left,
    LoopStarted,
    Progressed,
    RestoreChecked,
    Stopped,
)
from outlast.exits import call_at_exit
from outlast.saver import AnyAttempt
from outlast.settings import Surroundings
from outlast.state.parts import Progress, UserState


class Told(Protocol):
    """What the account asks of its session."""

    @property
    def completed_steps(self) -> int: ...

    @property
    def ending(self) -> bool:
        """Whether a notice has come or the stop was raised: the journal is for what is urgent then."""
        ...

    @property
    def stopped(self) -> bool: ...

    def code_now(self) -> int | None:
        """The code that the process leaves with if it ends now; None for the program's own."""
        ...


class Account:
    """The account that one attempt gives of itself. Made when it is claimed; held by its session alone."""

    def __init__(self, attempt: AnyAttempt, told: Told, around: Surroundings, on_drift: OnDrift) -> None:
        self._attempt, self._told, self._around, self._on_drift = attempt, told, around, on_drift
        self._journal = attempt.journal
        self._began_at = around.clock.monotonic_seconds()
        self._environment = look_at_environment(around.identity.tasks, salt=attempt.place.folder)
        self._journal.record_soon(self._environment)
        self.crashed = False
        if self._journal.listener is not None:
            self._journal.listener.watch(told)
        call_at_exit(self._leave)

    # --- the start ----------------------------------------------------------------------------------

    def stopwatch(self) -> Callable[[], float]:
        """Tells the seconds since now."""
        clock, began = self._around.clock, self._around.clock.monotonic_seconds()
        return lambda: clock.monotonic_seconds() - began

    def refuse_drift(self, attempt: int) -> None:
        """Raises StateMismatch if something changed since that attempt made its checkpoint, and on_drift says so."""
        if self._on_drift != "refuse":
            return
        changes = self._drift_since(attempt)
        if changes is None:
            self._around.console.warning(
                f'on_drift="refuse": nothing was compared, since the journal of attempt {attempt}, which made the '
                "checkpoint, does not tell what it ran"
            )
        if changes:
            self._journal.record(Drifted(attempt, changes))
            raise StateMismatch(
                f'on_drift="refuse": since attempt {attempt} made the checkpoint, {in_one_line(changes)}. Nothing was '
                'changed. Bring back what was, or go on with on_drift="tell"'
            )

    def tell_drift(self, attempt: int) -> None:
        """Says in one line what changed since that attempt made its checkpoint."""
        changes = self._drift_since(attempt)
        if changes:
            self._journal.record_soon(Drifted(attempt, changes))
            self._around.console.notice(f"since the checkpoint (of attempt {attempt}), {in_one_line(changes)}")

    def _drift_since(self, attempt: int) -> list[str] | None:
        """None where that attempt's journal does not tell."""
        journal = self._attempt.earlier.get(attempt, ())
        then = next((one.event for one in journal if isinstance(one.event, EnvironmentSeen)), None)
        return drift_between(then, self._environment) if then is not None else None

    def begin(self, total: int | None, unit: str) -> "WeakMethod[Callable[[], float]]":
        """The loop begins. Returns what the saver's thread calls when it is idle."""
        self._attempt.earlier = {}
        self._journal.record(LoopStarted(self._told.completed_steps, total, unit))
        return WeakMethod(self._show_life)

    def restored(self, opened: OpenCheckpoint, state: UserState, progress: Progress) -> None:
        """In a rehearsal: what a load_state_dict dropped shows here, even where results cannot be compared."""
        roots = tuple(f"state[{name!r}]" for name in state.parts)
        saved = {leaf.name: index for index, leaf in enumerate(opened.leaves) if leaf.name.startswith(roots)}
        now = {leaf.name: leaf.data for leaf in state.snapshot(progress).leaves}
        different = [name for name, index in saved.items() if now.get(name) != opened.stored_leaf(index)]
        self._journal.record(RestoreChecked(opened.record.step, len(saved), different))

    def first_step_done(self) -> None:
        """The first step of this attempt is complete."""
        self._journal.record_soon(FirstStepDone(self._told.completed_steps))

    # --- meanwhile, in the saver's thread -------------------------------------------------------------

    def _show_life(self) -> float:
        """See signs.py. Seconds until the next call."""
        now = self._around.clock.monotonic_seconds()
        pause = silence_seconds(now - self._began_at, cheap=self._journal.cheap)
        due_in = self._journal.written_at + pause - now
        if due_in > 0:
            return max(0.2, due_in)
        if not self._told.ending and not self._journal.failing:
            self._journal.record(Progressed(self._told.completed_steps))
        return pause

    # --- the end ------------------------------------------------------------------------------------

    def stopped(self, code: int, reason: str, *, lost: int, since: float | None, saved: bool) -> None:
        """The attempt stops. `since`: from when on a notice was for the last save, on the monotonic clock; None without
        one. `saved`: whether the loop has begun, and a checkpoint is there."""
        seconds, durable = None, saved and not lost and code != EXIT_RETRY
        if since is not None and durable:
            seconds = round(self._around.clock.monotonic_seconds() - since, 6)
        fitted = durable if since is not None and (saved or lost) else None
        self._journal.record(Stopped(self._told.completed_steps, code, reason, lost, seconds, fitted))

    def failed(self, error: ExitingError) -> None:
        """An error that leaves with its own code; the program may yet catch it. To be told once."""
        failed = Failed(self._told.completed_steps, error.exit_code, str(error)[:500])
        if self._journal.failing:
            self._journal.record_later(failed)
        else:
            self._journal.record(failed)

    def _leave(self) -> None:
        """At the exit of a process that was not stopped: its end is no death without a word."""
        if not self._told.stopped and not self.crashed and self._attempt.still_claimed():
            self._journal.record(Left(self._told.completed_steps, self._told.code_now()))
