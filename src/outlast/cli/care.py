"""`outlast checkpoints prune` and `export`: delete what need not be kept, take one out as a plain file."""

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click
from rich.console import Console as RichConsole
from rich.progress import Progress

from outlast.checkpoint.export import export_file
from outlast.checkpoint.prune import Pruned
from outlast.checkpoint.prune import prune as prune_task
from outlast.checkpoint.retain import Keep
from outlast.checkpoint.survey import task_bytes
from outlast.cli.stores import SOME_BAD, chosen_checkpoint, places_of, store_options
from outlast.errors import BadObject, CheckpointCorrupt, SettingsError
from outlast.registry import open_store


@click.command()
@click.option("--keep", type=int, default=3, show_default=True, help="Keep the newest so many that verify.")
@click.option("--every", type=int, help="Also keep each whose step is a multiple of this.")
@click.option("--best", metavar="METRIC", help="Also keep the one with the lowest METRIC of job.log.")
@click.option("--highest", is_flag=True, help="With --best: the highest instead.")
@click.option("--set-aside", is_flag=True, help="Also delete what a rollback set aside.")
@click.option("--yes", is_flag=True, help="Delete; without it, only say what would be deleted.")
@store_options
def prune(
    *,
    keep: int,
    every: int | None,
    best: str | None,
    highest: bool,
    set_aside: bool,
    yes: bool,
    as_json: bool,
    **which: Any,
) -> None:
    """Delete checkpoints of the store at URL that need not be kept, and data that belongs to none.

    Pinned ones are kept, bad ones named and left. A job that is running is not disturbed. Exit 1 if one is bad.
    """
    policy = Keep(last=keep, every=every, best=best, highest=highest)
    store, places = places_of(**which)
    found: list[Pruned] = []
    freed = 0
    with _bar("pruning", total=len(places)) as advance:
        for number, place in enumerate(places):
            before = task_bytes(store, place)
            found += prune_task(store, place, policy, set_aside=set_aside, apply=yes)
            freed += before - task_bytes(store, place)
            advance(number + 1, len(places))
    if as_json:
        click.echo(json.dumps({"applied": yes, "freed_bytes": freed, "checkpoints": [asdict(one) for one in found]}))
    else:
        for one in found:
            click.echo(f"{one.verdict}: {one.path}{f' ({one.reason})' if one.reason else ''}")
        click.echo(f"{freed / 1e6:.1f} MB freed" if yes else "nothing was deleted; --yes does it")
    sys.exit(SOME_BAD if any(one.verdict == "bad" for one in found) else 0)


@click.command()
@store_options
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
@click.option("--step", type=int, help="The step (default: the newest that counts).")
@click.option("--part", help="Only this part of the state, its tensors named as in its state_dict.")
@click.option("--force", is_flag=True, help="Replace FILE if it is there.")
def export(*, file: Path, step: int | None, part: str | None, force: bool, as_json: bool, **which: Any) -> None:
    """Write the tensors of one checkpoint of the store at URL to FILE, a plain safetensors file."""
    if file.exists() and not force:
        raise SettingsError(f"{file} is there already; --force replaces it")
    chosen = chosen_checkpoint(step=step, **which)
    try:
        with _bar("exporting", total=1) as advance:
            tensors = export_file(open_store(which["url"]), chosen.path, file, part=part, progress=advance)
    except BadObject as error:
        raise CheckpointCorrupt(
            f"{error}. Nothing was written; `outlast checkpoints list` says which ones verify, and --step takes one"
        ) from error
    except OSError as error:
        raise SettingsError(f"{file} cannot be written: {error.strerror or error}") from error
    if as_json:
        click.echo(json.dumps({"file": str(file), "step": chosen.name.step, "tensors": tensors}))
    else:
        click.echo(f"{file}: {tensors} tensors of step {chosen.name.step}, {file.stat().st_size / 1e6:.1f} MB")


@contextmanager
def _bar(what: str, *, total: int) -> Iterator[Callable[[int, int], None]]:
    """A progress bar where somebody looks at a terminal; the step takes what is done, and of how much."""
    with Progress(console=RichConsole(stderr=True), disable=not sys.stderr.isatty(), transient=True) as progress:
        task = progress.add_task(what, total=total)
        yield lambda done, of: progress.update(task, completed=done, total=of)
