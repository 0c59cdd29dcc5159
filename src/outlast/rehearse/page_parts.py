"""The parts of a report's page that reckon or draw: stops against grace, plans, where time went, what if."""

from collections.abc import Iterable, Iterator, Sequence

from outlast.checkpoint.goodput import Buckets
from outlast.clock import format_duration
from outlast.events import PlanMade
from outlast.pages.markup import Child, Markup, foreign, join, tag
from outlast.rehearse.attempt import Attempt
from outlast.rehearse.estimate import Expected, Measured
from outlast.rehearse.report import Report
from outlast.timeline.moments import Timeline

_BAR = 14  # pixels
_LEAST = 0.5  # percent that can still be seen


def _table(caption: str, columns: Sequence[tuple[str, str | None]], rows: Iterable[Child]) -> Markup:
    heads = [tag("th", name, scope="col", class_=look) for name, look in columns]
    return tag("table", tag("caption", caption), tag("thead", tag("tr", heads)), tag("tbody", rows))


def _bar(parts: Sequence[tuple[str, float, str]], said: str) -> Markup:
    """One bar as wide as the screen: (class, share from 0 to 1, title) from left to right."""
    shapes, at = [tag("rect", x=0, y=0, width="100%", height=_BAR, rx=3, class_="track")], 0.0
    for look, share, title in parts:
        if share > 0:
            width = min(max(100.0 * share, _LEAST), 100.0 - at)
            shapes.append(
                tag("rect", tag("title", title), x=f"{at:.3f}%", y=0, width=f"{width:.3f}%", height=_BAR, class_=look)
            )
            at += 100.0 * share
    return tag("svg", shapes, height=_BAR, role="img", aria_label=said, focusable="false")


# --- stop time against grace ------------------------------------------------------------------------


def stops(report: Report) -> Child:
    """For each notice how much of the time until SIGKILL the program took; None where there was no notice."""
    stopped = [one for one in report.attempts if one.notice is not None and one.stopped_after_seconds is not None]
    shown = [(one, grace) for one in stopped if (grace := one.grace_seconds or report.grace_seconds)]
    if not shown:
        return None
    rule = "A whole bar is the time from the notice until the process is killed."
    return [tag("p", rule, class_="quiet"), tag("ul", [_stop(one, grace) for one, grace in shown], class_="bars")]


def _stop(attempt: Attempt, grace: float) -> Markup:
    took, of = attempt.stopped_after_seconds or 0.0, format_duration(grace)
    killed = attempt.ended_by == "SIGKILL after the grace"
    word = f"killed after {of}" if killed else f"stopped after {format_duration(took)}"
    share = 1.0 if killed else min(took / grace, 1.0)
    heard = attempt.heard_notice_after_seconds
    more = [] if killed else [f"{share:.0%} of {of}"]
    more += [] if heard is None else [f"heard after {format_duration(heard)}"]
    head = tag(
        "p",
        tag("strong", f"attempt {attempt.number}"),
        tag("span", word, class_=f"chip {'bad' if killed else 'good'}"),
        tag("span", ", ".join(more), class_="quiet") if more else None,
        class_="head",
    )
    said = ", ".join([f"attempt {attempt.number}: {word}", *more])
    return tag("li", head, _bar([("over" if killed else "inside", share, word)], said))


# --- what the job planned ---------------------------------------------------------------------------


def plans_table(report: Report) -> Child:
    """What the job chose to do with the time after a notice, and why; None where it told nothing."""
    rows = [
        tag(
            "tr",
            tag("td", attempt.number, class_="number"),
            tag("td", foreign(plan.choice), class_="words"),
            tag("td", foreign(plan.why)),
        )
        for attempt in report.attempts
        for plan in _plans(attempt)
    ]
    if not rows:
        return None
    return _table("At each notice.", (("attempt", "number"), ("choice", None), ("why", None)), rows)


def _plans(attempt: Attempt) -> Iterator[PlanMade]:
    """Each plan once: one that is made again and comes to the same is no other choice."""
    before = None
    for one in attempt.recorded:
        if isinstance(one.event, PlanMade) and (one.event.choice, one.event.why) != before:
            before = (one.event.choice, one.event.why)
            yield one.event


# --- where the time went ----------------------------------------------------------------------------

_BUCKETS = (
    ("compute", "work", "work that was kept"),
    ("start", "start", "start-up"),
    ("restore", "restore", "reading the checkpoint"),
    ("save_stall", "stall", "waiting for saves"),
    ("lost_work", "lost", "work lost and done again"),
)


