"""Fresh queues and sinks of each kind, on their real servers, for crews of workers."""

import os
from collections.abc import Callable
from pathlib import Path

from service import postgres_server
from service.pubsub_server import fresh_subscription, pubsub_server


def _sqlite(tmp_path: Path) -> tuple[str, dict[str, str]]:
    return f"sqlite:///{tmp_path}/work.db", {}


def _pubsub(tmp_path: Path) -> tuple[str, dict[str, str]]:
    host = pubsub_server()
    os.environ["PUBSUB_EMULATOR_HOST"] = host  # the same in the whole test run
    return f"{fresh_subscription(host)}&ledger=sqlite:///{tmp_path}/work.db", {"PUBSUB_EMULATOR_HOST": host}


def _postgres(tmp_path: Path) -> tuple[str, dict[str, str]]:
    return postgres_server.fresh_database(), {}


def _pubsub_on_postgres(tmp_path: Path) -> tuple[str, dict[str, str]]:
    url, variables = _pubsub(tmp_path)
    return f"{url.partition('&')[0]}&ledger={postgres_server.fresh_database()}", variables


# (URL, what the workers' environment needs for it)
QUEUES: dict[str, Callable[[Path], tuple[str, dict[str, str]]]] = {
    "sqlite": _sqlite,
    "postgres": _postgres,
    "pubsub": _pubsub,
    "pubsub on postgres": _pubsub_on_postgres,
}
# "same": in the database of the queue, or of its ledger.
SINKS: dict[str, Callable[[Path, str], str]] = {
    "same": lambda tmp_path, queue: f"{queue.rpartition('ledger=')[2]}?table=labels",
    "sqlite": lambda tmp_path, queue: f"sqlite:///{tmp_path}/results.db",
    "postgres": lambda tmp_path, queue: postgres_server.fresh_table(),
    "jsonl": lambda tmp_path, queue: f"jsonl:{tmp_path}/results.jsonl",
    "objects": lambda tmp_path, queue: f"{tmp_path}/results",
    "parquet": lambda tmp_path, queue: f"parquet:{tmp_path}/results",
}
