"""What the journals and claims of a run tell: each attempt, how it ended and why, what was lost, where time went."""

import time
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from outlast.checkpoint.endings import Ending, ending_of, notice_in
from outlast.checkpoint.goodput import Buckets, Timeline, buckets, timeline
from outlast.checkpoint.journals import Journals, ReadJournal
from outlast.checkpoint.lineage import Claim, claimed_attempts, read_lineage
from outlast.checkpoint.places import TaskPlace
from outlast.checkpoint.runs import finish_of
from outlast.checkpoint.succession import (
    EndedBy,
    began_wall,
    how_it_ended,
    patience,
    started_in,
    waited,
    with_own_time,
)
from outlast.errors import CheckpointCorrupt
from outlast.events import (
    Drifted,
    Event,
    LoopStarted,
    NoticeHeard,
    NoticeRevoked,
    PlanMade,
    Recorded,
    Restored,
    SaveCommitted,
    SaveFailed,
    SavesSummed,
    SaveStalled,
    SaveStarted,
    SaveTakenBack,
    Stopped,
)
from outlast.ports import Store

State = Literal["finished", "running", "unfinished", "unknown"]
PREEMPTIONS: tuple[EndedBy, ...] = ("interrupted", "killed")
FAILURES: tuple[EndedBy, ...] = ("crashed", "failed")


@dataclass(frozen=True, slots=True)
class NoticeSeen:
    """The notice that an attempt heard, `at` seconds after its process began."""

    source: str
    reason: str
    grace_seconds: float
    at: float


@dataclass(frozen=True, slots=True)
class SaveMade:
    """A save that succeeded. `stall_seconds`: the training waited for it. `persist_seconds`: from then on until it was
    durable; 0 for one that was written while the training waited. `after_notice`: it was a last one."""

    step: int
    stall_seconds: float
    persist_seconds: float
    after_notice: bool


@dataclass(frozen=True, slots=True)
class AttemptHistory:
    """One attempt. Moments are wall-clock seconds since the epoch, as its own machine had them; None where unknown.

    `ended_by`: "finished", "interrupted" (after a notice), "killed" (it ended without a word), "crashed" (by an
    exception), "failed" (an error of outlast's with its own code), "superseded" (by a newer attempt), "left" (the
    program ended by itself with work left), "running", "unknown". `seconds` is the life of the process until its last
    sign of life, the time that a platform bills, or a little less. `saves_made`: the newest ones, each.
    `loop_seconds` and `first_step_seconds`: from the start of the process to the start of its first step, and to the
    end of it. `lost_seconds` and `lost_steps`: done again, or to be done again.
    """

    number: int
    ended_by: EndedBy
    why: str = ""
    exit_code: int | None = None
    started_at: float | None = None
    ended_at: float | None = None
    seconds: float = 0.0
    waited_seconds: float = 0.0
    host: str = ""
    execution: str | None = None
    platform_attempt: int | None = None
    resumed_from: int | None = None
    steps: int = 0
    lost_steps: int = 0
    saves: int = 0
    failed_saves: int = 0
    saves_made: tuple[SaveMade, ...] = ()
    restore_seconds: float | None = None
    restore_bytes: int = 0
    loop_seconds: float | None = None
    first_step_seconds: float | None = None
    notice: NoticeSeen | None = None
    final_save_seconds: float | None = None
    fitted: bool | None = None
    plans: tuple[PlanMade, ...] = ()
    drift: tuple[str, ...] = ()
    buckets: Buckets = field(default_factory=Buckets)

    @property
    def lost_seconds(self) -> float:
        return self.buckets.lost_work


@dataclass(frozen=True, slots=True)
class TaskHistory:
    """All attempts at one task of a run. `steps_total` and `epochs_total`: None where they are not known.

    `problems` name journals and claims that cannot be read, `remarks` lines of journals that cannot.
    """

    place: TaskPlace
    state: State
    attempts: tuple[AttemptHistory, ...]
    steps_done: int | None = None
    steps_total: int | None = None
    epochs_total: int | None = None
    problems: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()

    @property
    def buckets(self) -> Buckets:
        return sum((one.buckets for one in self.attempts), Buckets())

    @property
    def billed_seconds(self) -> float:
        """The life of all attempts together."""
        return self.buckets.billed

    @property
    def waiting_seconds(self) -> float:
        """Between attempts, when nobody is billed; between two machines as exact as their wall clocks agree."""
        return sum(one.waited_seconds for one in self.attempts)

    @property
    def lost_seconds(self) -> float:
        return self.buckets.lost_work

    @property
    def goodput(self) -> float | None:
        """The share of the billed time that was compute which nobody does again; None before anything is billed."""
        return self.buckets.compute / self.billed_seconds if self.billed_seconds > 0 else None

    @property
    def preemptions(self) -> int:
        """Attempts that ended because the machine was taken away, or were killed without a word."""
        return sum(one.ended_by in PREEMPTIONS for one in self.attempts)

    @property
    def failures(self) -> int:
        """Attempts that ended by an error of their own."""
        return sum(one.ended_by in FAILURES for one in self.attempts)


