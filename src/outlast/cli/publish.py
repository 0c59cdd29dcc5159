"""`outlast publish`: puts the rows of files into a queue as items."""

import json
import os
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain, islice
from types import TracebackType
from typing import IO, Any, cast

import click

from outlast.cli.progress import CTRL_C, Look, progress
from outlast.console import printable
from outlast.errors import ExitingError
from outlast.item_files.folders import LeftOut
from outlast.item_files.sources import FORMATS, Source, find_sources
from outlast.items import InFiles, Queue
from outlast.registry import open_queue
from outlast.settings import console_for
from outlast.worker.publishing import Published, Row, publish_rows

SOME_REJECTED = 1
_SHOWN = 20
_LONGEST_REASON = 300
_BATCHES = 20  # after so many what was rejected is put down, so that memory does not grow with it
_RATE_WINDOW_SECONDS = 30.0
_LINE_SECONDS = 30.0
_MOST_KEPT_BYTES = 1 << 20  # in memory: not every container has a place for temporary files


@click.command()
@click.argument("queue", metavar="QUEUE")
@click.argument("files", metavar="FILE...", nargs=-1, required=True)
@click.option(
    "--format", "form", type=click.Choice(FORMATS), help="Of all FILEs; without it, each name's ending tells."
)
@click.option("--id", "id_column", metavar="COLUMN", default="id", show_default=True, help="Where a row has its id.")
@click.option("--glob", "patterns", metavar="PATTERN", multiple=True, help="Of folders, only such files; repeatable.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object, with every row that was rejected.")
def publish(
    *,
    queue: str,
    files: tuple[str, ...],
    form: str | None,
    id_column: str,
    patterns: tuple[str, ...],
    as_json: bool,
) -> None:
    """Publish the rows of FILEs as items of QUEUE. (Provisional.)

    Each id is published once, however often you run this: what is there already is counted and left alone, so a
    publish that was cut short is simply run again. A row whose id is there with another payload is rejected.

    \b
    csv, tsv  a header and rows; every value is text, written as it stands there
    jsonl     a JSON object on each line (.jsonl, .ndjson)
    txt       an id on each line; the payload is {"id": id}
    parquet   rows of columns (pip install 'outlast[parquet]')

    A row is the payload of its item. Its id is the text in COLUMN; whole numbers become their decimal digits. Text
    may be in gzip (.csv.gz).

    \b
    FILE may also be
      -                    standard input, with --format
      'parts/*.jsonl'      a pattern, which outlast expands
      gs://BUCKET/F.csv    an object in a bucket, also s3:// and az://; its last part may
                           be a pattern
      images/              a folder: each file in it is an item with its path below the
                           folder as id, and the payload {"path": the whole path};
                           --glob '*.png' chooses; hidden names and QUEUE's own file
                           are left out

    \b
    Example:
      outlast publish sqlite:///work.db rows.csv --id image

    Exit codes: 0 all is published, 1 rows were rejected (each is named; the others are published), 75 a queue or
    storage does not answer, 78 a FILE cannot be read or QUEUE is no queue.
    """
    port = open_queue(queue)
    try:
        left_out = LeftOut()
        own = port.files if isinstance(port, InFiles) else frozenset()
        sources = find_sources(files, format=form, patterns=patterns, own=own, left_out=left_out)
        with Tally() as tally:
            _publish_all(port, sources, id_column, tally)
            if said := left_out.told:
                console_for(os.environ).info(f"left out: {said}")
            tally.report(as_json=as_json)
            sys.exit(SOME_REJECTED if tally.rejected else 0)
    finally:
        port.close()


def _kept_rows() -> IO[str]:
    return cast(IO[str], tempfile.SpooledTemporaryFile(_MOST_KEPT_BYTES, "w+", encoding="utf-8"))


@dataclass(slots=True)
class Tally:
    """What became of rows so far. If many were rejected, these are kept in a temporary file."""

    rows: int = 0
    new: int = 0
    already: int = 0
    rejected: int = 0
    _kept: IO[str] = field(default_factory=_kept_rows)

    def __enter__(self) -> "Tally":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._kept.close()

    def counted(self, rows: Iterator[Row]) -> Iterator[Row]:
        """The rows, counted as they pass."""
        for row in rows:
            self.rows += 1
            yield row

    def add(self, done: Published, file: str) -> None:
        """Adds what became of rows of a file."""
        self.new += done.new
        self.already += done.already
        self.rejected += len(done.rejected)
        for one in done.rejected:
            row = {"file": file, "id": one.id, "line": one.line, "reason": one.reason}
            self._kept.write(json.dumps(row) + "\n")

    def report(self, *, as_json: bool) -> None:
        """Prints it, with the rows that were rejected: all of them as JSON, the first few for people."""
        self._kept.seek(0)
        if as_json:
            click.echo(f'{{"new": {self.new}, "already": {self.already}, "rejected": [', nl=False)
            for number, line in enumerate(self._kept):
                click.echo(f"{',' if number else ''}\n  {line.rstrip()}", nl=False)
            click.echo("\n]}" if self.rejected else "]}")
            return
        click.echo(f"{self.new:,} new, {self.already:,} already there, {self.rejected:,} rejected")
        for line in islice(self._kept, _SHOWN):
            click.echo(f"rejected: {_in_words(json.loads(line))}")
        if self.rejected > _SHOWN:
            click.echo(f"and {self.rejected - _SHOWN:,} more; --json names all")


def _in_words(one: dict[str, Any]) -> str:
    place = one["file"] if one["line"] is None else f"{one['file']} line {one['line']}"
    who = "" if one["id"] is None else f", id {one['id']!r}"
    return printable(f"{place}{who}: {one['reason']}", longest=_LONGEST_REASON).replace("\n", " ")


def _publish_all(port: Queue, sources: Sequence[Source], id_column: str, tally: Tally) -> None:
    """Publishes file by file, so that each reason names its file."""
    try:
        with progress(
            "publishing",
            lambda: _look(sources, tally),
            window_seconds=_RATE_WINDOW_SECONDS,
            line_seconds=_LINE_SECONDS,
        ):
            for source in sources:
                rows = tally.counted(source.rows(id_column))
                while (first := next(rows, None)) is not None:
                    piece = islice(rows, _BATCHES * port.traits.publish_batch - 1)
                    tally.add(publish_rows(port, chain([first], piece)), source.shown)
    except (ExitingError, KeyboardInterrupt) as error:
        if tally.rows:
            stays = "what was published stays" if tally.new else "none of them was new so far"
            console_for(os.environ).warning(
                f"cut short, with {tally.rows:,} rows looked at; {stays}, so run it again to go on"
            )
        if isinstance(error, KeyboardInterrupt):
            sys.exit(CTRL_C)
        raise


def _look(sources: Sequence[Source], tally: Tally) -> Look:
    sizes = [source.meter.bytes for source in sources]
    total = sum(size or 0 for size in sizes)
    if None in sizes or not total:
        return Look(tally.rows)
    return Look(tally.rows, min(1.0, sum(source.meter.done_bytes for source in sources) / total))
