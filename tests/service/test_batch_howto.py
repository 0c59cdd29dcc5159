"""The how-to pages of batch work, followed on real servers: the same program on SQLite, PostgreSQL and Pub/Sub."""

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
REVIEWS = read_page((ROOT / "docs" / "howto" / "batch-postgresql.md").read_text()).files["reviews.csv"]
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
    variables = place(tmp_path)
    lines = outlast_lines(page)[:3]
    assert [line.split()[1] for line in lines] == ["publish", "work", "queue" if "pubsub" in page else "publish"]
    follow(lines, tmp_path, variables)
    assert labels_in(variables["SINK"]) == [(f"r-{n}", label) for n, label in enumerate(LABELS)]


def follow(lines: list[str], folder: Path, variables: dict[str, str]) -> list[str]:
    """Runs lines in a shell, beside the program and the input of the pages; what each printed."""
    (folder / "label.py").write_text(LABEL)
    (folder / "reviews.csv").write_text(REVIEWS)
    kept = {name: value for name, value in os.environ.items() if not name.startswith("OUTLAST_")}
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    said = []
    for line in lines:
        done = subprocess.run(
            ["bash", "-c", line],
            cwd=folder,
            env={**kept, "PATH": path, **variables},
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
        assert done.returncode == 0, (line, done.stdout, done.stderr)
        said.append(done.stdout)
    return said


def lines_below(heading: str, page: str) -> list[str]:
    """The commands of one part of a page."""
    text = (ROOT / "docs" / "howto" / page).read_text().replace("\\\n", " ").partition(f"\n## {heading}\n")[2]
    return [line[2:] for line in text.partition("\n## ")[0].splitlines() if line.startswith("$ ")]


def test_results_on_sqlite_are_copied_to_postgresql_and_not_computed_again(tmp_path: Path) -> None:
    before = "outlast publish sqlite:///work.db reviews.csv; outlast work sqlite:///work.db label:label --sink {}"
    variables = on_postgresql(tmp_path)
    follow([before.format("'sqlite:///work.db?table=labels'")], tmp_path, variables)
    said = follow(lines_below("From SQLite to PostgreSQL in the middle", "batch-postgresql.md"), tmp_path, variables)
    assert [line.strip() for line in said] == [
        "3 results copied: 3 of version words-1",
        "3 new, 0 already there, 0 rejected",
        "nothing is left: 0 computed here, 3 known already, 0 dead",
    ]
    assert labels_in(variables["SINK"]) == [(f"r-{n}", label) for n, label in enumerate(LABELS)]


def test_the_emulator_is_enough_to_try_pubsub(tmp_path: Path) -> None:
    lines = lines_below("Try it without Google Cloud", "batch-pubsub.md")
    assert lines[1] == "export PUBSUB_EMULATOR_HOST=127.0.0.1:8085"
    follow([";".join(lines[2:])], tmp_path, {"PUBSUB_EMULATOR_HOST": pubsub_server.pubsub_server()})
    assert labels_in(f"sqlite:///{tmp_path}/results.db") == [(f"r-{n}", label) for n, label in enumerate(LABELS)]
