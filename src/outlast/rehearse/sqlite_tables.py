"""What a SQLite database holds: its tables and their rows, without what SQLite keeps there for itself."""

import sqlite3
from collections.abc import Iterator

MAGIC = b"SQLite format 3\0"  # how such a file begins (sqlite.org/fileformat)


def tables_of(database: sqlite3.Connection) -> Iterator[tuple[str, str, list[str]]]:
    """Each table's name, the statement that made it, and its rows as texts, in the order in which they lie there.

    Raises sqlite3.Error for a file that is damaged.
    """
    select = "SELECT name, sql FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite~_%' ESCAPE '~'"
    for name, made in database.execute(f"{select} ORDER BY name").fetchall():
        quoted = '"' + name.replace('"', '""') + '"'
        rows = [repr(row) for row in database.execute(f"SELECT * FROM {quoted}")]  # noqa: S608 - a quoted name
        yield name, made, rows
