"""What `outlast watch` draws: runs, queues and nodes, as many as fit, in any width, with or without colours."""

import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rich.text import Text

from outlast.cli.nodes_text import risk_words, time_left
from outlast.cli.progress import Look, Rate
from outlast.clock import format_duration
from outlast.console import printable
from outlast.monitor.nodes import ClusterSight, PodSight
from outlast.monitor.watch_polling import Reading
from outlast.monitor.watch_rows import QueueRow, Row, TaskRow, by_urgency, legend, strip

_STYLES = {
    "running": "green",
    "finished": "blue",
    "stuck": "bold red",
    "failed": "bold red",
    "crashed": "bold red",
    "killed": "yellow",
    "interrupted": "yellow",
    "waiting": "yellow",
    "ending": "bold red",
    "lost": "bold red",
    "draining": "yellow",
}
_ATTEMPT_STYLES = {"F": "blue", "I": "yellow", "K": "red", "C": "bold red", "X": "bold red", "R": "green"}
_NARROW, _MOST_LETTERS = 60, 30
_LOW = 16  # with fewer lines there is no room to explain anything
_RATE_SECONDS = 60.0
_STALE_SECONDS = 5.0  # what was read longer ago is said to be so


@dataclass(frozen=True, slots=True)
class Seen:
    """One thing that is watched: a store or a queue (rows), or a cluster."""

    name: str
    reading: "Reading[Sequence[Row]] | Reading[ClusterSight]"


class Rates:
    """How fast queues get done, by what was seen of them here."""

    def __init__(self) -> None:
        self._of: dict[str, tuple[float, Rate]] = {}

    def words(self, row: QueueRow, at: float) -> str:
        """Rate and time left; empty while nothing is known."""
        if row.rate_per_second is not None:
            left = "" if row.eta_seconds is None else f", {format_duration(row.eta_seconds)} left"
            return f"{row.rate_per_second:.3g}/s{left}"
        if row.done is None:
            return ""
        noted, rate = self._of.setdefault(row.url, (-1.0, Rate(_RATE_SECONDS)))
        if at != noted:
            rate.note(Look(row.done, row.share), at)
            self._of[row.url] = (at, rate)
        return "" if rate.items_per_second is None else rate.words().partition(" items, ")[2]


def screen(seen: Sequence[Seen], rates: Rates, *, width: int, height: int | None, help_line: str = "") -> Text:
    """The whole view; at most `height` lines where that is given, with a line that says what was left out."""
    now = time.monotonic()
    sections = [list(_section(one, rates, now, width)) for one in seen]
    bottom: list[Text] = []
    roomy = height is None or height >= _LOW
    if roomy and any(isinstance(row, TaskRow) for one in seen for row in _rows(one)):
        bottom += _folded(f"attempts: {legend()}", width, style="dim")
    if help_line:
        bottom += _folded(help_line, width, style="dim")
    if height is not None:
        sections = _fitted(sections, height - len(bottom) - 1, width)
    whole = Text("\n").join([*(line for section in sections for line in section), *bottom])
    whole.no_wrap = height is not None
    return whole


def _fitted(sections: Sequence[Sequence[Text]], room: int, width: int) -> list[list[Text]]:
    """As many lines as there is room for, taken from the longest sections; each says how many it leaves out."""
    most = max((len(one) for one in sections), default=0)
    while most > 1 and sum(min(len(one), most) for one in sections) > room:
        most -= 1
    fitted = []
    for one in sections:
        more = Text(f"  {_dots()} {len(one) - most + 1} more lines; a taller window shows them", "dim")
        fitted.append(list(one) if len(one) <= most else [*one[: most - 1], _cut(more, width)])
    return fitted


def _dots() -> str:
    return "…" if (sys.stdout.encoding or "").lower().startswith("utf") else "..."


def _rows(one: Seen) -> list[Row]:
    value = one.reading.value
    return [] if value is None or isinstance(value, ClusterSight) else list(value)


def _section(one: Seen, rates: Rates, now: float, width: int) -> Iterator[Text]:
    reading, value = one.reading, one.reading.value
    age = now - reading.at
    head = Text(_plain(one.name), style="bold", overflow="ellipsis")
    if value is None:
        head.append("  reading" if not reading.problem else "", style="dim")
    elif age >= _STALE_SECONDS:
        head.append(f"  read {format_duration(age)} ago", style="dim")
    yield _cut(head, width)
    if reading.problem:
        yield from _folded(f"  {_plain(reading.problem)}", width, style="bold red")
    if isinstance(value, ClusterSight):
        yield from _cluster(value.later(age), width)
    elif value is not None:
        tasks = by_urgency([row.later(age) for row in value if isinstance(row, TaskRow)])
        for task in tasks:
            yield from _task(task, width)
        for queue in (row for row in value if isinstance(row, QueueRow)):
            yield from _queue(queue.later(age), rates.words(queue, reading.at), width)
        if not value:
            yield Text("  nothing yet", style="dim")


def _task(row: TaskRow, width: int) -> Iterator[Text]:
    """A line of what it is and how far, and one of what is at risk; in narrow windows more."""
    head = Text("  ")
    head.append(_plain(row.name))
    head.append(f"  {_plain(row.state)}", style=_STYLES.get(row.state, ""))
    progress = _progress(row)
    letters = strip(row.attempts, longest=_MOST_LETTERS if width >= _NARROW else 10)
    attempts = Text("attempts ")
    for letter in letters:
        attempts.append(letter, style=_ATTEMPT_STYLES.get(letter, ""))
    details = [Text(part) for part in (*progress, *_safety(row))] + ([attempts] if letters else [])
    yield from _joined(head, details, width)
    if row.notice:
        left = row.notice_seconds_left
        when = "" if left is None else f": {format_duration(left)} left" if left > 0 else ": the time is over"
        yield from _folded(f"    NOTICE {_plain(row.notice)}{when}", width, style="bold yellow")
    for trouble in row.troubles:
        yield from _folded(f"    {_plain(trouble)}", width, style="red")


