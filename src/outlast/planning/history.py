"""The facts of an attempt from the events of its journal."""

from collections.abc import Mapping, Sequence

from outlast.events import (
    AttemptStarted,
    Crashed,
    Finished,
    LoopStarted,
    NoticeHeard,
    Recorded,
    Restored,
    SaveCommitted,
    Stopped,
)
from outlast.planning.attempts import AttemptFacts, Ending


def facts_of_attempts(journals: Mapping[int, Sequence[Recorded]]) -> list[AttemptFacts]:
    """The facts of a task's attempts, by number. The newest that did not say how it ended counts as running."""
    numbers = sorted(number for number, recorded in journals.items() if recorded)
    return [_facts_of(journals[number], newest=number == numbers[-1]) for number in numbers]


def _facts_of(recorded: Sequence[Recorded], *, newest: bool) -> AttemptFacts:
    noticed_at = next((one.monotonic_seconds for one in recorded if isinstance(one.event, NoticeHeard)), None)
    saved = [(one.monotonic_seconds, one.event) for one in recorded if isinstance(one.event, SaveCommitted)]
    final = [at - noticed_at for at, _ in saved if noticed_at is not None and at >= noticed_at]
    return AttemptFacts(
        exposure_seconds=recorded[-1].monotonic_seconds - recorded[0].monotonic_seconds,
        ending=_ending(recorded, noticed=noticed_at is not None, newest=newest),
        persists_seconds=tuple(event.seconds for at, event in saved if noticed_at is None or at < noticed_at),
        final_saves_seconds=tuple(final[-1:]),
        restore_seconds=_restore_seconds(recorded),
    )


def _ending(recorded: Sequence[Recorded], *, noticed: bool, newest: bool) -> Ending:
    events = [one.event for one in recorded]
    if any(isinstance(event, Finished) for event in events):
        return Ending.FINISHED
    last = next((event for event in reversed(events) if isinstance(event, Crashed | Stopped)), None)
    if isinstance(last, Crashed):
        return Ending.CRASHED
    if isinstance(last, Stopped) and noticed:
        return Ending.SAVED if last.lost_steps == 0 else Ending.NOT_SAVED
    if isinstance(last, Stopped):
        return Ending.FINISHED  # by itself: it was superseded, say
    if newest:
        return Ending.RUNNING
    return Ending.NOT_SAVED if noticed else Ending.UNWARNED


def _restore_seconds(recorded: Sequence[Recorded]) -> float | None:
    """Until the loop started; what the interpreter took before the journal began, and the first step, are not known."""
    if not any(isinstance(one.event, Restored) for one in recorded):
        return None
    moments = {type(one.event): one.monotonic_seconds for one in reversed(recorded)}
    began, looped = moments.get(AttemptStarted), moments.get(LoopStarted)
    return None if began is None or looped is None else looped - began
