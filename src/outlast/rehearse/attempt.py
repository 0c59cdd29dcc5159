"""One attempt: starts the command, interrupts it as the platform would, and reports what was seen."""

import os
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

from outlast.containers.container import Container
from outlast.events import (
    ChunkBegun,
    LoopStarted,
    NoticeHeard,
    Recorded,
    RestoreChecked,
    Restored,
    SaveCommitted,
    from_lines,
)
from outlast.rehearse.notice import NoticeView, NoticeWatch
from outlast.rehearse.scenario import Kind
from outlast.rehearse.stage import Stage
from outlast.rehearse.watch import SaveFilter, Write, WriteWatch

EndedBy = Literal["finished", "SIGTERM", "SIGKILL", "SIGKILL at a save", "SIGKILL after the grace", "exit", "hung"]
Sign = Literal["loop", "activity", "start"]
WORK_BEGINS = (LoopStarted, ChunkBegun)  # a job's first step, a worker's first chunk
_SIGKILLED = 128 + 9
_LOOK_SECONDS = 0.005  # how often the first sign of work is looked for
_SAMPLE_SECONDS = 0.03  # how often the processes are looked at while a notice is pending


@dataclass(frozen=True, slots=True)
class Plan:
    """How to interrupt one attempt: `after_seconds` counts from the first sign of work.

    Without a sign until `sign_timeout_seconds` the interruption comes anyhow. Seconds throughout.
    """

    kind: Kind
    after_seconds: float
    sign: Sign
    sign_timeout_seconds: float
    grace_seconds: float
    saves: SaveFilter


@dataclass(frozen=True, slots=True)
class Attempt:
    """What became of one attempt. Seconds; None where there was nothing to measure.

    `interrupted_at_seconds` counts from the start; None when no interruption landed.
    """

    number: int
    seconds: float
    ended_by: EndedBy
    exit_code: int
    started_at: float  # monotonic
    kind: Kind | None = None
    interrupted_at_seconds: float | None = None
    heard_notice_after_seconds: float | None = None
    stopped_after_seconds: float | None = None
    resumed_from_step: int | None = None
    worked_seconds: float = 0.0  # from the first sign of work, as far as one was looked for
    commits: int = 0
    writes: int = 0  # that were seen in the copy
    cut_write: str | None = None  # the file that was being written when it was killed at a save
    checked_leaves: int = 0
    different_leaves: tuple[str, ...] = ()
    notice: NoticeView | None = None


@dataclass(slots=True)
class _Progress:
    """What the loop over one attempt knows so far."""

    work_began_at: float | None = None
    signalled_at: float | None = None
    fired: Write | None = None
    armed: bool = False
    killed_by: EndedBy | None = None
    notice: NoticeView | None = None
    also: list[int] = field(default_factory=list)


def run_attempt(
    stage: Stage,
    number: int,
    command: Sequence[str],
    environment: dict[str, str],
    *,
    watch: WriteWatch,
    isolated: bool,
    plan: Plan | None = None,
    hung_seconds: float = float("inf"),
) -> Attempt:
    """Runs the command once, to its end or to the end that `plan` makes."""
    with ExitStack() as stack:
        container = stack.enter_context(
            Container(
                command,
                folder=stage.folder,
                environment=environment,
                stdout=stack.enter_context(stage.stdout(number).open("wb")),
                stderr=stack.enter_context(stage.stderr(number).open("wb")),
                isolated=isolated,
            )
        )
        driver = _Driver(stage, number, container, watch=watch, plan=plan, hung_seconds=hung_seconds)
        stack.callback(watch.disarm)
        return driver.run()


