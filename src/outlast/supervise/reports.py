"""What the supervisor says and records: its lines on the console, its events in the events file."""

import select
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from outlast.clock import Clock, format_duration
from outlast.console import Console
from outlast.events import Event, NoticeHeard, Stopped, append_event, to_line
from outlast.supervise.decisions import Ended

STEP_UNKNOWN = -1  # in a Stopped event: only the job counts steps
_STDERR = 2
_PATIENCE_MS = 100


@dataclass(frozen=True, slots=True)
class Reports:
    """Where the words go; `events_file` is None when nobody asked for the events."""

    console: Console
    clock: Clock
    events_file: str | None = None

    def notice(
        self,
        source: str = "SIGTERM",
        *,
        reason: str = "asked to stop",
        grace_seconds: float,
        kind: Literal["final", "advance"] = "final",
        then: str,
    ) -> None:
        """A signal came; `then` says what follows from it."""
        grace_seconds = round(grace_seconds, 3)
        self._record(NoticeHeard(source, reason, grace_seconds, by="supervisor", kind=kind))
        self._say(self.console.notice, f"notice: {source}; grace {format_duration(grace_seconds)}; {then}")

    def stopped(self, reason: str, *, exit_code: int) -> None:
        """The supervisor, not the command, ends the work."""
        self._record(Stopped(STEP_UNKNOWN, exit_code, reason))
        self._say(self.console.warning, f"stopped: {reason}; leaving with exit code {exit_code}")

    def timed_out(self, *, timeout_seconds: float, grace_seconds: float) -> None:
        """The attempt has used up its time."""
        self._say(
            self.console.warning,
            f"timeout: the attempt has run for {format_duration(timeout_seconds)}; "
            f"SIGTERM sent, SIGKILL follows in {format_duration(grace_seconds)}",
        )

    def killed_leftovers(self, pids: Sequence[int]) -> None:
        """Processes outlived the command."""
        names = ", ".join(map(str, pids))
        self._say(self.console.info, f"killed what the command left running: {len(pids)} process(es), pid {names}")

    def passed_on(self, pids: Sequence[int]) -> None:
        """The command, say a shell, died of the notice without having handed it down."""
        names = ", ".join(map(str, pids))
        self._say(
            self.console.warning,
            f"the command died of SIGTERM and left processes that had not heard it: passed on to pid {names}; "
            "start the program itself, or `exec` it in the shell",
        )

    def retrying(self, number: int, ended: Ended, *, ran_seconds: float, pause: float, left: int) -> None:
        """Another attempt follows; `left` counts the retries after it."""
        when = f"in {format_duration(pause)}" if pause else "now"
        self._say(
            self.console.warning,
            f"attempt {number} {ended} after {format_duration(ran_seconds)}; "
            f"attempt {number + 1} starts {when}, {_retries(left)} left after it",
        )

    def gave_up(self, number: int, ended: Ended, *, ran_seconds: float, why: str) -> None:
        """The last attempt failed."""
        self._say(self.console.error, f"attempt {number} {ended} after {format_duration(ran_seconds)}; {why}")

    def not_started(self, command: str, error: OSError) -> None:
        """The command could not be started at all."""
        if isinstance(error, FileNotFoundError):
            self._say(self.console.error, f"command not found: {command!r} is neither a file nor on PATH")
        else:
            self._say(self.console.error, f"cannot execute {command!r}: {error.strerror}")

    def _say(self, write: Callable[[str], None], message: str) -> None:
        # While the command runs, a deadline is watched by this very thread: whoever reads standard error must not
        # hold it up, and a line that a full pipe cannot take is lost.
        if _has_room():
            write(message)

    def _record(self, event: Event) -> None:
        try:
            append_event(self.events_file, to_line(event, self.clock))
        except OSError as error:
            self._say(self.console.error, f"an event is lost: cannot append to {self.events_file}: {error.strerror}")


def _has_room() -> bool:
    poll = select.poll()
    try:
        poll.register(_STDERR, select.POLLOUT)
        return bool(poll.poll(_PATIENCE_MS))
    except OSError:  # closed
        return False


def _retries(count: int) -> str:
    return "1 retry" if count == 1 else f"{count} retries"
