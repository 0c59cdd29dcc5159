"""Draws a timeline: a row of SVG for each attempt, all on one scale, as wide as the screen it is read on.

Places across are percentages, so that text and marks keep their size on a phone. Nothing is told by colour alone.
"""

import math
from collections.abc import Callable, Iterator

from outlast.clock import format_duration
from outlast.pages.markup import Markup, harmless, join, tag
from outlast.timeline.moments import AttemptLine, End, NoticeGiven, Save, Span, Timeline

_HEIGHT, _TOP, _THICK = 34, 10, 16  # pixels: of a row, of its bar
_MOST_ROWS = 200
_MOST_SAVES = 400  # marks in one row; more could not be told apart
_LEAST_WIDTH = 0.15  # percent: what is shorter could not be seen
_TONES: dict[End, str] = {
    "finished": "good",
    "left": "good",
    "killed": "bad",
    "failed": "bad",
    "running": "open",
}


def draw(timeline: Timeline) -> Markup:
    """The rows, the axis and the legend. The classes are those of `outlast.pages.style`."""
    attempts = timeline.attempts[-_MOST_ROWS:]
    seconds = max(timeline.seconds, 1e-9)
    left_out = len(timeline.attempts) - len(attempts)
    return join(
        _patterns(),
        tag("p", f"{left_out} earlier attempts are not drawn.", class_="quiet") if left_out else None,
        tag("ol", [_row(one, seconds) for one in attempts], class_="timeline"),
        tag("div", _axis(seconds), class_="plot"),
        _legend(),
    )


# --- one attempt ------------------------------------------------------------------------------------


def _row(line: AttemptLine, seconds: float) -> Markup:
    words = list(_words(line))
    head = tag(
        "p",
        tag("strong", f"attempt {line.number}"),
        tag("span", harmless(line.ended_by, longest=80), class_=f"chip {_TONES[line.end]}"),
        tag("span", ", ".join(words), class_="quiet"),
        class_="head",
    )
    spoken = harmless(f"attempt {line.number}, {line.ended_by}: {', '.join(words)}", longest=400)
    bar = tag("svg", list(_marks(line, seconds)), height=_HEIGHT, role="img", aria_label=spoken, focusable="false")
    return tag("li", head, tag("div", bar, class_="plot"))


def _words(line: AttemptLine) -> Iterator[str]:
    if line.met:
        yield f"met {harmless(' and '.join(line.met), longest=120)}"
    yield format_duration(line.span.seconds)
    if line.from_step is not None:
        reached = "" if line.reached_step is None else f" to {line.reached_step}"
        yield f"steps {line.from_step}{reached}"
    durable = sum(save.durable for save in line.saves)
    if line.saves:
        yield f"{durable} save{'s' * (durable != 1)}"
    if len(line.saves) > durable:
        yield f"{len(line.saves) - durable} cut off or failed"
    for notice in line.notices:
        heard = "" if notice.heard_at is None else f", heard after {format_duration(notice.heard_at - notice.at)}"
        yield f"notice at {format_duration(notice.at - line.span.start)}{heard}"
    if line.lost:
        yield f"{format_duration(line.lost.seconds)} of work lost"
    elif line.unsaved:
        yield f"{format_duration(line.unsaved.seconds)} after the last save that was seen"


def _marks(line: AttemptLine, seconds: float) -> Iterator[Markup | None]:
    def place(moment: float) -> float:
        return 100.0 * min(max(moment / seconds, 0.0), 1.0)

    yield tag("rect", x="0", y=_TOP, width="100%", height=_THICK, rx=3, class_="track")
    began = line.work_from if line.work_from is not None else line.span.start
    yield _bar(Span(line.span.start, began), "start", place, "start-up")
    yield _bar(Span(began, line.span.end), "work", place, "work")
    if line.lost:
        yield _bar(line.lost, "lost", place, f"lost: {format_duration(line.lost.seconds)}")
    elif line.unsaved:
        yield _bar(line.unsaved, "unsaved", place, "after the last save that was seen")
    for notice in line.notices:
        yield _grace(notice, line, place)
    for save in line.saves[-_MOST_SAVES:]:
        yield _save(save, place)
    for notice in line.notices:
        yield _at(place(notice.at), _NOTICE, "notice")
    yield _at(place(line.span.end), _ENDS[line.end], harmless(line.ended_by, longest=80))


def _bar(span: Span, look: str, place: Callable[[float], float], title: str) -> Markup | None:
    if span.seconds <= 0:
        return None
    start = place(span.start)
    width = max(place(span.end) - start, _LEAST_WIDTH)
    return tag(
        "rect", tag("title", title), x=f"{start:.3f}%", y=_TOP, width=f"{width:.3f}%", height=_THICK, class_=look
    )


def _grace(notice: NoticeGiven, line: AttemptLine, place: Callable[[float], float]) -> Markup | None:
    if notice.kill_at is None:
        return None
    span = Span(notice.at, min(notice.kill_at, line.span.end))
    if span.seconds <= 0:
        return None
    start = place(span.start)
    width = max(place(span.end) - start, _LEAST_WIDTH)
    said = f"from the notice to the end: {format_duration(span.seconds)}"
    return tag(
        "rect", tag("title", said), x=f"{start:.3f}%", y=_TOP - 7, width=f"{width:.3f}%", height=5, class_="grace"
    )


