"""Four workers, killed at random: nothing is lost, nothing doubled, and little is computed twice.

OUTLAST_KILLS=200 OUTLAST_ITEMS=10000 OUTLAST_EVERY_PAIR=1 runs it in full: every queue with every sink.
"""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from rehearsal.batch_crew import Order, check, publish, survive
from service import postgres_server
from service.pubsub_server import fresh_subscription, pubsub_server

KILLS = int(os.environ.get("OUTLAST_KILLS", "12"))
ITEMS = int(os.environ.get("OUTLAST_ITEMS", "600"))


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


QUEUES: dict[str, Callable[[Path], tuple[str, dict[str, str]]]] = {
    "sqlite": _sqlite,
    "postgres": _postgres,
    "pubsub": _pubsub,
    "pubsub on postgres": _pubsub_on_postgres,
}
SINKS: dict[str, Callable[[Path, str], str]] = {
    "same": lambda tmp_path, queue: f"{queue.rpartition('ledger=')[2]}?table=labels",
    "sqlite": lambda tmp_path, queue: f"sqlite:///{tmp_path}/results.db",
    "postgres": lambda tmp_path, queue: postgres_server.fresh_table(),
    "jsonl": lambda tmp_path, queue: f"jsonl:{tmp_path}/results.jsonl",
    "objects": lambda tmp_path, queue: f"{tmp_path}/results",
    "parquet": lambda tmp_path, queue: f"parquet:{tmp_path}/results",
}
SOME = [
    ("sqlite", "same", "list"),
    ("sqlite", "sqlite", "yield"),
    ("sqlite", "same", "load"),
    ("sqlite", "jsonl", "list"),
    ("postgres", "same", "list"),
    ("postgres", "objects", "yield"),
    ("pubsub", "same", "list"),
    ("pubsub", "parquet", "load"),
]
EVERY = [(queue, sink, form) for queue in QUEUES for sink in SINKS for form in ("list", "yield", "load")]


@pytest.mark.parametrize(("queue", "sink", "form"), EVERY if os.environ.get("OUTLAST_EVERY_PAIR") else SOME)
def test_nothing_is_lost_or_doubled_whatever_is_killed(queue: str, sink: str, form: str, tmp_path: Path) -> None:
    url, variables = QUEUES[queue](tmp_path)
    order = Order(url, SINKS[sink](tmp_path, url), tmp_path / "diary", form=form, variables=variables)
    assert publish(order, ITEMS).new == ITEMS
    toll = survive(order, workers=4, kills=KILLS, seed=5)
    assert toll.kills >= KILLS // 2
    check(order, ITEMS, toll)
