"""`outlast status`: every attempt at a run, how it ended and why, what was lost, and where the time went."""

import json
import sys
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

import click
from rich import box
from rich.table import Table

from outlast.checkpoint.goodput import Buckets
from outlast.checkpoint.history import AttemptHistory, TaskHistory, history_of
from outlast.cli.stores import SOME_BAD, places_of, print_table, store_options, table_width
from outlast.clock import format_duration, iso_utc
from outlast.console import printable
from outlast.drift import in_one_line
from outlast.events import LATEST_WALL_SECONDS

_LONGEST_WHY = 160
_WIDE_COLUMNS = 100  # with fewer, when an attempt started and why it ended stand below the table


@click.command()
@click.option("--all", "all_runs", is_flag=True, help="All runs of each job, not only the newest.")
@store_options
def status(*, all_runs: bool, as_json: bool, **which: Any) -> None:
    """Show each attempt at the runs in the store at URL: how it ended, what was lost, the goodput. (Provisional.)

    Reads the journals in the store, and asks no other service. Of each job it shows the newest run, unless told
    otherwise. With --json one task is an object, several are a list of such objects.

    \b
    Goodput is the share of the billed time (the life of all processes) in
    which steps were computed that nobody has to do again. The rest:
      start     from the start of a process to its first step
      restore   reading the checkpoint
      stall     the training waited for a save
      lost      steps that were done again, or have to be
    Between attempts nothing is billed; that time is shown as waiting.

    \b
    Example: outlast status /mnt/checkpoints

    Exit codes: 0 all is well, 1 a journal or a claim is damaged, 75 the storage does not answer, 78 URL is not a store.
    """
    store, places = places_of(all_runs=all_runs, **which)
    found = [history_of(store, place) for place in places]
    if as_json:
        rows = [_row(one) for one in found]
        click.echo(json.dumps(rows[0] if len(rows) == 1 else rows, indent=2, allow_nan=False))
    elif found:
        for one in found:
            _print(one)
    else:
        click.echo("no attempts")
    sys.exit(SOME_BAD if any(one.problems for one in found) else 0)


# --- as JSON ----------------------------------------------------------------------------------------


def _row(task: TaskHistory) -> dict[str, Any]:
    return {
        "job": task.place.job,
        "run": task.place.run,
        "task": task.place.index,
        "state": task.state,
        "attempts": [_attempt_row(one) for one in task.attempts],
        "steps_done": task.steps_done,
        "steps_total": task.steps_total,
        "epochs_total": task.epochs_total,
        "goodput": None if task.goodput is None else round(task.goodput, 6),
        "lost_seconds": round(task.lost_seconds, 3),
        "billed_seconds": round(task.billed_seconds, 3),
        "waiting_seconds": round(task.waiting_seconds, 3),
        "buckets": _rounded(task.buckets),
        "preemptions": task.preemptions,
        "failures": task.failures,
        "problems": [*task.problems, *task.remarks],
    }


def _attempt_row(one: AttemptHistory) -> dict[str, Any]:
    return {
        "number": one.number,
        "started_at": _moment(one.started_at),
        "ended_at": _moment(one.ended_at),
        "ended_by": one.ended_by,
        "why": one.why,
        "exit_code": one.exit_code,
        "resumed_from": one.resumed_from,
        "steps": one.steps,
        "saves": one.saves,
        "failed_saves": one.failed_saves,
        "notice": None if one.notice is None else asdict(one.notice),
        "lost_steps": one.lost_steps,
        "lost_seconds": round(one.lost_seconds, 3),
        "seconds": round(one.seconds, 3),
        "waited_seconds": round(one.waited_seconds, 3),
        "buckets": _rounded(one.buckets),
        "restore_seconds": one.restore_seconds,
        "restore_bytes": one.restore_bytes,
        "first_step_seconds": one.first_step_seconds,
        "final_save_seconds": one.final_save_seconds,
        "final_save_fitted": one.fitted,
        "plans": [asdict(plan) for plan in one.plans],
        "drift": list(one.drift),
        "host": one.host,
        "execution": one.execution,
        "platform_attempt": one.platform_attempt,
    }


