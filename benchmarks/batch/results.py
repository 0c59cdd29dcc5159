"""A table of results beside a queue that keeps none: one row per id, an upsert for each, the same in all peers."""

import json
import sqlite3
from collections.abc import Iterable
from pathlib import Path

from benchmarks.batch.contender import value_of

TABLE = "CREATE TABLE IF NOT EXISTS results (id TEXT PRIMARY KEY, value TEXT NOT NULL)"
UPSERT = "INSERT INTO results (id, value) VALUES (?, ?) ON CONFLICT (id) DO UPDATE SET value = excluded.value"
BUSY_SECONDS = 30.0


def connect(path: str | Path) -> sqlite3.Connection:
    """Autocommit, in WAL mode, not synced at each commit: what litequeue chooses, and outlast for its acks."""
    connection = sqlite3.connect(path, isolation_level=None, timeout=BUSY_SECONDS, check_same_thread=False)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = NORMAL")
    return connection


def row_of(name: str) -> tuple[str, str]:
    return name, json.dumps(value_of(name))


def right_ones(rows: Iterable[tuple[str, object]]) -> int:
    """How many of (id, JSON text or value) are what the function returns for that id."""
    found = dict(rows)
    return sum((json.loads(one) if isinstance(one, str) else one) == value_of(name) for name, one in found.items())


def rows_in(path: str | Path, query: str = "SELECT id, value FROM results") -> list[tuple[str, str]]:
    connection = connect(path)
    try:
        return connection.execute(query).fetchall()
    finally:
        connection.close()
