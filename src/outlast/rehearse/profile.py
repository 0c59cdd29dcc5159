"""What the uninterrupted runs show about a program: how long it takes, when it works, when it saves."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

from outlast.events import ItemsStored, Recorded, SaveCommitted
from outlast.rehearse.attempt import WORK_BEGINS, Attempt, Sign, first_moment
from outlast.rehearse.sandbox import PRIVATE_FOLDER
from outlast.rehearse.watch import SaveFilter, Write, family, find_logs

_LATE_SIGN = 0.5  # output that comes after half the life says nothing about the start: it was held in a buffer
_GUESSED_START_UP = 0.3
# Of the work: before it, settings are written; after it, results, which a busy machine makes early.
_SAVES_FROM, _SAVES_TO = 0.1, 0.75
_OFTEN = 4  # times that a file is written, or that files are whose names differ in numbers


@dataclass(frozen=True, slots=True)
class Profile:
    """A program as its baseline showed it. Seconds; `sign` is what tells that an attempt has begun to work."""

    seconds: float
    start_up_seconds: float
    sign: Sign
    saves: bool
    save_filter: SaveFilter
    ranks: int = 0  # processes that train together
    after_seconds: float = 0.0  # from a worker's last result to the end, when nobody listens any more

    @property
    def work_seconds(self) -> float:
        return max(0.0, self.seconds - self.start_up_seconds - self.after_seconds)

    @property
    def wait_for_start(self) -> float:
        """Start-up before an interruption, where no sign of work can be waited for."""
        return self.start_up_seconds if self.sign == "start" else 0.0


def profile_of(
    attempt: Attempt,
    recorded: Sequence[Recorded],
    writes: Sequence[Write],
    output_at: float | None,
    sinks: tuple[str, ...] = (),
) -> Profile:
    """Reads a baseline: its events, its writes in the copy, and when its first output came (monotonic).

    `sinks`: where a worker keeps its results, if it is one: a save is a write there.
    """
    sign, began = _begin_of_work(attempt, recorded, writes, output_at)
    logs = find_logs(writes, life_seconds=attempt.seconds)
    uses_store = any(write.path.startswith(f"{PRIVATE_FOLDER}/") for write in writes)
    ends = attempt.started_at + attempt.seconds
    first, last = began + _SAVES_FROM * (ends - began), began + _SAVES_TO * (ends - began)
    which = SaveFilter(store_only=uses_store, logs=logs)
    if not any(which.accepts(write) for write in writes if first < write.at < last):
        # A program that keeps its only file open, say a database or a journal.
        which = SaveFilter(store_only=uses_store, from_start=False)
    if sinks:
        which = SaveFilter(from_start=False, only=sinks)
    # A commit to a real store, outside of the copy, cannot be met by watching that.
    met = uses_store or bool(sinks)
    committed = met and any(isinstance(one.event, SaveCommitted | ItemsStored) for one in recorded)
    return Profile(
        seconds=attempt.seconds,
        start_up_seconds=began - attempt.started_at,
        sign=sign,
        saves=committed
        or _writes_again_and_again(writes, which)
        or any(first < write.at < last for write in writes if which.accepts(write)),
        save_filter=which,
        ranks=attempt.ranks,
        after_seconds=ends - stored[-1] if (stored := _stores(recorded)) else 0.0,
    )


def _writes_again_and_again(writes: Sequence[Write], which: SaveFilter) -> bool:
    """Whether files of one kind are written to their end so often. A busy machine sees them late, but all of them."""
    ended = Counter(
        family(one.path)
        for one in writes
        if one.kind in ("closed", "moved") and which.accepts(replace(one, kind="moved"))
    )
    return any(times >= _OFTEN for times in ended.values())


def _stores(recorded: Sequence[Recorded]) -> list[float]:
    """When a worker stored results, on the monotonic clock."""
    return [one.monotonic_seconds for one in recorded if isinstance(one.event, ItemsStored)]


def _begin_of_work(
    attempt: Attempt, recorded: Sequence[Recorded], writes: Sequence[Write], output_at: float | None
) -> tuple[Sign, float]:
    loop = first_moment(recorded, WORK_BEGINS)
    if loop is not None:
        return "loop", loop
    moments = [write.at for write in writes[:1]] + ([output_at] if output_at is not None else [])
    latest = attempt.started_at + _LATE_SIGN * attempt.seconds
    if moments and min(moments) < latest:
        return "activity", min(moments)
    return "start", attempt.started_at + _GUESSED_START_UP * attempt.seconds
