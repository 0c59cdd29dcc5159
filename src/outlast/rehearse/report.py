"""The proof: one object for machines, tables for people."""

from collections.abc import Iterator
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from outlast.clock import format_duration
from outlast.pages.markup import harmless
from outlast.rehearse.attempt import Attempt
from outlast.rehearse.results import Result
from outlast.rehearse.verdict import EXIT_CODES, Verdict

_STYLES: dict[Verdict, str] = {
    "survived": "bold green",
    "not-survived": "bold red",
    "could-not-rehearse": "bold yellow",
}
_TEXT_WIDTH = 120


@dataclass(frozen=True, slots=True, repr=False)
class Report:
    """What a rehearsal showed. Seconds; None for what was not measured. `output` is the end of a failed run's.

    `scenario` is what was played, "" for what was drawn; `speed`: so many seconds of the platform passed in one.
    """

    verdict: Verdict
    platform: str
    seed: int
    command: tuple[str, ...]
    reasons: tuple[str, ...]
    not_exercised: tuple[str, ...] = ()
    retries: int | None = None
    nodes: int = 1
    grace_seconds: float | None = None
    scenario: str = ""
    speed: float = 1.0
    baseline_seconds: float | None = None
    baseline_exit_code: int | None = None
    attempts: tuple[Attempt, ...] = ()
    cut_saves: tuple[str, ...] = ()
    more_notices: tuple[str, ...] = ()
    rank_ends: tuple[str, ...] = ()
    results: tuple[Result, ...] = ()
    output: tuple[str, ...] = ()
    kept: Path | None = None

    def __repr__(self) -> str:
        """Short, since tests show it where they fail: the verdict, and what decided."""
        why = f": {harmless(self.reasons[0], longest=_TEXT_WIDTH)}" if self.reasons else ""
        return f"<{self.verdict} on {self.platform}, {len(self.attempts)} attempts{why}>"

    def __str__(self) -> str:
        """The report for people, as text without colours."""
        text = StringIO()
        print_report(self, Console(file=text, width=_TEXT_WIDTH, color_system=None, highlight=False))
        return text.getvalue().rstrip()

    @property
    def exit_code(self) -> int:
        return EXIT_CODES[self.verdict]

    @property
    def survived(self) -> bool:
        """Whether that is the verdict; False too where nothing could be shown."""
        return self.verdict == "survived"

    @property
    def total_seconds(self) -> float | None:
        return sum(attempt.seconds for attempt in self.attempts) if self.attempts else None

    @property
    def _done(self) -> bool:
        return self.verdict != "not-survived" and self.attempts[-1].succeeded

    @property
    def lost_seconds(self) -> float | None:
        """What the interruptions cost: the time of all attempts beyond that of one uninterrupted run.

        None where the work was not done.
        """
        if self.total_seconds is None or self.baseline_seconds is None or not self._done:
            return None
        return max(0.0, self.total_seconds - self.baseline_seconds)

    @property
    def goodput(self) -> float | None:
        """The part of all attempts' time that one uninterrupted run would have taken, 1 at most.

        None where the work was not done: what ended early took little time.
        """
        if not self.total_seconds or self.baseline_seconds is None or not self._done:
            return None
        return min(1.0, self.baseline_seconds / self.total_seconds)


def as_object(report: Report) -> dict[str, Any]:
    """The report as JSON values, with the keys that `rehearse --json` promises."""
    return {
        "verdict": report.verdict,
        "platform": report.platform,
        "seed": report.seed,
        "scenario": report.scenario or None,
        "speed": report.speed,
        "command": list(report.command),
        "retries": report.retries,
        "nodes": report.nodes,
        "baseline": {"seconds": _rounded(report.baseline_seconds), "exit_code": report.baseline_exit_code},
        "attempts": [_attempt(attempt) for attempt in report.attempts],
        "interruptions": [
            {
                "kind": attempt.kind,
                "happened": list(attempt.happened),
                "at_seconds": _rounded(attempt.interrupted_at_seconds),
                "attempt": attempt.number,
            }
            for attempt in report.attempts
            if attempt.kind is not None
        ],
        "cut_saves": list(report.cut_saves),
        "more_notices": list(report.more_notices),
        "rank_ends": list(report.rank_ends),
        "results": [{"path": one.path, "same": one.same, "detail": one.detail} for one in report.results],
        "lost_seconds": _rounded(report.lost_seconds),
        "goodput": _rounded(report.goodput),
        "reasons": list(report.reasons),
        "not_exercised": list(report.not_exercised),
        "kept": str(report.kept) if report.kept else None,
    }


