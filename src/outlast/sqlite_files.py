"""SQLite files that many processes write: found by URL, opened with care, one short transaction at a time."""

import os
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any
from urllib.parse import parse_qsl

from outlast.errors import ExitingError, SettingsError
from outlast.mounts import file_system_of
from outlast.sqlite_errors import for_a_human, for_a_retry, is_a_statements

# Write-ahead logging keeps an index in shared memory, which works on one machine only, and on these file systems not
# even there (SQLite's documentation, Write-Ahead Logging, section 1, 2026-11-30).
_NO_SHARED_MEMORY = (
    "nfs",
    "cifs",
    "smb",
    "9p",
    "fuse",
    "ceph",
    "glusterfs",
    "lustre",
    "gpfs",
    "beegfs",
    "afs",
    "ocfs2",
)
_LOCAL_FUSE = ("fuseblk", "fuse.fuse-overlayfs", "fuse.ntfs", "fuse.exfat", "fuse.lxcfs")
_OLDEST = (3, 35, 0)  # has RETURNING
_BUSY_SECONDS = 30.0
_PATIENCE_SECONDS = 120.0
_CACHE_KIB = 64 << 10
_COMMITS_PER_LOOK = 32
_LONG_LOG_BYTES = 64 << 20
_LOG_WAIT_MILLISECONDS = 200
_PROBE = 500  # of the 32,766 parameters that a statement may have


def path_and_options(url: str, *, setting: str, known: frozenset[str] = frozenset()) -> tuple[str, dict[str, str]]:
    """(absolute path, options) of ``sqlite:///relative.db`` or ``sqlite:////absolute.db``, as SQLAlchemy writes them.

    Raises SettingsError for another shape or an option that is not `known`.
    """
    rest = url.partition("://")[2]
    place, _, query = rest.partition("?")
    if not place.startswith("/") or place == "/":
        raise SettingsError(
            f"{setting}={url!r} names no file: write sqlite:///relative.db (three slashes) or "
            "sqlite:////absolute.db (four)"
        )
    options = dict(parse_qsl(query, keep_blank_values=True))
    strange = sorted(set(options) - known)
    if strange:
        there = f"; there is {', '.join(sorted(known))}" if known else ""
        raise SettingsError(f"{setting}={url!r}: option {strange[0]!r} is not known{there}")
    return os.path.abspath(os.path.expanduser(place[1:])), options


def refuse_places_without_shared_memory(path: str, *, setting: str) -> None:
    """Raises SettingsError for a path on a file system where SQLite's write-ahead log does not work."""
    kind = file_system_of(path) or ""
    if kind.startswith(_NO_SHARED_MEMORY) and kind not in _LOCAL_FUSE:
        raise SettingsError(
            f"{setting}={path!r} is on {kind}, where SQLite's write-ahead log does not work: nothing "
            "was written. Take a folder on a local disk, or postgresql:// for several machines"
        )


def rows_of(connection: sqlite3.Connection, ids: Sequence[str], *, columns: str, table: str) -> Iterator[Any]:
    """The rows of a table whose `id` is among these, by its index; `columns` and `table` are SQL, already quoted."""
    for start in range(0, len(ids), _PROBE):
        some = ids[start : start + _PROBE]
        # As parameters: JSON in their stead would cut texts at a NUL.
        yield from connection.execute(
            f"SELECT {columns} FROM {table} WHERE id IN ({','.join('?' * len(some))})",  # noqa: S608 - see above
            some,
        )


