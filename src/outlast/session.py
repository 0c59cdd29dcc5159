"""The life of one job in one process: start, borders, saves, the stop, the finish. Job is its face."""

import os
import time
from contextlib import ExitStack
from typing import Any, NoReturn

from outlast.account import Account
from outlast.checkpoint.attempt import Attempt, Superseded
from outlast.checkpoint.read import OpenCheckpoint
from outlast.checkpoint.runs import Finish
from outlast.clock import format_duration
from outlast.company import Company, company_of
from outlast.company.doors import around_in
from outlast.errors import (
    EXIT_HUMAN,
    EXIT_RETRY,
    CheckpointCorrupt,
    ExitingError,
    Interrupted,
    LoopMisused,
    NoGoodCheckpoint,
    SaveFailed,
    StateMismatch,
    StoreUnreachable,
)
from outlast.events import Crashed, Event, Failed, Finished, Restored, Stopped
from outlast.exits import call_at_exit, exit_watch
from outlast.hearing import Hearing
from outlast.leaving import Leaving
from outlast.notices import listen
from outlast.options import Options
from outlast.ports import Unsupported
from outlast.ranks.fate import Fate, Parted
from outlast.ranks.world import World
from outlast.registry import frameworks_in_use, open_store
from outlast.restoring import Begun, start
from outlast.saver import AnyAttempt, Check
from outlast.saves import Saves
from outlast.settings import REHEARSAL_STORE, Surroundings
from outlast.state.parts import Progress, UserState
from outlast.state.randomness import RandomState

_FINISH_PAUSES_SECONDS = (0.0, 0.2, 1.0)


