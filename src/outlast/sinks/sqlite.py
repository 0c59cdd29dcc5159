"""Results in a table of a SQLite file."""

import re
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from outlast.errors import SettingsError, SinkUnreachable
from outlast.items import LeasedItem, Result, SinkTraits, Stored
from outlast.paging import FIRST_ROWS, rows_to_read
from outlast.sqlite_files import SqliteFile, path_and_options, rows_of

_DEFAULT_TABLE = "results"
_COLUMNS = ("id", "value", "version", "claim")
_IS_OWN = re.compile("(?i)sqlite_|outlast_")  # SQLite's, or the queue's
_MOST_NAMES = 20


class SqliteSink:
    """``sqlite:///results.db?table=labels`` as an items.Sink; the table is `results` unless the URL names one.

    Stored in the transaction of a queue in the same file, or else durable by itself before the queue's ack.
    """

    def __init__(self, url: str) -> None:
        path, options = path_and_options(url, setting="sink", known=frozenset({"table"}))
        self._url = url
        self._name = options.get("table", _DEFAULT_TABLE)
        self._table = _quoted(self._name, url)
        self._file = SqliteFile(path, setting="sink", unreachable=SinkUnreachable)
        self._upsert = (
            f"INSERT INTO {self._table} (id, value, version, claim) VALUES (?, ?, ?, ?) "
            "ON CONFLICT (id) DO UPDATE SET value = excluded.value, version = excluded.version, claim = excluded.claim "
            f"WHERE excluded.claim >= {self._table}.claim"
        )

    @property
    def url(self) -> str:
        return self._url

    @property
    def traits(self) -> SinkTraits:
        return SinkTraits()

    @property
    def database(self) -> str:
        return self._file.name

    def prepare(self) -> None:
        with self._file.writing(durable=True) as connection:
            connection.execute(
                f"CREATE TABLE IF NOT EXISTS {self._table} (id TEXT NOT NULL PRIMARY KEY, value TEXT NOT NULL, "
                "version TEXT, claim INTEGER NOT NULL DEFAULT 0)"
            )
            found = connection.execute(f"PRAGMA table_info({self._table})").fetchall()
        lacks = _lacks(found)
        if lacks:
            raise SettingsError(
                f"sink={self._url!r}: table {self._table} is there and cannot keep results: {'; '.join(lacks)}. "
                "Nothing was changed; name another table (?table=NAME)"
            )

    def known(self, items: Sequence[LeasedItem]) -> Mapping[str, Stored]:
        ids = [item.id for item in items]
        with self._file.reading() as connection:
            rows = rows_of(connection, ids, columns="id, version, claim", table=self._table)
            return {name: Stored(version, claim) for name, version, claim in rows}

    def store(self, results: Sequence[Result], *, connection: object | None = None) -> None:
        rows = [(one.id, one.value, one.version, one.claim) for one in results]
        if isinstance(connection, sqlite3.Connection):
            connection.executemany(self._upsert, rows)
            return
        with self._file.writing(durable=True) as own:
            own.executemany(self._upsert, rows)

    def results(self) -> Iterator[Result]:
        if not self._file.exists:  # to look for it makes no file
            raise SettingsError(f"sink={self._url!r}: there is no file {self._file.path}")
        self._refuse_no_table()
        last, most = "", FIRST_ROWS
        select = f"SELECT id, value, version, claim FROM {self._table} WHERE id > ? ORDER BY id LIMIT ?"
        while True:
            with self._file.reading() as connection:
                page = [Result(*row) for row in connection.execute(select, (last, most))]
            yield from page
            if len(page) < most:
                return
            last, most = page[-1].id, rows_to_read(most, sum(len(one.value) for one in page))

    def _refuse_no_table(self) -> None:
        with self._file.reading() as connection:
            tables = connection.execute("SELECT name FROM sqlite_master WHERE type IN ('table', 'view') ORDER BY name")
            names = [name for (name,) in tables if not _IS_OWN.match(name)]
        if self._name.lower() not in (name.lower() for name in names):
            there = f"there is {', '.join(names[:_MOST_NAMES])}" if names else "the file has no table of results"
            raise SettingsError(f"sink={self._url!r}: there is no table {self._name} (?table=); {there}")

    def close(self) -> None:
        self._file.close()


def _lacks(columns: Sequence[tuple[Any, ...]]) -> list[str]:
    """What a table lacks to be a sink's, of the rows of `PRAGMA table_info`."""
    keys = [name for _, name, _, _, _, place in columns if place]
    missing = set(_COLUMNS) - {column[1] for column in columns}
    lacks = [f"it has no column {name}" for name in _COLUMNS if name in missing]
    if keys != ["id"] and "id" not in missing:
        lacks.append(f"its primary key is {', '.join(keys) or 'nothing'}, not id")
    lacks += [
        f"column {name} must be given and has no default"
        for _, name, _, must_be_given, default, _ in columns
        if must_be_given and default is None and name not in _COLUMNS
    ]
    return lacks


def _quoted(table: str, url: str) -> str:
    """The table as an SQL name; raises SettingsError for none, and for SQLite's and the queue's own."""
    if not table or "\0" in table or _IS_OWN.match(table):
        raise SettingsError(f"sink={url!r}: table={table!r} is not a table's name that a sink can have")
    return '"' + table.replace('"', '""') + '"'
