"""The facts that estimates are made from, as the journals of a task tell them."""

from collections.abc import Iterable

from outlast.checkpoint.history import AttemptHistory
from outlast.planning.attempts import AttemptFacts, Ending

_ENDINGS = {
    "killed": Ending.UNWARNED,
    "crashed": Ending.CRASHED,
    "failed": Ending.CRASHED,
    "running": Ending.RUNNING,
}


def facts_of(attempts: Iterable[AttemptHistory]) -> list[AttemptFacts]:
    """The facts of each attempt. One that was superseded, left by itself, or is not known, counts as finished."""
    return [_facts_of(one) for one in attempts]


def _facts_of(attempt: AttemptHistory) -> AttemptFacts:
    ending = _ending(attempt)
    periodic = [save for save in attempt.saves_made if not save.after_notice]
    final = attempt.final_save_seconds
    return AttemptFacts(
        exposure_seconds=attempt.seconds,
        ending=ending,
        stalls_seconds=tuple(save.stall_seconds for save in periodic),
        persists_seconds=tuple(save.persist_seconds for save in periodic),
        final_saves_seconds=() if final is None or ending is not Ending.SAVED else (final,),
        restore_seconds=None if attempt.resumed_from is None else attempt.first_step_seconds or attempt.loop_seconds,
    )


def _ending(attempt: AttemptHistory) -> Ending:
    if attempt.ended_by != "interrupted":
        return _ENDINGS.get(attempt.ended_by, Ending.FINISHED)
    fitted = attempt.lost_steps == 0 if attempt.fitted is None else attempt.fitted
    return Ending.SAVED if fitted else Ending.NOT_SAVED
