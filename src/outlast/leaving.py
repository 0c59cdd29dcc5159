"""What a job does with the time that a notice leaves: it trains on as long as that is safe, saves, and leaves."""

import math
from collections import deque
from collections.abc import Callable

from outlast.clock import Deadline, format_duration
from outlast.events import Event, PlanMade
from outlast.notices import Notice, NoticeBoard
from outlast.planning.estimates import times_of
from outlast.planning.planner import Candidate, Plan, SaveKind, last_step_seconds, plan
from outlast.saves import Saves
from outlast.settings import Surroundings
from outlast.state.parts import Progress

_TIMED_STEPS = 100  # the newest, which the next one is judged by


class Leaving:
    """The plans of one job after notices. With `use_grace`, a long notice is trained through.

    All methods are for the loop's thread, but for `is_long`.
    """

    def __init__(
        self,
        saves: Saves,
        board: NoticeBoard,
        around: Surroundings,
        *,
        use_grace: bool,
        record: Callable[[Event], None],
    ) -> None:
        self._saves, self._board, self._around, self._use_grace, self._record = saves, board, around, use_grace, record
        self._clock = around.clock
        self._steps: deque[float] = deque(maxlen=_TIMED_STEPS)  # seconds
        self._step_began_at: float | None = None
        self._planned: tuple[str, Deadline] | None = None  # the notice that is planned for
        self._until: float | None = None
        self._provisional = False  # whether that is only until a save has shown how long one takes
        self._judged_by: tuple[int, bool, float] | None = None  # what `_until` was last worked out from
        self.steps_to_stop = 1  # of several processes, one may have begun the step after the next when all are to stop

    def step_begins(self) -> None:
        """A step begins, with whatever the program does for it."""
        self._step_began_at = self._clock.monotonic_seconds()

    def step_ended(self) -> None:
        """It is done."""
        if self._step_began_at is not None:
            self._steps.append(self._clock.monotonic_seconds() - self._step_began_at)
            self._step_began_at = None

    def is_long(self, notice: Notice) -> bool:
        """Whether a notice leaves more time than a save needs, and the user wants it to be used."""
        return self._use_grace and notice.remaining_seconds >= self._around.long_notice_seconds

    @property
    def goes_on(self) -> bool:
        """Whether there is no notice, or one that is trained through for now."""
        notice = self._board.notice
        if notice is None:
            return True
        if _key(notice) != self._planned:  # it is planned for at the next border
            return self.is_long(notice)
        return self._until is not None and self._clock.monotonic_seconds() < self._until

    def goes_on_after(self, progress: Progress) -> bool:
        """The same at a border, where a new notice is planned for: a long one is saved for at once."""
        notice = self._board.notice
        if notice is None:
            self._planned = self._until = self._judged_by = None
            self._saves.rests_from = math.inf
            return True
        if self.is_long(notice) and (_key(notice) != self._planned or self._is_to_be_planned_again):
            self._plan_to_go_on(notice, progress)
        elif self._until is not None and not self._provisional and _key(notice) == self._planned:
            self._judge_again(notice, progress)
        return self.goes_on

    def _judge_again(self, notice: Notice, progress: Progress) -> None:
        """The last safe moment moves with what saves and steps turn out to take, and waits for a save under way."""
        longest = max(self._steps, default=0.0)
        judged_by = (self._saves.costs.count, self._saves.writes, longest)
        if judged_by == self._judged_by:
            return
        self._judged_by = judged_by
        candidates = self._saves.candidates(progress)
        on = last_step_seconds(
            candidates,
            remaining_seconds=notice.remaining_seconds,
            margin_seconds=self._board.margin_seconds(notice),
            step_p99_seconds=self._step_seconds,
        )
        self._until = self._clock.monotonic_seconds() + on
        # One that begins later would either be waited for, or end when the last one begins.
        self._saves.rests_from = self._until - 2 * self._saves.costs.next_save().p99_seconds

    def _plan_to_go_on(self, notice: Notice, progress: Progress) -> None:
        """Where nobody knows yet how long a save takes, the one that is made now will tell; half of the time is its."""
        self._judged_by = None
        now, made = self._clock.monotonic_seconds(), self._plan(notice, progress, use_grace=True)
        on = made.train_on_seconds
        self._provisional = on is None and not self._saves.costs.known
        if self._provisional:
            on = notice.remaining_seconds / 2
        self._planned, self._until = _key(notice), None if on is None else now + on
        best = made.chosen or made.worth_trying
        if on is not None:
            more = "; steps go on until one has shown how long it takes" if self._provisional else ""
            self._tell(notice, best, made.reason + more)
            if best is not None and best.kind is not SaveKind.IN_FLIGHT:
                self._saves.ask(pinned=False)

    @property
    def _is_to_be_planned_again(self) -> bool:
        return self._provisional and self._saves.costs.known

    def has_time_to_save(self, progress: Progress) -> bool:
        """Whether the state of this border is to be saved before leaving: not if that surely cannot end in time."""
        notice = self._board.notice
        if notice is None:  # a finish, say
            return True
        made = self._plan(notice, progress, use_grace=False)
        best = made.chosen or made.worth_trying
        if best is None and not self._saves.costs.at_full_speed:
            best = self._saves.candidates(progress)[-1]
            self._tell(notice, best, f"{made.reason}; tried all the same, since those before kept to a rate")
        else:
            self._tell(notice, best, made.reason)
        return best is not None

    def training_ended_at(self, notice: Notice) -> float:
        """From when on, on the monotonic clock, the notice was for the last save: when it was heard, or later."""
        trained_through = self._until if _key(notice) == self._planned else None
        return max(notice.heard_monotonic_seconds, trained_through or 0.0)

    def _plan(self, notice: Notice, progress: Progress, *, use_grace: bool) -> Plan:
        completed, durable = progress.completed, self._saves.saved_mark[0]
        if durable == completed and self._saves.wanted(progress):
            durable -= 1  # the same step, and an epoch further
        return plan(
            self._saves.candidates(progress),
            remaining_seconds=notice.remaining_seconds,
            margin_seconds=self._board.margin_seconds(notice),
            durable_step=durable,
            step_p99_seconds=self._step_seconds,
            use_grace=use_grace,
            long_notice_seconds=self._around.long_notice_seconds,
        )

    @property
    def _step_seconds(self) -> float:
        """What the next step will rarely exceed; 0 where none was timed."""
        timed = times_of(self._steps)
        return 0.0 if timed is None else timed.p99_seconds * self.steps_to_stop

    def _tell(self, notice: Notice, best: Candidate | None, why: str) -> None:
        choice = str(best.kind) if best is not None else "nothing to save"
        self._record(PlanMade(choice, why, round(notice.remaining_seconds, 3)))
        self._around.console.notice(f"plan: {why}")


def _key(notice: Notice) -> tuple[str, Deadline]:
    """What makes it another notice; that it has become final does not."""
    return notice.source, notice.until


def what_did_not_end(
    notice: Notice, *, finished: bool, stopped: bool, saving_step: int | None, in_step: bool, begun: bool, lost: int
) -> str:
    """Why the guard has to end the process, what that costs and what would help, in one line."""
    within = f"did not end within the grace of {format_duration(notice.grace_seconds)}"
    if finished:
        return f"the code after the loop {within}; a rerun repeats it"
    if stopped:
        return f"the program {within} after the stop"
    if saving_step is not None:
        what, advice = f"the save at step {saving_step}", "the state is too large for this storage and grace"
    elif in_step:
        what, advice = "the step under way", "save more often (every=...)"
    else:
        what = "the code outside the steps" if begun else "the code before the first step"
        advice = "call job.check() in it"
    return f"{what} {within}; {lost} completed steps since the last checkpoint are lost; {advice}"