def _progress(row: TaskRow) -> Iterator[str]:
    if row.steps_done is not None:
        of = "" if row.steps_total is None else f" of {row.steps_total:,}"
        share = "" if row.share is None else f" ({row.share:.1%})"
        yield f"{row.steps_done:,}{of} steps{share}"
    if row.eta_seconds is not None and row.state == "running":
        yield f"{format_duration(row.eta_seconds)} to go"


def _safety(row: TaskRow) -> Iterator[str]:
    if row.checkpoint_age_seconds is not None:
        step = "" if row.checkpoint_step is None else f" {row.checkpoint_step:,}"
        yield f"checkpoint{step}, {format_duration(row.checkpoint_age_seconds)} ago"
    elif row.state == "running":
        yield "no checkpoint yet"
    if row.risk_seconds is not None and row.state != "finished":
        steps = "" if row.risk_steps is None else f" ({row.risk_steps:,} steps)"
        yield f"at risk {format_duration(row.risk_seconds)}{steps}"
    if row.goodput is not None:
        yield f"goodput {row.goodput:.0%}"


def _queue(row: QueueRow, rate: str, width: int) -> Iterator[Text]:
    counts = {"ready": row.ready, "leased": row.leased, "done": row.done, "dead": row.dead}
    words = [f"{name} {'?' if count is None else f'{count:,}'}" for name, count in counts.items()]
    details = [Text(word, style="bold red" if word.startswith("dead ") and row.dead else "") for word in words]
    details += [Text(rate)] if rate else []
    if row.oldest_seconds is not None and (row.ready or row.leased):
        details.append(Text(f"oldest {format_duration(row.oldest_seconds)}"))
    if row.workers is not None:
        details.append(Text(f"{row.workers} workers"))
    yield from _joined(Text("  queue"), details, width)
    for trouble in row.troubles:
        yield from _folded(f"    {_plain(trouble)}", width, style="red")


def _cluster(sight: ClusterSight, width: int) -> Iterator[Text]:
    disrupted = sum(node.is_disrupted for node in sight.nodes)
    planned = len(sight.nodes) - disrupted
    yield _cut(Text(f"  {sight.nodes_in_all} nodes, {disrupted} disrupted, {planned} planned"), width)
    for node in sight.nodes:
        head = Text("  ")
        head.append(_plain(node.marks.name))
        head.append(f"  {node.marks.state}", style=_STYLES.get(node.marks.state, ""))
        left = time_left(node)
        signs = [Text(_plain(sign)) for sign in node.marks.signs]
        yield from _joined(head, ([Text(left, style="bold")] if left else []) + signs, width)
        for pod in node.pods:
            if pod.is_ours:
                yield from _pod(pod, width)
        others = sum(not pod.is_ours for pod in node.pods)
        if others:
            yield _cut(Text(f"    and {_pods(others)} without outlast", style="dim"), width)
    for title, pods in (("waiting for a node", sight.waiting), ("ended by a disruption", sight.ended)):
        for pod in pods:
            yield from _folded(f"  {_plain(pod.marks.namespace)}/{_plain(pod.marks.name)}  {title}", width)
    for problem in sight.problems:
        yield from _folded(f"  not seen: {_plain(problem)}", width, style="red")


def _pods(count: int) -> str:
    return "1 pod" if count == 1 else f"{count} pods"


def _pod(pod: PodSight, width: int) -> Iterator[Text]:
    left = "" if pod.seconds_left is None else f", {format_duration(pod.seconds_left)} of its grace left"
    yield from _folded(f"    {_plain(pod.marks.namespace)}/{_plain(pod.marks.name)}  {pod.state}{left}", width)
    for risk in pod.at_risk:
        yield from _folded(f"      {_plain(risk_words(risk))}", width)


# --- into lines -------------------------------------------------------------------------------------


def _joined(head: Text, details: Sequence[Text], width: int) -> Iterator[Text]:
    """One line if it fits, else the details below, as many in a line as fit."""
    line, indent, gap = head, Text("    "), Text("  ")
    for detail in details:
        piece = detail.copy()
        if line.cell_len + len(gap) + piece.cell_len > width and line.plain.strip():
            yield _cut(line, width)
            line = indent + piece
        else:
            line = line + (gap if line.plain.strip() else Text("")) + piece
    yield _cut(line, width)


def _cut(line: Text, width: int) -> Text:
    cut = line.copy()
    cut.truncate(max(1, width), overflow="ellipsis")
    return cut


def _folded(words: str, width: int, *, style: str = "") -> Iterator[Text]:
    """A long sentence in lines of the width, three at most."""
    indent = len(words) - len(words.lstrip())
    rest, lines = words.strip(), 0
    room = max(8, width - indent)
    while rest and lines < 3:
        at = len(rest) if len(rest) <= room else rest.rfind(" ", 0, room + 1)
        at = room if at <= 0 else at
        piece, rest, lines = rest[:at], rest[at:].strip(), lines + 1
        yield _cut(Text(" " * indent + piece + (_dots() if rest and lines == 3 else ""), style=style), width)


def _plain(name: str) -> str:
    """A name that steers no terminal, in one line."""
    return printable(name, longest=500).replace("\n", "\\n").replace("\t", " ")
