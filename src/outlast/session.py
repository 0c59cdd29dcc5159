"""The life of one job in one process: start, borders, saves, the stop, the finish. Job is its face."""

import os
import time
from contextlib import ExitStack
from typing import Any, NoReturn

from outlast.account import Account
from outlast.checkpoint.attempt import Attempt, Superseded
from outlast.checkpoint.read import OpenCheckpoint
from outlast.checkpoint.runs import Finish, find_or_start_run, finish_of, mark_store
from outlast.checkpoint.starting import StartRequest
from outlast.clock import format_duration
from outlast.errors import (
    EXIT_RETRY,
    BadObject,
    CheckpointCorrupt,
    ExitingError,
    Interrupted,
    LoopMisused,
    NoGoodCheckpoint,
    SaveFailed,
    StateMismatch,
    StoreUnreachable,
)
from outlast.events import (
    Advised,
    Crashed,
    Event,
    Failed,
    Finished,
    NoticeHeard,
    NoticeRevoked,
    Restored,
    Stopped,
    append_event,
    to_line,
)
from outlast.exits import call_at_exit, exit_watch, tell_code
from outlast.leaving import Leaving, what_did_not_end
from outlast.notices import Notice, listen
from outlast.options import Options
from outlast.ports import Store, Unsupported
from outlast.ranks.fate import Fate, Parted
from outlast.ranks.following import MemberAttempt
from outlast.ranks.messages import Leave, Message, Save, Started, Tried, TryCheckpoint
from outlast.ranks.world import World
from outlast.registry import frameworks_in_use, open_store
from outlast.restoring import Restoring
from outlast.saver import AnyAttempt, Check
from outlast.saves import Saves
from outlast.settings import EVENTS_FILE, REHEARSAL_STORE, SUPERVISED_EXECUTION, Surroundings
from outlast.state.parts import Progress, UserState
from outlast.state.randomness import RandomState
from outlast.together import AnyRanks, Following, Leading, around_in, ranks_of

_FINISH_PAUSES_SECONDS = (0.0, 0.2, 1.0)


