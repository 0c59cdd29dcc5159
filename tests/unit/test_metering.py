"""The numbers for monitoring: their names, what events come to, labels that nobody's words can multiply."""

import logging
import re
from pathlib import Path

import pytest

from metered_lives import MeteredLife
from outlast import metering as m
from outlast.events import (
    Crashed,
    Failed,
    Finished,
    Left,
    NoticeHeard,
    NoticeRevoked,
    Progressed,
    SaveFailed,
    SaveStalled,
    SaveTakenBack,
    Stopped,
)
from outlast.exporters.otlp import _Quiet
from outlast.metering import METRICS, Distribution, label
from outlast.telemetry.series import Series
from outlast.telemetry.wanted import Wanted, interval_seconds, wanted

PAGE = Path(__file__).resolve().parents[2] / "docs" / "howto" / "metrics.md"
_ROW = re.compile(r"^\| `(outlast\.[\w.]+)` \| `(\w+)` \| (\w+) \| ([^|]*) \| ([^|]*) \| (.*) \|$", re.MULTILINE)


def test_the_page_names_each_number_with_its_unit_kind_labels_and_meaning() -> None:
    told = {row[0]: row for row in _ROW.findall(PAGE.read_text())}
    assert set(told) == {metric.name for metric in METRICS}
    for metric in METRICS:
        _, prometheus, kind, unit, labels, text = told[metric.name]
        assert (prometheus, kind, unit) == (metric.prometheus_name, metric.kind, metric.unit), metric.name
        assert labels == ", ".join(metric.labels), metric.name
        assert text == metric.help, metric.name


def test_no_two_numbers_have_one_name_in_prometheus() -> None:
    names = [metric.prometheus_name for metric in METRICS]
    assert len(names) == len(set(names))
    assert all(re.fullmatch(r"[a-z_]+", name) for name in names)


@pytest.mark.parametrize(
    ("metric", "name"),
    [
        (m.STEP, "outlast_step"),
        (m.SAVES, "outlast_saves_total"),
        (m.SAVED_BYTES, "outlast_save_written_bytes_total"),
        (m.SAVE_SECONDS, "outlast_save_duration_seconds"),
        (m.RUN_GOODPUT, "outlast_run_goodput_ratio"),
    ],
)
def test_prometheus_names_follow_the_rules_of_collectors(metric: m.Metric, name: str) -> None:
    assert metric.prometheus_name == name


def test_what_would_be_lost_grows_until_a_save_is_durable() -> None:
    life = MeteredLife()
    assert life.numbers()["outlast.work.at_risk"] == 0
    for _ in range(10):
        life.minute()
    assert life.numbers()["outlast.work.at_risk"] == 600
    assert life.numbers()["outlast.steps.at_risk"] == 60
    assert "outlast.checkpoint.age" not in life.numbers()
    life.save()
    assert life.numbers()["outlast.work.at_risk"] == 0
    life.minute()
    numbers = life.numbers()
    assert numbers["outlast.work.at_risk"] == numbers["outlast.checkpoint.age"] == 62  # since its state was taken
    assert (numbers["outlast.checkpoint.step"], numbers["outlast.steps.at_risk"]) == (60, 6)


def test_a_checkpoint_that_is_taken_back_protects_nothing() -> None:
    life = MeteredLife()
    life.minute()
    life.save()
    life.minute()
    life.save()
    life.tell(SaveTakenBack(12, "s12", "torn"))
    assert life.numbers()["outlast.checkpoint.step"] == 6
    assert life.numbers()["outlast.steps.at_risk"] == 6


def test_a_notice_counts_down_and_its_end_is_timed() -> None:
    life = MeteredLife()
    life.tell(NoticeHeard("SIGTERM", "gone", 30.0))
    life.clock.advance(10)
    assert life.numbers()["outlast.notice.remaining"] == 20
    life.tell(Stopped(0, 143, "gone", lost_steps=0, fitted=True))
    numbers = life.numbers()
    assert "outlast.notice.remaining" not in numbers
    assert isinstance(spread := numbers["outlast.notice.stop"], Distribution)
    assert (spread.count, spread.total) == (1, 10)
    assert numbers["outlast.running"] == 0
    assert numbers["outlast.final_saves.missed"] == 0


def test_a_revoked_notice_is_no_notice() -> None:
    life = MeteredLife()
    life.tell(NoticeHeard("gce", "soon", 30.0, kind="advance"), NoticeRevoked("gce", "not at all"))
    assert "outlast.notice.remaining" not in life.numbers()
    assert life.numbers()["outlast.notices{source=gce,kind=advance}"] == 1


def test_what_did_not_fit_is_told() -> None:
    life = MeteredLife()
    life.minute()
    life.save()
    life.minute()
    life.tell(NoticeHeard("SIGTERM", "gone", 1.0), Stopped(12, 143, "gone", lost_steps=6, fitted=False))
    numbers = life.numbers()
    assert (numbers["outlast.steps.lost"], numbers["outlast.final_saves.missed"]) == (6, 1)
    assert numbers["outlast.attempt.time{bucket=lost_work}"] == pytest.approx(60, abs=3)