WallClock = Callable[[], float]


def history_of(store: Store, place: TaskPlace, *, now: WallClock = time.time, newest: int | None = None) -> TaskHistory:
    """What happened to a task so far, or in its `newest` so many attempts.

    Raises StoreUnreachable where the storage does not answer.
    """
    journals = Journals(store, place, without=("Logged",))
    if newest is None:
        journals.read_all()
    lineage = read_lineage(store, place)
    numbers = sorted({*journals, *claimed_attempts(store, place)})
    numbers = numbers if newest is None else numbers[-newest:]
    read = {number: journals.journal(number) if number in journals else ReadJournal() for number in numbers}
    problems = [*lineage.damaged, *(problem for one in read.values() for problem in one.problems)]
    try:
        finish = finish_of(store, place)
    except CheckpointCorrupt as error:
        finish, problems = None, [*problems, str(error)]
    events = {number: one.recorded for number, one in read.items()}
    told = _told(events, {claim.attempt: claim for claim in lineage.claims}, now())
    state = _state(told, finished=finish is not None)
    done, total, epochs = _steps(told, events, running=state == "running")
    return TaskHistory(
        place=place,
        state=state,
        attempts=tuple(one.history for one in told),
        steps_done=finish.step if finish is not None and state == "finished" else done,
        steps_total=total,
        epochs_total=epochs,
        problems=tuple(problems),
        remarks=tuple(
            f"journal of attempt {one}: {read[one].damaged} damaged lines" for one in read if read[one].damaged
        ),
    )


# --- one attempt after the other --------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Told:
    """An attempt and what is needed to see it among the others."""

    history: AttemptHistory
    line: Timeline
    durable: int  # the newest checkpoint that it left, or went on from


def _told(journals: Mapping[int, Sequence[Recorded]], claims: Mapping[int, Claim], now: float) -> list[_Told]:
    numbers = sorted(journals)
    told: list[_Told] = []
    before: Sequence[Recorded] = ()
    for number in numbers:
        recorded = journals[number]
        later = next((journals[one] for one in numbers if one > number and journals[one]), None)
        is_last = number == numbers[-1]
        told.append(_one(number, recorded, claims.get(number), before, later, now=now, is_last=is_last))
        before = recorded or before
    return _with_losses(told)


def _one(
    number: int,
    recorded: Sequence[Recorded],
    claim: Claim | None,
    before: Sequence[Recorded],
    later: Sequence[Recorded] | None,
    *,
    now: float,
    is_last: bool,
) -> _Told:
    started = started_in(recorded)
    ending = ending_of(recorded) if recorded else Ending("silent", "its journal is not there")
    ended_by, why = how_it_ended(recorded, ending, later, now=now, is_last=is_last)
    more = max(0.0, now - recorded[-1].wall_seconds) if ended_by == "running" and recorded else 0.0
    line = timeline(with_own_time(recorded, before), more_seconds=min(more, patience(recorded)))
    history = AttemptHistory(
        number=number,
        ended_by=ended_by,
        why=why,
        exit_code=ending.exit_code if ended_by not in ("running", "unknown", "killed") else None,
        seconds=line.seconds,
        waited_seconds=waited(recorded, before),
        host=started.host if started else str(claim.details.get("host", "")) if claim else "",
        execution=started.execution if started else None,
        platform_attempt=started.platform_attempt if started else None,
        loop_seconds=line.loop_at,
        first_step_seconds=line.first_step_at,
    )
    if recorded:
        began = began_wall(recorded)
        history = replace(history, started_at=began, ended_at=None if ended_by == "running" else began + line.seconds)
    durable = max([_durable(recorded), line.first or 0])
    return _Told(_with_details(history, recorded, line), line, durable)


