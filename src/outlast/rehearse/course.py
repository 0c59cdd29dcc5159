"""Brings one attempt to its end: starts the command, does to it what is planned, and reports what was seen."""

import signal
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import count

from outlast.containers import processes
from outlast.containers.calls import can_watch
from outlast.containers.container import Container, View
from outlast.rehearse.attempt import Attempt, EndedBy, Plan, Sign, SignOfWork, add_events, read_events
from outlast.rehearse.elsewhere import Elsewhere
from outlast.rehearse.ending import Progress, how_it_ended
from outlast.rehearse.notice import NoticeView, NoticeWatch, Parting
from outlast.rehearse.ranks import end_node, hit, ranks_among
from outlast.rehearse.stage import Stage
from outlast.rehearse.storage import Storage
from outlast.rehearse.watch import WriteWatch, count_saves
from outlast.rehearse.words import (
    Announce,
    Due,
    EndNode,
    Kill,
    KillAtSave,
    MendStorage,
    Pause,
    Revoke,
    Scene,
    SignalRank,
    SpoilStorage,
    StartSecond,
    Step,
    Tell,
    Warn,
)

_LOOK_SECONDS = 0.005  # how often the first sign of work is looked for
_SAMPLE_SECONDS = 0.03  # how often the processes are looked at while a notice is pending
_LONGEST_WAIT_SECONDS = 86400.0  # poll() takes no infinite timeout
_CALLED_OFF_SECONDS = 0.05
_RANKS_SECONDS = 0.25  # how often it is looked for several processes that train together
_LISTENS_SECONDS = 0.05  # how often it is looked whether the first process has a handler by now


@dataclass(frozen=True, slots=True)
class Neighbours:
    """Attempts that stand still until another one shows the sign of work, and sets `awake`."""

    sign: Sign
    awake: threading.Event


@dataclass(frozen=True, slots=True)
class Beside:
    """What an attempt and those that live at the same time tell each other.

    `on_second` is called when the next attempt is to begin although this one lives; `called_off` ends this one from
    outside, and `woken` lets it work on where it stands still. `is_done`: another attempt has finished the job, so that
    there is nothing left to interrupt. `neighbours` wake when this one works.
    """

    on_second: Callable[[], None] = lambda: None
    called_off: threading.Event | None = None
    woken: threading.Event | None = None
    is_done: Callable[[], bool] = lambda: False
    neighbours: Neighbours | None = None


ALONE = Beside()


@dataclass(frozen=True, slots=True)
class Conditions:
    """Where an attempt runs. `isolated`: as the first process of a container, or below its init.

    `elsewhere`: whether it reads what those before it have left outside of the copy.
    """

    scene: Scene
    watch: WriteWatch
    isolated: bool
    first_is_pid_1: bool = True
    view: View | None = None
    elsewhere: Elsewhere | None = None
    hung_seconds: float = float("inf")
    beside: Beside = ALONE


def run_attempt(
    stage: Stage,
    number: int,
    command: Sequence[str],
    environment: dict[str, str],
    *,
    conditions: Conditions,
    plan: Plan | None = None,
) -> Attempt:
    """Runs the command once, to its end or to the end that `plan` makes."""
    with ExitStack() as stack:
        storage, parting = None, Parting(conditions.elsewhere)
        if conditions.elsewhere is not None:
            stack.enter_context(conditions.elsewhere.watching(stage))
        if plan is not None and any(one.through_door for one in plan.due):
            storage = Storage(stage.folder, lambda: container.kill(), parting.passes)  # noqa: PLW0108 - it is made below
            stack.callback(storage.close)  # after the container, which is entered later
        stack.callback(parting.calls.close)
        calls = storage.calls if storage is not None else parting.calls
        container = stack.enter_context(
            Container(
                command,
                folder=stage.folder,
                environment=environment,
                stdout=stack.enter_context(stage.stdout(number).open("wb")),
                stderr=stack.enter_context(stage.stderr(number).open("wb")),
                isolated=conditions.isolated,
                first_is_pid_1=conditions.first_is_pid_1,
                view=conditions.view,
                calls=calls if can_watch() else None,
            )
        )
        driver = _Driver(
            stage,
            number,
            container,
            conditions=conditions,
            plan=plan,
            storage=storage,
            parting=parting,
            stack=stack,
        )
        return driver.run()


