"""What is stored already, on disk: an index of ids with version and claim, which goes with the process."""

import os
import sqlite3
import tempfile
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import chain
from typing import Any

from outlast.errors import ObjectMissing, SinkUnreachable
from outlast.items import LeasedItem, Result, Stored
from outlast.ports import Store
from outlast.sinks.parquet_layout import Compaction, Part, PartSet, newest_compaction, parts_in
from outlast.sinks.parquet_merge import merged
from outlast.sinks.parquet_rows import KEYS, tables_of_files, tables_of_parts
from outlast.sqlite_files import rows_of

_CACHE_KIB = 16384
_NEW_VIEWS = 10  # how often a compaction may come between
_UPSERT = (
    "INSERT INTO stored (id, version, claim) VALUES (?, ?, ?) ON CONFLICT (id) DO UPDATE SET "
    "version = excluded.version, claim = excluded.claim WHERE excluded.claim >= stored.claim"
)


class StoredIndex:
    """The ids in a sink, as of a moment and with what was added since.

    A private temporary database of SQLite: it is written to the disk where it outgrows its cache, has no name there,
    and is gone with the process, however that ends. Some 60 bytes per result. Methods may be called from several
    threads.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._lock, self._pid = threading.Lock(), os.getpid()
        self._database: sqlite3.Connection | None = None
        self._compaction = Compaction()
        self._seen = PartSet()  # parts whose rows are in here, apart from those that the compaction holds

    def build(self) -> None:
        """Reads all ids, which come sorted, so that the index only grows at its end."""
        with self._alone():
            self._build()

    def refresh(self) -> None:
        """Adds what others have stored since."""
        with self._alone():
            for _ in range(_NEW_VIEWS):
                if self._database is None:
                    break
                parts = parts_in(self._store)
                now, _numbers = newest_compaction(self._store)
                if now.number != self._compaction.number:
                    if not self._knows_all_of(now):
                        break
                    self._compaction = now
                try:
                    self._add_parts([part for part in parts if not self._has(part)])
                except ObjectMissing:
                    continue  # a compaction has just joined it
                return
            self._build()

    def add(self, part: Part, results: Sequence[Result]) -> None:
        """Notes what this process has stored."""
        with self._alone():
            if self._database is not None:
                self._upsert((one.id, one.version, one.claim) for one in results)
                self._seen.add(*part.key)

    def find(self, items: Sequence[LeasedItem]) -> dict[str, Stored]:
        """What is known of each; builds the index if nobody has."""
        with self._alone():
            if self._database is None:
                self._build()
            assert self._database is not None
            ids = [item.id for item in items]
            rows = rows_of(self._database, ids, columns="id, version, claim", table="stored")
            return {name: Stored(version, claim) for name, version, claim in rows}

    def close(self) -> None:
        with self._lock:
            self._drop()

    @contextmanager
    def _alone(self) -> Iterator[None]:
        with self._lock:
            if self._pid != os.getpid():  # a forked child: the database is its parent's
                self._database, self._pid = None, os.getpid()
            try:
                yield
            except sqlite3.Error as error:
                self._drop()  # whatever is in it now, the parts are what counts
                raise SinkUnreachable(
                    f"cannot keep the index of what {self._store.url} holds in a temporary folder "
                    f"({tempfile.gettempdir()}, or what SQLITE_TMPDIR names): {error}; no result is lost"
                ) from error

    def _build(self) -> None:
        compaction, parts, rows = sorted_rows(self._store, KEYS)
        self._drop()
        database = sqlite3.connect("", isolation_level=None, check_same_thread=False)
        for setting in (f"cache_size = -{_CACHE_KIB}", "journal_mode = OFF", "synchronous = OFF"):
            database.execute(f"PRAGMA {setting}")
        database.execute("CREATE TABLE stored (id TEXT PRIMARY KEY, version TEXT, claim INTEGER) WITHOUT ROWID")
        database.execute("BEGIN")
        for table in rows:
            columns = [table[name].to_pylist() for name in KEYS]
            database.executemany("INSERT INTO stored VALUES (?, ?, ?)", zip(*columns, strict=True))
        database.execute("COMMIT")
        self._database, self._compaction, self._seen = database, compaction, parts

    def _drop(self) -> None:
        if self._database is not None:
            self._database.close()
        self._database = None

    def _has(self, part: Part) -> bool:
        return part.key in self._seen or part.key in self._compaction.holds

    def _knows_all_of(self, compaction: Compaction) -> bool:
        known = self._compaction.holds.copy()
        known.update(self._seen)
        return known.covers(compaction.holds)

    def _add_parts(self, parts: Sequence[Part]) -> None:
        for part, table in tables_of_parts(self._store, parts, KEYS):
            if table is not None:
                self._upsert(zip(*(table[name].to_pylist() for name in KEYS), strict=True))
                self._seen.add(*part.key)

    def _upsert(self, rows: Iterable[tuple[str, str | None, int]]) -> None:
        assert self._database is not None
        self._database.execute("BEGIN")
        self._database.executemany(_UPSERT, rows)
        self._database.execute("COMMIT")


def sorted_rows(store: Store, columns: Sequence[str]) -> tuple[Compaction, PartSet, Iterator[Any]]:
    """All rows that count, one per id and sorted: as of which compaction, with which parts besides, and their tables.

    Looks anew when a compaction comes between. One that ends while the last tables are read can take the files away:
    ObjectMissing, then.
    """
    for _ in range(_NEW_VIEWS):
        # In this order: a part that goes between the two is held by the compaction.
        parts = parts_in(store)
        compaction, _numbers = newest_compaction(store)
        joining = PartSet()
        waiting = [part for part in parts if part.key not in compaction.holds]
        files = tables_of_files(store, [file.name for file in compaction.files], columns)
        rows = merged(files, whole_parts(store, waiting, joining, columns)) if waiting else files
        try:
            first = next(rows, None)
        except ObjectMissing as error:
            missing = error
            continue
        return compaction, joining, rows if first is None else chain([first], rows)
    raise SinkUnreachable(f"{missing}, however often {store.url} was looked at anew; nothing was changed")


def whole_parts(store: Store, parts: Sequence[Part], found: PartSet, columns: Sequence[str]) -> Iterator[Any]:
    """The rows of the parts that no death has cut short; `found` gets these parts."""
    for part, table in tables_of_parts(store, parts, columns):
        if table is not None:
            found.add(*part.key)
            yield table