def _with_details(history: AttemptHistory, recorded: Sequence[Recorded], line: Timeline) -> AttemptHistory:
    """With what single events tell."""
    events = [one.event for one in recorded]
    restored = next((event for event in reversed(events) if isinstance(event, Restored)), None)
    stopped = next((event for event in reversed(events) if isinstance(event, Stopped)), None)
    summed = next((event for event in events if isinstance(event, SavesSummed)), SavesSummed(0, 0, 0.0, 0.0))
    committed = [event for event in events if isinstance(event, SaveCommitted)]
    failed = sum(isinstance(event, SaveFailed) for event in events)
    taken_back = {event.commit for event in events if isinstance(event, SaveTakenBack)}
    return replace(
        history,
        resumed_from=restored.step if restored else None,
        restore_seconds=restored.seconds if restored else None,
        restore_bytes=restored.bytes if restored else 0,
        steps=max(0, (line.reached or 0) - (line.first or 0)) if line.steps else 0,
        saves=summed.saves + sum(event.commit not in taken_back for event in committed),
        failed_saves=summed.failed + failed,
        saves_made=tuple(_saves_made(events, taken_back)),
        notice=_notice_seen(recorded, line),
        final_save_seconds=stopped.final_save_seconds if stopped else None,
        fitted=stopped.fitted if stopped else None,
        plans=tuple(event for event in events if isinstance(event, PlanMade)),
        drift=tuple(change for event in events if isinstance(event, Drifted) for change in event.changes),
    )


def _saves_made(events: Sequence[Event], taken_back: Container[str]) -> Iterator[SaveMade]:
    """A save beside the training has stalled it before it is written, any other at its end."""
    stalls: dict[int, float] = {}
    beside: dict[int, bool] = {}
    noticed, late = False, set()
    for event in events:
        if isinstance(event, NoticeHeard | NoticeRevoked):
            noticed = isinstance(event, NoticeHeard)
        elif isinstance(event, SaveStalled):
            stalls[event.step] = stalls.get(event.step, 0.0) + max(0.0, event.seconds)
        elif isinstance(event, SaveStarted):
            beside[event.step] = stalls.get(event.step, 0.0) > 0
            late |= {event.step} if noticed else set()
    for event in events:
        if isinstance(event, SaveCommitted) and event.commit not in taken_back:
            step = event.step
            persist = max(0.0, event.seconds) if beside.get(step) else 0.0
            yield SaveMade(step, stalls.get(step, 0.0), persist, after_notice=step in late)


def _state(told: Sequence[_Told], *, finished: bool) -> State:
    """A finished run that goes on with a larger total runs."""
    last = told[-1].history.ended_by if told else "unknown"
    if last == "running":
        return "running"
    if finished:
        return "finished"
    return "unknown" if last == "unknown" else "unfinished"


# --- what was lost ----------------------------------------------------------------------------------


def _with_losses(told: Sequence[_Told]) -> list[_Told]:
    """With the buckets: work past the step that any later attempt went on from is lost."""
    done: list[_Told] = []
    resumed: float | None = None
    for one in reversed(told):
        cut: float | None = resumed
        if cut is None and one.history.ended_by not in ("finished", "running"):
            cut = one.durable
        first, reached = one.line.first, one.line.reached
        lost_steps = 0
        if cut is not None and first is not None and reached is not None:
            lost_steps = max(0, reached - max(int(cut), first))
        history = replace(one.history, buckets=buckets(one.line, cut=cut), lost_steps=lost_steps)
        done.append(replace(one, history=history))
        went_on = first if first is not None else one.history.resumed_from
        if went_on is not None:
            resumed = went_on if resumed is None else min(resumed, went_on)
    return done[::-1]


def _durable(recorded: Sequence[Recorded]) -> int:
    """The newest checkpoint that it committed and did not take back; 0 for none."""
    taken_back = {one.event.commit for one in recorded if isinstance(one.event, SaveTakenBack)}
    steps = [
        one.event.step
        for one in recorded
        if isinstance(one.event, SaveCommitted) and one.event.commit not in taken_back
    ]
    return max(steps, default=0)


def _steps(
    told: Sequence[_Told], journals: Mapping[int, Sequence[Recorded]], *, running: bool
) -> tuple[int | None, int | None, int | None]:
    """(steps that need not be done again, steps in all, epochs in all)."""
    loops = [one.event for recorded in journals.values() for one in recorded if isinstance(one.event, LoopStarted)]
    last = loops[-1] if loops else None
    total = last.total if last is not None and last.unit == "steps" else None
    epochs = last.total if last is not None and last.unit == "epochs" else None
    with_steps = [one for one in told if one.line.steps]
    if not with_steps:
        return None, total, epochs
    newest = with_steps[-1]
    done = newest.line.reached if running or newest.history.ended_by == "finished" else newest.durable
    # The journals of earlier versions do not say that a total is one of epochs.
    return done, total if total is None or (done or 0) <= total else None, epochs


def _notice_seen(recorded: Sequence[Recorded], line: Timeline) -> NoticeSeen | None:
    notice = notice_in(recorded)
    if notice is None:
        return None
    heard = next(one for one in recorded if one.event is notice)
    at = max(0.0, heard.monotonic_seconds - recorded[-1].monotonic_seconds + line.seconds)
    return NoticeSeen(notice.source, notice.reason, notice.grace_seconds, at)
