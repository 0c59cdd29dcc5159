"""Goodput: every second of an attempt is in exactly one bucket, whatever its journal says and whatever clocks do."""

from dataclasses import astuple

import pytest
from hypothesis import given
from hypothesis import strategies as st
from written_lives import Lives

from outlast.checkpoint.goodput import Buckets, buckets, timeline
from outlast.events import (
    AttemptStarted,
    Finished,
    FirstStepDone,
    Logged,
    LoopStarted,
    NoticeHeard,
    Progressed,
    Recorded,
    Restored,
    SaveCommitted,
    SavesSummed,
    SaveStalled,
    SaveStarted,
    SaveTakenBack,
    Stopped,
)
from outlast.testing import FakeClock

_STEPS = st.integers(-5, 200)
_SECONDS = st.floats(-1e4, 1e4)
_EVENTS = st.one_of(
    st.builds(AttemptStarted, st.just(0), st.just("x"), st.just(1), st.just("h"), lived_seconds=_SECONDS),
    st.builds(Restored, _STEPS, st.just("c"), _SECONDS),
    st.builds(LoopStarted, _STEPS),
    st.builds(FirstStepDone, _STEPS),
    st.builds(Progressed, _STEPS),
    st.builds(SaveStarted, _STEPS),
    st.builds(SaveStalled, _STEPS, _SECONDS),
    st.builds(SavesSummed, _STEPS, _STEPS, _SECONDS, _SECONDS),
    st.builds(SaveCommitted, _STEPS, st.just("c"), st.just(1), _SECONDS),
    st.builds(Logged, _STEPS, st.just({"x": 1.0})),
    st.builds(Stopped, _STEPS, st.just(143), st.just("")),
    st.builds(NoticeHeard, st.just("SIGTERM"), st.just(""), _SECONDS),
    st.builds(Finished, _STEPS),
)
_MOMENTS = st.floats(0, 1e6)
_JOURNALS = st.lists(st.builds(Recorded, _EVENTS, _MOMENTS, _MOMENTS), max_size=30)


@given(_JOURNALS, st.one_of(st.none(), _STEPS), st.floats(0, 100))
def test_the_buckets_of_any_journal_add_up_to_the_life_of_its_process(
    recorded: list[Recorded], cut: int | None, more: float
) -> None:
    line = timeline(recorded, more_seconds=more)
    found = buckets(line, cut=cut)
    assert all(seconds >= 0 for seconds in astuple(found)), found
    assert found.billed == pytest.approx(line.seconds, abs=1e-6)
    if cut is None:
        assert found.lost_work == 0


@given(_JOURNALS, _STEPS, _STEPS)
def test_a_later_resume_never_loses_more(recorded: list[Recorded], one: int, other: int) -> None:
    line, (earlier, later) = timeline(recorded), sorted((one, other))
    assert buckets(line, cut=earlier).lost_work >= buckets(line, cut=later).lost_work - 1e-6


@given(st.lists(st.tuples(st.integers(0, 20), st.floats(0, 50), st.floats(0, 5), st.booleans()), max_size=6))
def test_over_any_attempts_the_buckets_and_the_waiting_are_the_whole_time(
    lives: list[tuple[int, float, float, bool]],
) -> None:
    run, step = Lives(), 0
    began = run.clock.monotonic_seconds()
    for steps, seconds, pause, saved in lives:
        life = run.next()
        run.clock.advance(1)  # the process is there, and has not claimed yet
        life.begin(lived=1, restore=0.5 if step else 0.0, step=step).work(steps, seconds, save=saved).notice().stop()
        step = life.step if saved else step
        run.clock.advance(pause)
    history = run.history()
    whole = run.clock.monotonic_seconds() - began - (lives[-1][2] if lives else 0)
    assert history.billed_seconds + history.waiting_seconds == pytest.approx(whole, abs=1e-6)
    assert history.steps_done in (step, None)


def test_a_worked_example() -> None:
    """0: 2 s start (1 before the claim), 40 steps in 20 s of which 30 are saved; 1: goes on from 30."""
    run = Lives()
    first = run.next().begin(lived=1.0, then=1.0)
    first.work(30, 15, stall=2.0).work(10, 5, save=False).tell(Progressed(40))
    run.clock.advance(60 + 3)
    run.next().begin(lived=3.0, restore=4.0, step=30, then=1.0).work(70, 35).finish()
    history = run.history()
    one, two = history.attempts
    assert one.buckets == Buckets(start=2, compute=15, save_stall=2, lost_work=5)
    assert two.buckets == Buckets(start=4, restore=4, compute=35)
    assert (one.lost_steps, two.lost_steps, one.ended_by) == (10, 0, "killed")
    assert history.waiting_seconds == 60
    assert history.goodput == pytest.approx(50 / 67)
    assert (history.steps_done, history.steps_total) == (100, 100)


