"""What a job does with the time that a notice leaves: long ones are trained through, short ones stop it at once."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import outlast
from outlast.checkpoint.places import TaskPlace
from outlast.checkpoint.record import load_record
from outlast.clock import SystemClock
from outlast.costs import _Measured
from outlast.events import PlanMade, SaveCommitted, SaveVerified, Stopped, from_lines
from outlast.notices import make_notice
from outlast.settings import REHEARSAL_SPEED
from outlast.testing import MemoryStore

PLACE = TaskPlace("leaving", "run-1", 0)


class Case:
    """A job whose notices come when the test says so; the guard does not see them."""

    def __init__(self, store: MemoryStore, monkeypatch: pytest.MonkeyPatch, **settings: Any) -> None:
        self.store, self.array, self.monkeypatch = store, np.zeros(2_000_000, np.uint8), monkeypatch
        options: dict[str, Any] = {"every": "1h", "saving": "background", "random_state": False, **settings}
        self.job = outlast.Job("memory", state={"a": self.array}, name="leaving", **options)
        self.board = self.job._session.board
        monkeypatch.setattr(self.board, "notice", None)
        monkeypatch.setattr(self.board, "hold", lambda: self.board.notice)
        self.loop = self.job.steps(1000)
        next(self.loop)
        self.completed = 0

    def notice(self, seconds: float) -> None:
        self.board.notice = make_notice("test", "a test", seconds, SystemClock(), kind="advance")
        self.job._session.hearing.on_notice(self.board.notice)

    def go(self, steps: int = 1) -> None:
        for _ in range(steps):
            self.array += 1
            self.completed += 1
            next(self.loop)

    def come_to_the_last_safe_moment(self) -> None:
        """Planned when a save was known; it stays there, whatever a slow machine shows meanwhile."""
        leaving = self.job._session.leaving
        assert leaving._until is not None
        assert not leaving._provisional
        self.monkeypatch.setattr(leaving, "_judge_again", lambda *_: None)
        self.monkeypatch.setattr(leaving, "_until", SystemClock().monotonic_seconds())

    def events(self, kind: Any) -> list[Any]:
        lines = self.store.read(PLACE.journal(self.job.attempt))
        return [one.event for one in from_lines(lines) if isinstance(one.event, kind)]

    def steps_kept(self) -> list[int]:
        return [load_record(self.store, entry.name).step for entry in self.store.list(PLACE.commits)]


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> MemoryStore:
    made = MemoryStore()
    monkeypatch.setattr("outlast.session.open_store", lambda _url: made)
    return made


def test_a_long_notice_is_saved_for_at_once_and_trained_through(
    store: MemoryStore, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    case = Case(store, monkeypatch)
    case.go(3)
    case.notice(3600)
    assert not case.job.stopping
    case.go()
    case.job._session.saves.wait()
    assert [event.step for event in case.events(SaveCommitted)] == [4]
    case.go(50)
    before, known = case.events(PlanMade)
    assert (before.choice, known.choice) == ("a full save", "a full save")
    assert before.seconds == pytest.approx(3600, abs=30)
    assert "until one has shown how long it takes" in before.why
    assert "which leaves time for a final save" in known.why
    assert f"plan: {known.why}" in capsys.readouterr().err
    case.notice(20)  # the platform has changed its mind, or SIGTERM has come
    assert case.job.stopping
    with pytest.raises(outlast.Interrupted):
        case.go()
    assert case.steps_kept()[-1] == case.completed
    assert case.events(Stopped)[-1].lost_steps == 0


def test_the_last_safe_moment_ends_the_training(store: MemoryStore, monkeypatch: pytest.MonkeyPatch) -> None:
    case = Case(store, monkeypatch)
    case.go(3)
    case.notice(3600)
    case.go()
    case.job._session.saves.wait()
    case.go()
    case.come_to_the_last_safe_moment()
    with pytest.raises(outlast.Interrupted):
        case.go()
    assert case.steps_kept()[-1] == case.completed
    assert case.events(Stopped)[-1].lost_steps == 0


def test_how_long_the_last_save_took_does_not_count_what_was_trained_through(
    store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else every long notice would teach that a last save takes as long as the notice."""
    case = Case(store, monkeypatch)
    case.notice(3600)
    case.go()
    case.job._session.saves.wait()
    case.go()
    heard = case.board.notice.heard_monotonic_seconds
    case.board.notice = replace(case.board.notice, heard_monotonic_seconds=heard - 3000)
    case.come_to_the_last_safe_moment()
    with pytest.raises(outlast.Interrupted):
        case.go()
    assert case.events(Stopped)[-1].final_save_seconds < 1500


