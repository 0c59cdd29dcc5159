"""SQLite files that many processes use: the write-ahead log stays short though somebody always reads."""

import errno
import os
import sqlite3
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from outlast import sqlite_files
from outlast.errors import QueueUnreachable, SettingsError
from outlast.sqlite_files import SqliteFile

_WRITES, _BYTES = 128, 256 << 10


def test_the_log_stays_short_though_one_reader_begins_before_another_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SQLite's own checkpoints wait for nobody, and so never begin the log anew then."""
    monkeypatch.setattr(sqlite_files, "_LONG_LOG_BYTES", 4 << 20)
    path, ended = tmp_path / "work.db", threading.Event()
    file = SqliteFile(str(path), setting="queue", unreachable=QueueUnreachable)
    with file.writing(durable=False) as connection:
        connection.execute("CREATE TABLE t (x BLOB)")

    def read() -> None:
        reader = sqlite3.connect(path, isolation_level=None, timeout=30.0)
        while not ended.is_set():
            reader.execute("BEGIN")
            reader.execute("SELECT count(*) FROM t").fetchall()
            time.sleep(0.005)
            reader.execute("COMMIT")
        reader.close()

    readers = [threading.Thread(target=read) for _ in range(4)]
    for reader in readers:
        reader.start()
    for _ in range(_WRITES):
        with file.writing(durable=False) as connection:
            connection.execute("INSERT INTO t VALUES (zeroblob(?))", (_BYTES,))
    log = (tmp_path / "work.db-wal").stat().st_size
    ended.set()
    for reader in readers:
        reader.join()
    file.close()
    assert log < _WRITES * _BYTES / 2


# Each makes a file at the path, or near it, and breaks it.
_Breaks = Callable[[Path, ExitStack], SqliteFile]


def _file(path: Path) -> SqliteFile:
    return SqliteFile(str(path), setting="queue", unreachable=QueueUnreachable)


def _used(path: Path, *statements: str) -> SqliteFile:
    """A file that is open and has a table of 20 rows, and then does what the statements say."""
    file = _file(path)
    with file.writing(durable=True) as connection:
        connection.execute("CREATE TABLE t (x BLOB)")
        connection.executemany("INSERT INTO t VALUES (zeroblob(3000))", [()] * 20)
    with file.reading() as connection:
        for statement in statements:
            connection.execute(statement)
    return file


def _does(*statements: str) -> _Breaks:
    return lambda path, _: _used(path, *statements)


def _folder(path: Path, _: ExitStack) -> SqliteFile:
    path.mkdir()
    return _file(path)


def _pipe(path: Path, _: ExitStack) -> SqliteFile:
    os.mkfifo(path)
    return _file(path)


def _through_a_file(path: Path, _: ExitStack) -> SqliteFile:
    path.write_text("")
    return _file(path / "more.db")


def _notes(path: Path, _: ExitStack) -> SqliteFile:
    path.write_text("these are my notes " * 100)
    return _file(path)


def _locked(path: Path, ends: ExitStack) -> SqliteFile:
    ends.enter_context(pytest.MonkeyPatch.context()).setattr(sqlite_files, "_PATIENCE_SECONDS", 0.0)
    file = _used(path, "PRAGMA busy_timeout=10")
    ends.enter_context(closing(sqlite3.connect(path, isolation_level=None))).execute("BEGIN IMMEDIATE")
    return file


def _damaged(path: Path, _: ExitStack) -> SqliteFile:
    file = _used(path)
    file.close()
    content = bytearray(path.read_bytes())
    content[4096 : 4096 + 200] = b"\xff" * 200
    path.write_bytes(content)
    return file


def _fails_to_open(error: Exception) -> _Breaks:
    def broken(path: Path, ends: ExitStack) -> SqliteFile:
        def fail(*_: object) -> None:
            raise error

        ends.enter_context(pytest.MonkeyPatch.context()).setattr(SqliteFile, "_open", fail)
        return _file(path)

    return broken


