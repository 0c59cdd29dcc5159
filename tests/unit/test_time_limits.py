"""Time limits that are known beforehand: where they are told, when they become a notice, and what is not believed."""

import os
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from notice_desk import Board
from outlast.clock import Deadline
from outlast.errors import SettingsError
from outlast.events import SourceTrouble
from outlast.limits import ATTEMPT_ENDS, TimeLimit, handed_on, known_limits
from outlast.notices.watching import Watching
from outlast.registry import platform_named, sources_named
from outlast.settings import look_around
from outlast.sources.time_limit import TimeLimitSource, lead_seconds
from outlast.supervise import make_plan
from outlast.testing import FakeClock

HOUR = 3600.0


def given(moment: float) -> str:
    return handed_on(TimeLimit(Deadline(moment), "somebody"))


def taken_over(env: Mapping[str, str]) -> float:
    """The limit that a command finds in its environment, on the monotonic clock."""
    (limit,) = known_limits({ATTEMPT_ENDS: env[ATTEMPT_ENDS]}, platform_named("local").facts, FakeClock())
    return limit.until.at_monotonic_seconds


def left(env: dict[str, str], platform: str = "local") -> list[float]:
    clock = FakeClock()
    limits = known_limits(env, platform_named(platform).facts, clock)
    return [limit.until.at_monotonic_seconds - clock.monotonic_seconds() for limit in limits]


@pytest.mark.parametrize(
    ("env", "platform", "expected"),
    [
        ({}, "local", []),
        ({ATTEMPT_ENDS: given(1300.5)}, "local", [300.5]),
        ({ATTEMPT_ENDS: given(1300.5).replace(" ", " another-")}, "local", []),
        ({ATTEMPT_ENDS: "1300.5"}, "local", []),
        ({ATTEMPT_ENDS: "soon"}, "local", []),
        ({"SLURM_JOB_END_TIME": "1700000600"}, "slurm", [600]),
        ({"SLURM_JOB_END_TIME": "1700000600", ATTEMPT_ENDS: given(1010.0)}, "slurm", [10, 600]),
        ({"SLURM_JOB_END_TIME": "1700000600"}, "local", []),
        *(({"SLURM_JOB_END_TIME": bad}, "slurm", []) for bad in ("", "soon", "-5", "nan", "inf", "9" * 40, "²")),
    ],
)
def test_what_the_environment_tells_of_the_end(env: dict[str, str], platform: str, expected: list[float]) -> None:
    assert left(env, platform) == expected


def test_a_timeout_counts_from_the_start_of_the_process() -> None:
    stat = Path("/proc/self/stat").read_text()
    started = int(stat.rpartition(")")[2].split()[19]) / os.sysconf("SC_CLK_TCK")
    age = time.clock_gettime(time.CLOCK_BOOTTIME) - started
    assert left({"OUTLAST_TIMEOUT": "2h"}) == [pytest.approx(2 * HOUR - age, abs=5)]