def _attempt(attempt: Attempt) -> dict[str, Any]:
    return {
        "number": attempt.number,
        "seconds": _rounded(attempt.seconds),
        "ended_by": attempt.ended_by,
        "exit_code": attempt.exit_code,
        "heard_notice_after_seconds": _rounded(attempt.heard_notice_after_seconds),
        "heard_notice_from": attempt.heard_from,
        "stopped_after_seconds": _rounded(attempt.stopped_after_seconds),
        "resumed_from_step": attempt.resumed_from_step,
        "rank": attempt.rank if attempt.hit_what == "rank" else None,
        "node": attempt.rank if attempt.hit_what == "node" else None,
    }


def _rounded(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds, 4)


def _told_beside(report: Report) -> Iterator[str]:
    """What it met beside the attempts of the table."""
    if report.cut_saves:
        yield f"and killed once at each of {len(report.cut_saves)} places of its saves"
    if report.more_notices:
        within = sum(where.startswith("at ") for where in report.more_notices)
        yield f"and given {len(report.more_notices)} more notices, {within} of them in the middle of a save"
    if report.rank_ends:
        yield f"and in one run more {', '.join(report.rank_ends)}"


def print_report(report: Report, console: Console) -> None:
    """The report for people."""
    parts: list[RenderableType] = []
    if report.attempts:
        parts += [f"attempts on {report.platform}, seed {report.seed}", _attempts_table(report), ""]
    if report.cut_saves or report.rank_ends:
        parts += [*_told_beside(report), ""]
    if report.results:
        parts += ["results, against the uninterrupted run", _results_table(report), ""]
    if report.output:
        parts += [
            Text("The end of its output:", style="bold"),
            *(Text(f"  {harmless(line)}") for line in report.output),
            "",
        ]
    if report.lost_seconds is not None and report.goodput is not None:
        parts.append(f"lost time {format_duration(report.lost_seconds)}, goodput {report.goodput:.0%}")
    parts.append(Text.assemble("verdict: ", (report.verdict, _STYLES[report.verdict])))
    parts += [Text(f"  - {harmless(reason)}") for reason in report.reasons]
    if report.not_exercised:
        parts.append(Text("not exercised:", style="dim"))
        parts += [Text(f"  - {harmless(said)}", style="dim") for said in report.not_exercised]
    if report.kept:
        parts.append(Text(f"kept: {harmless(str(report.kept))}"))
    console.print(Group(*parts), soft_wrap=False)


def _attempts_table(report: Report) -> Table:
    table = Table()
    for heading in ("attempt", "ran", "ended by", "exit code", "heard after", "stopped after", "resumed from"):
        table.add_column(heading, justify="left" if heading == "ended by" else "right")
    for attempt in report.attempts:
        table.add_row(
            str(attempt.number),
            format_duration(attempt.seconds),
            attempt.ended_by,
            str(attempt.exit_code),
            _shown(attempt.heard_notice_after_seconds),
            _shown(attempt.stopped_after_seconds),
            "-" if attempt.resumed_from_step is None else f"step {attempt.resumed_from_step}",
        )
    return table


def _shown(seconds: float | None) -> str:
    return "-" if seconds is None else format_duration(seconds)


def _results_table(report: Report) -> Table:
    table = Table()
    table.add_column("result", overflow="fold")
    table.add_column("is")
    table.add_column("detail", overflow="fold")
    for result in report.results:
        same = "same" if result.same else "different"
        table.add_row(escape(harmless(result.path)), same, escape(harmless(result.detail)))
    return table