class _Driver:
    """Does what is due to one attempt, and waits for its end."""

    def __init__(
        self,
        stage: Stage,
        number: int,
        container: Container,
        *,
        conditions: Conditions,
        plan: Plan | None,
        storage: Storage | None,
        parting: Parting,
        stack: ExitStack,
    ) -> None:
        self._stage, self._number, self._container = stage, number, container
        self._scene, self._watch, self._beside = conditions.scene, conditions.watch, conditions.beside
        self._hung_seconds = conditions.hung_seconds
        self._plan, self._storage, self._stack = plan, storage, stack
        self._parting = parting
        self._progress = Progress()
        self._signs = SignOfWork(stage, number, conditions.watch, container.started_at)
        self._agenda: list[tuple[float, int, Due, Step]] = []
        self._order = count()
        self._waiting = list(plan.due) if plan is not None else []
        self._watching: NoticeWatch | None = None
        self._asleep: tuple[Due, float] | None = None
        self._listens = False
        self._began_at = container.started_at

    def run(self) -> Attempt:
        """The attempt, once it is over."""
        hung_at = self._container.started_at + self._hung_seconds
        while True:
            self._wake()
            self._look_whether_it_listens()
            self._look_for_ranks()
            self._begin_what_is_due()
            self._do_what_is_due()
            now = time.monotonic()
            if now >= hung_at and self._progress.killed_by is None:
                self._progress.hung = True
                self._kill("hung")
            elif self._is_called_off() and self._progress.killed_by is None:
                self._kill("SIGKILL")
            if self._wait(min(self._next_at() - now, hung_at - now if self._progress.killed_by is None else 1.0)):
                break
        ended_at = time.monotonic()
        if self._progress.armed:
            self._progress.fired = self._watch.disarm()
        if self._storage is not None and self._storage.fired is not None:
            self._progress.fired = self._storage.fired
        self._watch.settle()
        return self._report(self._container.finish(), ended_at)

    # --- what happens ---------------------------------------------------------------------------------------------

    def _begin_what_is_due(self) -> None:
        while self._waiting:
            at = self._moment_of(self._waiting[0])
            if at is None or at > time.monotonic() or self._progress.killed_by is not None:
                return
            if self._beside.is_done():
                self._waiting.clear()
                return
            due = self._waiting.pop(0)
            self._began_at = time.monotonic()
            self._progress.begun.append(due)
            if due.kind == "advice":
                self._progress.landed.append((due, self._began_at))
            for timed in due.begin(self._scene):
                self._agenda.append((self._began_at + timed.seconds, next(self._order), due, timed.step))
            self._agenda.sort(key=lambda entry: entry[:2])
            self._do_what_is_due()

    def _moment_of(self, due: Due) -> float | None:
        """None before the first sign of work, where it counts from that."""
        if due.since == "start":
            return self._container.started_at + due.seconds
        if due.since == "previous":
            return self._began_at + due.seconds
        began = self._work_began()
        return None if began is None else began + due.seconds

    def _work_began(self) -> float | None:
        if self._progress.work_began_at is None and self._plan is not None:
            began = self._signs.find(self._plan.sign)
            now = time.monotonic()
            late = now - self._container.started_at > self._plan.sign_timeout_seconds
            self._progress.work_began_at = now if began is None and late else began
        return self._progress.work_began_at

    def _do_what_is_due(self) -> None:
        while self._agenda and self._agenda[0][0] <= time.monotonic() and self._progress.killed_by is None:
            _, _, due, step = self._agenda.pop(0)
            if self._container.wait(0)[0]:
                return
            self._do(due, step)

    def _do(self, due: Due, step: Step) -> None:
        now, progress = time.monotonic(), self._progress
        if isinstance(step, Announce):
            self._notice(now)
        elif isinstance(step, Warn):
            self._notice(now)
            progress.warned = True
            step.before()
            send = self._container.signal_all if step.everyone else self._container.signal_first
            send(step.number)
        elif isinstance(step, Revoke):
            step.call()
            progress.revoked, progress.noticed_at = True, None
            progress.landed.append((due, now))
        elif isinstance(step, SignalRank):
            self._signal_rank(due, step)
        elif isinstance(step, EndNode):
            if progress.rank is not None:
                progress.node_killed = end_node(self._processes(), progress.rank)
        elif isinstance(step, Tell):
            self._container.signal_first(step.number)
        elif isinstance(step, Pause):
            self._pause(step)
            progress.landed.append((due, now))
        elif isinstance(step, StartSecond):
            progress.second = True
            progress.landed.append((due, now))
            if step.overlap_seconds is not None:
                self._container.signal_all(signal.SIGSTOP)
                self._asleep = (due, step.overlap_seconds)
            self._beside.on_second()
        elif isinstance(step, Kill):
            told = progress.noticed_at is not None or progress.rank_hit is not None
            self._kill("SIGKILL after the grace" if told else "SIGKILL")
        else:
            self._do_to_storage(due, step)

    def _signal_rank(self, due: Due, step: SignalRank) -> None:
        self._progress.rank = hit(self._processes(), step, turn=self._number)
        self._progress.hit_what = step.what
        if self._progress.rank is not None:
            self._progress.rank_hit = due.kind, time.monotonic()

    def _processes(self) -> list[int]:
        first = self._container.first_pid
        return [*([] if first is None else [first]), *self._container.descendants()]

    def _look_for_ranks(self) -> None:
        """In a run that nothing happens to."""
        if self._plan is None:
            self._progress.ranks = max(self._progress.ranks, len(ranks_among(self._processes())))

    def _do_to_storage(self, due: Due, step: KillAtSave | SpoilStorage | MendStorage) -> None:
        if isinstance(step, KillAtSave) and step.write is None:
            self._progress.armed = True
            if self._plan is not None:
                self._watch.arm(self._container.kill, self._plan.saves)
        if self._storage is None or self._plan is None:
            return
        if isinstance(step, KillAtSave) and step.write is not None:
            self._storage.arm(step.write, self._plan.saves)
        elif isinstance(step, SpoilStorage):
            self._storage.spoil(step)
        elif isinstance(step, MendStorage):
            self._storage.mend()

    def _notice(self, now: float) -> None:
        progress = self._progress
        progress.first_notice_at = progress.first_notice_at or now
        progress.noticed_at = progress.noticed_at or now
        kills = (at for at, _, _, step in self._agenda if isinstance(step, Kill))
        progress.kill_due_at = next(kills, progress.kill_due_at)
        if self._watching is None:
            self._watching = self._stack.enter_context(NoticeWatch(self._container, self._stage.folder, self._parting))

    def _wake(self) -> None:
        """The attempts beside this one, when it works; and this one, when the next one does."""
        sleepers = self._beside.neighbours
        if sleepers is not None and not sleepers.awake.is_set() and self._signs.find(sleepers.sign) is not None:
            sleepers.awake.set()
        woken = self._beside.woken
        if self._asleep is not None and (woken is None or woken.is_set()) and self._progress.killed_by is None:
            due, overlap_seconds = self._asleep
            self._asleep = None
            self._container.signal_all(signal.SIGCONT)
            self._agenda.append((time.monotonic() + overlap_seconds, next(self._order), due, Kill()))

    def _pause(self, step: Pause) -> None:
        """As a move to another machine: nothing runs meanwhile, and time passes."""
        self._container.signal_all(signal.SIGSTOP)
        try:
            time.sleep(step.seconds)
        finally:
            self._container.signal_all(signal.SIGCONT)

    def _kill(self, ended_by: EndedBy) -> None:
        self._progress.killed_at, self._progress.killed_by = time.monotonic(), ended_by
        if self._watching is not None:
            self._watching.look()
        self._container.kill()

    @property
    def _is_yet_to_listen(self) -> bool:
        return self._plan is not None and not self._listens and self._watching is None

    def _look_whether_it_listens(self) -> None:
        """Before a notice: many stop at their end, when all is done, and Python itself does."""
        first = self._container.first_pid
        if self._is_yet_to_listen and first is not None:
            found = processes.look_at(first)
            self._listens = found is not None and found.hears_sigterm

    # --- waiting --------------------------------------------------------------------------------------------------

    def _next_at(self) -> float:
        """When the next thing is to be done; soon, while a sign of work is looked for."""
        moments = [self._agenda[0][0]] if self._agenda else []
        if self._waiting and self._progress.killed_by is None:
            at = self._moment_of(self._waiting[0])
            moments.append(time.monotonic() + _LOOK_SECONDS if at is None else at)
        sleepers = self._beside.neighbours
        if self._asleep is not None or (sleepers is not None and not sleepers.awake.is_set()):
            moments.append(time.monotonic() + _LOOK_SECONDS)
        return min(moments, default=float("inf"))

    def _wait(self, seconds: float) -> bool:
        """Whether the first process has ended, after so many seconds at most."""
        seconds = min(max(seconds, 0.0), _LONGEST_WAIT_SECONDS)
        if self._beside.called_off is not None:
            seconds = min(seconds, _CALLED_OFF_SECONDS)
        if self._is_yet_to_listen:
            seconds = min(seconds, _LISTENS_SECONDS)
        if self._plan is None:
            seconds = min(seconds, _RANKS_SECONDS)
        if self._watching is not None and self._progress.killed_by is None:
            return self._watching.wait(min(seconds, _SAMPLE_SECONDS))
        return self._container.wait(seconds)[0]

    def _is_called_off(self) -> bool:
        return self._beside.called_off is not None and self._beside.called_off.is_set()

    # --- the report -----------------------------------------------------------------------------------------------

    def _report(self, exit_code: int, ended_at: float) -> Attempt:
        progress, started = self._progress, self._container.started_at
        end = how_it_ended(progress, self._plan, exit_code, self._spoilt())
        began, noticed = progress.work_began_at, progress.noticed_at
        attempt = Attempt(
            number=self._number,
            seconds=ended_at - started,
            ended_by=end.ended_by,
            exit_code=exit_code,
            started_at=started,
            kind=end.kind,
            interrupted_at_seconds=None if end.at is None else end.at - started,
            stopped_after_seconds=None if noticed is None else ended_at - noticed,
            grace_seconds=progress.kill_due_at - noticed if noticed and progress.kill_due_at else None,
            worked_seconds=0.0 if began is None else max(0.0, ended_at - began),
            cut_write=progress.fired.path if progress.fired is not None and end.at is not None else None,
            writes=count_saves(self._watch.writes_since(started)),
            listened=self._listens,
            notice=self._view() if noticed is not None else None,
            happened=tuple(due.name for due in progress.begun) if end.kind is not None else (),
            ranks=progress.ranks,
            rank=progress.rank,
            hit_what=progress.hit_what,
            node_killed=progress.node_killed,
            counts_as=progress.begun[-1].counts_as if progress.begun and noticed is not None else "its exit code",
        )
        return add_events(attempt, read_events(self._stage, self._number), notice_at=progress.first_notice_at)

    def _spoilt(self) -> tuple[Due, float] | None:
        """The storage fault that a write has met."""
        if self._storage is None or self._storage.first_hit_at is None:
            return None
        due = next(one for one in self._progress.begun if one.kind == "storage fault")
        return due, self._storage.first_hit_at

    def _view(self) -> NoticeView | None:
        """What was seen since the notice."""
        return None if self._watching is None else self._watching.view(signalled=self._progress.warned)
