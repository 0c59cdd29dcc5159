"""`outlast queue`: what a queue holds, which items are dead and why, and another try for them."""

import json
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from itertools import islice
from typing import Any

import click
from rich import box
from rich.table import Table

from outlast.cli.lazy_group import ToldGroup
from outlast.cli.progress import CTRL_C, Look, Rate
from outlast.cli.stores import print_table
from outlast.clock import format_duration
from outlast.console import printable
from outlast.errors import SettingsError
from outlast.items import ItemState, Queue, QueueStats, State
from outlast.registry import open_queue
from outlast.urls import masked

_STATES: tuple[State, ...] = ("ready", "leased", "done", "dead")
_SHOWN = 100
_NAMED = 20
_MOST_LOOKED_THROUGH = 1_000_000  # in some seconds
_LONGEST_REASON = 200
_WATCH_SECONDS = 2.0
_RATE_WINDOW_SECONDS = 60.0


@click.group(cls=ToldGroup)
def queue() -> None:
    """Look after a queue of items. (Provisional.)

    Exit codes: 0 all is well, 75 the queue does not answer, 78 QUEUE is no queue.
    """


_json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


@queue.command()
@click.argument("queue", metavar="QUEUE")
@click.option("--watch", is_flag=True, help="Go on showing, with rate and time left, until nothing is left.")
@_json_option
def show(*, queue: str, watch: bool, as_json: bool) -> None:
    """Count the items of QUEUE by state. (Provisional.)

    \b
    ready    waits for a worker (or for its next try)
    leased   is in a worker's hands, or was in those of one that died just now
    done     has its result in the sink
    dead     has used up its tries; `outlast queue dead` says why
    oldest   how long ago the oldest that is neither done nor dead was published
    A queue that cannot know a figure shows "?", and null with --json.

    \b
    Example:
      outlast queue show sqlite:///work.db
    """
    with _opened(queue) as port:
        if not watch:
            _show(port, port.stats(), as_json=as_json)
            return
        try:
            _watch(port, as_json=as_json)
        except KeyboardInterrupt:
            sys.exit(CTRL_C)


@queue.command()
@click.argument("queue", metavar="QUEUE")
@_json_option
def dead(*, queue: str, as_json: bool) -> None:
    """List the items of QUEUE that are dead, and why. (Provisional.)

    With --json all of them, with the whole reason and the payload; without, the first 100 and each reason's last line.

    \b
    Example:
      outlast queue dead sqlite:///work.db
    """
    with _opened(queue) as port:
        found = port.items("dead")
        if as_json:
            _print_list(
                {
                    "id": one.id,
                    "reason": one.reason,
                    "errors": one.errors,
                    "deaths": one.deaths,
                    "payload": _payload(one),
                }
                for one in found
            )
        else:
            _print_dead(list(islice(found, _SHOWN)), sum(1 for _ in found))


@queue.command()
@click.argument("queue", metavar="QUEUE")
@click.argument("ids", metavar="[ID]...", nargs=-1)
@click.option("--done", is_flag=True, help="Those that are done, not those that are dead.")
@_json_option
def retry(*, queue: str, ids: tuple[str, ...], done: bool, as_json: bool) -> None:
    """Make dead items of QUEUE ready again: those with an ID that is given, else all. (Provisional.)

    All their counts begin at 0 again. An item that is done is computed again only if its sink holds no result of the
    worker's version.

    \b
    Example:
      outlast queue retry sqlite:///work.db
    """
    wanted = list(dict.fromkeys(ids)) or None
    state: Any = "done" if done else "dead"
    with _opened(queue) as port:
        count = port.retry(wanted, state=state)
        if as_json:
            click.echo(json.dumps({"retried": count}))
            return
        if count:
            click.echo(f"{_items(count)} ready again")
        else:
            which = "none of those named" if wanted else "none"
            click.echo(f"no item is ready again: {f'{which} is {state}' if _holds(port) else _never(port)}")
        if wanted and count < len(wanted) and _holds(port):
            click.echo(f"of those named, {_others(port, wanted, count, state)}")


@queue.command()
@click.argument("queue", metavar="QUEUE")
@click.option("--state", type=click.Choice(_STATES), help="Only items in this state.")
def export(*, queue: str, state: State | None) -> None:
    """Print every item of QUEUE with its state, as JSON lines, the oldest first. (Provisional.)

    \b
    Example:
      outlast queue export sqlite:///work.db > items.jsonl
    """
    with _opened(queue) as port:
        for one in port.items(state):
            # Written directly: click.echo would flush each of millions of lines.
            sys.stdout.write(json.dumps({**asdict(one), "payload": _payload(one)}) + "\n")
        sys.stdout.flush()


