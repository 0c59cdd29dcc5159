"""`outlast sink`: joins the parts in which results have gathered, and copies results to another sink."""

import json
import os
from collections import Counter
from contextlib import ExitStack, closing

import click

from outlast.cli.lazy_group import ToldGroup
from outlast.console import printable
from outlast.errors import SettingsError
from outlast.items import CompactableSink
from outlast.registry import open_sink
from outlast.settings import console_for
from outlast.urls import masked
from outlast.worker.copying import copy_results, same_place

_MOST_VERSIONS = 10  # that people are shown


@click.group(cls=ToldGroup)
def sink() -> None:
    """Look after a sink of results. (Provisional.)

    Exit codes: 0 all is well, 75 the sink does not answer, 78 URL is no sink, or one that has no parts to join,
    or lacks what is to be copied.
    """


@sink.command()
@click.argument("url", metavar="URL")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def compact(*, url: str, as_json: bool) -> None:
    """Join the parts of the sink at URL into few, with one result per id. (Provisional.)

    It may be killed at any moment, and run again.

    \b
    Example:
      outlast sink compact parquet:results
    """
    place = open_sink(url)
    try:
        if not isinstance(place, CompactableSink):
            raise SettingsError(
                f"sink={masked(url)!r} holds one result per id at all times; there is nothing to compact"
            )
        count = place.compact()
    finally:
        place.close()
    click.echo(json.dumps({"results": count}) if as_json else f"{count:,} results, one per id")


@sink.command()
@click.argument("source", metavar="FROM")
@click.argument("target", metavar="TO")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def copy(*, source: str, target: str, as_json: bool) -> None:
    """Copy the results of the sink FROM to the sink TO, which may be of another kind. (Provisional.)

    A worker on TO then finds them, and computes none of them again at the same version. Where TO has a result of an id
    under a later claim, that one stays. The copy may be killed at any moment, and run again.

    \b
    Example:
      outlast sink copy 'sqlite:///results.db?table=labels' 'sqlite:///other.db?table=labels'
    """
    if same_place(source, target):
        raise SettingsError(f"FROM {masked(source)!r} and TO {masked(target)!r} are the same; nothing was copied")
    with ExitStack() as stack:
        read, written = (stack.enter_context(closing(open_sink(url))) for url in (source, target))
        versions = copy_results(read, written, warn=console_for(os.environ).warning)
    if as_json:
        named = [{"version": version, "results": count} for version, count in versions.most_common()]
        click.echo(json.dumps({"copied": versions.total(), "versions": named}))
    else:
        click.echo(printable(_told(versions)))


def _told(versions: Counter[str | None]) -> str:
    each = [
        f"{count:,} {'without a version' if version is None else f'of version {version}'}"
        for version, count in versions.most_common(_MOST_VERSIONS)
    ]
    if len(versions) > _MOST_VERSIONS:
        each.append(f"and {len(versions) - _MOST_VERSIONS:,} more versions")
    return f"{versions.total():,} results copied{': ' if each else ''}{', '.join(each)}"
