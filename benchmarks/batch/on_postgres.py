"""Peers on a PostgreSQL server, each used as its documentation does it for many small jobs.

The server has its own defaults (fsync on). Neither peer keeps results: a job upserts its own, by the driver that the
peer itself uses, over connections that are open already.
"""

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable, Sequence

from benchmarks.batch.contender import Place, Span, payload_of
from benchmarks.batch.results import right_ones, row_of

_TABLE = "CREATE TABLE results (id text PRIMARY KEY, value text NOT NULL)"
_UPSERT = "INSERT INTO results (id, value) VALUES ({}, {}) ON CONFLICT (id) DO UPDATE SET value = excluded.value"
_PUBLISHED_AT_ONCE = 1000
_CONNECTIONS = 10


def _rows(server: str, query: str) -> list:
    import psycopg

    with psycopg.connect(server) as database:
        return database.execute(query).fetchall()


class PgQueuerCase:
    """pgqueuer over a pool of asyncpg; jobs are fetched by the chunk, run side by side, and acknowledged in bulk."""

    def __init__(self, place: Place) -> None:
        logging.getLogger("pgqueuer").setLevel(logging.WARNING)
        self._server, self._chunk = place.server, place.chunk

    def _run(self, work: Callable[..., Awaitable[None]]) -> None:
        async def with_pool() -> None:
            import asyncpg

            async with asyncpg.create_pool(self._server, min_size=_CONNECTIONS, max_size=_CONNECTIONS) as pool:
                await work(pool)

        import uvloop

        uvloop.run(with_pool())

    def publish(self, ids: Sequence[str]) -> None:
        async def work(pool) -> None:
            from pgqueuer import AsyncpgPoolDriver, Queries

            await pool.execute(_TABLE)
            queries = Queries(AsyncpgPoolDriver(pool))
            for start in range(0, len(ids), _PUBLISHED_AT_ONCE):
                some = ids[start : start + _PUBLISHED_AT_ONCE]
                payloads = [json.dumps({"id": name, **payload_of(name)}).encode() for name in some]
                await queries.enqueue(["infer"] * len(some), payloads, [0] * len(some))

        self._install()
        self._run(work)

    def _install(self) -> None:
        async def work(pool) -> None:
            from pgqueuer import AsyncpgPoolDriver, Queries

            await Queries(AsyncpgPoolDriver(pool)).install()

        self._run(work)

    def drain(self, span: Span) -> None:
        upsert = _UPSERT.format("$1", "$2")

        async def work(pool) -> None:
            from pgqueuer import AsyncpgPoolDriver, Job, PgQueuer
            from pgqueuer.types import QueueExecutionMode

            queuer = PgQueuer(AsyncpgPoolDriver(pool))

            @queuer.entrypoint("infer")
            async def infer(job: Job) -> None:
                assert job.payload
                name = json.loads(job.payload)["id"]
                span.item()
                await pool.execute(upsert, *row_of(name))
                span.end()  # its bulk of acknowledgements, and its wait for more at the end, are not counted

            await queuer.run(batch_size=self._chunk, mode=QueueExecutionMode.drain)

        self._run(work)

    def stored(self) -> int:
        return right_ones(_rows(self._server, "SELECT id, value FROM results"))

    def left(self) -> int:
        return _rows(self._server, "SELECT count(*) FROM pgqueuer")[0][0]


class ProcrastinateCase:
    """procrastinate with its asynchronous worker, as many jobs side by side as it has connections."""

    def __init__(self, place: Place) -> None:
        import procrastinate

        logging.getLogger("procrastinate").setLevel(logging.WARNING)
        self._server, self._span = place.server, Span()
        connector = procrastinate.PsycopgConnector(
            conninfo=place.server, min_size=_CONNECTIONS, max_size=_CONNECTIONS + 1
        )
        self._app = app = procrastinate.App(connector=connector)
        self._upsert = _UPSERT.format("%(id)s", "%(value)s")

        @app.task(name="infer")
        async def infer(name: str, **_payload: object) -> None:
            self._span.item()
            key, value = row_of(name)
            await app.connector.execute_query_async(self._upsert, id=key, value=value)

        self._task = infer

    def publish(self, ids: Sequence[str]) -> None:
        asyncio.run(self._prepare())
        asyncio.run(self._publish(ids))

    async def _prepare(self) -> None:
        async with self._app.open_async():
            await self._app.schema_manager.apply_schema_async()
            await self._app.connector.execute_query_async(_TABLE)

    async def _publish(self, ids: Sequence[str]) -> None:
        async with self._app.open_async():
            for start in range(0, len(ids), _PUBLISHED_AT_ONCE):
                some = ids[start : start + _PUBLISHED_AT_ONCE]
                await self._task.batch_defer_async(*({"name": name, **payload_of(name)} for name in some))

    def drain(self, span: Span) -> None:
        self._span = span
        asyncio.run(self._drain())

    async def _drain(self) -> None:
        async with self._app.open_async():
            await self._app.run_worker_async(
                concurrency=_CONNECTIONS, wait=False, install_signal_handlers=False, listen_notify=False
            )

    def stored(self) -> int:
        return right_ones(_rows(self._server, "SELECT id, value FROM results"))

    def left(self) -> int:
        query = "SELECT count(*) FROM procrastinate_jobs WHERE status <> 'succeeded'"
        return _rows(self._server, query)[0][0]
