"""The report as one page: what was proven, and everything that the verdict rests on."""

import shlex
from collections.abc import Iterator

from outlast.clock import Clock, SystemClock, format_duration, iso_utc
from outlast.pages.document import whole_page
from outlast.pages.markup import LONGEST_NAME, Child, Markup, foreign, tag
from outlast.rehearse.attempt_lines import timeline_of
from outlast.rehearse.estimate import expect, measure
from outlast.rehearse.page_parts import plans_table, stops, what_if, where_time_went
from outlast.rehearse.report import Report
from outlast.rehearse.verdict import Verdict
from outlast.timeline.drawing import draw
from outlast.timeline.moments import Timeline

_TONES: dict[Verdict, str] = {"survived": "good", "not-survived": "bad", "could-not-rehearse": "open"}
_MARKS: dict[Verdict, str] = {"survived": "✓", "not-survived": "✕", "could-not-rehearse": "?"}
_MOST_RESULTS = 1000
_LONGEST_REASON = 1000


def as_page(report: Report, *, version: str = "", clock: Clock | None = None) -> str:
    """The report as HTML, one file without script or anything from elsewhere; to be written as UTF-8.

    `version` is outlast's own, for the foot.
    """
    timeline = timeline_of(report.attempts, grace_seconds=report.grace_seconds)
    made_at = iso_utc((clock or SystemClock()).wall_seconds())
    return whole_page(
        f"{report.verdict}: outlast rehearse on {report.platform}",
        tag(
            "main",
            _head(report),
            _section("timeline", "What happened", _timeline(timeline)),
            _section("cuts", "Saves that were cut", _cuts(report)),
            _section("stops", "Stop time against grace", stops(report)),
            _section("plans", "What the job planned", plans_table(report)),
            _section("goodput", "Where the time went", where_time_went(report, timeline)),
            _section("what-if", "What if interruptions came more often?", _what_if(report, timeline)),
            _section("results", "Results", _results(report)),
            _section("output", "The end of its output", _output(report)),
            _section("not-exercised", "What was not exercised", _not_exercised(report)),
        ),
        tag("footer", tag("p", f"outlast {version}, {made_at}", class_="quiet")),
    )


def _section(name: str, heading: str, content: Child) -> Markup | None:
    if content is None:
        return None
    return tag("section", tag("h2", heading, id=name), content, aria_labelledby=name)


# --- the top ----------------------------------------------------------------------------------------


def _head(report: Report) -> Markup:
    tone = _TONES[report.verdict]
    word = f"{_MARKS[report.verdict]} {report.verdict}"
    reasons = tag("ul", [tag("li", foreign(reason, longest=_LONGEST_REASON)) for reason in report.reasons])
    command = foreign(shlex.join(report.command), longest=LONGEST_NAME)
    calm = tag("p", "Its results equal those of the uninterrupted runs.", class_="because")
    return tag(
        "header",
        tag("h1", "Rehearsal of ", tag("code", command, class_="command")),
        tag("div", tag("p", word, class_="word"), reasons if report.reasons else calm, class_=f"verdict {tone}"),
        tag("dl", [tag("div", tag("dt", name), tag("dd", value)) for name, value in _facts(report)], class_="facts"),
    )


def _facts(report: Report) -> Iterator[tuple[str, Child]]:
    yield "platform", foreign(report.platform, longest=LONGEST_NAME)
    if report.attempts:
        landed = sum(attempt.kind is not None for attempt in report.attempts)
        yield "interruptions", landed
        most = 0 if report.retries is None else report.retries + 1  # of one execution; cancelled, it is executed again
        yield "attempts", f"{len(report.attempts)}{f' of {most}' if len(report.attempts) <= most else ''}"
    if report.grace_seconds is not None:
        yield "grace", format_duration(report.grace_seconds)
    if report.baseline_seconds is not None:
        yield "uninterrupted run", format_duration(report.baseline_seconds)
    if report.total_seconds is not None:
        yield "all attempts", format_duration(report.total_seconds)
    if report.lost_seconds is not None and report.goodput is not None:
        yield "lost time", format_duration(report.lost_seconds)
        yield "goodput", f"{report.goodput:.0%}"
    if report.speed != 1.0:
        yield "one second here", f"{report.speed:g} s of the platform"
    yield "seed", report.seed


# --- sections ---------------------------------------------------------------------------------------


def _timeline(timeline: Timeline) -> Child:
    return draw(timeline) if timeline.attempts else None


def _cuts(report: Report) -> Child:
    """Where saves were cut, one kill at each place, beside the attempts above."""
    if not report.cut_saves:
        return _ranks(report)
    left_out = len(report.cut_saves) - _MOST_RESULTS
    return [
        tag("p", f"Also killed once at each of {len(report.cut_saves)} places of its saves, and begun again."),
        tag(
            "details",
            tag("summary", "The places"),
            tag("ul", [tag("li", foreign(one, longest=LONGEST_NAME)) for one in report.cut_saves[:_MOST_RESULTS]]),
        ),
        tag("p", f"{left_out} more are not listed.", class_="quiet") if left_out > 0 else None,
        tag("p", f"And given {len(report.more_notices)} more notices.") if report.more_notices else None,
        _ranks(report),
    ]


def _ranks(report: Report) -> Child:
    """What happened to single ranks."""
    return tag("p", f"In one run more {', '.join(report.rank_ends)}.") if report.rank_ends else None


def _what_if(report: Report, timeline: Timeline) -> Child:
    recorded = [attempt.recorded for attempt in report.attempts]
    measured = measure(timeline, recorded) if report.attempts else None
    if measured is None:
        said = "No estimate: the attempts did not show how often it saves, and how long it takes to begin again."
        return tag("p", said, class_="quiet") if report.attempts else None
    return what_if(measured, expect(measured))


def _results(report: Report) -> Child:
    if not report.results:
        return None
    shown = sorted(report.results, key=lambda one: one.same)[:_MOST_RESULTS]
    detailed = any(one.detail for one in shown)
    columns = ("result", "is", *(("detail",) if detailed else ()))
    rows = [
        tag(
            "tr",
            tag("td", foreign(one.path, longest=LONGEST_NAME)),
            tag("td", tag("span", "same" if one.same else "different", class_=f"chip {'good' if one.same else 'bad'}")),
            tag("td", foreign(one.detail)) if detailed else None,
        )
        for one in shown
    ]
    left_out = len(report.results) - len(shown)
    return [
        tag(
            "table",
            tag("caption", "Against the uninterrupted run."),
            tag("thead", tag("tr", [tag("th", name, scope="col") for name in columns])),
            tag("tbody", rows),
        ),
        tag("p", f"{left_out} more, all the same, are not listed.", class_="quiet") if left_out else None,
    ]


def _output(report: Report) -> Child:
    if not report.output:
        return None
    return tag("pre", [[foreign(line, element="span"), "\n"] for line in report.output], tabindex=0)


def _not_exercised(report: Report) -> Child:
    if not report.not_exercised:
        return None
    return [
        tag("p", "This verdict says nothing about:"),
        tag("ul", [tag("li", foreign(one)) for one in report.not_exercised]),
    ]
