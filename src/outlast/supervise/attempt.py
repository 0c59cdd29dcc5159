"""One attempt: from the start of the command until nothing that it started is left."""

import math
import os
import signal
from dataclasses import dataclass

from outlast.clock import format_duration
from outlast.supervise.ahead import AdvanceNotice
from outlast.supervise.decisions import Ended
from outlast.supervise.doors import World
from outlast.supervise.plan import Plan
from outlast.supervise.reports import Reports


@dataclass(slots=True)
class Notice:
    """Whether this supervisor was asked to leave, and until when the command may live on."""

    kill_at_seconds: float = math.inf

    @property
    def heard(self) -> bool:
        return self.kill_at_seconds < math.inf

    def hear(self, now_seconds: float, kill_after_seconds: float) -> bool:
        """Takes a SIGTERM; False if it is not the first one, which never moves the deadline."""
        if self.heard:
            return False
        self.kill_at_seconds = now_seconds + kill_after_seconds
        return True


class Attempt:
    """Watches a command that was just started; moments are seconds on the monotonic clock."""

    def __init__(
        self, pid: int, *, plan: Plan, world: World, reports: Reports, notice: Notice, ahead: AdvanceNotice
    ) -> None:
        self._pid, self._plan, self._world, self._reports = pid, plan, world, reports
        self._notice, self._ahead = notice, ahead
        self._timeout_at = self._now() + (plan.timeout_seconds or math.inf)
        self._timeout_kill_at = math.inf
        self._status: int | None = None
        self._told_to_stop = False
        self._orphans_told = False
        self._overdue = False
        self._stopped = False
        self._asked_by_user = False

    def run(self) -> Ended:
        """Until the attempt is over; then whatever the command left is killed, even if this loop itself fails."""
        try:
            while not self._is_over():
                self._listen(self._seconds_to_next_alarm())
                self._reap()
                self._pass_on_what_is_ahead()
                self._sound_alarms()
        finally:
            self._world.terminal.take_back()
            self._kill_the_rest()
        self._listen(0)  # a notice that came with the end is one still
        return self._ended()

    @property
    def overdue(self) -> bool:
        """Whether the command had to be killed at its deadline."""
        return self._overdue

    def _now(self) -> float:
        return self._world.clock.monotonic_seconds()

    def _is_over(self) -> bool:
        if self._status is None:
            return self._overdue
        return self._overdue or not (self._orphans_told and self._world.processes.orphans())

    # -- signals ------------------------------------------------------------------------------------------------

    def _listen(self, wait_seconds: float | None) -> None:
        for number in self._world.hearing.listen(wait_seconds):
            if number == signal.SIGTERM:
                self._hear_notice()
            elif number == signal.SIGCONT:
                self._resume()
            elif self._ahead.is_announced_by(number):
                self._ahead.hear(number, then=f"passed on to pid {self._pid} once it can hear it; the last attempt")
            elif number != signal.SIGCHLD:
                self._asked_by_user |= number == signal.SIGINT
                self._send(number)

    def _pass_on_what_is_ahead(self) -> None:
        if self._status is None and not self._told_to_stop:  # SIGTERM says more
            self._ahead.pass_on(self._pid, self._send)

    def _hear_notice(self) -> None:
        self._tell_to_stop()  # before anything else: the grace is running
        if not self._notice.hear(self._now(), self._plan.kill_after_seconds):
            return
        kill_after = format_duration(self._plan.kill_after_seconds)
        self._reports.notice(
            grace_seconds=self._plan.surroundings.grace_seconds,
            then=f"passed on to pid {self._pid}, which is killed if it is still there in {kill_after}",
        )

    def _tell_to_stop(self) -> None:
        self._told_to_stop = True
        self._send(signal.SIGTERM)
        if self._stopped:
            self._resume()  # a stopped process hears nothing

    def _send(self, number: int) -> None:
        # The command alone gets it, as on the platform: it knows what to tell its workers, and when.
        if self._status is None:
            self._world.processes.send(self._pid, number)

    # -- children -----------------------------------------------------------------------------------------------

    def _reap(self) -> None:
        for pid, status in self._world.processes.reap():
            if pid != self._pid:
                continue
            if os.WIFSTOPPED(status):
                self._follow_into_stop(os.WSTOPSIG(status))
            else:
                self._status = status
                self._tell_orphans()

    def _tell_orphans(self) -> None:
        """Passes the stop on to what a shell left: it dies of SIGTERM and does not tell the program it waits for.

        A command that left by itself has told its children what they need to know.
        """
        died_of_it = self._status is not None and os.waitstatus_to_exitcode(self._status) == -signal.SIGTERM
        orphans = self._world.processes.orphans() if self._told_to_stop and died_of_it else []
        if not orphans:
            return
        self._orphans_told = True
        for pid in orphans:
            self._world.processes.send(pid, signal.SIGTERM)
        self._reports.passed_on(orphans)

    def _follow_into_stop(self, number: int) -> None:
        """Ctrl-Z stopped the command: its shell waits for us to stop, too, and continues us with `fg` or `bg`.

        Or it wanted the terminal without having it: after `bg`, a later `fg` gives it to our group and tells nobody.
        """
        self._stopped = True
        terminal = self._world.terminal
        if self._notice.heard:
            return  # no time to stand still
        if terminal.lent:
            terminal.take_back()
            terminal.stop_self(number)
            self._resume()
        elif terminal.give(self._pid):
            self._stopped = False
        elif number in (signal.SIGTTIN, signal.SIGTTOU):
            terminal.stop_self(number)  # the shell shows the job as stopped, and SIGCONT says that it is wanted

    def _resume(self) -> None:
        if self._status is None:
            self._stopped = False
            self._world.terminal.resume(self._pid)

    # -- alarms -------------------------------------------------------------------------------------------------

    def _kill_at(self) -> float:
        return min(self._notice.kill_at_seconds, self._timeout_kill_at)

    def _seconds_to_next_alarm(self) -> float | None:
        alarm = min(self._timeout_at, self._kill_at())
        look = math.inf if self._told_to_stop else self._ahead.seconds_to_next_look
        wait = min(look, max(0.0, alarm - self._now()))
        return None if wait == math.inf else wait

    def _sound_alarms(self) -> None:
        now = self._now()
        if now >= self._timeout_at:
            self._timeout_at = math.inf
            if self._status is None and not self._notice.heard:
                self._time_out(now)
        if now >= self._kill_at() and not self._is_over():
            self._overdue = True

    def _time_out(self, now_seconds: float) -> None:
        grace_seconds = self._plan.surroundings.grace_seconds
        self._timeout_kill_at = now_seconds + grace_seconds
        self._tell_to_stop()
        self._reports.timed_out(timeout_seconds=self._plan.timeout_seconds or 0.0, grace_seconds=grace_seconds)

    # -- the end ------------------------------------------------------------------------------------------------

    def _kill_the_rest(self) -> None:
        left = self._world.processes.kill_all(self._pid, self._plan.kill_within_seconds)
        self._reap()
        if left and not self._overdue:
            self._reports.killed_leftovers(left)

    def _ended(self) -> Ended:
        # Without a status it hangs in the kernel and dies of our SIGKILL when the kernel lets go of it.
        status = signal.SIGKILL if self._status is None else self._status
        timed_out = self._timeout_kill_at < math.inf
        return Ended.from_wait_status(status, timed_out=timed_out, asked_by_user=self._asked_by_user)
