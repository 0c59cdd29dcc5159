"""The how-to pages of batch work, followed on real servers: the same program on SQLite, PostgreSQL and Pub/Sub."""

import csv
import json
import os
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from docs_pages import ROOT, read_page
from service import postgres_server, pubsub_server

LABEL = read_page((ROOT / "docs" / "first-batch.md").read_text()).files["label.py"]
TEXTS = ["great sound I love it", "came late and broken", "fine"]
LABELS = ["good", "bad", "good"]


def outlast_lines(page: str) -> list[str]:
    """The page's `outlast` commands that name a queue, also those in blocks that the test of all pages passes over."""
    text = (ROOT / "docs" / "howto" / page).read_text().replace("\\\n", " ")
    return [line[2:] for line in text.splitlines() if line.startswith("$ outlast") and "$QUEUE" in line]


def on_sqlite(folder: Path) -> dict[str, str]:
    return {"QUEUE": f"sqlite:///{folder}/work.db", "SINK": f"sqlite:///{folder}/work.db?table=labels"}


def on_postgresql(_folder: Path) -> dict[str, str]:
    database = postgres_server.fresh_database()
    return {"QUEUE": f"{database}?queue=reviews", "SINK": f"{database}?table=labels"}


def on_pubsub(folder: Path) -> dict[str, str]:
    emulator = pubsub_server.pubsub_server()
    return {
        "QUEUE": f"{pubsub_server.fresh_subscription(emulator, ack_deadline=60)}&ledger=sqlite:///{folder}/ledger.db",
        "SINK": f"sqlite:///{folder}/results.db?table=labels",
        "PUBSUB_EMULATOR_HOST": emulator,
    }


def labels_in(sink: str) -> list[tuple[str, str]]:
    query = "SELECT id, value FROM labels ORDER BY id"
    if sink.startswith("sqlite"):
        with closing(sqlite3.connect(sink.removeprefix("sqlite:///").partition("?")[0])) as database:
            rows = database.execute(query).fetchall()
    else:
        rows = postgres_server.execute(sink, query)
    return [(name, json.loads(value)) for name, value in rows]


@pytest.mark.parametrize(
    ("page", "place"),
    [
        ("batch-postgresql.md", on_sqlite),
        ("batch-postgresql.md", on_postgresql),
        ("batch-pubsub.md", on_pubsub),
    ],
)
def test_the_commands_of_the_page_do_the_same_everywhere(
    tmp_path: Path, page: str, place: Callable[[Path], dict[str, str]]
) -> None:
    (tmp_path / "label.py").write_text(LABEL)
    with (tmp_path / "reviews.csv").open("w", newline="") as file:
        csv.writer(file).writerows([["id", "text"], *([f"r-{n}", text] for n, text in enumerate(TEXTS))])
    kept = {name: value for name, value in os.environ.items() if not name.startswith("OUTLAST_")}
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    variables = {**kept, "PATH": path, **place(tmp_path)}
    lines = outlast_lines(page)
    assert [line.split()[1] for line in lines[:2]] == ["publish", "work"]
    for line in lines:
        done = subprocess.run(
            ["bash", "-c", line], cwd=tmp_path, env=variables, capture_output=True, text=True, check=False, timeout=60
        )
        assert done.returncode == 0, (line, done.stdout, done.stderr)
    assert labels_in(variables["SINK"]) == [(f"r-{n}", label) for n, label in enumerate(LABELS)]
