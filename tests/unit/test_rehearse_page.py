"""The report as a page: right figures from the attempts, every part where it belongs, nothing foreign let in."""

import math
from dataclasses import replace
from html.parser import HTMLParser
from importlib import import_module
from pathlib import Path
from random import Random

import pytest
from click.testing import CliRunner

from outlast.rehearse.attempt_lines import timeline_of
from outlast.rehearse.estimate import Measured, expect, measure
from outlast.rehearse.page import as_page
from outlast.rehearse.page_parts import what_if
from outlast.rehearse.report import Report
from outlast.timeline.moments import NoticeGiven, Save, Span
from report_samples import HOSTILE, hostile, of_nothing, usual

rehearse_command = import_module("outlast.cli.rehearse")
_ELEMENTS = """
    html head meta link title style body main header footer section h1 h2 div p ul ol li dl dt dd table caption thead
    tbody tr th td span strong code pre bdi br svg defs pattern rect path line text details summary
"""
_ATTRIBUTES = """
    lang charset http-equiv content name rel href id class scope tabindex role aria-label aria-labelledby aria-hidden
    focusable x y x1 x2 y1 y2 width height rx d viewbox overflow stroke-width text-anchor patternunits
    patterntransform
"""


class _Reader(HTMLParser):
    """Collects what a page is made of."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.elements: list[str] = []
        self.attributes: set[str] = set()
        self.open: list[str] = []
        self.text = ""
        self.headings: list[str] = []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append(tag)
        self.attributes |= {name for name, _ in attrs}
        if tag not in ("meta", "link", "br"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if "style" not in self.open:
            self.text += data
        if self.open and self.open[-1] in ("h1", "h2"):
            self.headings.append(data)


@pytest.mark.parametrize("report", [usual(), of_nothing(), hostile()], ids=["usual", "nothing", "hostile"])
def test_a_page_is_made_of_the_elements_that_we_write(report: Report) -> None:
    page = as_page(report)
    page.encode()
    read = _Reader(page)
    assert set(read.elements) <= set(_ELEMENTS.split())
    assert read.attributes <= set(_ATTRIBUTES.split())
    assert read.open == []
    assert (read.elements.count("style"), read.elements.count("meta")) == (1, 5)
    assert not any(ord(one) < 32 and one != "\n" for one in page)
    assert not {"\u202e", "\u202c", "\u2066"} & set(page)
    assert len(page) < 120_000


def test_the_verdict_and_its_reasons_come_first() -> None:
    read = _Reader(as_page(of_nothing()))
    assert read.text.index("could-not-rehearse") < read.text.index("failed in the copy with exit code 1")
    assert "timeline" not in read.text.lower().replace("outlast rehearse", "")
    assert read.headings[0].startswith("Rehearsal of")


def test_each_part_of_the_account_is_there_where_the_job_told_it() -> None:
    read = _Reader(as_page(usual()))
    assert [one for one in read.headings if one.strip() and one != "Rehearsal of "] == [
        "What happened",
        "Stop time against grace",
        "What the job planned",
        "Where the time went",
        "What if interruptions came more often?",
        "Results",
        "What was not exercised",
    ]
    assert "python train.py --name 'two words'" in read.text
    assert "attempt 1stopped after 1.0 s10% of 10 s, heard after 0.12 s" in read.text
    assert read.text.count("a full save, step 105") == 1  # made twice, and the same
    assert "An estimate" in read.text
    assert "work lost and done again1.0 s4.2%leaving, and what it did not tell0.25 s1.0%" in read.text


def test_no_more_attempts_are_counted_than_there_may_be() -> None:
    """A cancelled execution is executed again, with its retries anew."""
    for retries, said in ((3, "attempts3 of 4"), (1, "attempts3grace")):
        assert said in _Reader(as_page(replace(usual(), retries=retries))).text


def test_a_program_that_tells_nothing_is_not_said_to_have_lost_or_planned_anything() -> None:
    read = _Reader(as_page(hostile()))
    assert "killed after 10 s" in read.text
    assert "of work lost" not in read.text
    assert "8.0 s after the last save that was seen" in read.text


def test_the_report_for_people_obeys_no_program_either() -> None:
    text = str(hostile())
    text.encode()
    assert all(one.isprintable() or one == "\n" for one in text)
    assert "\\udcff\\udcfe.bin" in text
    assert len(repr(replace(hostile(), platform="local", reasons=HOSTILE[3:]))) < 240
    assert "\x1b" not in repr(replace(hostile(), reasons=HOSTILE[1:]))
    assert repr(usual()) == "<survived on cloud-run, 3 attempts>"


def test_work_that_was_not_done_has_no_goodput() -> None:
    assert usual().goodput == pytest.approx(20 / 24)
    for report in (hostile(), replace(usual(), verdict="not-survived"), of_nothing()):
        assert (report.goodput, report.lost_seconds) == (None, None)


@pytest.mark.parametrize("as_json", [True, False])
def test_the_command_writes_the_page_beside_what_it_prints(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, as_json: bool
) -> None:
    monkeypatch.setattr(rehearse_command, "run_rehearsal", lambda *_, **__: hostile())
    monkeypatch.setattr(rehearse_command.signal, "signal", lambda *_: None)
    options = ["--report", str(tmp_path / "r.html"), *(["--json"] if as_json else [])]
    done = CliRunner().invoke(rehearse_command.rehearse, [*options, "--", "true"])
    assert done.exit_code == 1, done.output
    assert "not-survived" in done.stdout
    assert "report: " in done.stderr
    assert "<h1>" in (tmp_path / "r.html").read_text()


@pytest.mark.parametrize(
    ("page", "said"), [("x" * 300, "File name too long"), ("no/such/r.html", "no folder"), (".", "is a directory")]
)
def test_a_page_that_cannot_be_written_is_no_verdict(
    page: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither 0 nor 1: whoever asked for the page must not take its absence for a proof."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(rehearse_command, "run_rehearsal", lambda *_, **__: usual())
    monkeypatch.setattr(rehearse_command.signal, "signal", lambda *_: None)
    done = CliRunner().invoke(rehearse_command.rehearse, ["--report", page, "--", "true"])
    assert done.exit_code == 2
    assert said in done.stderr.replace("\n", " ")


# --- the figures ------------------------------------------------------------------------------------


def test_the_timeline_is_what_the_attempts_told() -> None:
    report = usual()
    first, second, third = timeline_of(report.attempts, grace_seconds=report.grace_seconds).attempts
    assert (first.span, second.span, third.span) == (Span(0, 8), Span(8, 15), Span(15, 24))
    assert (first.end, second.end, third.end) == ("killed", "left", "finished")
    assert first.lost == Span(7.0, 8.0)  # since step 60, which the second went on from
    assert (second.lost, third.lost) == (None, None)
    assert first.saves[0] == Save(span=Span(2.875, 3.25), durable=True, step=20)
    assert second.notices == (NoticeGiven(at=14.0, heard_at=14.125, kill_at=24.0),)
    assert [one.from_step for one in (first, second, third)] == [0, 60, 105]
    assert [one.buckets.lost_work for one in (first, second, third) if one.buckets] == [1.0, 0.0, 0.0]
    assert second.buckets is not None
    assert second.buckets.billed == second.span.seconds - 0.25  # in which it left


def test_the_timeline_of_a_program_without_events_is_what_was_seen() -> None:
    report = hostile()
    killed, failed, _ = timeline_of(report.attempts, grace_seconds=10.0).attempts
    assert [save.span for save in killed.saves] == [Span(2.0, 2.03125), Span(4.0, 4.0), Span(6.0, 6.0)]
    assert (killed.end, killed.work_from, killed.unsaved, killed.lost) == ("killed", 1.0, Span(6.0, 14.0), None)
    assert (failed.end, failed.unsaved) == ("failed", None)


def test_attempts_beside_each_other_stand_on_one_clock() -> None:
    """The second begins while the first lives; of a third nobody saw the end."""
    first, second, third = usual().attempts
    beside = replace(second, started_at=first.started_at + 2.0, recorded=(), ended_by="superseded", notice=None)
    unseen = replace(third, started_at=0.0, seconds=0.0, exit_code=1, ended_by="superseded", recorded=())
    lines = timeline_of((first, beside, unseen), grace_seconds=10.0).attempts
    assert [(line.number, line.span, line.end) for line in lines] == [
        (0, Span(0.0, 8.0), "killed"),
        (1, Span(2.0, 9.0), "left"),
    ]
    as_page(replace(usual(), attempts=(unseen,)))


def test_what_is_measured_is_the_median_of_what_was_seen() -> None:
    report = usual()
    timeline = timeline_of(report.attempts, grace_seconds=10.0)
    measured = measure(timeline, [attempt.recorded for attempt in report.attempts])
    assert measured == Measured(
        period_seconds=2.0, stall_seconds=0.125, persist_seconds=0.25, restore_seconds=1.5, final_save_seconds=0.5
    )
    assert measure(timeline_of(report.attempts[:1], grace_seconds=10.0), [report.attempts[0].recorded]) is None


def simulated_goodput(costs: Measured, between: float, source: Random) -> float:
    """The share of time that becomes kept work, with saves that block and interruptions at random."""
    work = costs.period_seconds - costs.stall_seconds
    done = now = 0.0
    while done < 4000 * work:
        left = source.expovariate(1 / between)
        lived = max(0.0, left - costs.restore_seconds)
        done += work * math.floor(lived / costs.period_seconds)
        now += left
    return done / now


@pytest.mark.parametrize("between", [400.0, 60.0, 15.0])
def test_the_estimate_without_notice_is_what_a_simulation_gives(between: float) -> None:
    costs = Measured(
        period_seconds=10.0, stall_seconds=1.0, persist_seconds=0.0, restore_seconds=4.0, final_save_seconds=None
    )
    (expected,) = expect(costs, [between])
    assert expected.unwarned == pytest.approx(simulated_goodput(costs, between, Random(1)), rel=0.05)
    assert expected.best >= expected.unwarned
    assert expected.warned is None


@pytest.mark.parametrize(("stall", "period"), [(0.0, 0.22), (4e-5, 0.22), (2.0, 60.0)])
def test_the_best_interval_is_no_worse_than_the_one_that_was_seen(stall: float, period: float) -> None:
    costs = Measured(
        period_seconds=period,
        stall_seconds=stall,
        persist_seconds=0.0,
        restore_seconds=0.78,
        final_save_seconds=None,
    )
    assert all(one.best >= one.unwarned for one in expect(costs))
    assert ("holds the work up for less than 0.1 ms" in str(what_if(costs, expect(costs)))) == (stall < 1e-4)


def test_estimates_fall_with_the_rate_and_stay_shares() -> None:
    costs = Measured(
        period_seconds=60.0, stall_seconds=2.0, persist_seconds=9.0, restore_seconds=45.0, final_save_seconds=5.0
    )
    rising = [2.0 * 3**power for power in range(14)]
    for pick in (lambda one: one.unwarned, lambda one: one.best, lambda one: one.warned):
        shares = [pick(one) for one in expect(costs, rising)]
        assert shares == sorted(shares)
        assert all(0.0 <= share <= 1.0 for share in shares)
        assert shares[-1] > 0.9
