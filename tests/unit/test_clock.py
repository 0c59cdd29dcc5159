"""Durations, deadlines and the fake clock."""

import math
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outlast.clock import Deadline, SystemClock, format_duration, iso_utc, parse_duration
from outlast.errors import EXIT_HUMAN, SettingsError
from outlast.testing import FakeClock

_UNITS = {"ms": 0.001, "s": 1, "sec": 1, "m": 60, "min": 60, "h": 3600, "d": 86400}


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        ("30s", 30),
        ("5min", 300),
        ("5sec", 5),
        ("5m", 300),
        ("500ms", 0.5),
        ("1h30m", 5400),
        ("2 h 10 min", 7800),
        ("1d", 86400),
        (" 5 MIN ", 300),
        ("1.5h", 5400),
        ("0s", 0),
        ("12", 12),
        ("12.5", 12.5),
        (12, 12),
        (0.25, 0.25),
        (timedelta(minutes=2), 120),
    ],
)
def test_durations_are_read_as_people_write_them(value: str | float | timedelta, seconds: float) -> None:
    assert parse_duration(value, setting="every") == pytest.approx(seconds)


@pytest.mark.parametrize(
    "value",
    ["", "  ", "soon", "5 parsecs", "5minutes!", "min", "-5s", "1h-5m", "5s later", "nan", "inf", "1e999", "s5",
     -1, -0.5, math.nan, math.inf, 10**400, True, None, [5], b"5s", timedelta(seconds=-1)],
)  # fmt: skip
def test_a_bad_duration_is_refused_with_its_value_and_the_settings_name(value: object) -> None:
    with pytest.raises(SettingsError) as refused:
        parse_duration(value, setting="OUTLAST_GRACE")  # type: ignore[arg-type]  # bad values are the point
    assert "OUTLAST_GRACE" in str(refused.value)
    assert repr(value) in str(refused.value)
    assert refused.value.code == EXIT_HUMAN


@given(
    st.lists(st.tuples(st.integers(0, 10_000), st.sampled_from(sorted(_UNITS))), min_size=1, max_size=4), st.booleans()
)
def test_the_parts_of_a_duration_add_up(parts: list[tuple[int, str]], spaced: bool) -> None:
    gap = " " if spaced else ""
    text = gap.join(f"{count}{gap}{unit}" for count, unit in parts)
    assert parse_duration(text, setting="x") == pytest.approx(sum(count * _UNITS[unit] for count, unit in parts))


@given(st.text(max_size=12))
def test_any_text_is_a_duration_or_a_settings_error(text: str) -> None:
    try:
        seconds = parse_duration(text, setting="x")
    except SettingsError:
        return
    assert 0 <= seconds < math.inf


@given(st.floats(0, 1e7))
def test_what_is_written_for_people_reads_back_to_within_its_precision(seconds: float) -> None:
    assert parse_duration(format_duration(seconds), setting="x") == pytest.approx(seconds, rel=0.06, abs=1e-3)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0.0 ms"),
        (0.0042, "4.2 ms"),
        (0.42, "0.42 s"),
        (5.04, "5.0 s"),
        (12, "12 s"),
        (303, "5 min 3 s"),
        (300, "5 min"),
        (7800, "2 h 10 min"),
        (7200, "2 h"),
    ],
)
def test_durations_are_written_for_people(seconds: float, text: str) -> None:
    assert format_duration(seconds) == text


def test_a_deadline_counts_down_on_the_monotonic_clock_and_stops_at_zero() -> None:
    clock = FakeClock(monotonic_seconds=100.0)
    deadline = Deadline(110.0)
    clock.set_wall(0.0)
    assert deadline.remaining_seconds(clock) == 10.0
    clock.advance(4.0)
    assert deadline.remaining_seconds(clock) == 6.0
    clock.advance(60.0)
    assert deadline.remaining_seconds(clock) == 0.0


def test_moments_are_written_in_utc_to_the_millisecond() -> None:
    assert iso_utc(1_700_000_000.1234) == "2023-11-14T22:13:20.123+00:00"


def test_the_fake_clock_moves_only_when_told() -> None:
    clock = FakeClock(wall_seconds=50.0, monotonic_seconds=5.0)
    assert (clock.wall_seconds(), clock.monotonic_seconds()) == (50.0, 5.0)
    assert (clock.wall_seconds(), clock.monotonic_seconds()) == (50.0, 5.0)
    clock.advance(2.5)
    assert (clock.wall_seconds(), clock.monotonic_seconds()) == (52.5, 7.5)
    clock.set_wall(10.0)
    assert (clock.wall_seconds(), clock.monotonic_seconds()) == (10.0, 7.5)


def test_the_fake_clock_never_goes_back() -> None:
    with pytest.raises(ValueError, match="cannot go back"):
        FakeClock().advance(-1.0)


def test_the_system_clock_grows() -> None:
    clock = SystemClock()
    assert clock.monotonic_seconds() <= clock.monotonic_seconds()
    assert clock.wall_seconds() > 1_700_000_000
