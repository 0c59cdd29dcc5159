"""`outlast sink`: joins the parts in which results have gathered."""

import json

import click

from outlast.errors import SettingsError
from outlast.items import CompactableSink
from outlast.registry import open_sink
from outlast.urls import masked


@click.group()
def sink() -> None:
    """Look after a sink of results. (Provisional.)

    Exit codes: 0 all is well, 75 the sink does not answer, 78 URL is no sink, or one that has no parts to join.
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
