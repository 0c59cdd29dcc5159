"""`outlast checkpoints`: list, show and verify what a store holds; prune and export are in care.py."""

import json
import sys
from collections.abc import Iterator, Sequence
from typing import Any

import click
from rich import box
from rich.table import Table

from outlast.checkpoint.read import open_checkpoint
from outlast.checkpoint.record import CommitRecord, LeafPlace
from outlast.checkpoint.survey import Surveyed, survey
from outlast.cli.care import export, prune
from outlast.cli.lazy_group import ToldGroup
from outlast.cli.stores import SOME_BAD, chosen_checkpoint, places_of, print_table, store_options
from outlast.registry import open_store


@click.group(cls=ToldGroup)
def checkpoints() -> None:
    """Look after a store of checkpoints.

    Exit codes: 0 all is well, 1 a checkpoint is bad, 75 the storage does not answer, 78 URL is not a store.
    """


checkpoints.add_command(prune)
checkpoints.add_command(export)


@checkpoints.command("list")
@click.option("--quick", is_flag=True, help="Read the records only, not the data; `verified` is then null.")
@store_options
def list_(*, quick: bool, as_json: bool, **which: Any) -> None:
    """List the checkpoints of the store at URL, each read and verified."""
    found = list(_surveyed(verify=not quick, **which))
    if as_json:
        click.echo(json.dumps([_row(one) for one in found], indent=2))
    elif found:
        _print_table(found)
    else:
        click.echo("no checkpoints")
    sys.exit(_exit_code(found))


@checkpoints.command()
@store_options
def verify(*, as_json: bool, **which: Any) -> None:
    """Read every byte of every checkpoint of the store at URL; exit 1 if one is bad."""
    found = list(_surveyed(verify=True, **which))
    if as_json:
        click.echo(json.dumps([_row(one) for one in found], indent=2))
    else:
        for one in found:
            said = "good" if one.verified else "superseded" if one.standing == "superseded" else "BAD "
            click.echo(f"{said} {one.path}{': ' + one.problem if one.problem else ''}")
        click.echo(f"{sum(bool(one.verified) for one in found)} of {len(found)} checkpoints verify")
    sys.exit(_exit_code(found))


@checkpoints.command()
@click.option("--step", type=int, help="The step (default: the newest that counts).")
@store_options
def show(*, step: int | None, as_json: bool, **which: Any) -> None:
    """Show what one checkpoint of the store at URL holds."""
    chosen = chosen_checkpoint(step=step, **which)
    with open_checkpoint(open_store(which["url"]), chosen.path) as opened:
        leaves, record = opened.leaves, opened.record
    if as_json:
        click.echo(json.dumps({**_row(chosen), "leaves": [_leaf_row(leaf) for leaf in leaves]}, indent=2))
    else:
        _print_leaves(chosen, record, leaves)


def _surveyed(*, verify: bool, **which: Any) -> Iterator[Surveyed]:
    store, places = places_of(**which)
    for place in places:
        yield from survey(store, place, verify=verify)


def _exit_code(found: list[Surveyed]) -> int:
    """A superseded attempt's checkpoint does not count, whole or not."""
    bad = [one for one in found if one.verified is False and one.standing != "superseded"]
    return SOME_BAD if bad else 0


def _row(one: Surveyed) -> dict[str, Any]:
    record = one.record
    return {
        "step": one.name.step,
        "attempt": one.name.attempt,
        "bytes": record and record.total_bytes,
        "bytes_written": record and record.written_bytes,
        "seconds": record and record.seconds,
        "saved_at": record and record.saved_at,
        "verified": one.verified,
        "path": one.path,
        "job": one.place.job,
        "run": one.place.run,
        "task": one.place.index,
        "standing": one.standing,
        "pinned": record and record.pinned,
        "metrics": record and dict(record.metrics),
        "problem": one.problem,
    }


def _leaf_row(leaf: LeafPlace) -> dict[str, Any]:
    return {
        "name": leaf.name,
        "framework": leaf.spec.framework,
        "dtype": leaf.spec.dtype,
        "shape": list(leaf.spec.shape),
        "bytes": leaf.bytes,
    }


def _print_table(found: list[Surveyed]) -> None:
    table = Table(box=box.SIMPLE_HEAD)
    table.add_column("job / run / task")
    for number in ("step", "attempt", "MB", "seconds"):
        table.add_column(number, justify="right")
    for text in ("saved at (UTC)", "verified", "standing"):
        table.add_column(text)
    for one in found:
        record = one.record
        table.add_row(
            f"{one.place.job} / {one.place.run} / {one.place.index}",
            str(one.name.step),
            str(one.name.attempt),
            f"{record.total_bytes / 1e6:.2f}" if record else "?",
            f"{record.seconds:.3f}" if record else "?",
            record.saved_at[:19] if record else "?",
            {True: "yes", False: "NO", None: "not checked"}[one.verified],
            one.standing + (", pinned" if record and record.pinned else ""),
        )
    print_table(table)
    for one in found:
        if one.problem:
            click.echo(f"bad: {one.path}: {one.problem}")


def _print_leaves(one: Surveyed, record: CommitRecord, leaves: Sequence[LeafPlace]) -> None:
    click.echo(f"{one.path}: step {record.step}, attempt {record.attempt}, saved {record.saved_at}, {one.standing}")
    for name, value in record.metrics.items():
        click.echo(f"  {name} = {value}")
    table = Table(box=box.SIMPLE_HEAD)
    for heading in ("leaf", "dtype", "shape", "bytes"):
        table.add_column(heading, justify="right" if heading == "bytes" else "left", overflow="fold")
    for leaf in leaves:
        table.add_row(leaf.name, leaf.spec.dtype, str(list(leaf.spec.shape)), str(leaf.bytes))
    print_table(table)
