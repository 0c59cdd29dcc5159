"""What the batch part measures: which queues beside which peers, in how many items, on which server."""

from dataclasses import dataclass

from benchmarks.figures import LIMITS

OF_ITEMS, OF_LOADS = "batch: items of 50 ms", "batch: load 20 ms, model 10 ms"
OF_SQLITE, OF_POSTGRES, OF_PUBSUB = "batch: SQLite", "batch: PostgreSQL", "batch: Pub/Sub"


@dataclass(frozen=True, slots=True)
class Setting:
    """One table of the report. `contenders` by case: what makes one at a Place; that of LIMITS is the loop by hand.

    Items take no time. Peers are given `peer_items` of them, fewer, since some become slower with the length of the
    queue; per item that favours them. `server`: a kind of benchmarks.batch.servers, None for none.
    """

    state: str
    items: int
    peer_items: int
    chunk: int
    contenders: dict[str, str]
    server: str | None = None

    def items_for(self, case: str, scale: float) -> int:
        """At least two chunks."""
        own = case == LIMITS or case.startswith("outlast")
        return max(round((self.items if own else self.peer_items) * scale), 2 * self.chunk)


SETTINGS = {
    "sqlite": Setting(
        OF_SQLITE,
        items=50_000,
        peer_items=2_000,
        chunk=32,
        contenders={
            LIMITS: "raw:RawSqlite",
            "outlast": "ours:outlast_sqlite",
            "outlast, sink in a second file": "ours:outlast_two_files",
            "outlast adapters, no worker": "ours:adapters_sqlite",
            "litequeue": "embedded:LiteQueueCase",
            "huey": "embedded:HueyCase",
            "huey, synced": "embedded:SyncedHuey",
            "persist-queue": "embedded:PersistQueueCase",
            "persist-queue, synced": "embedded:SyncedPersistQueue",
        },
    ),
    "postgresql": Setting(
        OF_POSTGRES,
        items=20_000,
        peer_items=2_000,
        chunk=100,
        contenders={
            LIMITS: "raw:RawPostgres",
            "outlast": "ours:outlast_postgres",
            "outlast adapters, no worker": "ours:adapters_postgres",
            "pgqueuer": "on_postgres:PgQueuerCase",
            "procrastinate": "on_postgres:ProcrastinateCase",
        },
        server="postgresql",
    ),
    "pubsub": Setting(
        OF_PUBSUB,
        items=20_000,
        peer_items=2_000,
        chunk=100,
        contenders={
            LIMITS: "on_pubsub:RawPubSub",
            "outlast": "ours:outlast_pubsub",
            "outlast adapters, no worker": "ours:adapters_pubsub",
            "streaming pull": "on_pubsub:StreamingPull",
        },
        server="pubsub",
    ),
}
# Of these each run measures the bare loop beside the worker, in one process.
ITEMS, LOADS = "items", "load"
BATCH = (*SETTINGS, ITEMS, LOADS)