def test_a_notice_that_is_revoked_stops_nothing(store: MemoryStore, monkeypatch: pytest.MonkeyPatch) -> None:
    case = Case(store, monkeypatch)
    case.notice(3600)
    case.go(2)
    case.board.notice = None
    case.go(20)
    assert not case.job.stopping
    plans = len(case.events(PlanMade))
    case.notice(3600)
    case.go(2)
    assert len(case.events(PlanMade)) > plans


@pytest.mark.parametrize(("seconds", "use_grace"), [(3600, False), (20, True)])
def test_a_short_notice_or_one_that_is_not_to_be_used_stops_at_the_next_border(
    store: MemoryStore, monkeypatch: pytest.MonkeyPatch, seconds: float, use_grace: bool
) -> None:
    case = Case(store, monkeypatch, use_grace=use_grace)
    case.go(3)
    case.notice(seconds)
    with pytest.raises(outlast.Interrupted):
        case.go()
    assert case.steps_kept() == [4]


def test_where_the_platforms_time_passes_faster_a_long_notice_is_still_a_long_one(
    store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(REHEARSAL_SPEED, "100")
    case = Case(store, monkeypatch)
    case.notice(3600 / 100)
    case.go(2)
    case.notice(30 / 100)
    with pytest.raises(outlast.Interrupted):
        case.go()


def test_no_save_is_begun_that_cannot_end(
    store: MemoryStore, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    case = Case(store, monkeypatch)
    case.go(2)
    costs = case.job._session.saves.costs
    costs._measured.extend([_Measured(1_000_000, 1.0, 30.0)] * 20)
    costs.at_full_speed = True
    case.notice(5)
    with pytest.raises(outlast.Interrupted) as stopped:
        case.go()
    assert stopped.value.code == 143
    assert case.steps_kept() == []
    assert case.events(PlanMade)[-1].choice == "nothing to save"
    assert case.events(Stopped)[-1].lost_steps == 3
    assert "no save surely fits" in capsys.readouterr().err


def test_a_save_that_usually_fits_is_tried(store: MemoryStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing was measured yet: who would learn how long a save takes, if none was ever made?"""
    case = Case(store, monkeypatch)
    case.go(2)
    case.notice(5)
    with pytest.raises(outlast.Interrupted):
        case.go()
    assert case.steps_kept() == [3]


def test_where_measured_saves_kept_to_a_rate_the_last_one_is_tried_all_the_same(
    store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = Case(store, monkeypatch)
    case.go(2)
    case.job._session.saves.costs._measured.extend([_Measured(1_000_000, 1.0, 30.0)] * 20)
    case.notice(5)
    with pytest.raises(outlast.Interrupted):
        case.go()
    assert case.steps_kept() == [3]
    plan = case.events(PlanMade)[-1]
    assert plan.choice == "a full save"
    assert "kept to a rate" in plan.why


def test_the_same_notice_again_is_not_planned_for_again(store: MemoryStore, monkeypatch: pytest.MonkeyPatch) -> None:
    case = Case(store, monkeypatch)
    case.notice(3600)
    case.go()
    case.job._session.saves.wait()
    case.go()
    plans = len(case.events(PlanMade))
    case.board.notice = replace(case.board.notice, kind="final")
    case.go(3)
    assert len(case.events(PlanMade)) == plans


def test_after_a_short_notice_that_was_revoked_saves_are_read_back_again(
    store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = Case(store, monkeypatch)
    case.go()
    case.notice(20)
    case.board.notice = None
    case.go()
    case.job.save()
    case.go()
    case.job._session.saves.wait()
    assert [event.step for event in case.events(SaveVerified)] == [3]
