"""Keeping journals short: what is written again and again is summed up or thinned out, the rest stays as it is.

What stays of a journal, however long its attempt lived: the newest 300 lines about saves and signs of life, one line
with the sums of the older ones, each commit that still exists, and numbers of `job.log` for 20,000 steps at most. Where
more steps were logged, those stay that are multiples of 2, of 4, and so on. Steps that a later attempt did again are
cut. Over a whole run that is 20,000 steps and 10,000 more for each doubling of its length.
"""

from collections.abc import Collection, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from outlast.checkpoint.journals import JournalParts, Journals, journal_parts, seal_lines
from outlast.checkpoint.lineage import commit_names
from outlast.checkpoint.places import TaskPlace
from outlast.errors import ObjectExists, ObjectMissing
from outlast.events import (
    Failed,
    Logged,
    Progressed,
    Recorded,
    SaveCommitted,
    SaveFailed,
    SavePostponed,
    SavesSummed,
    SaveStalled,
    SaveStarted,
    SaveTakenBack,
    SaveVerified,
    line_of,
    read_lines,
)
from outlast.ports import Pace, Store, full_speed

MOST_LOGGED_STEPS = 20_000
_MOST_FREQUENT = 300
# What one attempt shortens for those before it. A journal of this version is never longer.
_MOST_JOURNALS, _MOST_BYTES = 5, 16 << 20
_WORTH_BYTES = 64 << 10  # where a journal is one file, a smaller one is left alone
_FREQUENT = (
    SaveStarted | SaveStalled | SaveCommitted | SaveVerified | SavePostponed | SaveTakenBack | SaveFailed | Progressed
)


@dataclass(frozen=True, slots=True)
class Needs:
    """What somebody still needs of a journal. `commits`: names of commits that exist; `cut`: the step from which on a
    later attempt did all again; `steps`: how long the run is by now, for the share of logged steps that is kept."""

    commits: Collection[str] = field(default_factory=frozenset)
    cut: float = float("inf")
    steps: int = 0


def shortened(recorded: Sequence[Recorded], needs: Needs) -> list[Recorded]:
    """The same journal in fewer events; doing it again changes nothing."""
    frequent = [one for one in recorded if isinstance(one.event, _FREQUENT | Failed)]
    newest = {id(one) for one in frequent[-_MOST_FREQUENT:]}
    older = [one for one in frequent if id(one) not in newest]
    logged = [one for one in recorded if isinstance(one.event, Logged)]
    kept_logged = {id(one) for one in _thinned([one for one in logged if _step(one) < needs.cut], needs.steps)}
    sums = [one for one in recorded if isinstance(one.event, SavesSummed)]
    kept = []
    for one in recorded:
        if older and one is older[-1]:
            kept.append(Recorded(_summed(older, sums, needs), one.wall_seconds, one.monotonic_seconds))
        match one.event:
            case Logged():
                wanted = id(one) in kept_logged
            case SavesSummed():
                wanted = not older
            case SaveCommitted(commit=commit):
                wanted = id(one) in newest or commit in needs.commits
            case SaveStarted() | SaveStalled() | SaveVerified() | SavePostponed() | SaveTakenBack() | SaveFailed():
                wanted = id(one) in newest
            case Progressed() | Failed():
                wanted = id(one) in newest
            case _:
                wanted = True
        if wanted:
            kept.append(one)
    return kept


def _summed(older: Iterable[Recorded], sums: Iterable[Recorded], needs: Needs) -> SavesSummed:
    """The sums of what is left out, and of what earlier shortenings had left out."""
    saves = failed = 0
    stall = persist = 0.0
    for one in older:
        match one.event:
            case SaveCommitted(commit=commit, seconds=seconds) if commit not in needs.commits:
                saves, persist = saves + 1, persist + seconds
            case SaveFailed() | SaveTakenBack():
                failed += 1
            case SaveStalled(seconds=seconds):
                stall += seconds
            case _:
                pass
    for one in sums:
        if isinstance(one.event, SavesSummed):
            saves, failed = saves + one.event.saves, failed + one.event.failed
            stall, persist = stall + one.event.stall_seconds, persist + one.event.persist_seconds
    return SavesSummed(saves, failed, round(stall, 6), round(persist, 6))