def test_steps_between_two_known_moments_are_taken_to_be_equally_long() -> None:
    run = Lives()
    run.next().begin().work(100, 100, save=False).tell(Progressed(100))
    run.next().begin(step=25, restore=1.0)
    assert run.history().attempts[0].buckets.lost_work == pytest.approx(75)


def test_a_fallback_to_an_older_checkpoint_loses_the_work_of_several_attempts() -> None:
    run = Lives()
    run.next().begin().work(10, 10).work(10, 10).notice().stop()
    run.next().begin(step=20, restore=1.0).work(10, 10).notice().stop()
    run.next().begin(step=10, restore=1.0).work(5, 5).finish()
    lost = [(one.lost_steps, round(one.lost_seconds)) for one in run.history().attempts]
    assert lost == [(10, 10), (10, 10), (0, 0)]


def test_a_checkpoint_that_was_taken_back_saves_nothing() -> None:
    run = Lives()
    run.next().begin().work(10, 10).work(10, 10).tell(SaveTakenBack(20, "c20", "torn")).tell(Progressed(25), 5)
    [attempt] = run.history().attempts
    assert (attempt.lost_steps, attempt.saves) == (15, 1)
    assert attempt.lost_seconds == pytest.approx(15)


def test_what_may_be_lost_yet_is_not_lost_while_the_attempt_runs() -> None:
    run = Lives()
    run.next().begin().work(10, 10).tell(Progressed(19), 9)
    running = run.history(later=5)
    assert (running.state, running.lost_seconds) == ("running", 0)
    assert running.attempts[0].seconds == pytest.approx(2 + 1 + 10 + 9 + 5)
    assert running.steps_done == 19


def test_the_last_save_is_no_lost_work_and_what_came_before_the_notice_is() -> None:
    run = Lives()
    run.next().begin().work(10, 10).notice().stop(final=2.0)
    waited = run.next().begin(step=10, restore=1.0).tell(Progressed(10), 30)
    waited.notice().stop(final=2.0)  # in an evaluation after step 10, say, which has to be done again
    one, two = run.history().attempts
    assert (one.buckets.save_stall, one.lost_seconds) == (2, 0)
    assert (two.buckets.save_stall, two.lost_seconds) == (2, 30)


# --- clocks -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("jump", [3600.0, -3600.0])
def test_a_jump_of_the_wall_clock_changes_no_duration(jump: float) -> None:
    def story(jump: float) -> list[Buckets]:
        run = Lives()
        first = run.next().begin().work(10, 10, stall=1.0)
        run.clock.set_wall(run.clock.wall_seconds() + jump)
        first.work(10, 10).notice().stop()
        run.clock.advance(5)
        run.next().begin(step=20, restore=2.0).work(10, 10).finish()
        history = run.history()
        assert history.waiting_seconds == pytest.approx(3), "5 s less the 2 that the second process had lived"
        assert all(one.ended_at is None or one.ended_at >= (one.started_at or 0) for one in history.attempts)
        return [one.buckets for one in history.attempts]

    assert story(jump) == story(0.0)


@pytest.mark.parametrize(("ahead", "waiting"), [(3600.0, 3603.0), (-3600.0, 0.0)])
def test_clocks_of_two_machines_that_differ_by_an_hour_make_no_negative_time(ahead: float, waiting: float) -> None:
    run = Lives()
    run.next(machine="one").begin().work(10, 10).notice().stop()
    other = FakeClock(wall_seconds=run.clock.wall_seconds() + 5 + ahead, monotonic_seconds=77.0)
    run.next(clock=other, machine="two").begin(step=10, restore=1.0).work(10, 10).finish()
    history = run.history()
    assert history.waiting_seconds == pytest.approx(waiting)
    assert history.billed_seconds == pytest.approx(14 + 14)
    assert [one.ended_by for one in history.attempts] == ["interrupted", "finished"]


def test_a_reader_whose_clock_is_an_hour_behind_still_reads() -> None:
    run = Lives()
    run.next().begin().work(10, 10)
    history = run.history(later=-3600)
    assert (history.state, history.attempts[0].seconds) == ("running", pytest.approx(13))


def test_of_two_jobs_in_one_process_the_second_does_not_bill_the_first_again() -> None:
    run = Lives()
    first = run.next().begin(lived=2.0).work(10, 10)
    second = run.next()
    second.number, started = 1, AttemptStarted(1, "local", 10**6, "host", None, None, "m", 1000, 2.0 + 1.0 + 10.0 + 4.0)
    run.clock.advance(4)
    second.tell(started).tell(LoopStarted(10), 1)
    one, two = run.history().attempts
    assert (one.ended_by, two.seconds) == ("left", pytest.approx(5))
    assert first.step == 10


def test_no_journal_at_all_has_no_goodput() -> None:
    history = Lives().history()
    assert (history.goodput, history.attempts, history.steps_done) == (None, (), None)
