"""The loop over attempts: start, watch, decide; and what a signal means while nothing is running."""

import itertools
import signal
from collections.abc import Callable, Sequence

from outlast.supervise.ahead import AdvanceNotice
from outlast.supervise.attempt import Attempt, Notice
from outlast.supervise.codes import ToldCode, as_told
from outlast.supervise.decisions import (
    EXIT_NOT_EXECUTABLE,
    EXIT_NOT_FOUND,
    USER_SIGNALS,
    Ended,
    is_plain_failure,
    is_retried,
    leaving_code,
    pause_seconds,
)
from outlast.supervise.doors import World
from outlast.supervise.plan import Plan
from outlast.supervise.reports import Reports

_NONE_RUNS = "no attempt is running, and none is started any more"


class Supervisor:
    """Runs a plan in a world; `run` returns the code to leave with."""

    def __init__(
        self, plan: Plan, world: World, reports: Reports, told: Callable[[], Sequence[ToldCode]] = tuple
    ) -> None:
        self._plan, self._world, self._reports, self._told = plan, world, reports, told
        self._notice, self._ahead = Notice(), AdvanceNotice(plan, world, reports)
        self._plain_failures = 0

    def run(self) -> int:
        """Attempt after attempt until one settles it."""
        pause = 0.0
        for number in itertools.count(1):
            code = self._wait_idle(pause)
            if code is not None:
                return code
            started_at = self._now()
            try:
                pid = self._start()
            except OSError as error:
                self._reports.not_started(self._plan.command[0], error)
                return EXIT_NOT_FOUND if isinstance(error, FileNotFoundError) else EXIT_NOT_EXECUTABLE
            ended = self._watch(pid)
            again = self._pause_before_next(number, ended, self._now() - started_at)
            if again is None:
                return self._leave(ended)
            pause = again
        raise AssertionError("attempts have no end of their own")

    def _now(self) -> float:
        return self._world.clock.monotonic_seconds()

    def _start(self) -> int:
        terminal = self._world.terminal
        terminal.lend()
        try:
            return self._world.processes.start(self._plan.command, self._plan.env_at(self._now()), terminal.take)
        except OSError:
            terminal.take_back()
            raise

    def _watch(self, pid: int) -> Ended:
        attempt = Attempt(
            pid, plan=self._plan, world=self._world, reports=self._reports, notice=self._notice, ahead=self._ahead
        )
        ended = attempt.run()
        if attempt.overdue and self._notice.heard:
            self._reports.stopped(
                "the step did not end within the grace",
                exit_code=self._plan.surroundings.interrupted_exit_code,
            )
        interrupted = self._plan.surroundings.interrupted_exit_code
        return as_told(ended, self._told(), command_pid=pid, interrupted_exit_code=interrupted)

    def _pause_before_next(self, number: int, ended: Ended, ran_seconds: float) -> float | None:
        """Seconds until the next attempt; None when this was the last one."""
        if not is_retried(ended, noticed=self._notice.heard or self._ahead.heard):
            return None
        if number > self._plan.retries:
            if self._plan.retries:
                self._reports.gave_up(number, ended, ran_seconds=ran_seconds, why="no retries are left")
            return None
        self._plain_failures = self._plain_failures + 1 if is_plain_failure(ended) else 0
        pause = pause_seconds(ended, plain_failures=self._plain_failures)
        left = self._plan.retries - number
        self._reports.retrying(number, ended, ran_seconds=ran_seconds, pause=pause, left=left)
        return pause

    def _leave(self, ended: Ended) -> int:
        return leaving_code(
            ended,
            noticed=self._notice.heard or self._ahead.has_ended(ended),
            interrupted_exit_code=self._plan.surroundings.interrupted_exit_code,
        )

    def _wait_idle(self, pause: float) -> int | None:
        """Waits with nothing running; the code to leave with if a signal ends the wait."""
        until = self._now() + pause
        while True:
            for number in self._world.hearing.listen(max(0.0, until - self._now())):
                if number == signal.SIGTERM:
                    grace_seconds = self._plan.surroundings.grace_seconds
                    self._reports.notice(grace_seconds=grace_seconds, then=_NONE_RUNS)
                    return self._stop_idle()
                if self._ahead.is_announced_by(number):
                    self._ahead.hear(number, then=_NONE_RUNS)
                    return self._stop_idle()
                if number in USER_SIGNALS:
                    return 128 + number
            self._world.processes.reap()  # orphans of a sidecar, say
            if self._now() >= until:
                return None

    def _stop_idle(self) -> int:
        exit_code = self._plan.surroundings.interrupted_exit_code
        self._reports.stopped("the notice came while no attempt was running", exit_code=exit_code)
        return exit_code
