"""SQLite files that many processes use: the write-ahead log stays short though somebody always reads."""

import errno
import os
import sqlite3
import threading
import time
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


_SAYS: dict[str, tuple[type[Exception], str]] = {
    "a full disk": (QueueUnreachable, "is full: make room"),
    "read-only": (QueueUnreachable, "readonly database: this user may not write it"),
    "a folder": (SettingsError, "is there and no regular file"),
    "a pipe": (SettingsError, "is there and no regular file"),
    "locked": (QueueUnreachable, "is locked: another program holds it"),
    "no SQLite file": (SettingsError, "it is no SQLite file"),
    "damaged": (SettingsError, r"it is damaged: keep a copy .* \.recover"),
    "another program's": (SettingsError, "it lacks what is asked for: tables were dropped"),
    "a trigger": (SettingsError, "it does not take what is to be written"),
    "an unwilling disk": (QueueUnreachable, "disk I/O error: the disk, or a network mount"),
    "a path through a file": (QueueUnreachable, "a part of its path is a file"),
    "rights": (QueueUnreachable, "Permission denied: this user may not"),
}


@pytest.mark.parametrize("case", _SAYS)
def test_what_is_wrong_with_a_file_is_said_with_what_to_do(
    case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    error, says = _SAYS[case]
    path = tmp_path / "work.db"
    if case == "a folder":
        path.mkdir()
    elif case == "a pipe":
        os.mkfifo(path)
    elif case == "a path through a file":
        path.write_text("")
        path /= "more.db"
    elif case == "no SQLite file":
        path.write_text("these are my notes " * 100)
    file = SqliteFile(str(path), setting="queue", unreachable=QueueUnreachable)
    if case not in ("a folder", "a pipe", "a path through a file", "no SQLite file"):
        with file.writing(durable=True) as connection:
            connection.execute("CREATE TABLE t (x BLOB, y INTEGER CHECK (y < 10))")
            connection.executemany("INSERT INTO t VALUES (zeroblob(3000), 1)", [()] * 20)
    _break(case, file, path, monkeypatch)
    with pytest.raises(error, match=says) as caught:
        _use(file, 20 if case == "a trigger" else 1)
    assert str(caught.value).startswith(f"queue='{path}': ")
    assert str(path) in str(caught.value)


def _use(file: SqliteFile, number: int) -> None:
    with file.writing(durable=True) as connection:
        assert connection.execute("SELECT sum(length(x)) FROM t").fetchone() == (60_000,)
        connection.execute("INSERT INTO t VALUES (zeroblob(90000), ?)", (number,))


def _break(case: str, file: SqliteFile, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if case == "a full disk":
        with file.reading() as connection:
            connection.execute("PRAGMA max_page_count=20")
    elif case == "read-only":
        with file.reading() as connection:
            connection.execute("PRAGMA query_only=1")
    elif case == "locked":
        monkeypatch.setattr(sqlite_files, "_PATIENCE_SECONDS", 0.0)
        with file.reading() as connection:
            connection.execute("PRAGMA busy_timeout=10")
        other = sqlite3.connect(path, isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        monkeypatch.setattr(file, "other", other, raising=False)  # lives as long as the test
    elif case == "damaged":
        file.close()
        content = bytearray(path.read_bytes())
        content[4096 : 4096 + 200] = b"\xff" * 200
        path.write_bytes(content)
    elif case == "another program's":
        with file.writing(durable=True) as connection:
            connection.execute("DROP TABLE t")
    elif case in ("an unwilling disk", "rights"):
        failed: Exception = PermissionError(errno.EACCES, "Permission denied")
        if case == "an unwilling disk":
            failed = sqlite3.OperationalError("disk I/O error")
            failed.sqlite_errorcode = sqlite3.SQLITE_IOERR_SHMMAP  # as with an extended code of SQLite's own

        def fail(*_: object) -> None:
            raise failed

        file.close()
        monkeypatch.setattr("outlast.sqlite_files.refuse_places_without_shared_memory", lambda *_, **__: None)
        monkeypatch.setattr(SqliteFile, "_open", fail)


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
