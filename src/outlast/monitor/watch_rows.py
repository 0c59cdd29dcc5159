"""What the live view shows of a run's task or of a queue: plain figures, each with the moment that it was true."""

from dataclasses import dataclass, replace

# Which states come first where not all fit: those that somebody should look at.
_URGENCY = {
    "stuck": 0,
    "failed": 1,
    "crashed": 1,
    "running": 2,
    "waiting": 3,
    "interrupted": 4,
    "killed": 4,
    "left": 5,
    "unknown": 5,
    "superseded": 6,
    "finished": 9,
}
_LETTERS = {
    "finished": "F",
    "interrupted": "I",
    "killed": "K",
    "crashed": "C",
    "failed": "X",
    "left": "L",
    "superseded": "S",
    "running": "R",
}


@dataclass(frozen=True, slots=True)
class TaskRow:
    """One task of a run; None: not known. Ages and what is left of a notice are those of the moment of reading.

    `attempts`: how each ended, the oldest first. `risk_seconds` and `risk_steps`: since the last good checkpoint.
    `eta_seconds`: until it is done. `troubles`: what status would complain of, in words.
    """

    url: str
    job: str
    run: str
    task: int
    state: str
    steps_done: int | None = None
    steps_total: int | None = None
    eta_seconds: float | None = None
    checkpoint_step: int | None = None
    checkpoint_age_seconds: float | None = None
    risk_seconds: float | None = None
    risk_steps: int | None = None
    attempts: tuple[str, ...] = ()
    notice: str = ""
    notice_seconds_left: float | None = None
    goodput: float | None = None
    host: str = ""
    troubles: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        return f"{self.job} / {self.run} / task {self.task}"

    @property
    def share(self) -> float | None:
        """Of all steps, from 0 to 1."""
        if self.steps_done is None or not self.steps_total:
            return None
        return min(1.0, self.steps_done / self.steps_total)

    def with_risk(self, seconds: float | None, steps: int | None, notice: str, left: float | None) -> "TaskRow":
        """The same, of a running task: what is at risk, and the notice that it has heard, if any."""
        return replace(self, risk_seconds=seconds, risk_steps=steps, notice=notice, notice_seconds_left=left)

    def later(self, seconds: float) -> "TaskRow":
        """The same, so many seconds after it was read: ages grow, and notices run out."""
        running = self.state == "running"
        return replace(
            self,
            checkpoint_age_seconds=_plus(self.checkpoint_age_seconds, seconds),
            risk_seconds=_plus(self.risk_seconds, seconds if running else 0.0),
            notice_seconds_left=None if (left := self.notice_seconds_left) is None else max(0.0, left - seconds),
        )


@dataclass(frozen=True, slots=True)
class QueueRow:
    """A queue; None: cannot be known."""

    url: str
    ready: int | None
    leased: int | None
    done: int | None
    dead: int | None
    oldest_seconds: float | None = None
    workers: int | None = None
    rate_per_second: float | None = None
    eta_seconds: float | None = None
    troubles: tuple[str, ...] = ()

    @property
    def share(self) -> float | None:
        """Of all items, from 0 to 1."""
        if self.ready is None or self.leased is None or self.done is None or self.dead is None:
            return None
        over = self.done + self.dead
        return over / (over + self.ready + self.leased) if over else 0.0

    def later(self, seconds: float) -> "QueueRow":
        """The same, so many seconds after it was read."""
        return replace(self, oldest_seconds=_plus(self.oldest_seconds, seconds))


Row = TaskRow | QueueRow


def by_urgency(rows: list[TaskRow]) -> list[TaskRow]:
    """Those that somebody should look at first, finished ones last; else by name."""
    return sorted(rows, key=lambda one: (one.notice == "", _URGENCY.get(one.state, 5), one.job, one.run, one.task))


def strip(attempts: tuple[str, ...], *, longest: int) -> str:
    """A letter for each attempt, the oldest first: F finished, I interrupted, K killed, C crashed, X failed, L left,
    S superseded, R running, ? unknown. Of many only the newest, after "…"."""
    letters = [_LETTERS.get(one, "?") for one in attempts]
    return "".join(letters) if len(letters) <= longest else "…" + "".join(letters[-longest + 1 :])


def legend() -> str:
    """What the letters mean."""
    return ", ".join(f"{letter} {word}" for word, letter in _LETTERS.items())


def _plus(value: float | None, seconds: float) -> float | None:
    return None if value is None else value + seconds
