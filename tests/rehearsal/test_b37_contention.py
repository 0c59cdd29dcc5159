"""B37: many processes on one SQLite file, a reader and a hog among them: nobody sees that it is locked.

OUTLAST_CROWD=32 runs the whole crowd.
"""

import multiprocessing
import os
import sqlite3
import time
from collections import Counter
from pathlib import Path

import outlast
from rehearsal.batch_crew import Order, check, publish, started

CROWD = int(os.environ.get("OUTLAST_CROWD", "8"))
ITEMS = 2000


def _hog(path: str, seconds: float) -> None:
    connection = sqlite3.connect(path, timeout=60, isolation_level=None)
    connection.execute("BEGIN IMMEDIATE")
    time.sleep(seconds)
    connection.execute("COMMIT")


def test_b37_a_crowd_on_one_file_never_sees_that_it_is_locked(tmp_path: Path) -> None:
    queue = f"sqlite:///{tmp_path}/work.db"
    order = Order(queue, f"{queue}?table=labels", tmp_path / "diary", chunk=4, seconds=0.0, lease=60.0)
    publish(order, ITEMS)
    crew = [started(order) for _ in range(CROWD)]
    hog = multiprocessing.get_context("spawn").Process(target=_hog, args=(str(tmp_path / "work.db"), 3.0))
    hog.start()
    began, looks = time.monotonic(), 0
    reader = outlast.Queue(queue)
    while any(worker.exitcode is None for worker in crew):
        stats = reader.stats()
        assert (stats.ready or 0) + (stats.leased or 0) + (stats.done or 0) == ITEMS
        looks += 1
        if looks == 20:
            for worker in crew[: CROWD // 2]:
                worker.kill()
        time.sleep(0.02)
        assert time.monotonic() - began < 120
    hog.join()
    codes = Counter(worker.exitcode for worker in crew)
    assert codes[0] >= CROWD - CROWD // 2, codes
    assert set(codes) <= {0, -9}
    check(order, ITEMS)
    log = order.diary.with_suffix(".log").read_text()
    assert "locked" not in log
    with sqlite3.connect(tmp_path / "work.db") as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    connection.close()