class SqliteFile:
    """One SQLite file, from several threads; a forked child opens it anew.

    `unreachable` is raised where the file cannot be read or written, `setting` names what led here.
    """

    def __init__(self, path: str, *, setting: str, unreachable: type[ExitingError]) -> None:
        self.path = path
        self._setting, self._unreachable = setting, unreachable
        self._lock = threading.RLock()
        self._connection: sqlite3.Connection | None = None
        self._commits = 0
        self._owner, self._durable = os.getpid(), True  # which is how SQLite opens it
        self._place: tuple[int, int] | None = None  # device and inode of what is open
        self._left: list[sqlite3.Connection | None] = []  # a parent's: closing it here would drop its locks

    @property
    def name(self) -> str:
        """The same for all URLs of this file."""
        return f"sqlite:{os.path.realpath(self.path)}"

    @property
    def files(self) -> frozenset[str]:
        """The real paths of the file and of what SQLite keeps beside it, whether they are there or not."""
        return frozenset(os.path.realpath(self.path) + end for end in ("", "-wal", "-shm", "-journal"))

    @property
    def exists(self) -> bool:
        return os.path.exists(self.path)

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """The connection, for statements that only read."""
        with self._lock, self._translating():
            yield self._opened()

    @contextmanager
    def writing(self, *, durable: bool) -> Iterator[sqlite3.Connection]:
        """A transaction: committed at the end, rolled back at an exception.

        Without `durable` a power cut (not a kill) may undo it, together with all that came after it in this file.
        """
        with self._lock, self._translating():
            connection = self._opened()
            if connection.in_transaction:  # Ctrl-C has left one open: it can come between any two steps
                connection.execute("ROLLBACK")
            if durable != self._durable:
                connection.execute(f"PRAGMA synchronous={'FULL' if durable else 'NORMAL'}")
                self._durable = durable
            try:
                _begin(connection)
                yield connection
                connection.execute("COMMIT")
            except BaseException:
                with suppress(sqlite3.Error):  # SQLite has rolled back by itself
                    connection.execute("ROLLBACK")
                raise
            self._shorten_log(connection)

    def _shorten_log(self, connection: sqlite3.Connection) -> None:
        """Cuts a long write-ahead log: among many busy processes SQLite by itself never finds the moment for it.

        Its own checkpoints wait for nobody, and the log begins anew only when no reader needs it
        (SQLite's documentation, Write-Ahead Logging, on checkpoint starvation; 2026-11-30).
        """
        self._commits += 1
        if self._commits % _COMMITS_PER_LOOK:
            return
        with suppress(OSError, sqlite3.OperationalError):  # somebody else does it; the log is looked at again
            if os.stat(f"{self.path}-wal").st_size <= _LONG_LOG_BYTES:
                return
            connection.execute(f"PRAGMA busy_timeout={_LOG_WAIT_MILLISECONDS}")  # a reader may be frozen
            try:
                connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            finally:
                connection.execute(f"PRAGMA busy_timeout={int(1000 * _BUSY_SECONDS)}")

    def close(self) -> None:
        with self._lock:
            if self._connection is not None and self._owner == os.getpid():
                self._connection.close()
                self._connection = self._place = None

    def _opened(self) -> sqlite3.Connection:
        if self._owner != os.getpid():
            self._left.append(self._connection)
            self._connection, self._owner = None, os.getpid()
        if self._place is None:
            self._connection = self._open()
        elif self._place_now() != self._place:
            raise self._unreachable(
                f"{self._setting}={self.path!r} was deleted or replaced while it was in use; what is written to the "
                "deleted file would be lost, so nothing is"
            )
        if self._connection is None:  # a forked child
            self._connection = self._open()
        return self._connection

    def _place_now(self) -> tuple[int, int] | None:
        try:
            found = os.stat(self.path)
        except FileNotFoundError:
            return None
        return found.st_dev, found.st_ino

    def _open(self) -> sqlite3.Connection:
        if sqlite3.sqlite_version_info < _OLDEST:
            raise SettingsError(
                f"{self._setting}={self.path!r}: this Python has SQLite {sqlite3.sqlite_version}, and "
                f"{'.'.join(map(str, _OLDEST))} is needed; take a newer Python, or postgresql://"
            )
        refuse_places_without_shared_memory(self.path, setting=self._setting)
        if self.exists and not os.path.isfile(self.path):  # a retry finds it there, too
            raise SettingsError(
                f"{self._setting}={self.path!r}: it is there and no regular file (a folder, as containers make of "
                "a file that is to be mounted and is not there; a device; a pipe): name a file; nothing was changed"
            )
        os.makedirs(os.path.dirname(self.path), exist_ok=True)
        connection = sqlite3.connect(self.path, timeout=_BUSY_SECONDS, isolation_level=None, check_same_thread=False)
        try:
            _patiently(lambda: connection.execute("PRAGMA journal_mode=WAL"))
            connection.execute(f"PRAGMA cache_size=-{_CACHE_KIB}")
            connection.execute("PRAGMA synchronous=FULL")
            self._durable, self._place = True, self._place_now()
        except BaseException:
            connection.close()
            raise
        return connection

    @contextmanager
    def _translating(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.DatabaseError as error:
            human = for_a_human(error)
            if human is not None:
                raise SettingsError(f"{self._setting}={self.path!r}: {human}") from error
            if not isinstance(error, sqlite3.OperationalError) or is_a_statements(error):
                raise
            raise self._unreachable(f"{self._setting}={self.path!r}: {for_a_retry(error)}") from error
        except OSError as error:
            raise self._unreachable(f"{self._setting}={self.path!r}: {for_a_retry(error)}") from error


def _begin(connection: sqlite3.Connection) -> None:
    """At once for writing: a transaction that begins by reading fails at its first write when somebody came between."""
    _patiently(lambda: connection.execute("BEGIN IMMEDIATE"))


def _patiently(statement: Callable[[], object]) -> None:
    """Runs it until the file is not locked; SQLite gives up after its busy timeout, and at once in some cases."""
    until = time.monotonic() + _PATIENCE_SECONDS
    while True:
        try:
            statement()
        except sqlite3.OperationalError as error:
            code = getattr(error, "sqlite_errorcode", 0) & 0xFF
            if code not in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED) or time.monotonic() > until:
                raise
            time.sleep(0.01)
        else:
            return