def test_a_crash_loses_what_no_checkpoint_has() -> None:
    life = MeteredLife()
    life.minute()
    life.save()
    life.minute()
    life.tell(Crashed(12, "ValueError: x"))
    numbers = life.numbers()
    assert (numbers["outlast.steps.lost"], numbers["outlast.exit_code"]) == (6, 1)
    assert numbers["outlast.attempt.time{bucket=lost_work}"] > 55


def test_an_error_that_the_program_catches_is_no_end() -> None:
    life = MeteredLife()
    life.tell(Failed(0, 75, "away"))
    assert life.numbers()["outlast.running"] == 0
    life.minute()
    numbers = life.numbers()
    assert numbers["outlast.running"] == 1
    assert numbers["outlast.attempt.time{bucket=lost_work}"] == 0


def test_the_code_after_a_finish_is_part_of_the_attempt() -> None:
    life = MeteredLife()
    life.tell(Finished(6))
    life.clock.advance(30)
    life.tell(Left(6))
    life.clock.advance(1000)
    numbers = life.numbers()
    assert numbers["outlast.ends{how=finished}"] == 1
    assert "outlast.ends{how=left}" not in numbers
    assert sum(value for name, value in numbers.items() if "attempt.time" in name) == pytest.approx(31)


def test_times_stay_right_over_more_events_than_are_kept() -> None:
    life = MeteredLife()
    for _ in range(2000):
        life.clock.advance(9)
        life.step += 1
        life.tell(Progressed(life.step), SaveStalled(life.step, 1.0))
        life.clock.advance(1)
    numbers = life.numbers()
    assert numbers["outlast.attempt.time{bucket=save_stall}"] == pytest.approx(2000)
    assert numbers["outlast.attempt.time{bucket=compute}"] == pytest.approx(18_000)
    assert numbers["outlast.attempt.goodput"] == pytest.approx(0.9, abs=0.01)
    assert len(life.meter._kept) <= 600


def test_words_of_others_make_a_bounded_number_of_series() -> None:
    life = MeteredLife()
    for number in range(1000):
        life.tell(NoticeHeard(f"source {number}", "x", 30.0))
    series = [name for name in life.numbers() if name.startswith("outlast.notices{")]
    assert len(series) <= 41
    assert sum(life.numbers()[name] for name in series) == 1000


@pytest.mark.parametrize("hostile", ["a\nb", "\x1b[31m", "\u202eabc", "<b>", '"}', "x" * 5000, "\udc80", ""])
def test_hostile_names_are_short_printable_labels(hostile: str) -> None:
    shown = label(hostile)
    assert len(shown) <= 120
    assert shown.isprintable()
    shown.encode()


def test_long_names_stay_apart() -> None:
    assert label("x" * 300 + "a") != label("x" * 300 + "b")


def test_a_histogram_refuses_what_no_clock_measures() -> None:
    series = Series({})
    for value in (1.0, float("nan"), -1.0):
        series.note(m.SAVE_SECONDS, value)
    (point,) = series.points()
    assert isinstance(point.value, Distribution)
    assert (point.value.count, point.value.least, point.value.most) == (1, 1.0, 1.0)


def test_failed_saves_are_seen_from_the_first_on() -> None:
    life = MeteredLife()
    assert life.numbers()["outlast.saves{outcome=failed}"] == 0
    life.tell(SaveFailed(0, "full"))
    assert life.numbers()["outlast.saves{outcome=failed}"] == 1


@pytest.mark.parametrize(
    ("env", "expected"),
    [
        ({}, Wanted()),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c.example:4318"}, Wanted(True, True)),
        ({"OTEL_EXPORTER_OTLP_METRICS_ENDPOINT": "http://c.example:4318"}, Wanted(True, False)),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c.example", "OTEL_TRACES_EXPORTER": "none"}, Wanted(True, False)),
        (
            {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c.example", "OTEL_METRICS_EXPORTER": "console,otlp"},
            Wanted(True, True),
        ),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c.example", "OTEL_SDK_DISABLED": "TRUE"}, Wanted()),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c.example", "OUTLAST_REHEARSAL_STORE": "s"}, Wanted()),
        ({"OUTLAST_METRICS_PORT": "9464"}, Wanted(listen="9464")),
    ],
)
def test_opentelemetrys_own_variables_say_what_is_sent(env: dict[str, str], expected: Wanted) -> None:
    assert wanted(env) == expected


@pytest.mark.parametrize(("text", "seconds"), [("", 60), ("5000", 5), ("x", 60), ("nan", 60), ("-1", 60), ("1", 0.5)])
def test_the_interval_is_in_milliseconds_and_never_none_at_all(text: str, seconds: float) -> None:
    assert interval_seconds({"OTEL_METRIC_EXPORT_INTERVAL": text}) == seconds


def test_only_what_our_own_thread_has_logged_is_kept_back() -> None:
    quiet = _Quiet()
    record = logging.LogRecord("opentelemetry", logging.ERROR, "f", 1, "away", None, None)
    assert quiet.filter(record)
    record.threadName = m.THREAD
    assert not quiet.filter(record)
    assert quiet.last == "away"
