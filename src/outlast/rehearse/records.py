"""Results that are lists of records (lines of text, rows of a database): which are there too often, which not at all.

Where items are worked on one by one, that says what went wrong better than the first place that differs does.
"""

import sqlite3
from collections import Counter
from contextlib import closing
from pathlib import Path

from outlast.rehearse.sqlite_tables import MAGIC, tables_of

_MOST_BYTES = 64 << 20
_MOST_SHOWN = 60
_AGAIN = "what is computed again after an interruption must replace its result, not be added to it: an upsert by id"
_LOST = "what is marked as done before its result is stored is lost when a kill comes between: store first"


def explain_records(expected: Path, actual: Path) -> str | None:
    """Why two lists of records differ, if it is records too many or too few, or their order, and no more; else None."""
    ours, theirs = _records(expected), _records(actual)
    if ours is None or theirs is None or len(ours) < 2:
        return None
    more, fewer = theirs - ours, ours - theirs
    if not more and not fewer:
        return f"the same {ours.total()} records in another order: what was interrupted comes later"
    if more and not fewer and all(record in ours for record in more):
        return f"{_first(more, 'too many, which are there already')}; {_AGAIN}"
    if fewer and not more:
        return f"{_first(fewer, 'missing')}; {_LOST}"
    if fewer and more and all(record in ours for record in more):
        return f"{_first(fewer, 'missing')}, and {_first(more, 'too many, which are there already')}; {_LOST}"
    return None


def _first(records: Counter[str], what: str) -> str:
    record, count = next(iter(records)), records.total()
    shown = record if len(record) <= _MOST_SHOWN else f"{record[: _MOST_SHOWN - 1]}…"
    return f"{count} record{'s' * (count != 1)} {'is' if count == 1 else 'are'} {what}, the first of them {shown}"


def _records(path: Path) -> Counter[str] | None:
    if not path.is_file() or path.stat().st_size > _MOST_BYTES:
        return None
    with path.open("rb") as file:
        if file.read(len(MAGIC)) == MAGIC:
            return _rows(path)
    try:
        return Counter(line for line in path.read_text().splitlines() if line.strip())
    except UnicodeDecodeError:
        return None


def _rows(path: Path) -> Counter[str] | None:
    found: Counter[str] = Counter()
    try:
        with closing(sqlite3.connect(path)) as database:
            for name, _, rows in tables_of(database):
                found.update(f"{row} of table {name}" for row in rows)
    except sqlite3.Error:
        return None
    return found