def _thinned(logged: list[Recorded], steps: int) -> list[Recorded]:
    """Those of some steps, spread evenly: of the multiples of a power of two."""
    stride = 1
    while steps > MOST_LOGGED_STEPS * stride:
        stride *= 2
    while True:
        kept = [one for one in logged if _step(one) % stride == 0]
        if len({_step(one) for one in kept}) <= MOST_LOGGED_STEPS:
            return kept
        stride *= 2


def _step(one: Recorded) -> int:
    return one.event.step if isinstance(one.event, Logged) else 0


def thinned_lines(lines: Sequence[bytes], most: int) -> list[bytes]:
    """Lines that wait to be written, those of logged numbers thinned out until there are no more than `most`."""
    steps = {}
    for number, line in enumerate(lines):
        read = read_lines(line).recorded
        if read and isinstance(read[0].event, Logged):
            steps[number] = read[0].event.step
    stride = 1
    while stride < 2**62:
        kept = [line for number, line in enumerate(lines) if steps.get(number, 0) % stride == 0]
        if len(kept) <= max(most, len(lines) - len(steps)):
            return kept
        stride *= 2
    return [line for number, line in enumerate(lines) if number not in steps]


# --- in the store -----------------------------------------------------------------------------------


def write_short(
    store: Store, place: TaskPlace, attempt: int, part: int, needs: Needs | None = None, *, pace: Pace = full_speed
) -> int:
    """Writes what stands for all parts of a journal before `part`, then deletes those. Returns its bytes.

    A journal that this version cannot read in full is left as it is; 0 then. Raises StoreUnreachable,
    CheckpointCorrupt.
    """
    pace(0)
    read = Journals(store, place).before(attempt, part)
    if read.problems or read.unknown or not read.recorded:
        return 0
    if needs is None:
        needs = Needs(commits={name.text for name in commit_names(store, place) if name.attempt == attempt})
    lines = b"".join(map(line_of, shortened(read.recorded, needs)))
    pace(len(lines))
    try:
        store.create(place.short_journal(attempt, part), seal_lines(lines))
    except ObjectExists:
        return 0
    there = journal_parts(store, place).get(attempt, JournalParts())
    for old in there.parts:
        pace(0)
        if old < part:
            store.delete(place.journal(attempt, old))
    for old in there.shorts:
        if old < part:
            store.delete(place.short_journal(attempt, old))
    return len(lines)


def shorten_ended(store: Store, place: TaskPlace, attempt: int, resumed_from: int) -> None:
    """Shortens the journals of attempts that ended before the last one, so that each is one object.

    Of the last one before this, a claim may still need every line. Raises StoreUnreachable, CheckpointCorrupt.
    """
    sizes: dict[int, int] = {}
    for entry in store.list(place.journals):
        name = place.journal_of(entry.name)
        if name is not None and not name.shortened:
            sizes[name.attempt] = sizes.get(name.attempt, 0) + entry.bytes
    least = _WORTH_BYTES if store.traits.local else 1
    long = [one for one in sorted(sizes, reverse=True) if one < attempt - 1 and least <= sizes[one] <= _MOST_BYTES]
    for one in long[:_MOST_JOURNALS]:
        there = journal_parts(store, place).get(one, JournalParts())
        commits = {name.text for name in commit_names(store, place) if name.attempt == one}
        needs = Needs(commits=commits, cut=resumed_from, steps=resumed_from)
        with suppress(ObjectMissing):
            write_short(store, place, one, max([*there.parts, *there.shorts], default=0) + 1, needs)