class Session:
    """One job in this process. Made by Job, driven by its loops; every method runs in the loop's thread."""

    def __init__(self, state: UserState, options: Options, around: Surroundings, world: World | None = None) -> None:
        around = around_in(around, world)
        self.state, self.options, self.around = state, options, around
        self.console = around.console
        self.progress = Progress()
        self.in_step = False
        self.in_epoch = False
        self.finished = False
        self.resumed_from: int | None = None
        self.prior_finish: Finish | None = None
        self.random: RandomState | None = None
        # What a save takes for the random state until that of the checkpoint has been set; None: the state now.
        self.held_random: RandomState | None = None
        self._owner = os.getpid()
        self._begun = False
        self._stopped: str | None = None  # why, and no exception: its traceback would hold the program's globals
        self._leave_code = around.interrupted_exit_code
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
        self._ranks: AnyRanks | None = ranks_of(world, around, self.board, self, options)
        if isinstance(self._ranks, Leading):
            self.saves.together, self.leaving.steps_to_stop = self._ranks, 2
        self._border_before = (0, 0)
        self._failed_order: str | None = None  # why the save failed that rank 0 ordered last

    # --- the start ----------------------------------------------------------------------------------

    def start(self) -> None:
        """Claims an attempt and restores the newest good checkpoint."""
        try:
            self._claim_and_restore()
        except CheckpointCorrupt as error:
            raise NoGoodCheckpoint(f"the store is damaged, and no step was done: {error}") from error
        except Parted as parted:
            self._part_ways(parted.fate)

    def _claim_and_restore(self) -> None:
        self.board.serve(self._on_notice, self._at_deadline, self._code_at_deadline, self._on_word)
        exit_watch().watch(self.code_now, self._on_crash)
        call_at_exit(self._leave_at_exit)
        self.raise_if_noticed()
        store = open_store(self.options.url)
        self._local = store.traits.local
        if isinstance(self._ranks, Following):
            self._join(store, self._ranks)
            return
        mark_store(store)
        if self._ranks is not None:
            self._ranks.gather(store, self.options, self.raise_if_noticed)
        asked = self.options.run_request(self.around.identity, self._execution)
        place = find_or_start_run(store, asked, self.around.clock).task(self.around.identity.task)
        request = StartRequest(
            place=place,
            rollback_to=self.options.rollback_to,
            crashes=self.options.crashes,
            keep=self.options.keep,
            execution=self._execution,
        )
        prior_finish = finish_of(store, place)
        self._attempt = attempt = Attempt.claim(store, request, self.around)
        if self._ranks is not None:
            self._ranks.claimed(attempt)
        self._account = Account(attempt, self, self.around, self.options.on_drift)
        self._restore(attempt, prior_finish)

    def _join(self, store: Store, ranks: Following) -> None:
        """What _claim_and_restore does, as rank 0 says."""
        self._attempt = attempt = ranks.join(store, self.options, self.raise_if_noticed)
        self._account = Account(attempt, self, self.around, "tell")  # rank 0 sees to the drift
        restoring = Restoring(self.state, self.options, self.account)
        opened = None
        while not isinstance(order := ranks.order(self.raise_if_noticed), Started):
            assert isinstance(order, TryCheckpoint)
            try:
                opened = attempt.open(order.path, self._open_checkpoint, restoring.accept, self.raise_if_noticed)
            except (BadObject, StoreUnreachable) as error:
                ranks.say(Tried(order.path, str(error), 0))
            except ExitingError as error:
                ranks.say(Tried(order.path, str(error), error.exit_code))
                raise
            else:
                ranks.say(Tried(order.path, "", 0))
        found = opened if order.path else None
        finish = None
        if found is not None and order.finished:
            finish = Finish(found.record.name, None if order.total < 0 else order.total)
        self._go_on_from(found, restoring, finish)

    @property
    def _execution(self) -> str | None:
        """The platform's execution, or the `outlast run` whose retries belong together."""
        return self.around.identity.execution or self.around.env.get(SUPERVISED_EXECUTION) or None

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

    def _restore(self, attempt: Attempt, prior_finish: Finish | None) -> None:
        restoring = Restoring(self.state, self.options, self.account)
        opened = attempt.open_newest_good(self._open_checkpoint, restoring.accept, self.raise_if_noticed)
        if prior_finish is not None and (opened is None or prior_finish.commit != opened.record.name):
            prior_finish = None
        if isinstance(self._ranks, Leading):
            path = "" if opened is None else attempt.place.commit(opened.record.name)
            self._ranks.started(path, prior_finish)
        self._go_on_from(opened, restoring, prior_finish)

    def _go_on_from(self, opened: OpenCheckpoint | None, restoring: Restoring, prior_finish: Finish | None) -> None:
        where = f"{self.options.url}/{self.attempt.place.folder}"
        if opened is None:
            self.saves.resume(self.attempt, None, self.progress.mark)
            self._checkpoint_parts = set(self.state.parts)
            before = "; earlier attempts left no checkpoint" if self.attempt.number else ""
            self.console.info(f"starting at step 0 (attempt {self.attempt.number}, {where}{before})")
            return
        resumed = restoring.restore()
        self._checkpoint_parts = set(opened.tree["parts"])
        self.progress, self.random, self.held_random = resumed.progress, resumed.random, resumed.random
        record = opened.record
        self.saves.resume(self.attempt, record.name, self.progress.mark)
        self.resumed_from = record.step
        self.prior_finish = prior_finish
        seconds = restoring.seconds
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
        goes_on = self.leaving.goes_on_after(self.progress) if at_border and self._begun else self.leaving.goes_on
        return not goes_on and self.board.hold() is not None

    @property
    def stopped(self) -> bool:
        """Whether the stop has been raised."""
        return self._stopped is not None

    def register(self, name: str, value: Any) -> Any:
        """A further part, before the first step."""
        self.check_process()
        if self._begun:
            raise LoopMisused(f"register({name!r}) comes after the first step; parts are restored before it")
        value = self.state.register(name, value)
        if self.resumed_from is None:
            self._checkpoint_parts.add(name)
        return value

    def begin(self, total: int | None, *, unit: str = "steps") -> None:
        """Just before the first step: parts are judged; from here on saves may be due. `unit`: what `total` counts."""
        self.check_process()
        self.raise_if_noticed()
        if self._begun:
            return
        self._begun = True
        self._judge()
        if self._restored and self.around.env.get(REHEARSAL_STORE):
            self.account.restored(self._restored, self.state, self.progress)
        self._restored = None
        self.state.forget_checkpoint()
        self._open_checkpoint.close()
        self._first_step = self.progress.completed
        self._border_before = (self.progress.completed, self.progress.epoch)
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
        if self._ranks is None:
            self._decide()
        else:
            self._border_of(self._ranks)
        self.leaving.step_begins()

    def _decide(self) -> None:
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
        if self._stopped is not None or not isinstance(self._ranks, Leading) or self._ranks.ready():
            self.stop(at_border=True)

    def _border_of(self, ranks: AnyRanks) -> None:
        """One border of several processes."""
        if self._stopped is not None:
            self.stop()
        before, self._border_before = self._border_before, (self.progress.completed, self.progress.epoch)
        always = self.saves.crosses(before, self._border_before)
        try:
            if isinstance(ranks, Leading):
                ranks.border(self.progress.mark, self._decide, always=always)
            else:
                ranks.border(self.progress.mark, self._obey, self._pass_border, always=always)
        except Parted as parted:
            self._part_ways(parted.fate)

    def _pass_border(self) -> None:
        self._first_step = None
        self.saves.pass_border(self.progress, self.held_random)

    def _obey(self, order: Message) -> None:
        """Does what rank 0 says at a border where all have met."""
        if isinstance(order, Save):
            self.saves.wait()
            assert isinstance(self._attempt, MemberAttempt)
            self._attempt.ordered(order.number)
            self._failed_order = self.saves.follow(self.progress, self.held_random, beside=order.beside)
        elif isinstance(order, Leave):
            self.board.hold()
            self._leave_code, self._stopped = order.code, order.reason
            self._tell_stopped(order.code, order.reason)
            self._part("stopped", order.code, order.reason)
            raise Interrupted(order.code, order.reason)

    def _part_ways(self, fate: Fate) -> NoReturn:
        """A rank has left, so nothing can be done together any more; the older checkpoint stands."""
        self._leave_code, self._stopped = fate.code, fate.reason
        self.console.error(f"{fate.reason}; the ranks cannot go on without it, {self._where_it_goes_on}")
        self._tell_stopped(fate.code, fate.reason)
        self._part("stopped", fate.code, fate.reason)
        raise Interrupted(fate.code, fate.reason)

    def _part(self, how: str, code: int, reason: str) -> None:
        """The other ranks hear that this one leaves."""
        tell_code(self.around.env, code)
        if self._ranks is not None:
            self._ranks.part(how, code, reason[:500])

    def raise_if_noticed(self) -> None:
        """Stops if a notice has come; for places where nothing new is to be saved."""
        if self._must_stop():
            self.stop()
        if self._ranks is not None and self._stopped is None:
            try:
                self._ranks.bond.check()
            except Parted as parted:
                self._part_ways(parted.fate)

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
        if self.finished or (self.prior_finish is not None and not self._begun):
            self.console.info("the run is finished: nothing is saved")
        elif self.in_step or self.in_epoch:
            self._ask(pinned=pinned)
        else:
            self._judge()
            self.saves.ask(pinned=pinned)
            error = self._save_together() if self._ranks is not None else self._save()
            if error:
                self.saves.forget()  # the caller hears of it
                raise SaveFailed(f"the save at step {self.progress.completed} failed: {error}")

    def _ask(self, *, pinned: bool) -> None:
        if isinstance(self._ranks, Following):
            self._ranks.wish(pinned=pinned)
            return
        self.saves.ask(pinned=pinned)
        if self._ranks is not None:
            self._ranks.call()

    def _save_together(self) -> str | None:
        """Saves now, outside of the loop, where every rank comes by."""
        assert self._ranks is not None
        try:
            if isinstance(self._ranks, Following):
                self._ranks.meet(self.progress.mark, self._obey, at="save")
                return self._failed_order
            self._ranks.meet(self.progress.mark, at="save")
            error = self._save()
            self._ranks.disperse()
        except Parted as parted:
            self._part_ways(parted.fate)
        return error

    def _save(self) -> str | None:
        """Saves now; the text of a failure is returned. Stops when superseded."""
        try:
            return self.saves.save(self.progress, self.held_random, check="whole")
        except Superseded as error:
            self._be_superseded(error)

    def _be_superseded(self, error: Superseded) -> NoReturn:
        self.console.error(f"superseded: {error}. This process saves and deletes nothing more, and leaves")
        self._leave_code = self.around.interrupted_exit_code
        self._stopped = f"superseded: {error}"
        self.record(Stopped(self.progress.completed, self._leave_code, self._stopped, self._unsaved_steps))
        self._part("error", self._leave_code, self._stopped)
        raise Interrupted(self._leave_code, self._stopped) from error

    # --- the ends -----------------------------------------------------------------------------------

    def stop(self, *, at_border: bool = False) -> NoReturn:
        """The stop: at a border the state is made durable if it is not yet; raises Interrupted, again at each call."""
        if self._stopped is None:
            notice = self.board.notice
            self.board.settle()  # so that a process that ends at once has recorded why
            reason = notice.reason if notice else "stopped"
            failed = self._last_save(at_border=at_border, check="glance")
            self._leave_code = EXIT_RETRY if failed else self.around.interrupted_exit_code
            self._stopped = reason
            if at_border and isinstance(self._ranks, Leading):
                self._ranks.leave(self._leave_code, reason)
            self._tell_stopped(self._leave_code, reason)
            left = f", {format_duration(notice.remaining_seconds)} before the deadline" if notice else ""
            self.console.notice(
                f"stopped after step {self.progress.completed} ({reason}); "
                f"{self._where_it_goes_on}{left}; leaving with exit code {self._leave_code}"
            )
            self._part("stopped", self._leave_code, reason)
        raise Interrupted(self._leave_code, self._stopped)

    def _tell_stopped(self, code: int, reason: str) -> None:
        if self._account is not None:
            notice, saved = self.board.notice, self._begun and self.saves.last is not None
            since = self.leaving.training_ended_at(notice) if notice else None
            self._account.stopped(code, reason, lost=self._unsaved_steps, since=since, saved=saved)

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
        try:
            if isinstance(self._ranks, Following):
                self._ranks.meet(self.progress.mark, self._obey, at="finish")
            else:
                self._finish(total)
        except Parted as parted:
            self._part_ways(parted.fate)
        self.finished, self.in_epoch = True, False
        self.record(Finished(self.progress.completed))
        self._end_together()
        self._listener.put_back()

    def _end_together(self) -> None:
        """The run is finished: whatever other ranks do from here on is no matter to this one."""
        if isinstance(self._ranks, Leading):
            self._ranks.finished(self.progress.completed)
        elif self._ranks is not None:
            self._ranks.part("finished", 0, "")

    def _finish(self, total: int | None) -> None:
        if isinstance(self._ranks, Leading):
            self._ranks.meet(self.progress.mark, at="finish")
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
            error = self._save()
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
        self._end_together()
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
        if self._attempt is not None:
            self._attempt.journal.record(event)

    def record_soon(self, event: Event) -> None:
        """The same for what need not be there at once, so that the steps do not wait for a bucket."""
        if self._attempt is not None:
            self._attempt.journal.record_soon(event)

    def _record_anyhow(self, event: Event) -> None:
        """Also before there is a journal."""
        if self._attempt is not None:
            self.record(event)
        else:
            append_event(self.around.env.get(EVENTS_FILE), to_line(event, self.around.clock))

    def _on_notice(self, notice: Notice) -> None:
        if self.finished:
            what = "the code after the loop may go on until then"
        elif self.leaving.is_long(notice):
            what = "training goes on for now"
        else:
            what = "stopping at the next step border"
            self.saves.hear_notice()
        if self._ranks is not None:  # first: to tell may take long
            self._ranks.hear(notice, acts=self._begun and not self.finished and not self.leaving.is_long(notice))
        self._record_anyhow(NoticeHeard(notice.source, notice.reason, notice.grace_seconds, kind=notice.kind))
        self.console.notice(f"notice: {notice.reason}; {format_duration(notice.grace_seconds)} of grace; {what}")

    def _on_word(self, event: Event) -> None:
        """What is no notice, or none any more: said and written down."""
        if isinstance(event, NoticeRevoked) and self._ranks is not None:
            self._ranks.hear(self.board.notice, acts=False)
        self._record_anyhow(event)
        if isinstance(event, NoticeRevoked):
            self.console.notice(f"notice revoked: {event.reason} ({event.source})")
        elif isinstance(event, Advised):
            self.console.info(f"{event.source}: {event.reason}; nothing is stopped for that")

    def _at_deadline(self, notice: Notice) -> None:
        self.saves.wait_at_most(self.board.patience_seconds(notice))  # a last save may be about to end
        said = what_did_not_end(
            notice,
            finished=self.finished,
            stopped=self._stopped is not None,
            saving_step=self.progress.completed if self.saves.running else None,
            in_step=self.in_step,
            begun=self._begun,
            lost=(lost := self._unsaved_steps),
        )
        fitted = None if self.finished or not self._begun else not lost
        # The journal first: nobody may be reading standard error any more, and then the line never returns.
        self.record(Stopped(self.progress.completed, self._leave_code, said, lost, fitted=fitted))
        self.console.error(f"{said}; leaving with exit code {self._leave_code}")

    def _code_at_deadline(self) -> int:
        return self._leave_code

    @property
    def _where_it_goes_on(self) -> str:
        return f"checkpoint of step {self.saves.saved_mark[0]}" if self.saves.last else "there is no checkpoint"

    @property
    def _unsaved_steps(self) -> int:
        return self.progress.completed - self.saves.saved_mark[0]

    def leave_with(self, error: ExitingError) -> None:
        """Says an error that leaves with its own code, since a SystemExit shows no text; a notice changes no code."""
        if self._account is not None and not error.told:
            self._account.failed(error)
        self.console.tell(error)
        self._leave_code = error.exit_code
        self._part("error", error.exit_code, str(error))

    def code_now(self) -> int | None:
        unfinished = not self.finished and os.getpid() == self._owner
        return self._leave_code if unfinished and (self.board.notice or self._stopped) else None

    def _on_crash(self, error: BaseException) -> None:
        """An exception that a notice brought about, or a person at the keyboard, is no fault of the program's."""
        if os.getpid() != self._owner or isinstance(error, KeyboardInterrupt):
            return
        completed, said = self.progress.completed, f"{type(error).__name__}: {error}"[:500]
        if self._account is not None:
            self._account.crashed = True
        self._part("crashed", 1, said)
        if self.finished:
            self.record(Failed(completed, 1, said))
        elif self.board.notice is None:
            self.record(Crashed(completed, said))
        else:
            self.record(Stopped(completed, self._leave_code, said, self._unsaved_steps))

    # --- called by other ranks -----------------------------------------------------------------------

    def save_wished(self, pinned: bool) -> None:
        """See together.Host."""
        self.saves.ask(pinned=pinned)

    def stranded(self, fate: Fate) -> None:
        """See together.Host."""
        said = f"{fate.reason}; the step under way may never end without it"
        self.record(Stopped(self.progress.completed, fate.code, said, self._unsaved_steps))
        tell_code(self.around.env, fate.code)
        self.console.error(f"{said}; {self._where_it_goes_on}; leaving with exit code {fate.code}")

    def _leave_at_exit(self) -> None:
        """The process ends by itself."""
        if self._ranks is not None and not self.finished and self._stopped is None:
            self._part("left", self._leave_code, "its program has ended")

    def check_process(self) -> None:
        """Raises LoopMisused in a forked child."""
        if os.getpid() != self._owner:
            raise LoopMisused(f"this job belongs to process {self._owner}; a forked child never saves")