class _Driver:
    """Brings one attempt to its end."""

    def __init__(
        self,
        stage: Stage,
        number: int,
        container: Container,
        *,
        watch: WriteWatch,
        plan: Plan | None,
        hung_seconds: float,
    ) -> None:
        self._stage, self._number = stage, number
        self._container, self._watch, self._plan = container, watch, plan
        self._hung_at = container.started_at + hung_seconds
        self._signs = SignOfWork(stage, number, watch, container.started_at)
        self._progress = _Progress()

    def run(self) -> Attempt:
        if self._plan is None:
            self._wait_for_end()
        elif self._wait_for_moment(self._plan):
            self._interrupt(self._plan)
        ended_at = time.monotonic()
        self._progress.fired = self._watch.disarm()
        return self._report(self._container.finish(), ended_at)

    def _wait_for_moment(self, plan: Plan) -> bool:
        """Whether the attempt still runs at the moment of its interruption."""
        started = self._container.started_at
        while True:
            now = time.monotonic()
            if self._progress.work_began_at is None:
                began = self._signs.find(plan.sign)
                late = now - started > plan.sign_timeout_seconds
                self._progress.work_began_at = now if began is None and late else began
            began = self._progress.work_began_at
            pause = _LOOK_SECONDS if began is None else began + plan.after_seconds - now
            if pause <= 0:
                return not self._container.wait(0)[0]
            if self._container.wait(min(pause, self._hung_at - now))[0]:
                return False
            if now >= self._hung_at:
                self._give_up()
                return False

    def _interrupt(self, plan: Plan) -> None:
        if plan.kind == "SIGTERM":
            self._give_notice(plan.grace_seconds)
            return
        if plan.kind == "SIGKILL":
            self._progress.signalled_at = time.monotonic()
            self._progress.killed_by = "SIGKILL"
            self._container.kill()
        else:
            self._progress.armed = True
            self._watch.arm(self._container.kill, plan.saves)
        self._wait_for_end()

    def _give_notice(self, grace_seconds: float) -> None:
        watching = NoticeWatch(self._container, self._stage.folder)
        with watching:
            moment = time.monotonic()
            self._progress.signalled_at = moment
            self._container.terminate_first()
            while (left := moment + grace_seconds - time.monotonic()) > 0:
                if watching.wait(min(left, _SAMPLE_SECONDS)):
                    break
            else:
                self._progress.killed_by = "SIGKILL after the grace"
                watching.look()
                self._container.kill()
            self._progress.notice = watching.view()

    def _wait_for_end(self) -> None:
        left = self._hung_at - time.monotonic()
        # poll() takes no infinite timeout; a day at a time is as good.
        while not self._container.wait(min(max(left, 0.0), 86400.0))[0]:
            left = self._hung_at - time.monotonic()
            if left <= 0:
                self._give_up()
                return

    def _give_up(self) -> None:
        self._progress.killed_by = "hung"
        self._container.kill()

    def _report(self, exit_code: int, ended_at: float) -> Attempt:
        progress, started = self._progress, self._container.started_at
        at, ended_by = _how_it_ended(progress, exit_code)
        began = progress.work_began_at
        attempt = Attempt(
            number=self._number,
            seconds=ended_at - started,
            ended_by=ended_by,
            exit_code=exit_code,
            started_at=started,
            kind=self._plan.kind if self._plan and at is not None else None,
            interrupted_at_seconds=None if at is None else at - started,
            stopped_after_seconds=ended_at - at if at is not None and progress.notice else None,
            worked_seconds=0.0 if began is None else max(0.0, ended_at - began),
            cut_write=progress.fired.path if progress.fired is not None and at is not None else None,
            writes=len(self._watch.writes_since(started)),
            notice=progress.notice,
        )
        return add_events(attempt, read_events(self._stage, self._number), notice_at=at if progress.notice else None)


def _how_it_ended(progress: _Progress, exit_code: int) -> tuple[float | None, EndedBy]:
    """The moment at which an interruption landed, if one did, and what ended the attempt."""
    if progress.killed_by == "hung":
        return progress.signalled_at, "hung"
    if progress.fired is not None and exit_code == _SIGKILLED:
        return progress.fired.at, "SIGKILL at a save"
    if progress.killed_by is not None and exit_code == _SIGKILLED:
        return progress.signalled_at, progress.killed_by
    by_itself: EndedBy = "finished" if exit_code == 0 else "exit"
    if progress.notice is None:  # it ended by itself before the kill could reach it
        return None, by_itself
    return progress.signalled_at, "finished" if exit_code == 0 else "SIGTERM"


class SignOfWork:
    """When an attempt first shows that it works: its loop starts, or it writes something."""

    def __init__(self, stage: Stage, number: int, watch: WriteWatch, started_at: float) -> None:
        self._events = stage.events(number)
        self._outputs = (stage.stdout(number), stage.stderr(number))
        self._watch, self._started_at = watch, started_at
        self._finders: dict[Sign, Callable[[], float | None]] = {
            "loop": self._loop_started,
            "activity": self._first_activity,
            "start": lambda: started_at,
        }

    def find(self, sign: Sign) -> float | None:
        """The monotonic moment of the sign; None so far."""
        return self._finders[sign]()

    def _loop_started(self) -> float | None:
        if not self._events.exists():
            return None
        return first_moment(from_lines(self._events.read_bytes()), WORK_BEGINS)

    def _first_activity(self) -> float | None:
        if any(output.stat().st_size for output in self._outputs):
            return time.monotonic()
        written = self._watch.writes_since(self._started_at)
        return written[0].at if written else None


def first_moment(recorded: Sequence[Recorded], kind: type | tuple[type, ...]) -> float | None:
    """When the first event of a kind (or of several) happened, on the monotonic clock."""
    return next((one.monotonic_seconds for one in recorded if isinstance(one.event, kind)), None)


def read_events(stage: Stage, number: int) -> list[Recorded]:
    """The events of an attempt; none for a program that does not use outlast."""
    file = stage.events(number)
    return from_lines(file.read_bytes()) if file.exists() else []


def add_events(attempt: Attempt, recorded: Sequence[Recorded], *, notice_at: float | None) -> Attempt:
    """The attempt with what its own events tell."""
    heard = [
        one.monotonic_seconds - notice_at
        for one in recorded
        if notice_at is not None and isinstance(one.event, NoticeHeard)
    ]
    restored = [one.event.step for one in recorded if isinstance(one.event, Restored)]
    checks = [one.event for one in recorded if isinstance(one.event, RestoreChecked)]
    return replace(
        attempt,
        heard_notice_after_seconds=max(0.0, min(heard)) if heard else None,
        resumed_from_step=restored[-1] if restored else None,
        commits=sum(isinstance(one.event, SaveCommitted) for one in recorded),
        checked_leaves=sum(check.leaves for check in checks),
        different_leaves=tuple(name for check in checks for name in check.different),
    )


def tail(path: Path, lines: int = 12) -> list[str]:
    """The last lines of an output file."""
    with path.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - 16384))
        text = file.read().decode(errors="replace")
    return text.splitlines()[-lines:]