class Session:
    """One job in this process. Made by Job, driven by its loops; every method runs in the loop's thread."""

    def __init__(self, state: UserState, options: Options, around: Surroundings, world: World | None = None) -> None:
        around = around_in(around, world)
        self.state, self.options, self.around = state, options, around
        self.console = around.console
        self.progress = Progress()
        self.in_step = self.in_epoch = self.finished = False
        self.resumed_from: int | None = None
        self.prior_finish: Finish | None = None
        self.random: RandomState | None = None
        # What a save takes for the random state until that of the checkpoint has been set; None: the state now.
        self.held_random: RandomState | None = None
        self._owner = os.getpid()
        self.begun = False
        self._error: str | None = None  # the last one that would leave with its own code
        self._stopped: str | None = None  # why, and no exception: its traceback would hold the program's globals
        self.leave_code = around.interrupted_exit_code
        self._checkpoint_parts: set[str] = set()
        self._open_checkpoint = ExitStack()
        self._restored: OpenCheckpoint | None = None
        self.board, self._listener = listen(around)
        self._attempt: AnyAttempt | None = None
        self._account: Account | None = None
        self._first_step: int | None = None  # until the first step that this attempt does is complete
        self._local = True
        self.saves = Saves(state, options, around, board=self.board, record=self.record_soon)
        self.leaving = Leaving(self.saves, self.board, around, use_grace=options.use_grace, record=self.record_soon)
        self.hearing = Hearing(self)
        self.company: Company = company_of(world, around, self)
        self.leaving.steps_to_stop = 1 if world is None else 2

    # --- the start ----------------------------------------------------------------------------------

    def start(self) -> None:
        """Claims an attempt and restores the newest good checkpoint."""
        try:
            self._claim_and_restore()
        except CheckpointCorrupt as error:
            raise NoGoodCheckpoint(f"the store is damaged, and no step was done: {error}") from error
        except Parted as parted:
            self.part_ways(parted.fate)

    def _claim_and_restore(self) -> None:
        hearing = self.hearing
        self.board.serve(hearing.on_notice, hearing.at_deadline, hearing.leave_code, hearing.on_word)
        exit_watch().watch(self.code_now, self._on_crash)
        call_at_exit(self._leave_at_exit)
        self.raise_if_noticed()
        store = open_store(self.options.url)
        self._local = store.traits.local
        self._go_on(start(self, self.company, store, self._open_checkpoint))

    def claimed(self, attempt: AnyAttempt, account: Account) -> None:
        """See restoring.Starting."""
        self._attempt, self._account = attempt, account

    @property
    def account(self) -> Account:
        """What the attempt tells its journal."""
        assert self._account is not None
        return self._account

    @property
    def completed_steps(self) -> int:
        return self.progress.completed

    @property
    def ending(self) -> bool:
        """Whether a notice has come, or the stop has been raised."""
        return self.board.notice is not None or self._stopped is not None

    @property
    def attempt(self) -> AnyAttempt:
        """The attempt that this process claimed, or takes part in."""
        if self._attempt is None:
            raise LoopMisused("the job has not claimed an attempt")
        return self._attempt

    def _go_on(self, begun: Begun) -> None:
        where = f"{self.options.url}/{self.attempt.place.folder}"
        if begun.opened is None or begun.resumed is None:
            self.saves.resume(self.attempt, None, self.progress.mark)
            self._checkpoint_parts = set(self.state.parts)
            before = "; earlier attempts left no checkpoint" if self.attempt.number else ""
            self.console.info(f"starting at step 0 (attempt {self.attempt.number}, {where}{before})")
            return
        opened, resumed, seconds = begun.opened, begun.resumed, begun.seconds
        self._checkpoint_parts = set(opened.tree["parts"])
        self.progress, self.random, self.held_random = resumed.progress, resumed.random, resumed.random
        record = opened.record
        self.saves.resume(self.attempt, record.name, self.progress.mark)
        self.resumed_from, self.prior_finish = record.step, begun.finish
        self.record(Restored(record.step, record.name.text, round(seconds, 6), record.total_bytes))
        self.console.info(
            f"resuming from step {record.step} (attempt {self.attempt.number}, saved {record.saved_at}, "
            f"read in {format_duration(seconds)}, {where})"
        )
        self.account.tell_drift(record.attempt)
        self._restored = opened
        self.raise_if_noticed()

    @property
    def stopping(self) -> bool:
        """Whether the stop was raised, or is as soon as it can be: a notice stands that is not trained through."""
        return self._stopped is not None or not self.leaving.goes_on

    def _must_stop(self, *, at_border: bool = False) -> bool:
        """Whether there is a notice to act on; from now on it is not revoked any more."""
        if self._stopped is not None or self.board.notice is None:
            return self._stopped is not None
        goes_on = self.leaving.goes_on_after(self.progress) if at_border and self.begun else self.leaving.goes_on
        return not goes_on and self.board.hold() is not None

    @property
    def stopped(self) -> bool:
        """Whether the stop has been raised."""
        return self._stopped is not None

    def register(self, name: str, value: Any) -> Any:
        """A further part, before the first step."""
        self.check_process()
        if self.begun:
            raise LoopMisused(f"register({name!r}) comes after the first step; parts are restored before it")
        value = self.state.register(name, value)
        if self.resumed_from is None:
            self._checkpoint_parts.add(name)
        return value

    def begin(self, total: int | None, *, unit: str = "steps") -> None:
        """Just before the first step: parts are judged; from here on saves may be due. `unit`: what `total` counts."""
        self.check_process()
        self.raise_if_noticed()
        if self.begun:
            return
        self.begun = True
        self._judge()
        if self._restored and self.around.env.get(REHEARSAL_STORE):
            self.account.restored(self._restored, self.state, self.progress)
        self._restored = None
        self.state.forget_checkpoint()
        self._open_checkpoint.close()
        self._first_step = self.progress.completed
        self.saves.begin(self.progress, local=self._local, when_idle=self.account.begin(total, unit))

    def _judge(self) -> None:
        """Raises StateMismatch or StateUnsupported unless the parts are those of the checkpoint and of the start."""
        self.state.refuse_new_parts()
        self.state.judge(
            self._checkpoint_parts,
            allow_missing=self.options.allow_missing,
            allow_extra=self.options.allow_extra,
        )

    def set_random(self, state: RandomState | None, loader: object | None = None) -> None:
        """Sets random state from the checkpoint, if there is any."""
        if state is None:
            return
        try:
            missing = self.state.randomness.set(state, frameworks_in_use(), loader)
        except Unsupported as error:
            raise StateMismatch(f"the random state of the checkpoint cannot be set here: {error}") from error
        for name in missing:
            self.console.warning(
                f"the checkpoint holds the random state of {name}, which the program has not imported before its first "
                "step: what it draws will differ; import it at the top of the program"
            )

    def resume_random(self) -> None:
        """Goes on with the random state of the checkpoint."""
        self.set_random(self.random)
        self.held_random = None

    def read_random(self, loader: object | None = None) -> RandomState:
        """The random state now."""
        return self.state.randomness.read(frameworks_in_use(), loader)

    # --- borders ------------------------------------------------------------------------------------

    def complete_step(self) -> None:
        """The step under way is done."""
        self.in_step = False
        self.progress.completed += 1
        self.leaving.step_ended()

    def border(self) -> None:
        """Between two steps: stops at a notice, saves when a save is due or was asked for."""
        self.check_process()
        self.company.border()
        self.leaving.step_begins()

    def decide(self) -> None:
        """See company.Host: what is to be done at this border, where it may be done."""
        if self._must_stop(at_border=True):
            self._stop_at_border()
            return
        if self._first_step is not None and self.progress.completed > self._first_step:
            self._first_step = None
            self.account.first_step_done()
        try:
            self.saves.at_border(self.progress, self.held_random)
        except Superseded as error:
            self._be_superseded(error)
        if self._must_stop(at_border=True):  # a notice came during the save: the next step may be a long one
            self._stop_at_border()

    def _stop_at_border(self) -> None:
        """Stops, or has all ranks meet at a border to stop there."""
        if self._stopped is not None or self.company.ready():
            self.stop(at_border=True)

    def leave_as_told(self, code: int, reason: str) -> NoReturn:
        """See company.Host."""
        self.board.hold()
        self.leave_code, self._stopped = code, reason
        self._tell_stopped()
        self.company.part("stopped", code, reason)
        raise Interrupted(code, reason)

    def part_ways(self, fate: Fate) -> NoReturn:
        """See company.Host: the older checkpoint stands."""
        self._lose(fate)
        raise Interrupted(fate.code, fate.reason)

    def _lose(self, fate: Fate) -> None:
        self.leave_code, self._stopped = fate.code, fate.reason
        self.hearing.leave_since(fate)
        how = "error" if fate.code == EXIT_HUMAN else "stopped"  # what no retry mends is the same for all
        self.company.part(how, fate.code, fate.reason)

    def raise_if_noticed(self) -> None:
        """Stops if a notice has come; for places where nothing new is to be saved."""
        if self._must_stop():
            self.stop()
        if self._stopped is None:
            self.company.check()

    def check(self) -> None:
        """For long code outside steps: stops at a notice. In mid-step nothing is saved."""
        self.check_process()
        self.raise_if_noticed()

    def ask_save(self, *, pinned: bool) -> None:
        """A save now, or at the coming border if a step or an epoch is under way. Raises SaveFailed if one now fails.

        Within an epoch the code around `batches` would run a second time after a resume from a save at once.
        """
        self.check_process()
        if self._stopped is not None:  # what the program did since is no state at a border
            self.stop()
        if self.finished or (self.prior_finish is not None and not self.begun):
            self.console.info("the run is finished: nothing is saved")
        elif self.in_step or self.in_epoch:
            self.company.ask(pinned=pinned)
        else:
            self._judge()
            self.saves.ask(pinned=pinned)
            error = self.company.save()
            if error:
                self.saves.forget()  # the caller hears of it
                raise SaveFailed(f"the save at step {self.progress.completed} failed: {error}")

    def save_now(self) -> str | None:
        """See company.Host. Stops when superseded."""
        try:
            return self.saves.save(self.progress, self.held_random, check="whole")
        except Superseded as error:
            self._be_superseded(error)

    def _be_superseded(self, error: Superseded) -> NoReturn:
        self.console.error(f"superseded: {error}. This process saves and deletes nothing more, and leaves")
        self.leave_code = self.around.interrupted_exit_code
        self._stopped = f"superseded: {error}"
        self.record(Stopped(self.progress.completed, self.leave_code, self._stopped, self.unsaved_steps))
        self.company.part("error", self.leave_code, self._stopped)
        raise Interrupted(self.leave_code, self._stopped) from error

    # --- the ends -----------------------------------------------------------------------------------

    def stop(self, *, at_border: bool = False) -> NoReturn:
        """The stop: at a border the state is made durable if it is not yet; raises Interrupted, again at each call."""
        if self._stopped is None:
            notice = self.board.notice
            self.board.settle()  # so that a process that ends at once has recorded why
            reason = notice.reason if notice else "stopped"
            failed = self._last_save(at_border=at_border, check="glance")
            self.leave_code = EXIT_RETRY if failed else self.around.interrupted_exit_code
            self._stopped = reason
            if at_border:
                self.company.leave(self.leave_code, reason)
            self._tell_stopped()
            left = f", {format_duration(notice.remaining_seconds)} before the deadline" if notice else ""
            self.console.notice(
                f"stopped after step {self.progress.completed} ({reason}); "
                f"{self.where_it_goes_on}{left}; leaving with exit code {self.leave_code}"
            )
            self.company.part("stopped", self.leave_code, reason)
        raise Interrupted(self.leave_code, self._stopped)

    def _tell_stopped(self) -> None:
        if self._account is not None:
            notice, saved = self.board.notice, self.begun and self.saves.last is not None
            since = self.leaving.training_ended_at(notice) if notice else None
            self._account.stopped(
                self.leave_code, self._stopped or "", lost=self.unsaved_steps, since=since, saved=saved
            )

    def _last_save(self, *, at_border: bool, check: Check) -> str | None:
        """What is under way is waited for; at a border a state that is not durable yet is saved."""
        began = self.around.clock.monotonic_seconds()
        if self.board.notice is not None:
            self.saves.hear_notice()
        try:
            self.saves.wait()
            if self._account is not None:
                self.saves.note_stall(self.progress.completed, began)
            if at_border and self.saves.wanted(self.progress) and self.leaving.has_time_to_save(self.progress):
                return self.saves.save(self.progress, self.held_random, check=check)
        except Superseded as error:
            self._be_superseded(error)
        return None

    def finish(self, total: int | None) -> None:
        """The last state is made durable and the run is marked finished. Raises SaveFailed when that cannot be done."""
        self.check_process()
        if self._stopped is not None:
            self.stop()
        if self.finished:
            return
        self._judge()
        self.company.finish(lambda: self._finish(total))
        self.finished, self.in_epoch = True, False
        self.record(Finished(self.progress.completed))
        self.company.ended()
        self._listener.put_back()

    def _finish(self, total: int | None) -> None:
        error = None
        for pause in _FINISH_PAUSES_SECONDS:
            time.sleep(pause)
            error = self._finish_once(total)
            if error is None:
                break
        else:
            raise SaveFailed(f"the run is done and could not be made durable: {error}; a rerun repeats the last part")

    def _finish_once(self, total: int | None) -> str | None:
        error = self._last_save(at_border=True, check="whole")  # nobody comes after it to read it
        if error is None and (self.saves.last is None or self.saves.wanted(self.progress)):
            error = self.save_now()
        if error or self.saves.last is None:
            return error or "nothing was saved"
        assert isinstance(self._attempt, Attempt)
        try:
            self._attempt.finish(self.saves.last, total)
        except Superseded as superseded:
            self._be_superseded(superseded)
        except (StoreUnreachable, CheckpointCorrupt) as failure:
            self.console.error(f"the run could not be marked as finished: {failure}")
            return str(failure)
        return None

    def already_finished(self, total: int | None) -> bool:
        """Whether an earlier attempt finished all that is asked for now."""
        prior = self.prior_finish
        if prior is None or (prior.total is not None and (total is None or total > prior.total)):
            return False
        self.finished = True
        self.company.ended()
        self.record_soon(Finished(prior.step))
        self.console.info(
            f"the run is already finished (at step {prior.step}); no step is left to do. "
            'More steps: raise the total. All anew: resume="none"'
        )
        self._listener.put_back()
        return True

    # --- called by the listener, the guard and the exit watch ----------------------------------------

    def record(self, event: Event) -> None:
        """An event, into the attempt's journal."""
        self.write(event)

    def write(self, event: Event) -> bool:
        """See hearing.Heard."""
        if self._attempt is not None:
            self._attempt.journal.record(event)
        return self._attempt is not None

    def record_soon(self, event: Event) -> None:
        """The same for what need not be there at once, so that the steps do not wait for a bucket."""
        if self._attempt is not None:
            self._attempt.journal.record_soon(event)

    @property
    def where_it_goes_on(self) -> str:
        return f"checkpoint of step {self.saves.saved_mark[0]}" if self.saves.last else "there is no checkpoint"

    @property
    def unsaved_steps(self) -> int:
        return self.progress.completed - self.saves.saved_mark[0]

    def leave_with(self, error: ExitingError, *, now: bool = True) -> None:
        """Says an error that leaves with its own code, since a SystemExit shows no text; a notice changes no code.

        Not `now`: the program may catch it and go on.
        """
        if self._account is not None and not error.told:
            self._account.failed(error)
        self.console.tell(error)
        self.leave_code, self._error = error.exit_code, str(error)
        if now:
            self.company.part("error", error.exit_code, str(error))

    def code_now(self) -> int | None:
        unfinished = not self.finished and os.getpid() == self._owner
        return self.leave_code if unfinished and self.ending else None

    def _on_crash(self, error: BaseException) -> None:
        """An exception that a notice brought about, or a person at the keyboard, is no fault of the program's."""
        if os.getpid() != self._owner or isinstance(error, KeyboardInterrupt):
            return
        completed, said = self.progress.completed, f"{type(error).__name__}: {error}"[:500]
        if self._account is not None:
            self._account.crashed = True
        fate = None if self.finished else self.company.blame()
        if fate is not None:
            self._lose(fate)
            return
        self.company.part("crashed", 1 if self.board.notice is None else self.leave_code, said)
        if self.finished:
            self.record(Failed(completed, 1, said))
        elif self.board.notice is None:
            self.record(Crashed(completed, said))
        else:
            self.record(Stopped(completed, self.leave_code, said, self.unsaved_steps))

    def _leave_at_exit(self) -> None:
        """The process ends by itself."""
        if not self.finished and self._stopped is None:
            how = "left" if self._error is None else "error"
            self.company.part(how, self.leave_code, self._error or "its program has ended")

    def check_process(self) -> None:
        """Raises LoopMisused in a forked child."""
        if os.getpid() != self._owner:
            raise LoopMisused(f"this job belongs to process {self._owner}; a forked child never saves")
