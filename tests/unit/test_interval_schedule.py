"""When a save is due: counted steps and epochs, durations, and the interval that outlast chooses by itself."""

import math
import threading
from dataclasses import replace
from pathlib import Path

import pytest

import outlast
from outlast.errors import SettingsError
from outlast.planning.attempts import AttemptFacts, Ending
from outlast.planning.estimates import Learned, learn
from outlast.planning.period import AUTO_LARGEST_SHARE, AUTO_LONGEST_SECONDS
from outlast.schedule import AutoSchedule, Epochs, Expected, Schedule, Steps, schedule_for
from outlast.settings import look_around

HOUR = 3600.0
SPOT = Expected(between_seconds=4 * HOUR, state_bytes=10**9, grace_seconds=30.0, margin_seconds=6.0)


def borders_due(schedule: Schedule, *, step_seconds: float, steps: int) -> list[int]:
    """The steps after which a save was due, each taken at once; the loop starts at 1,000 s."""
    schedule.saved(step=0, epochs=0, now=1000.0)
    due = []
    for step in range(1, steps + 1):
        now = 1000.0 + step * step_seconds
        if schedule.is_due(step=step, epochs=step // 10, now=now):
            due.append(step)
            schedule.saved(step=step, epochs=step // 10, now=now)
    return due


def test_counted_steps_and_epochs() -> None:
    assert borders_due(schedule_for(Steps(4), expected=SPOT), step_seconds=1, steps=13) == [4, 8, 12]
    assert borders_due(schedule_for(Epochs(2), expected=SPOT), step_seconds=1, steps=50) == [20, 40]
    assert schedule_for(Steps(4), expected=SPOT).exact


def test_a_job_resumed_between_two_counted_steps_saves_at_the_same_ones() -> None:
    schedule = schedule_for(Steps(10), expected=SPOT)
    schedule.saved(step=7, epochs=0, now=0.0)
    assert [step for step in range(8, 12) if schedule.is_due(step=step, epochs=0, now=0.0)] == [10, 11]


def test_durations() -> None:
    assert borders_due(schedule_for("1min", expected=SPOT), step_seconds=25, steps=8) == [3, 6]
    every_step = schedule_for("0s", expected=SPOT)
    assert borders_due(every_step, step_seconds=0.001, steps=3) == [1, 2, 3]
    assert every_step.exact
    with pytest.raises(SettingsError, match="every='often'"):
        schedule_for("often", expected=SPOT)


def test_what_saves_cost_is_nothing_to_a_fixed_interval() -> None:
    schedule = schedule_for("1min", expected=SPOT)
    schedule.measured(1000.0, persist_seconds=1000.0)
    assert borders_due(schedule, step_seconds=25, steps=8) == [3, 6]


# --- auto ---------------------------------------------------------------------------------------------


def auto(expected: Expected = SPOT, **measured: float) -> AutoSchedule:
    schedule = AutoSchedule(expected)
    if measured:
        schedule.measured(measured.pop("stall"), **measured)
    return schedule


def of_run(**changed: object) -> Learned:
    return replace(learn([], prior_between_seconds=4 * HOUR), **changed)  # type: ignore[arg-type]  # by name


def test_auto_is_what_the_setting_gives() -> None:
    assert isinstance(schedule_for("auto", expected=SPOT), AutoSchedule)


def test_the_worked_example_of_saves_beside_the_training() -> None:
    schedule = auto(stall=0.5, persist_seconds=30.0)
    assert schedule.period_seconds == pytest.approx(120.0, rel=1e-3)
    final = learn([attempt(Ending.SAVED, final_saves_seconds=(4.0,) * 8)], prior_between_seconds=4 * HOUR).final_save
    schedule.learn(of_run(notice_share=0.9, final_save=final))
    assert schedule.period_seconds == pytest.approx(379.473, rel=1e-3)


def attempt(ending: Ending, **changed: object) -> AttemptFacts:
    return AttemptFacts(exposure_seconds=HOUR, ending=ending, **changed)  # type: ignore[arg-type]  # by name


def test_a_save_is_due_at_the_first_border_past_the_period_and_not_at_the_nearest() -> None:
    assert borders_due(auto(stall=0.5, persist_seconds=30.0), step_seconds=50, steps=8) == [3, 6]


def test_before_anything_is_measured_the_size_of_the_state_says_something() -> None:
    small, large = AutoSchedule(replace(SPOT, state_bytes=10**6)), AutoSchedule(replace(SPOT, state_bytes=10**10))
    assert small.period_seconds < large.period_seconds
    assert large.period_seconds >= 10**10 / 200e6  # it cannot be written faster
    assert AutoSchedule(replace(SPOT, state_bytes=0)).period_seconds == 1.0


def test_slowing_the_training_down_is_a_cost() -> None:
    assert auto(stall=0.5, persist_seconds=30.0, slowdown=0.05).period_seconds == pytest.approx(240.0, rel=1e-3)


def test_saves_take_a_twentieth_of_the_time_at_most() -> None:
    often = auto(replace(SPOT, between_seconds=60.0), stall=20.0)
    assert often.period_seconds == pytest.approx(20.0 / AUTO_LARGEST_SHARE)


def test_no_save_is_due_before_the_one_before_can_be_durable() -> None:
    assert auto(stall=0.001, persist_seconds=200.0).period_seconds == pytest.approx(200.0)
    two = replace(SPOT, saves_in_flight=2)
    assert auto(two, stall=0.001, persist_seconds=200.0).period_seconds == pytest.approx(100.0)


def test_ten_minutes_are_the_most_that_outlast_chooses() -> None:
    assert auto(replace(SPOT, between_seconds=1000 * HOUR), stall=1.0).period_seconds == AUTO_LONGEST_SECONDS


def test_a_bound_of_loss_holds_for_the_time_until_the_save_is_durable() -> None:
    bounded = auto(replace(SPOT, longest_loss_seconds=60.0), stall=0.5, persist_seconds=20.0)
    assert bounded.period_seconds == pytest.approx(40.0)


def test_one_slow_save_does_not_set_the_interval() -> None:
    schedule = auto(stall=0.5)
    usual = schedule.period_seconds
    schedule.measured(5.0)
    assert usual < schedule.period_seconds < 2.5 * usual
    for _ in range(20):
        schedule.measured(0.5)
    assert schedule.period_seconds == pytest.approx(usual, rel=0.01)


def test_interruptions_that_come_often_make_saves_come_often() -> None:
    rare, often = auto(stall=0.5), auto(stall=0.5)
    rare.learn(of_run(between_seconds=12 * HOUR))
    often.learn(of_run(between_seconds=HOUR / 4))
    assert rare.period_seconds == pytest.approx(math.sqrt(48) * often.period_seconds)


def test_the_longer_an_attempt_runs_the_rarer_interruptions_are_taken_to_be() -> None:
    schedule = auto(stall=0.5)
    schedule.learn(of_run(interruptions=3))
    schedule.saved(step=0, epochs=0, now=5000.0)
    before = schedule.period_seconds
    schedule.saved(
        step=1, epochs=0, now=5000.0 + 4 * 4 * HOUR
    )  # as long as there were 4 h between interruptions, 4 times
    assert schedule.period_seconds == pytest.approx(math.sqrt(2) * before)
    schedule.learn(of_run(interruptions=3, between_seconds=8 * HOUR))  # which counts that time already
    schedule.saved(step=2, epochs=0, now=5010.0 + 4 * 4 * HOUR)
    assert schedule.period_seconds == pytest.approx(math.sqrt(2) * before)


def test_notices_count_for_nothing_where_a_final_save_does_not_fit_or_is_not_known() -> None:
    schedule = auto(stall=0.5)
    usual = schedule.period_seconds
    schedule.learn(of_run(notice_share=0.9))
    assert schedule.period_seconds == usual
    schedule.learn(of_run(notice_share=0.9), final_save_p99_seconds=24.5)
    assert schedule.period_seconds == usual
    schedule.learn(of_run(notice_share=0.9), final_save_p99_seconds=23.5)
    assert schedule.period_seconds == pytest.approx(usual * math.sqrt(10), rel=1e-3)


def test_what_an_earlier_attempt_measured_counts_until_this_one_has() -> None:
    before = learn(
        [attempt(Ending.UNWARNED, stalls_seconds=(2.0, 2.0), persists_seconds=(50.0,))],
        prior_between_seconds=4 * HOUR,
    )
    schedule = AutoSchedule(SPOT)
    schedule.learn(before)
    expected = math.sqrt(2 * 2.0 * before.between_seconds)
    assert schedule.period_seconds == pytest.approx(expected, rel=1e-3)
    schedule.measured(0.5, persist_seconds=1.0)
    schedule.learn(before)
    assert schedule.period_seconds < expected


def test_a_job_learns_from_the_attempts_before_it(tmp_path: Path) -> None:
    def attempt() -> AutoSchedule:
        job = outlast.Job(tmp_path, state={"n": 0}, name="j")
        for step in job.steps(1000):
            for thread in threading.enumerate():
                if thread.name == "outlast-learn":
                    thread.join(30)
            if step % 10 == 5:
                job.save()
            if step % 10 == 9:
                break
        schedule = job._session.saves._schedule
        assert isinstance(schedule, AutoSchedule)
        return schedule

    assert attempt()._learned.attempts == 0
    second = attempt()._learned
    assert second.attempts == 2  # this one among them
    assert second.stall is not None
    assert second.stall.count == 1
    assert second.between_seconds > look_around({}).facts.mean_seconds_between_interruptions