def _unwilling() -> sqlite3.OperationalError:
    error = sqlite3.OperationalError("disk I/O error")
    error.sqlite_errorcode = sqlite3.SQLITE_IOERR_SHMMAP  # as with an extended code of SQLite's own
    return error


_CASES: dict[str, tuple[_Breaks, type[Exception], str]] = {
    "a full disk": (_does("PRAGMA max_page_count=20"), QueueUnreachable, "is full: make room"),
    "read-only": (_does("PRAGMA query_only=1"), QueueUnreachable, "readonly database: this user may not write it"),
    "a folder": (_folder, SettingsError, "is there and no regular file"),
    "a pipe": (_pipe, SettingsError, "is there and no regular file"),
    "locked": (_locked, QueueUnreachable, "is locked: another program holds it"),
    "no SQLite file": (_notes, SettingsError, "it is no SQLite file"),
    "damaged": (_damaged, SettingsError, r"it is damaged: keep a copy .* \.recover"),
    "another program's": (_does("DROP TABLE t"), SettingsError, "it lacks what is asked for: tables were dropped"),
    "another column": (
        _does("ALTER TABLE t RENAME COLUMN x TO y"),
        SettingsError,
        "it lacks what is asked for: tables were dropped",
    ),
    "a trigger": (
        _does("CREATE TRIGGER no BEFORE INSERT ON t BEGIN SELECT RAISE(ABORT, 'no'); END"),
        SettingsError,
        "it does not take what is to be written",
    ),
    "an unwilling disk": (
        _fails_to_open(_unwilling()),
        QueueUnreachable,
        "disk I/O error: the disk, or a network mount",
    ),
    "a path through a file": (_through_a_file, QueueUnreachable, "a part of its path is a file"),
    "rights": (
        _fails_to_open(PermissionError(errno.EACCES, "Permission denied")),
        QueueUnreachable,
        "Permission denied: this user may not",
    ),
}


def _use(file: SqliteFile) -> None:
    with file.writing(durable=True) as connection:
        assert connection.execute("SELECT sum(length(x)) FROM t").fetchone() == (60_000,)
        connection.execute("INSERT INTO t VALUES (zeroblob(90000))")


@pytest.mark.parametrize("case", _CASES)
def test_what_is_wrong_with_a_file_is_said_with_what_to_do(case: str, tmp_path: Path) -> None:
    breaks, error, says = _CASES[case]
    with ExitStack() as ends:
        file = breaks(tmp_path / "work.db", ends)
        ends.callback(file.close)
        with pytest.raises(error, match=says) as caught:
            _use(file)
    assert str(caught.value).startswith(f"queue='{file.path}': ")


@pytest.mark.parametrize("mistake", ["SELEC 1", "SELECT no_such_function(1)"])
def test_a_mistake_of_our_own_is_not_taken_for_one_of_the_user(mistake: str, tmp_path: Path) -> None:
    file = _used(tmp_path / "work.db")
    with pytest.raises(sqlite3.OperationalError, match=r"syntax error|no such function"), file.reading() as connection:
        connection.execute(mistake)
    file.close()


@pytest.mark.parametrize("rolled_back", [True, False])
def test_ctrl_c_at_the_begin_of_a_transaction_leaves_none_open(
    rolled_back: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would hold the file for as long as the process lives, against all others and this one."""
    file = SqliteFile(str(tmp_path / "work.db"), setting="queue", unreachable=QueueUnreachable)
    with file.writing(durable=True) as connection:
        connection.execute("CREATE TABLE t (x)")
    if rolled_back:
        begin = sqlite_files._begin

        def disturbed(connection: sqlite3.Connection) -> None:
            begin(connection)
            raise KeyboardInterrupt

        with monkeypatch.context() as patch:
            patch.setattr(sqlite_files, "_begin", disturbed)
            with pytest.raises(KeyboardInterrupt):
                file.writing(durable=False).__enter__()
        assert not connection.in_transaction
    else:
        connection.execute("BEGIN IMMEDIATE")
    with file.writing(durable=False) as connection:
        connection.execute("INSERT INTO t VALUES (1)")
    assert not connection.in_transaction
    file.close()
