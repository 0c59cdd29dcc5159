"""SQLite files that many processes use: the write-ahead log stays short though somebody always reads."""

import sqlite3
import threading
import time
from pathlib import Path

import pytest

from outlast import sqlite_files
from outlast.errors import QueueUnreachable
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
