"""What a job does at a word that comes from elsewhere, whatever its loop is doing: notices, deadlines, other ranks."""

from dataclasses import dataclass
from typing import Protocol

from outlast.clock import format_duration
from outlast.company import Company
from outlast.events import Advised, Crashed, Event, NoticeHeard, NoticeRevoked, Stopped, append_event, to_line
from outlast.exits import tell_code
from outlast.leaving import Leaving, what_did_not_end
from outlast.notices import Notice, NoticeBoard
from outlast.ranks.fate import Fate
from outlast.saves import Saves
from outlast.settings import EVENTS_FILE, Surroundings


class Heard(Protocol):
    """The session of the job, as far as it matters to this."""

    board: NoticeBoard
    saves: Saves
    leaving: Leaving
    around: Surroundings
    finished: bool
    in_step: bool
    company: Company

    @property
    def completed_steps(self) -> int: ...

    @property
    def unsaved_steps(self) -> int: ...

    @property
    def stopped(self) -> bool: ...

    @property
    def begun(self) -> bool:
        """Whether the loop has."""
        ...

    @property
    def leave_code(self) -> int: ...

    @property
    def where_it_goes_on(self) -> str:
        """In words, from which checkpoint."""
        ...

    def write(self, event: Event) -> bool:
        """Into the journal; False where there is none yet."""
        ...


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class Hearing:
    """Called in other threads than the loop's."""

    job: Heard

    def on_notice(self, notice: Notice) -> None:
        """A notice has come, or has changed."""
        job = self.job
        long = job.leaving.is_long(notice)
        if job.finished:
            what = "the code after the loop may go on until then"
        elif long:
            what = "training goes on for now"
        else:
            what = "stopping at the next step border"
            job.saves.hear_notice()
        # Before it is written, which may take long.
        job.company.hear(notice, acts=job.begun and not job.finished and not long)
        self._write(NoticeHeard(notice.source, notice.reason, notice.grace_seconds, kind=notice.kind))
        grace = format_duration(notice.grace_seconds)
        job.around.console.notice(f"notice: {notice.reason}; {grace} of grace; {what}")

    def on_word(self, event: Event) -> None:
        """What is no notice, or none any more: said and written down."""
        console = self.job.around.console
        if isinstance(event, NoticeRevoked):
            self.job.company.hear(self.job.board.notice, acts=False)
        self._write(event)
        if isinstance(event, NoticeRevoked):
            console.notice(f"notice revoked: {event.reason} ({event.source})")
        elif isinstance(event, Advised):
            console.info(f"{event.source}: {event.reason}; nothing is stopped for that")

    def at_deadline(self, notice: Notice) -> None:
        """The guard is about to end the process."""
        job = self.job
        job.saves.wait_at_most(job.board.patience_seconds(notice))  # a last save may be about to end
        said = what_did_not_end(
            notice,
            finished=job.finished,
            stopped=job.stopped,
            saving_step=job.completed_steps if job.saves.running else None,
            in_step=job.in_step,
            begun=job.begun,
            lost=(lost := job.unsaved_steps),
        )
        fitted = None if job.finished or not job.begun else not lost
        self._leave(Stopped(job.completed_steps, job.leave_code, said, lost, fitted=fitted), job.leave_code, said)

    def stranded(self, fate: Fate) -> None:
        """See company.Host."""
        if self.job.stopped:
            self.job.around.console.error(f"the program did not end after that; leaving with exit code {fate.code}")
        else:
            self.leave_since(fate)

    def leave_since(self, fate: Fate) -> None:
        """The process ends since a rank has left: said and written down."""
        job = self.job
        event: Event = Stopped(job.completed_steps, fate.code, fate.reason, job.unsaved_steps)
        if fate.crashed:
            event = Crashed(job.completed_steps, fate.reason)
        self._leave(event, fate.code, f"{fate.reason}; the ranks cannot go on without it; {job.where_it_goes_on}")

    def save_wished(self, pinned: bool) -> None:
        """See company.Host."""
        self.job.saves.ask(pinned=pinned)

    def leave_code(self) -> int:
        """The code to leave with at the deadline."""
        return self.job.leave_code

    def _leave(self, event: Event, code: int, said: str) -> None:
        """The journal first: nobody may be reading standard error any more, and then the line never returns."""
        tell_code(self.job.around.env, code)
        self.job.write(event)
        self.job.around.console.error(f"{said}; leaving with exit code {code}")

    def _write(self, event: Event) -> None:
        """Also before there is a journal."""
        if not self.job.write(event):
            append_event(self.job.around.env.get(EVENTS_FILE), to_line(event, self.job.around.clock))
