"""What a journal's events say of an attempt, for the estimates."""

import pytest

from outlast.events import (
    AttemptStarted,
    Crashed,
    Event,
    Finished,
    LoopStarted,
    NoticeHeard,
    Recorded,
    Restored,
    SaveCommitted,
    Stopped,
)
from outlast.planning.attempts import AttemptFacts, Ending
from outlast.planning.history import facts_of_attempts

START = AttemptStarted(attempt=0, platform="local", pid=1, host="h")
NOTICE = NoticeHeard("SIGTERM", "SIGTERM from the platform", 30.0)


def journal(*events: tuple[float, Event]) -> list[Recorded]:
    return [Recorded(event, 1e9 + at, at) for at, event in events]


def saved(step: int, seconds: float) -> SaveCommitted:
    return SaveCommitted(step, f"s{step}", 10**9, seconds)


def only(*events: tuple[float, Event]) -> AttemptFacts:
    """The facts of an attempt that another one followed."""
    [facts, _] = facts_of_attempts({0: journal((0.0, START), *events), 1: journal((0.0, START))})
    return facts


@pytest.mark.parametrize(
    ("events", "ending"),
    [
        ([(5.0, Finished(9))], Ending.FINISHED),
        ([(5.0, Crashed(3, "ValueError"))], Ending.CRASHED),
        ([(5.0, NOTICE), (8.0, Stopped(3, 143, "SIGTERM"))], Ending.SAVED),
        ([(5.0, NOTICE), (8.0, Stopped(3, 143, "SIGTERM", lost_steps=2))], Ending.NOT_SAVED),
        ([(5.0, NOTICE)], Ending.NOT_SAVED),
        ([(5.0, LoopStarted(0))], Ending.UNWARNED),
        ([(5.0, Stopped(3, 143, "superseded"))], Ending.FINISHED),
    ],
)
def test_how_an_attempt_ended(events: list[tuple[float, Event]], ending: Ending) -> None:
    assert only(*events).ending is ending


def test_the_newest_attempt_without_an_end_may_still_run() -> None:
    facts = facts_of_attempts({3: journal((0.0, START), (60.0, LoopStarted(0))), 4: []})
    assert [one.ending for one in facts] == [Ending.RUNNING]
    assert facts[0].exposure_seconds == 60.0


def test_periodic_and_final_saves_are_told_apart() -> None:
    facts = only((5.0, saved(1, 2.0)), (9.0, saved(2, 3.0)), (10.0, NOTICE), (17.0, saved(3, 1.0)))
    assert facts.persists_seconds == (2.0, 3.0)
    assert facts.final_saves_seconds == (7.0,)  # from the notice on


def test_a_save_in_flight_at_the_notice_is_not_the_final_one() -> None:
    facts = only((10.0, NOTICE), (12.0, saved(2, 9.0)), (17.0, saved(3, 1.0)))
    assert facts.final_saves_seconds == (7.0,)


def test_a_restore_lasts_until_the_loop_starts() -> None:
    assert only((20.0, Restored(4, "s4", 15.0)), (25.0, LoopStarted(4))).restore_seconds == 25.0
    assert only((25.0, LoopStarted(0))).restore_seconds is None
