"""What a file of results holds and where, in a small SQLite file beside it: derived, and made anew when it is lost."""

import os
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from outlast.errors import SettingsError, SinkUnreachable
from outlast.sinks.result_lines import Head
from outlast.sqlite_files import SqliteFile, rows_of

_FORMAT = 1
_TABLES = {
    "results": "(id TEXT NOT NULL PRIMARY KEY, start INTEGER NOT NULL, bytes INTEGER NOT NULL, version TEXT, "
    "claim INTEGER NOT NULL) WITHOUT ROWID",
    "superseded": "(start INTEGER PRIMARY KEY, bytes INTEGER NOT NULL)",
    "covers": "(inode INTEGER NOT NULL, bytes INTEGER NOT NULL, digest TEXT NOT NULL, blank INTEGER NOT NULL)",
}


class IndexUnusable(Exception):
    """The index is damaged, or of another content than the file's; it must be made anew."""


@dataclass(frozen=True, slots=True)
class Range:
    """Bytes of the file."""

    start: int
    bytes: int


@dataclass(frozen=True, slots=True)
class Entry:
    """Where the line of a result is, newline included."""

    head: Head
    place: Range


@dataclass(frozen=True, slots=True)
class Cover:
    """What of which file is in the index: its first bytes, up to `bytes`; the digest is of the last of them.

    `blank`: how many of them are blanks in the place of replaced lines.
    """

    inode: int
    bytes: int
    digest: str
    blank: int


class JsonlIndex:
    """The index, for whoever holds the lock of the file that it is of; reading needs no lock.

    Raises IndexUnusable where the file of that name is damaged, or no index, and SinkUnreachable as a disk may demand.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self._file = SqliteFile(path, setting="sink", unreachable=SinkUnreachable)
        self._inode: int | None = None  # of the index itself

    def is_open(self) -> bool:
        """Whether it is open, and still the file of its name."""
        return self._inode is not None and self._inode == _inode_of(self._path)

    def open(self) -> None:
        """Opens it, and makes it where there is none. For the holder of the lock."""
        if self.is_open():
            return
        self._file.close()
        with self._reading() as connection:
            version = connection.execute("PRAGMA user_version").fetchone()[0]
            tables = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
        if version != _FORMAT and (version or tables):
            raise IndexUnusable
        if version != _FORMAT:
            with self._writing(durable=True) as connection:
                _make_tables(connection)
                connection.execute(f"PRAGMA user_version = {_FORMAT}")
        self._inode = _inode_of(self._path)

    def start_over(self) -> str:
        """Puts what is there aside and begins a new one; returns where the old one is. For the holder of the lock."""
        self._file.close()
        self._inode, place = None, f"{self._path}.damaged"
        with _unreachable(self._path):
            os.replace(self._path, place)
            for suffix in ("-wal", "-shm"):
                with suppress(FileNotFoundError):
                    os.unlink(self._path + suffix)
        self.open()
        return place

    def cover(self) -> Cover | None:
        with self._reading() as connection:
            row = connection.execute("SELECT inode, bytes, digest, blank FROM covers").fetchone()
        return Cover(*row) if row else None

    def superseded(self) -> list[Range]:
        """Lines that are replaced and must become blanks; all of them are when there is none."""
        with self._reading() as connection:
            return [Range(*row) for row in connection.execute("SELECT start, bytes FROM superseded")]

    def entries(self, ids: Sequence[str]) -> dict[str, Entry]:
        """Where the results of these ids are; ids without one are left out."""
        with self._reading() as connection:
            rows = rows_of(connection, ids, columns="id, version, claim, start, bytes", table="results")
            return {row[0]: _entry(row) for row in rows}

    def page(self, after: str, most: int) -> list[Entry]:
        """The next entries in the order of ids."""
        select = "SELECT id, version, claim, start, bytes FROM results WHERE id > ? ORDER BY id LIMIT ?"
        with self._reading() as connection:
            return [_entry(row) for row in connection.execute(select, (after, most))]

    def add(self, entries: Sequence[Entry], replaced: Sequence[Range], cover: Cover) -> None:
        """Adds or replaces entries, together with what is covered then and what must become blanks."""
        rows = [(one.head.id, one.place.start, one.place.bytes, one.head.version, one.head.claim) for one in entries]
        # Bytes are overwritten next: a power cut must not leave an index that knows nothing of that.
        with self._writing(durable=bool(replaced)) as connection:
            connection.executemany("INSERT OR REPLACE INTO results VALUES (?, ?, ?, ?, ?)", rows)
            connection.executemany("INSERT INTO superseded VALUES (?, ?)", [(one.start, one.bytes) for one in replaced])
            _set_cover(connection, cover)

    def blanked(self, cover: Cover) -> None:
        """What was superseded is blanks now."""
        with self._writing(durable=False) as connection:
            connection.execute("DELETE FROM superseded")
            _set_cover(connection, cover)

    def clear(self, cover: Cover) -> None:
        """Forgets everything but a cover of nothing."""
        with self._writing(durable=False) as connection:
            for table in _TABLES:
                connection.execute(f"DROP TABLE {table}")
            _make_tables(connection)
            _set_cover(connection, cover)

    def close(self) -> None:
        self._file.close()
        self._inode = None

    @contextmanager
    def _reading(self) -> Iterator[sqlite3.Connection]:
        with _telling_damage(), self._file.reading() as connection:
            yield connection

    @contextmanager
    def _writing(self, *, durable: bool) -> Iterator[sqlite3.Connection]:
        with _telling_damage(), self._file.writing(durable=durable) as connection:
            yield connection


@contextmanager
def _telling_damage() -> Iterator[None]:
    try:
        yield
    except SettingsError as error:
        if isinstance(error.__cause__, sqlite3.DatabaseError):
            raise IndexUnusable from error
        raise


def _make_tables(connection: sqlite3.Connection) -> None:
    for table, columns in _TABLES.items():
        connection.execute(f"CREATE TABLE {table} {columns}")


def _entry(row: tuple[str, str | None, int, int, int]) -> Entry:
    return Entry(Head(row[0], row[1], row[2]), Range(row[3], row[4]))


def _set_cover(connection: sqlite3.Connection, cover: Cover) -> None:
    connection.execute("DELETE FROM covers")
    values = (cover.inode, cover.bytes, cover.digest, cover.blank)
    connection.execute("INSERT INTO covers VALUES (?, ?, ?, ?)", values)


def _inode_of(path: str) -> int | None:
    try:
        return os.stat(path).st_ino
    except FileNotFoundError:
        return None


@contextmanager
def _unreachable(path: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise SinkUnreachable(f"sink: {path}: {error.strerror or error}") from error
