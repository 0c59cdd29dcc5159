"""Loops by hand, as somebody writes them who needs one queue in one program: lease a chunk, upsert, acknowledge.

They have what makes a lease a lease, a token and an expiry, and nothing of what else outlast does: no check whether a
result is there, no claims, no budgets, no renewal, no notice, no limits.
"""

import json
import secrets
import time
from collections.abc import Sequence
from pathlib import Path

from benchmarks.batch.contender import Place, Span, payload_of
from benchmarks.batch.results import TABLE, UPSERT, connect, right_ones, row_of, rows_in

_LEASE_SECONDS = 60.0


class RawSqlite:
    """sqlite3, WAL, synchronous = NORMAL; one transaction leases, one stores and acknowledges."""

    _SCHEMA = """
        CREATE TABLE items (
            seq INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, payload TEXT NOT NULL,
            state INTEGER NOT NULL DEFAULT 0, until REAL NOT NULL DEFAULT 0, token TEXT);
        CREATE INDEX open_items ON items (until, seq) WHERE state < 2;
    """
    _LEASE = """
        UPDATE items SET state = 1, until = :until, token = :token WHERE seq IN (
            SELECT seq FROM items WHERE state < 2 AND until <= :now ORDER BY until, seq LIMIT :most
        ) RETURNING seq, id, payload
    """
    _ACK = "UPDATE items SET state = 2 WHERE seq = ? AND token = ?"

    def __init__(self, place: Place) -> None:
        self._path, self._chunk = Path(place.folder) / "raw.db", place.chunk
        self._database = connect(self._path)
        self._database.executescript(self._SCHEMA + TABLE)

    def publish(self, ids: Sequence[str]) -> None:
        rows = ((name, json.dumps(payload_of(name))) for name in ids)
        self._database.execute("PRAGMA synchronous = FULL")
        self._database.execute("BEGIN IMMEDIATE")
        self._database.executemany("INSERT INTO items (id, payload) VALUES (?, ?) ON CONFLICT DO NOTHING", rows)
        self._database.execute("COMMIT")
        self._database.execute("PRAGMA synchronous = NORMAL")

    def drain(self, span: Span) -> None:
        database = self._database
        while True:
            token, now = secrets.token_hex(8), time.time()
            asked = {"until": now + _LEASE_SECONDS, "now": now, "token": token, "most": self._chunk}
            leased = database.execute(self._LEASE, asked).fetchall()
            if not leased:
                return
            span.chunk(len(leased))
            assert all(json.loads(payload) for _, _, payload in leased)
            database.execute("BEGIN IMMEDIATE")
            database.executemany(UPSERT, [row_of(name) for _, name, _ in leased])
            database.executemany(self._ACK, [(seq, token) for seq, _, _ in leased])
            database.execute("COMMIT")

    def stored(self) -> int:
        return right_ones(rows_in(self._path))

    def left(self) -> int:
        return self._database.execute("SELECT count(*) FROM items WHERE state < 2").fetchone()[0]


class RawPostgres:
    """psycopg with SKIP LOCKED; one transaction leases, one stores and acknowledges, whole chunks as arrays."""

    _SCHEMA = """
        CREATE TABLE items (
            seq bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, id text NOT NULL UNIQUE, payload text NOT NULL,
            state smallint NOT NULL DEFAULT 0, until timestamptz NOT NULL DEFAULT '-infinity', token text);
        CREATE INDEX open_items ON items (until, seq) WHERE state < 2;
        CREATE TABLE results (id text PRIMARY KEY, value text NOT NULL);
    """
    _PUBLISH = """
        INSERT INTO items (id, payload) SELECT * FROM unnest(%s::text[], %s::text[]) ON CONFLICT (id) DO NOTHING
    """
    _LEASE = """
        UPDATE items SET state = 1, until = now() + make_interval(secs => %s), token = %s WHERE seq IN (
            SELECT seq FROM items WHERE state < 2 AND until <= now() ORDER BY until, seq LIMIT %s
            FOR UPDATE SKIP LOCKED
        ) RETURNING seq, id, payload
    """
    _UPSERT = """
        INSERT INTO results (id, value) SELECT * FROM unnest(%s::text[], %s::text[])
        ON CONFLICT (id) DO UPDATE SET value = excluded.value
    """
    _ACK = "UPDATE items SET state = 2 WHERE seq = ANY(%s) AND token = %s"

    def __init__(self, place: Place) -> None:
        import psycopg

        self._database, self._chunk = psycopg.connect(place.server, autocommit=True), place.chunk
        self._database.execute(self._SCHEMA)

    def publish(self, ids: Sequence[str]) -> None:
        for start in range(0, len(ids), 1000):
            some = ids[start : start + 1000]
            self._database.execute(self._PUBLISH, [list(some), [json.dumps(payload_of(name)) for name in some]])

    def drain(self, span: Span) -> None:
        while True:
            token = secrets.token_hex(8)
            leased = self._database.execute(self._LEASE, [_LEASE_SECONDS, token, self._chunk]).fetchall()
            if not leased:
                return
            span.chunk(len(leased))
            assert all(json.loads(payload) for _, _, payload in leased)
            rows = [row_of(name) for _, name, _ in leased]
            with self._database.transaction():
                self._database.execute(self._UPSERT, [[name for name, _ in rows], [value for _, value in rows]])
                self._database.execute(self._ACK, [[seq for seq, _, _ in leased], token])

    def stored(self) -> int:
        return right_ones(self._database.execute("SELECT id, value FROM results"))

    def left(self) -> int:
        return self._database.execute("SELECT count(*) FROM items WHERE state < 2").fetchone()[0]