def where_time_went(report: Report, timeline: Timeline) -> Child:
    """All attempts' time by what it was for, as far as the program tells; None where there were no attempts."""
    if not report.attempts or report.total_seconds is None:
        return None
    against = None
    if report.goodput is not None and report.baseline_seconds is not None:
        against = (
            f"One uninterrupted run takes {format_duration(report.baseline_seconds)}, all attempts together took "
            f"{format_duration(report.total_seconds)}: goodput {report.goodput:.0%}. Short jobs look bad here, since "
            "starting counts."
        )
    buckets = sum((one.buckets for one in timeline.attempts if one.buckets), Buckets())
    if not buckets.billed:
        return tag("p", against or "No account: only a program that uses outlast tells what its time went for.")
    spent = [(look, getattr(buckets, name), word) for name, look, word in _BUCKETS]
    total = max(buckets.billed, sum(line.span.seconds for line in timeline.attempts))
    spent.append(("track", max(0.0, total - buckets.billed), "leaving, and what it did not tell"))
    rows = [
        tag(
            "tr",
            tag("th", _swatch(look), word, scope="row"),
            tag("td", format_duration(seconds), class_="number"),
            tag("td", f"{seconds / total:.1%}", class_="number"),
        )
        for look, seconds, word in spent
    ]
    shares = [(look, seconds / total, f"{word}: {format_duration(seconds)}") for look, seconds, word in spent]
    return join(
        tag("p", against) if against else None,
        _bar(shares, "; ".join(title for _, _, title in shares)),
        _table("By the program's own account.", (("for", None), ("time", "number"), ("share", "number")), rows),
    )


def _swatch(look: str) -> Markup:
    shape = tag("rect", width=12, height=12, class_=look)
    return tag("svg", shape, class_="swatch", width=12, height=12, aria_hidden="true", focusable="false")


# --- what if ----------------------------------------------------------------------------------------


def what_if(measured: Measured, expected: Sequence[Expected]) -> Child:
    """The expected goodput at other rates of interruption, and what that rests on."""
    warned = any(one.warned is not None for one in expected)
    columns = [("interrupted every", None), ("without notice", "number"), ("at the best interval", "number")]
    if warned:
        columns.append(("with notice", "number"))
    rows = [
        tag(
            "tr",
            tag("th", format_duration(one.between_seconds), scope="row"),
            tag("td", _share(one.unwarned), class_="number"),
            tag("td", _share(one.best), tag("br"), tag("span", _every(one), class_="quiet"), class_="number"),
            tag("td", _share(one.warned), class_="number") if one.warned is not None else None,
        )
        for one in expected
    ]
    return join(
        tag("p", tag("strong", "An estimate"), ", not something that was rehearsed: ", _basis(measured)),
        _table("Expected goodput: the share of the machine's time that becomes kept work.", columns, rows),
        tag(
            "p",
            "Without notice: Daly's model with exponential interruptions (formula 5 of outlast.planning.formulae; "
            "J. T. Daly, Future Generation Computer Systems 22 (3), 2006), less the time that a save needs to be "
            "durable. With notice, and the best interval: formula 6 (after Aupy, Robert, Vivien, Zaidouni, JPDC 74 "
            "(2), 2014). Waiting for a new machine is left out. On real storage and with the real state saves take "
            "longer than here.",
            class_="quiet",
        ),
    )


def _share(goodput: float) -> str:
    """Never 100 %: something is always lost."""
    return f"{goodput:.1%}" if goodput < 0.9995 else "> 99.9%"


def _every(one: Expected) -> str:
    return f"every {format_duration(one.best_period_seconds)}"


def _basis(measured: Measured) -> str:
    stall = "less than 0.1 ms" if measured.stall_seconds < 1e-4 else format_duration(measured.stall_seconds)
    said = (
        f"it rests on what was measured here, a save every {format_duration(measured.period_seconds)}, which holds the "
        f"work up for {stall}"
    )
    if measured.persist_seconds:
        said += f" and is durable {format_duration(measured.persist_seconds)} later"
    said += f", and {format_duration(measured.restore_seconds)} from the start of a process to its work"
    if measured.final_save_seconds is not None:
        said += f"; after a notice, the last save took {format_duration(measured.final_save_seconds)}"
    return f"{said}."