def _save(save: Save, place: Callable[[float], float]) -> Markup:
    step = "" if save.step is None else f" of step {save.step}"
    took = format_duration(save.span.seconds)
    if save.durable:
        return _at(place(save.span.end), _SAVE, f"save{step}: durable after {took}")
    return _at(place(save.span.end), _CUT, f"save{step}: not durable, ended after {took}")


def _at(percent: float, shape: Markup, title: str) -> Markup:
    """A mark of fixed size at a place: an inner SVG may stand at a percentage, a path may not."""
    return tag("svg", tag("title", title), shape, x=f"{percent:.3f}%", y=0, width=1, height=_HEIGHT, overflow="visible")


_FOOT = _TOP + _THICK
_SAVE = tag("path", d=f"M-4 {_FOOT + 7}L0 {_FOOT - 1}L4 {_FOOT + 7}Z", class_="save")
_CUT = tag("path", d=f"M-3.5 {_FOOT}l7 7m0 -7l-7 7", class_="cut", stroke_width=2)
_NOTICE = tag("path", d=f"M-5.5 0L5.5 0L0 {_TOP}Z", class_="notice")
_CROSS = f"M-5 {_TOP + 3}l10 10m0 -10l-10 10"
_KILLED = join(tag("path", d=_CROSS, class_="halo"), tag("path", d=_CROSS, class_="kill"))
_TICK = f"M-6 {_TOP + 7}l4 5l8 -10"
_DONE = join(tag("path", d=_TICK, class_="halo"), tag("path", d=_TICK, class_="done"))
_DOOR = f"M0 {_TOP - 4}V{_FOOT + 4}"
_LEFT = join(tag("path", d=_DOOR, class_="halo"), tag("path", d=_DOOR, class_="done"))
_FAILED = join(tag("path", d=_DOOR, class_="halo"), tag("path", d=_DOOR, class_="kill"))
_ENDS: dict[End, Markup] = {
    "finished": _DONE,
    "left": _LEFT,
    "killed": _KILLED,
    "failed": _FAILED,
    "running": tag("path", d=f"M0 {_TOP}l7 8l-7 8Z", class_="work"),
}


# --- what all rows share ----------------------------------------------------------------------------


def _patterns() -> Markup:
    """Stripes for lost and unsaved work."""
    patterns = [
        tag(
            "pattern",
            tag("rect", width=6, height=6, class_=f"{name}-back"),
            tag("path", d="M0 0V6", class_=f"{name}-line", stroke_width=width),
            id=name,
            width=6,
            height=6,
            patternUnits="userSpaceOnUse",
            patternTransform=f"rotate({turn})",
        )
        for name, width, turn in (("lost", 5, 45), ("unsaved", 2, -45))
    ]
    return tag("svg", tag("defs", patterns), class_="defs", aria_hidden="true", focusable="false")


def _axis(seconds: float) -> Markup:
    ticks = []
    step = nice_step(seconds, most=4)
    for number in range(math.floor(seconds / step * (1 + 1e-9)) + 1):
        share = 100.0 * number * step / seconds
        anchor = "start" if number == 0 else "end" if share > 90 else "middle"
        ticks.append(tag("line", x1=f"{share:.3f}%", x2=f"{share:.3f}%", y1=0, y2=5, class_="axis"))
        said = format_duration(number * step) if number else "0"
        ticks.append(tag("text", said, x=f"{share:.3f}%", y=19, text_anchor=anchor))
    line = tag("line", x1="0", x2="100%", y1=0, y2=0, class_="axis")
    return tag("svg", line, ticks, height=24, role="img", aria_label="seconds since the first attempt began")


def nice_step(seconds: float, *, most: int) -> float:
    """A round distance of ticks, so that there are `most` at most after the first."""
    rough = seconds / most
    if rough > 60:
        rounds = (120.0, 300.0, 600.0, 1800.0, 3600.0, 7200.0, 21600.0, 43200.0, 86400.0)
        found = next((one for one in rounds if one >= rough), None)
        return found if found is not None else 86400.0 * math.ceil(rough / 86400.0)
    power = 10.0 ** math.floor(math.log10(rough))
    return next(power * factor for factor in (1.0, 2.0, 5.0, 10.0) if power * factor >= rough * (1 - 1e-9))


def _legend() -> Markup:
    bar = {"y": 2, "width": 22, "height": 12}
    low = {"viewBox": f"-11 {_TOP - 1} 22 16"}
    foot = {"viewBox": f"-11 {_FOOT - 5} 22 16"}
    entries: tuple[tuple[Markup, dict[str, str], str], ...] = (
        (tag("rect", class_="start", **bar), {}, "start-up"),
        (tag("rect", class_="work", **bar), {}, "work"),
        (tag("rect", class_="lost", **bar), {}, "work lost"),
        (tag("rect", class_="unsaved", **bar), {}, "after the last save seen"),
        (_SAVE, foot, "save, durable"),
        (_CUT, foot, "save, cut off"),
        (_NOTICE, {"viewBox": "-11 -3 22 16"}, "notice"),
        (_KILLED, low, "killed"),
        (_LEFT, low, "left by itself"),
        (_DONE, low, "finished"),
    )
    shown = [
        tag("li", tag("svg", shape, aria_hidden="true", width=22, height=16, **view), word)
        for shape, view, word in entries
    ]
    return tag("ul", shown, class_="legend", aria_label="Legend")
