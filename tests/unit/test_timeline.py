"""Timelines: what events tell of saves and lost work, and what is drawn of it."""

import re
import xml.etree.ElementTree as ET
from collections.abc import Sequence
from dataclasses import replace

import pytest

from outlast.events import (
    AttemptStarted,
    Event,
    LoopStarted,
    NoticeHeard,
    Recorded,
    Restored,
    SaveCommitted,
    SaveFailed,
    SaveStalled,
    SaveStarted,
    SaveTakenBack,
    Stopped,
)
from outlast.timeline.drawing import draw, nice_step
from outlast.timeline.moments import AttemptLine, End, NoticeGiven, Save, Span, Timeline
from outlast.timeline.told import Told, saves_in, with_events

ZERO = 1024.0  # and moments in eighths: floats are exact


def at(*moments: tuple[float, Event]) -> list[Recorded]:
    """Events at seconds of the timeline."""
    return [Recorded(event, 0.0, ZERO + moment) for moment, event in moments]


def committed(step: int, seconds: float = 0.1) -> SaveCommitted:
    return SaveCommitted(step, f"commit-{step}", 8, seconds)


@pytest.mark.parametrize(
    ("events", "saves"),
    [
        # Beside the training: it stalls, is written, and is durable.
        (
            [(1.25, SaveStalled(5, 0.25)), (1.375, SaveStarted(5)), (2.0, committed(5))],
            [Save(span=Span(1.0, 2.0), durable=True, step=5)],
        ),
        # Written while the training waits, which is told at the end.
        (
            [(1.0, SaveStarted(5)), (2.0, committed(5)), (2.0, SaveStalled(5, 1.0))],
            [Save(span=Span(1.0, 2.0), durable=True, step=5)],
        ),
        ([(1.0, SaveStarted(5))], [Save(span=Span(1.0, 9.0), durable=False, step=5)]),
        ([(1.0, SaveStarted(5)), (3.0, SaveFailed(5, "full"))], [Save(span=Span(1.0, 3.0), durable=False, step=5)]),
        (
            [(1.0, SaveStarted(5)), (2.0, committed(5)), (4.0, SaveTakenBack(5, "commit-5", "read otherwise"))],
            [Save(span=Span(1.0, 2.0), durable=False, step=5)],
        ),
        ([(2.0, committed(5, seconds=0.5))], [Save(span=Span(1.5, 2.0), durable=True, step=5)]),
    ],
)
def test_saves_begin_with_their_stall_and_end_when_they_are_durable(
    events: Sequence[tuple[float, Event]], saves: list[Save]
) -> None:
    assert list(saves_in(at(*events), zero=ZERO, until=9.0)) == saves


def line(number: int, start: float, end: float, how: End = "killed") -> AttemptLine:
    return AttemptLine(number=number, span=Span(start, end), end=how, ended_by="SIGKILL")


def started(number: int, moment: float, lived: float = 0.5) -> tuple[float, Event]:
    return moment, AttemptStarted(number, "cloud-run", 1, "host", lived_seconds=lived)


def told(one: AttemptLine, *moments: tuple[float, Event]) -> Told:
    return Told(one, at(*moments), ZERO)


def test_work_after_the_step_that_a_later_attempt_went_on_from_is_lost() -> None:
    first, second, third = with_events(
        [
            told(
                line(0, 0.0, 10.0),
                started(0, 0.5),
                (1.0, LoopStarted(0, 100)),
                (4.0, SaveStarted(30)),
                (4.5, committed(30)),
                (7.0, SaveStarted(60)),
                (9.875, NoticeHeard("signal", "SIGTERM", 10.0)),
            ),
            told(
                line(1, 10.0, 14.0),
                started(1, 10.5),
                (10.6, Restored(30, "commit-30", 0.1)),
                (11.0, LoopStarted(30, 100)),
                (13.0, SaveStarted(50)),
            ),
            told(
                line(2, 14.0, 20.0, "finished"),
                started(2, 14.5),
                (14.6, Restored(30, "commit-30", 0.1)),
                (15.0, LoopStarted(30, 100)),
            ),
        ]
    )
    assert first.lost == Span(4.0, 10.0)  # from the moment of step 30, not from when its save was durable
    assert (first.from_step, first.reached_step, first.work_from) == (0, 60, 1.0)
    assert first.notices == (NoticeGiven(at=9.875, heard_at=9.875, kill_at=19.875),)
    assert second.lost == Span(11.0, 14.0)  # all of it: the third went on from the same step
    assert (second.from_step, third.lost) == (30, None)
    for one in (first, second, third):
        assert one.buckets is not None
        assert one.buckets.lost_work == pytest.approx(one.lost.seconds if one.lost else 0.0)
        assert one.buckets.billed == pytest.approx(one.span.seconds)