def _rounded(buckets: Buckets) -> dict[str, float]:
    return {name: round(seconds, 3) for name, seconds in asdict(buckets).items()}


def _moment(wall_seconds: float | None) -> str | None:
    return None if wall_seconds is None else iso_utc(min(max(0.0, wall_seconds), LATEST_WALL_SECONDS))


# --- for people -------------------------------------------------------------------------------------


def _print(task: TaskHistory) -> None:
    """A head line, the attempts, where the time went, and what could not be read."""
    click.echo(printable(f"{task.place.job} / {task.place.run} / task {task.place.index}: {_head(task)}"))
    table = Table(box=box.SIMPLE_HEAD)
    for number in ("attempt", "from step", "steps", "lost", "saves"):
        table.add_column(number, justify="right")
    wide = table_width() >= _WIDE_COLUMNS
    for text in ("started (UTC)", "lasted", "ended by", "why") if wide else ("lasted", "ended by"):
        table.add_column(text, overflow="fold")
    for one in task.attempts:
        ended = (format_duration(one.seconds), one.ended_by)
        table.add_row(
            str(one.number),
            "?" if one.resumed_from is None and not one.steps else str(one.resumed_from or 0),
            str(one.steps),
            str(one.lost_steps),
            f"{one.saves}" + (f" ({one.failed_saves} failed)" if one.failed_saves else ""),
            *((_started(one), *ended, _why(one)) if wide else ended),
        )
    print_table(table)
    for one in () if wide else task.attempts:
        click.echo(f"attempt {one.number}, {_started(one)}: {_why(one) or one.ended_by}")
    for line in _below(task):
        click.echo(printable(line))
    click.echo()


def _started(one: AttemptHistory) -> str:
    return (_moment(one.started_at) or "?")[:19]


def _why(one: AttemptHistory) -> str:
    return printable(one.why, longest=_LONGEST_WHY).replace("\n", " ")


def _head(task: TaskHistory) -> str:
    of = f" of {task.steps_total}" if task.steps_total is not None else ""
    done = f", {task.steps_done}{of} steps done" if task.steps_done is not None else ""
    attempts = "1 attempt" if len(task.attempts) == 1 else f"{len(task.attempts)} attempts"
    return f"{task.state}{done}, {attempts}"


def _below(task: TaskHistory) -> Iterator[str]:
    if task.goodput is not None:
        parts = task.buckets
        shares = [
            f"compute {_share(parts.compute, task)}",
            f"start {_share(parts.start, task)}",
            f"restore {_share(parts.restore, task)}",
            f"stall {_share(parts.save_stall, task)}",
            f"lost {_share(parts.lost_work, task)}",
        ]
        yield f"goodput {task.goodput:.1%} of {format_duration(task.billed_seconds)} billed: {', '.join(shares)}"
    if task.waiting_seconds:
        yield f"waiting between attempts, not billed: {format_duration(task.waiting_seconds)}"
    if task.preemptions or task.failures:
        yield f"preemptions {task.preemptions}, failures {task.failures}"
    for one in task.attempts:
        if one.notice is not None:
            yield f"attempt {one.number}: {_notice_words(one)}"
        if one.drift:
            yield f"attempt {one.number}: since its checkpoint, {in_one_line(one.drift)}"
    for problem in (*task.problems, *task.remarks):
        yield f"passed over: {problem}"


def _share(seconds: float, task: TaskHistory) -> str:
    return f"{format_duration(seconds)} ({seconds / task.billed_seconds:.1%})"


def _notice_words(one: AttemptHistory) -> str:
    """The notice, what was planned, and whether the final save was in time."""
    notice = one.notice
    assert notice is not None
    words = [f"{notice.source} after {format_duration(notice.at)}, {format_duration(notice.grace_seconds)} of grace"]
    for plan in one.plans[-1:]:  # a plan that is sure of itself begins with what it chose
        words.append(f"planned: {plan.why if plan.why.startswith(plan.choice) else f'{plan.choice} ({plan.why})'}")
    if one.final_save_seconds is not None:
        words.append(f"last save {format_duration(one.final_save_seconds)}")
    if one.fitted is False:
        words.append(f"the last state was not saved in time, {one.lost_steps} steps lost")
    return "; ".join(words)
