"""Peers that keep their items in an SQLite file, each used as its documentation does it, with the fastest settings.

All run in WAL mode and with synchronous = NORMAL. litequeue sets that itself; the others leave SQLite's default, FULL,
and offer no setting for NORMAL: it is set behind their back, and the `synced` cases are these two as they come. Results
go to the peer's own place for them where it has one (huey), else to a table in the same file, in one transaction with
the acknowledgement where the peer's interface allows it (litequeue).
"""

import json
import logging
import threading
from collections.abc import Sequence
from pathlib import Path

from benchmarks.batch.contender import Place, Span, payload_of, value_of
from benchmarks.batch.results import TABLE, UPSERT, connect, right_ones, row_of, rows_in

_LONGEST_SECONDS = 240.0


class LiteQueueCase:
    """litequeue 0.9: a loop of pop, and of the upsert and `done` in one of its transactions."""

    def __init__(self, place: Place) -> None:
        from litequeue import LiteQueue

        self._path = Path(place.folder) / "litequeue.db"
        self._queue = LiteQueue(self._path)
        self._queue.conn.execute(TABLE)

    def publish(self, ids: Sequence[str]) -> None:
        """All in one transaction of its own."""
        with self._queue.transaction():
            for name in ids:
                self._queue.put(json.dumps({"id": name, **payload_of(name)}))

    def drain(self, span: Span) -> None:
        queue = self._queue
        while (message := queue.pop()) is not None:
            name = json.loads(message.data)["id"]
            span.item()
            with queue.transaction("IMMEDIATE"):
                queue.conn.execute(UPSERT, row_of(name))
                queue.done(message.message_id)

    def stored(self) -> int:
        return right_ones(rows_in(self._path))

    def left(self) -> int:
        return self._queue.qsize()


class PersistQueueCase:
    """persist-queue's SQLiteAckQueue: get, upsert, ack by number, which needs no search in its cache."""

    SYNCED = False

    def __init__(self, place: Place) -> None:
        import persistqueue

        self._folder = Path(place.folder) / "persist-queue"
        self._queue = persistqueue.SQLiteAckQueue(str(self._folder), multithreading=True)
        if not self.SYNCED:
            for connection in (self._queue._getter, self._queue._putter):  # noqa: SLF001  no other way
                connection.execute("PRAGMA synchronous = NORMAL")
        self._results = connect(Path(place.folder) / "results.db")
        self._results.execute(TABLE)

    def publish(self, ids: Sequence[str]) -> None:
        for name in ids:
            self._queue.put({"id": name, **payload_of(name)})

    def drain(self, span: Span) -> None:
        import persistqueue

        while True:
            try:
                taken = self._queue.get(block=False, raw=True)
            except persistqueue.Empty:
                return
            span.item()
            self._results.execute(UPSERT, row_of(taken["data"]["id"]))
            self._queue.ack(id=taken["pqid"])

    def stored(self) -> int:
        return right_ones(self._results.execute("SELECT id, value FROM results"))

    def left(self) -> int:
        return self._queue.size + self._queue.unack_count()


class SyncedPersistQueue(PersistQueueCase):
    """As it comes: each commit of the queue is synced."""

    SYNCED = True


class HueyCase:
    """SqliteHuey with its own consumer, one thread, and its own store of results."""

    SYNCED = False

    def __init__(self, place: Place) -> None:
        from huey import SqliteHuey

        logging.getLogger("huey").setLevel(logging.WARNING)
        self._huey = SqliteHuey("bench", filename=str(Path(place.folder) / "huey.db"))
        if not self.SYNCED:
            self._huey.storage.conn.execute("PRAGMA synchronous = NORMAL")
        self._span: Span | None = None
        self._all, self._done = 0, threading.Event()
        self._task = self._huey.task()(self._one)
        self._results: list = []
        self._huey.signal("complete")(self._completed)

    def _one(self, name: str, path: str, label: int) -> dict[str, object]:
        assert self._span
        self._span.item()
        return value_of(name)

    def _completed(self, _signal: str, _task: object) -> None:
        """Told after the result is stored."""
        assert self._span
        if self._span.items == self._all:
            self._span.end()
            self._done.set()

    def publish(self, ids: Sequence[str]) -> None:
        self._all = len(ids)
        self._results = [(name, self._task(name, **payload_of(name))) for name in ids]

    def drain(self, span: Span) -> None:
        self._span = span
        consumer = self._huey.create_consumer(workers=1, periodic=False, initial_delay=0.001, check_worker_health=False)
        consumer.start()
        try:
            if not self._done.wait(_LONGEST_SECONDS):
                raise RuntimeError("huey did not finish")
        finally:
            consumer.stop(graceful=True)

    def stored(self) -> int:
        return right_ones([(name, result.get(preserve=True)) for name, result in self._results])

    def left(self) -> int:
        return self._huey.pending_count()


class SyncedHuey(HueyCase):
    """As it comes: each commit is synced."""

    SYNCED = True