def test_a_stop_that_was_saved_in_time_loses_nothing() -> None:
    first, _ = with_events(
        [
            told(
                line(0, 0.0, 3.0, "left"), started(0, 0.5), (1.0, LoopStarted(0, 9)), (2.5, Stopped(7, 143, "notice"))
            ),
            told(line(1, 3.0, 5.0, "finished"), started(1, 3.5), (4.0, LoopStarted(7, 9))),
        ]
    )
    assert (first.lost, first.reached_step) == (None, 7)


def test_an_attempt_that_never_began_its_steps_lost_no_work_and_hides_nothing() -> None:
    first, second, _ = with_events(
        [
            told(line(0, 0.0, 3.0), started(0, 0.5), (1.0, LoopStarted(0, 9)), (2.0, SaveStarted(4))),
            told(line(1, 3.0, 4.0), started(1, 3.5)),
            told(line(2, 4.0, 6.0, "finished"), started(2, 4.5), (5.0, LoopStarted(2, 9))),
        ]
    )
    assert first.lost == Span(1.5, 3.0)
    assert (second.lost, second.work_from, second.from_step) == (None, None, None)


def test_programs_without_events_stay_as_they_were_seen() -> None:
    bare = AttemptLine(number=0, span=Span(0, 5), end="killed", ended_by="SIGKILL", unsaved=Span(3, 5))
    assert with_events([Told(bare, [], ZERO)]) == [bare]


# --- what is drawn ----------------------------------------------------------------------------------


def elements(markup: str) -> list[ET.Element]:
    return list(ET.fromstring(f"<div>{markup}</div>").iter())


def test_places_are_shares_of_the_whole_time() -> None:
    drawn = draw(
        Timeline(
            (
                AttemptLine(
                    number=0,
                    span=Span(0, 4),
                    end="killed",
                    ended_by="SIGKILL",
                    work_from=1,
                    saves=(Save(span=Span(1, 2), durable=True, step=5),),
                    notices=(NoticeGiven(at=3, kill_at=13),),
                    lost=Span(2, 4),
                ),
                AttemptLine(number=1, span=Span(4, 8), end="finished", ended_by="finished"),
            )
        )
    )
    bars = [one for one in elements(drawn) if one.tag == "rect" and one.find("title") is not None]
    found = {one.get("class"): (one.get("x"), one.get("width")) for one in bars}
    assert found["lost"] == ("25.000%", "25.000%")
    assert found["grace"] == ("37.500%", "12.500%")  # cut where the attempt ended
    marks = {one.findtext("title"): one.get("x") for one in elements(drawn) if one.tag == "svg"}
    assert marks["save of step 5: durable after 1.0 s"] == "25.000%"
    assert marks["SIGKILL"] == "50.000%"
    assert "lost" in (elements(drawn)[0].findtext(".//li/p/span[2]") or "")


def test_thousands_of_attempts_and_saves_stay_readable() -> None:
    saves = tuple(Save(span=Span(n, n + 0.1), durable=True, step=n) for n in range(3000))
    lines = [replace(line(n, n, n + 1), ended_by="<b>\n" * 999) for n in range(3000)]
    drawn = draw(Timeline((*lines[:-1], replace(lines[-1], saves=saves))))
    assert "2800 earlier attempts are not drawn" in drawn
    assert len(drawn) < 1_000_000
    assert "<b>" not in drawn


def test_a_timeline_of_nothing_and_of_no_time_can_be_drawn() -> None:
    elements(draw(Timeline(())))
    elements(draw(Timeline((AttemptLine(number=0, span=Span(0, 0), end="running", ended_by="running"),))))


@pytest.mark.parametrize("seconds", [1e-9, 0.03, 1.0, 7.7, 59.0, 400.0, 3000.0, 86400.0, 1e7, 1e12])
def test_ticks_are_round_and_few(seconds: float) -> None:
    step = nice_step(seconds, most=4)
    assert 0 < seconds / step <= 4.0001
    assert seconds / step > 0.9
    if step < 60:
        assert re.fullmatch(r"[125](\.0)?e[+-]\d+", f"{step:.1e}")
