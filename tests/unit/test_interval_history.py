"""What the history of an attempt says for the estimates."""

from typing import Any

import pytest

from outlast.checkpoint.history import AttemptHistory, SaveMade
from outlast.planning.attempts import AttemptFacts, Ending
from outlast.planning.history import facts_of


def only(**told: Any) -> AttemptFacts:
    [facts] = facts_of([AttemptHistory(0, **{"ended_by": "interrupted", **told})])
    return facts


@pytest.mark.parametrize(
    ("told", "ending"),
    [
        ({"ended_by": "finished"}, Ending.FINISHED),
        ({"ended_by": "crashed"}, Ending.CRASHED),
        ({"ended_by": "failed"}, Ending.CRASHED),
        ({"fitted": True}, Ending.SAVED),
        ({"fitted": False}, Ending.NOT_SAVED),
        ({"lost_steps": 0}, Ending.SAVED),
        ({"lost_steps": 2}, Ending.NOT_SAVED),
        ({"ended_by": "killed"}, Ending.UNWARNED),
        ({"ended_by": "superseded"}, Ending.FINISHED),
        ({"ended_by": "left"}, Ending.FINISHED),
        ({"ended_by": "running"}, Ending.RUNNING),
    ],
)
def test_how_an_attempt_ended(told: dict[str, Any], ending: Ending) -> None:
    assert only(**told).ending is ending


def test_periodic_and_final_saves_are_told_apart() -> None:
    saves = (SaveMade(1, 0.5, 2.0, after_notice=False), SaveMade(3, 1.0, 0.0, after_notice=True))
    facts = only(fitted=True, saves_made=saves, final_save_seconds=7.0, seconds=60.0)
    assert (facts.stalls_seconds, facts.persists_seconds) == ((0.5,), (2.0,))
    assert facts.final_saves_seconds == (7.0,)
    assert facts.exposure_seconds == 60.0


def test_a_final_save_that_did_not_end_says_nothing_of_how_long_one_takes() -> None:
    assert only(fitted=False, final_save_seconds=7.0).final_saves_seconds == ()


def test_a_restore_lasts_until_the_first_new_step_where_that_is_known() -> None:
    assert only(resumed_from=4, loop_seconds=20.0, first_step_seconds=25.0).restore_seconds == 25.0
    assert only(resumed_from=4, loop_seconds=20.0).restore_seconds == 20.0
    assert only(loop_seconds=20.0).restore_seconds is None
