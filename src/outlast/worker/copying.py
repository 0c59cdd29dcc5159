"""Copying: the results of one sink go to another, of whatever kind, where a worker then finds them."""

import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from outlast.items import Result, Sink
from outlast.sqlite_files import path_and_options

FEW_ITEMS = 100_000  # more than a sink for thousands is good for
_MOST_RESULTS = 1000  # stored at a time
_MOST_CHARACTERS = 8 << 20


def copy_results(source: Sink, target: Sink, *, warn: Callable[[str], None]) -> Counter[str | None]:
    """Stores every result of `source` in `target`, as many at a time as memory surely holds; how many of each version.

    Where the target has a result of an id under a later claim, that one stays. To copy again is safe, also after a
    death in the middle. The target is made ready once the source can be read, also where that has no results, so that
    a mistake in it shows. `warn` is told of more results than it is good for. Raises SettingsError or SinkUnreachable;
    what was stored before it stays.
    """
    versions: Counter[str | None] = Counter()
    warned = False
    for number, piece in enumerate(_pieces(source.results())):
        if number == 0:
            target.prepare()
        target.store(piece)
        versions.update(one.version for one in piece)
        if target.traits.few and not warned and versions.total() > FEW_ITEMS:
            warned = True
            warn(too_many(versions.total()))
    return versions


def too_many(results: int) -> str:
    """What is said of a sink for few results that gets many."""
    return f"{results} results as an object each are slow to make and to read; parquet:FOLDER is for so many"


def same_place(one: str, other: str) -> bool:
    """Whether two URLs of sinks name one place of this machine, or are the same text."""
    return _place(one) == _place(other)


def _place(url: str) -> tuple[str, ...]:
    kind, colon, rest = url.partition(":")
    if not colon:
        return "", os.path.realpath(url)
    if kind == "sqlite":
        path, options = path_and_options(url, setting="sink", known=frozenset({"table"}))
        return kind, os.path.realpath(path), options.get("table", "results").lower()  # the sink's default
    if rest.startswith("//") or "://" in rest:
        return (url.rstrip("/"),)
    return kind, os.path.realpath(Path(rest).expanduser())


def _pieces(results: Iterable[Result]) -> Iterator[list[Result]]:
    """All of them; none at all is one empty piece."""
    piece: list[Result] = []
    held = number = 0
    for one in results:
        piece.append(one)
        held += len(one.value)
        if len(piece) >= _MOST_RESULTS or held >= _MOST_CHARACTERS:
            yield piece
            number, piece, held = number + 1, [], 0
    if piece or not number:
        yield piece
