"""Rehearsals of batch work: what survives, what does not, and why."""

import re
import sys
from pathlib import Path

import pytest

from outlast.rehearse.report import Report
from outlast.rehearse.request import Request
from outlast.rehearse.runner import rehearse

ITEMS = 24
PUBLISH = f"""
import os, sys, time
import outlast
queue = outlast.Queue("sqlite:///work.db")
queue.publish({{f"i-{{n:03}}": {{"n": n}} for n in range({ITEMS})}})
"""
GOOD = (
    PUBLISH
    + """
@outlast.batch(queue, sink="SINK", chunk=4, version="m-1")
def infer(items):
    time.sleep(0.02 * len(items))
    return [item.payload["n"] ** 2 for item in items]
infer.run()
"""
)


def rehearsed(folder: Path, program: str, **more: object) -> Report:
    (folder / "label.py").write_text(program)
    asked = {"platform": "local", "interruptions": 3, "seed": 1, **more}
    return rehearse(Request((sys.executable, "label.py"), folder, **asked))  # type: ignore[arg-type]  # as asked


def said(report: Report) -> str:
    return "\n".join([*report.reasons, *(f"{one.path}: {one.detail}" for one in report.results)])


@pytest.mark.parametrize(
    "sink", ["sqlite:///results.db?table=labels", pytest.param("sqlite:///work.db", marks=pytest.mark.slow)]
)
def test_batch_work_survives_wherever_its_results_are(sink: str, tmp_path: Path) -> None:
    report = rehearsed(tmp_path, GOOD.replace("SINK", sink))
    assert report.verdict == "survived", said(report)
    names = [one.path for one in report.results]
    assert names[0] == "queue work.db"
    assert names[1].startswith("sink ")
    assert any("computed again" in reason for reason in report.reasons)
    assert any(place.endswith("between a store and its ack") for place in report.cut_saves), report.cut_saves


FAULTY: dict[str, tuple[str, tuple[str, ...]]] = {
    "appends a result each time an item is computed": (
        PUBLISH
        + """
@outlast.batch(queue, sink="jsonl:results.jsonl", chunk=4)
def infer(items):
    for item in items:
        with open("labels.csv", "a") as file:
            file.write(f"{item.id},{item.payload['n'] ** 2}\\n")
        time.sleep(0.05)
    return [item.payload["n"] ** 2 for item in items]
infer.run()
""",
        # Where no kill came between the two, the items that were begun again are at least at another place.
        ("labels.csv is not what", "too many, which are there already.*an upsert by id|in another order"),
    ),
    "acknowledges before it stores": (
        """
import sqlite3, time
database = sqlite3.connect("work.db")
database.execute("CREATE TABLE IF NOT EXISTS items (id TEXT PRIMARY KEY, n INTEGER, done INTEGER DEFAULT 0)")
database.execute("CREATE TABLE IF NOT EXISTS results (id TEXT PRIMARY KEY, value INTEGER)")
rows = [(f"i-{n:03}", n) for n in range(24)]
database.executemany("INSERT OR IGNORE INTO items (id, n) VALUES (?, ?)", rows)
database.commit()
while rows := database.execute("SELECT id, n FROM items WHERE done = 0 ORDER BY id LIMIT 4").fetchall():
    database.executemany("UPDATE items SET done = 1 WHERE id = ?", [(name,) for name, _ in rows])
    database.commit()
    time.sleep(0.08)
    database.executemany("INSERT OR REPLACE INTO results VALUES (?, ?)", [(name, n * n) for name, n in rows])
    database.commit()
""",
        ("work.db is not what", "missing", "of table results", "store first"),
    ),
    "keeps in memory what is acknowledged": (
        PUBLISH
        + """
import json
from outlast.items import SinkTraits

class Buffer:
    url, traits, database, waiting = "buffer", SinkTraits(), None, []
    def prepare(self): pass
    def known(self, items): return {}
    def results(self): return iter(())
    def store(self, results, *, connection=None):
        self.waiting += results
        if len(self.waiting) > 10:
            self.close()
    def close(self):
        with open("labels.jsonl", "a") as file:
            file.writelines(json.dumps({"id": one.id, "value": one.value}) + "\\n" for one in self.waiting)
        self.waiting.clear()

sink = Buffer()
@outlast.batch(queue, sink=sink, chunk=2)
def infer(items):
    time.sleep(0.02 * len(items))
    return [item.payload["n"] ** 2 for item in items]
infer.run()
sink.close()
""",
        ("labels.jsonl is not what", "missing", "store first"),
    ),
}


@pytest.mark.parametrize("kind", FAULTY)
def test_batch_work_that_loses_or_doubles_results_does_not_survive(kind: str, tmp_path: Path) -> None:
    program, reasons = FAULTY[kind]
    report = rehearsed(tmp_path, program)
    assert report.verdict == "not-survived", said(report)
    for reason in reasons:
        assert re.search(reason, "\n".join(report.reasons)), said(report)
    assert not any("left with 0" in reason for reason in report.reasons), said(report)