def test_a_timeout_of_a_platform_with_containers_counts_from_process_1(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("outlast.limits.process_birth", lambda pid: pid)
    monkeypatch.setattr("outlast.limits.lived_seconds", lambda birth: HOUR if birth == 1 else 60.0)
    assert left({"OUTLAST_TIMEOUT": "2h"}) == [2 * HOUR - 60]
    assert left({"OUTLAST_TIMEOUT": "2h"}, "cloud-run") == [HOUR]


@pytest.mark.parametrize("bad", ["soon", "-5", "0", "0s", "nan", "inf"])
def test_a_timeout_that_makes_no_sense_is_refused_by_name(bad: str) -> None:
    with pytest.raises(SettingsError, match=f"OUTLAST_TIMEOUT='{bad}'"):
        look_around({"OUTLAST_TIMEOUT": bad})


@pytest.mark.parametrize(
    ("at_first", "lead"), [(40, 10), (600, 120), (HOUR, 180), (12 * HOUR, 2160), (168 * HOUR, HOUR), (8, 2)]
)
def test_how_long_before_the_limit_it_is_told(at_first: float, lead: float) -> None:
    assert lead_seconds(at_first) == pytest.approx(lead)


class Desk:
    """One source of a limit, looked through by hand."""

    def __init__(self, limit: TimeLimit | None) -> None:
        self.clock, self.limit = FakeClock(), limit
        self.board = Board(self.clock, 10.0)
        source = TimeLimitSource(lambda: self.limit, self.clock)
        self._watching = Watching(source, self.board, replace(look_around({}), clock=self.clock))  # type: ignore[arg-type]  # a stand-in

    def look(self) -> float:
        return self._watching.look_once()


def in_seconds(seconds: float) -> TimeLimit:
    return TimeLimit(Deadline(1000.0 + seconds), "a test")


def test_a_limit_becomes_a_notice_that_leaves_time_and_is_no_surprise() -> None:
    desk = Desk(in_seconds(12 * HOUR))
    slept = 0.0
    while desk.board.notice is None:
        pause = desk.look()
        if desk.board.notice is None:
            assert 0 < pause <= 600
            desk.clock.advance(pause)
            slept += pause
    assert slept == pytest.approx(12 * HOUR - 2160)
    notice = desk.board.notice
    assert (notice.kind, notice.source) == ("advance", "time-limit")
    assert notice.grace_seconds == pytest.approx(2160)
    assert notice.reason == "the attempt's time limit (a test)"
    for _ in range(3):  # it stays one and the same
        desk.clock.advance(desk.look())
    assert desk.board.told == [notice]


def test_a_wall_clock_that_is_set_moves_no_limit() -> None:
    desk = Desk(in_seconds(600))
    desk.look()
    desk.clock.set_wall(4_000_000_000.0)
    desk.clock.advance(470)
    desk.look()
    assert desk.board.notice is None
    desk.clock.advance(10)
    desk.look()
    assert desk.board.notice is not None


def test_a_limit_that_was_over_before_it_was_known_is_told_and_not_believed() -> None:
    desk = Desk(in_seconds(-5))
    assert desk.look() >= 1
    assert desk.board.notice is None
    (trouble,) = desk.board.told
    assert isinstance(trouble, SourceTrouble)
    assert "is not believed" in trouble.error


def test_a_limit_that_is_known_later_or_put_off_is_gone_by() -> None:
    desk = Desk(None)
    desk.clock.advance(desk.look())
    desk.limit = in_seconds(60)
    desk.clock.advance(50)
    desk.look()
    first = desk.board.notice
    desk.limit = in_seconds(6000)
    desk.look()
    assert (first is None, desk.board.notice) == (True, None)


def test_a_limit_that_is_over_hides_no_other_one() -> None:
    """A clock that is hours ahead makes Slurm's end of the job one of the past."""
    env = {"SLURM_JOB_ID": "1", "SLURM_JOB_END_TIME": str(int(time.time() - HOUR)), "OUTLAST_TIMEOUT": "12h"}
    limit = look_around(env).time_limit
    assert limit is not None
    assert limit.source.startswith("OUTLAST_TIMEOUT")
    plan, now = make_plan(["true"], env), time.monotonic()
    assert taken_over(plan.env_at(now)) > now


@pytest.mark.parametrize("limits", [{}, {ATTEMPT_ENDS: given(1e9)}])
def test_each_attempt_of_outlast_run_knows_its_own_timeout(limits: dict[str, str]) -> None:
    plan = make_plan(["true"], limits, timeout="60s")
    later = 1e9 - 10 if limits else 1000.0
    assert [taken_over(plan.env_at(now)) for now in (970.0, later)] == [1030.0, 1e9 if limits else 1060.0]
    assert plan.env_at(970.0)[ATTEMPT_ENDS].endswith(" outlast run --timeout")
    assert ATTEMPT_ENDS not in make_plan(["true"], {}).env_at(1000.0)


def test_where_there_is_no_limit_nothing_is_watched() -> None:
    assert sources_named("time-limit")(look_around({})) == []
    assert len(sources_named("time-limit")(look_around({"OUTLAST_TIMEOUT": "1h"}))) == 1
