"""What the commands that look after a store share: their options, choosing tasks and checkpoints, tables."""

import os
import sys
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any

import click
from rich.console import Console as RichConsole
from rich.table import Table

from outlast.checkpoint.places import TaskPlace
from outlast.checkpoint.runs import check_store
from outlast.checkpoint.survey import Surveyed, survey, tasks_in
from outlast.console import Console
from outlast.errors import SettingsError
from outlast.ports import Store
from outlast.registry import open_store

SOME_BAD = 1


def store_options(command: Callable[..., None]) -> Callable[..., None]:
    """Adds URL, --job, --run, --task and --json; the first four go to `places_of`."""

    @click.argument("url")
    @click.option("--job", help="Only this job.")
    @click.option("--run", help="Only this run (default: the newest of each job).")
    @click.option("--task", type=int, help="Only this task.")
    @click.option("--json", "as_json", is_flag=True, help="Print JSON.")
    @wraps(command)
    def with_options(**options: Any) -> None:
        command(**options)

    return with_options


def places_of(
    *, url: str, job: str | None, run: str | None, task: int | None, all_runs: bool = False
) -> tuple[Store, list[TaskPlace]]:
    """A store, and those of its tasks that the options choose; raises SettingsError where there is none."""
    if "://" not in url and not Path(url).is_dir():
        raise SettingsError(f"there is no store at {url!r}: no such folder")
    store = open_store(url)
    check_store(store)
    places = tasks_in(store, all_runs=all_runs or run is not None)
    wanted = [
        place
        for place in places
        if job in (None, place.job) and run in (None, place.run) and task in (None, place.index)
    ]
    if places and not wanted:
        there = ", ".join(place.folder for place in places)
        raise SettingsError(f"there is no such job, run or task in {url!r}; there are: {there}")
    return store, wanted


def chosen_checkpoint(*, step: int | None, **which: Any) -> Surveyed:
    """The checkpoint of a step, else the newest that counts; says so and leaves with 1 where there is none."""
    store, places = places_of(**which)
    if len(places) > 1:
        there = ", ".join(place.folder for place in places)
        raise SettingsError(f"there are several tasks in {which['url']!r}: {there}; choose with --job, --run, --task")
    every = [one for place in places for one in survey(store, place, verify=False)]
    known = [one for one in every if one.standing == "counted" or step is not None]
    found = [one for one in known if step is None or one.name.step == step]
    if not found:
        there = ", ".join(str(one.name.step) for one in known) or "none"
        Console().error(f"there is no checkpoint{'' if step is None else f' of step {step}'}; there are: {there}")
        sys.exit(SOME_BAD)
    # Of several at one step, one that counts: a superseded attempt may have written there, too, and later.
    return max(enumerate(found), key=lambda one: (one[1].standing == "counted", one[0]))[1]


def print_table(table: Table) -> None:
    """Prints a table; wide where nobody looks at a terminal."""
    RichConsole(width=table_width(), markup=False).print(table)


def table_width() -> int:
    """The columns that a table has."""
    return RichConsole().width if sys.stdout.isatty() else int(os.environ.get("COLUMNS", "140"))
