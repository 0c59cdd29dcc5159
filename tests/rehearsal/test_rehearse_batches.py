"""Rehearsals of batch work: what survives, what does not, and why."""

import sqlite3
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from outlast.events import BatchStarted, ChunkBegun, ItemsGivenBack, ItemsStored, LeaseTaken, NoticeHeard, from_lines
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


@pytest.mark.parametrize("sink", ["sqlite:///results.db?table=labels", "sqlite:///work.db"])
def test_batch_work_survives_wherever_its_results_are(sink: str, tmp_path: Path) -> None:
    report = rehearsed(tmp_path, GOOD.replace("SINK", sink))
    assert report.verdict == "survived", said(report)
    names = [one.path for one in report.results]
    assert names[0] == "queue work.db"
    assert names[1].startswith("sink ")
    assert any("computed again" in reason for reason in report.reasons)
    assert any(place.endswith("between a store and its ack") for place in report.cut_saves), report.cut_saves