@contextmanager
def _opened(url: str) -> Iterator[Queue]:
    port = open_queue(url)
    try:
        yield port
    finally:
        port.close()


def _others(port: Queue, wanted: list[str], retried: int, state: State) -> str:
    """What became of those that were named and not made ready again."""
    left = len(wanted) - retried
    if _holds(port) > _MOST_LOOKED_THROUGH:
        return f"not {state}, or not there: {left:,}"
    missing = dict.fromkeys(wanted)
    for item in port.items():
        missing.pop(item.id, None)
        if not missing:
            break
    said = []
    if missing:
        more = f" and {len(missing) - _NAMED:,} more" if len(missing) > _NAMED else ""
        said.append(f"not there: {', '.join(printable(one) for one in islice(missing, _NAMED))}{more}")
    if left > len(missing):
        said.append(f"not {state}: {left - len(missing):,}")
    return "; ".join(said)


def _holds(port: Queue) -> int:
    """How many items there are, of which a queue knows."""
    return sum(count or 0 for count in _counts(port.stats()))


def _never(port: Queue) -> str:
    """Said with where the queue was looked for: a mistyped file has nothing, either."""
    return f"nothing was ever published to this queue ({masked(port.url)})"


# --- counts ---------------------------------------------------------------------------------------------


def _show(port: Queue, stats: QueueStats, *, as_json: bool, rate: Rate | None = None) -> None:
    if as_json:
        click.echo(json.dumps(asdict(stats)))
        return
    counts = _counts(stats)
    said = "  ".join(f"{state} {_count(count)}" for state, count in zip(_STATES, counts, strict=True))
    click.echo(said + _after(stats, rate))
    if not any(counts) and None not in counts:
        click.echo(_never(port))


def _counts(stats: QueueStats) -> list[int | None]:
    return [getattr(stats, state) for state in _STATES]


def _after(stats: QueueStats, rate: Rate | None) -> str:
    words = []
    if stats.oldest_seconds is not None:
        words.append(f"oldest {format_duration(stats.oldest_seconds)}")
    if rate is not None and rate.items_per_second is not None:
        words.append(rate.words())
    return "".join(f"  {word}" for word in words)


def _count(number: int | None) -> str:
    return "?" if number is None else f"{number:,}"


def _items(number: int) -> str:
    return "1 item is" if number == 1 else f"{number:,} items are"


def look_at(stats: QueueStats) -> Look | None:
    """How far the workers of a queue are, all together; None where the queue does not know."""
    counts = (stats.ready, stats.leased, stats.done, stats.dead)
    known = [count for count in counts if count is not None]
    if len(known) < len(counts) or not sum(known):
        return None
    _, leased, done, gone = known
    more = [f"{leased:,} in work"] if leased else []
    more += [f"{gone:,} dead"] if gone else []
    return Look(done, (done + gone) / sum(known), ", ".join(more))


def _watch(port: Queue, *, as_json: bool) -> None:
    if not port.traits.counts:
        raise SettingsError(f"queue={masked(port.url)!r} does not know its counts, so there is nothing to watch")
    rate = Rate(_RATE_WINDOW_SECONDS)
    while True:
        began = time.monotonic()
        stats = port.stats()
        look = look_at(stats)
        if look is not None:
            rate.note(look, began)
        _show(port, stats, as_json=as_json, rate=None if look is None else rate)
        if stats.left == 0:
            return
        time.sleep(_WATCH_SECONDS)


# --- items ----------------------------------------------------------------------------------------------


def _payload(one: ItemState) -> Any:
    """The payload as JSON; as text where somebody else has published what is none."""
    try:
        return json.loads(one.payload)
    except ValueError:
        return one.payload


def _print_list(rows: Iterator[dict[str, Any]]) -> None:
    """A JSON list, written as it comes."""
    number = 0
    for number, row in enumerate(rows, start=1):
        sys.stdout.write(f"{'[' if number == 1 else ','}\n  {json.dumps(row)}")
    sys.stdout.write("\n]\n" if number else "[]\n")
    sys.stdout.flush()


def _print_dead(found: list[ItemState], more: int) -> None:
    if not found:
        click.echo("no item is dead")
        return
    table = Table(box=box.SIMPLE_HEAD)
    table.add_column("id", overflow="fold")
    for number in ("errors", "deaths"):
        table.add_column(number, justify="right")
    table.add_column("why", overflow="fold")
    for one in found:
        table.add_row(printable(one.id), _count(one.errors), _count(one.deaths), _last_line(one.reason))
    print_table(table)
    click.echo(f"{_items(len(found) + more)} dead" + (f"; {more:,} of them are not shown, --json does" if more else ""))


def _last_line(reason: str | None) -> str:
    lines = (reason or "").strip().splitlines()
    return printable(lines[-1].strip() if lines else "", longest=_LONGEST_REASON)
