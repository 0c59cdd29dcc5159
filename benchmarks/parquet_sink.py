"""The Parquet sink at size: what a store costs, how fast a compaction is, and how much memory the largest step takes.

    python benchmarks/parquet_sink.py FOLDER ROWS [ROWS_PER_PART]

Stores ROWS results in parts, in an order that is not that of their ids, then compacts, opens and reads, each in a
process of its own. Every tenth id is stored twice. Prints one line per step: seconds, rows per second of processor
time, and the process's largest resident memory.
"""

import os
import random
import resource
import subprocess
import sys
import time
from pathlib import Path

from outlast.items import LeasedItem, Result
from outlast.registry import open_sink


def fill(folder: str, rows: int, per_part: int) -> int:
    """Stores them all; returns how many."""
    sink = open_sink(f"parquet:{folder}")
    numbers = list(range(rows))
    random.Random(1).shuffle(numbers)
    for start in range(0, rows, per_part):
        sink.store([_result(number, 1) for number in numbers[start : start + per_part]])
    again = [number for number in numbers if number % 10 == 0]
    for start in range(0, len(again), per_part):
        sink.store([_result(number, 2) for number in again[start : start + per_part]])
    return rows + len(again)


def _result(number: int, claim: int) -> Result:
    value = f'{{"label": "class-{number * 7919 % 1000}", "score": {number * 104729 % 1000003 / 1000003:.6f}}}'
    return Result(f"images/{number * 2654435761 % 2**32:010d}.jpg", value, "model-3", claim)


def compact(folder: str, rows: int, _per_part: int) -> int:
    """Joins the parts; returns how many rows it read, one per id at least."""
    sink = open_sink(f"parquet:{folder}")
    assert sink.compact() == rows
    return rows


def open_and_probe(folder: str, rows: int, _per_part: int) -> int:
    """What a worker does at its start, and ten thousand probes."""
    sink = open_sink(f"parquet:{folder}")
    sink.prepare()
    begun = time.perf_counter()
    for start in range(0, 10_000, 32):
        wanted = [LeasedItem(_result(start + one, 1).id, "null", 1) for one in range(32)]
        assert len(sink.known(wanted)) == 32
    print(f"    a probe takes {(time.perf_counter() - begun) / 10_000 * 1e6:.1f} µs per item")
    return rows


def read(folder: str, rows: int, _per_part: int) -> int:
    """All results."""
    count = sum(1 for _ in open_sink(f"parquet:{folder}").results())
    assert count == rows
    return count


STEPS = {one.__name__: one for one in (fill, open_and_probe, compact, read)}


def step(name: str, folder: str, rows: int, per_part: int) -> None:
    begun = time.perf_counter()
    count = STEPS[name](folder, rows, per_part)
    seconds = time.perf_counter() - begun
    used = resource.getrusage(resource.RUSAGE_SELF)
    busy = used.ru_utime + used.ru_stime
    files = sum(path.stat().st_size for path in Path(folder).rglob("*") if path.is_file())
    print(
        f"{name:15s} {seconds:7.1f} s, {busy:7.1f} s of processor, {count / busy:10,.0f} rows/s of it, "
        f"at most {used.ru_maxrss / 1024:5.0f} MB; {files / 1e6:,.0f} MB in files"
    )


if __name__ == "__main__":
    if len(sys.argv) > 4:
        step(sys.argv[4], sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
    else:
        per_part = sys.argv[3] if len(sys.argv) > 3 else "1000"
        for name in ("fill", "open_and_probe", "read", "compact", "open_and_probe", "read"):
            command = [sys.executable, __file__, sys.argv[1], sys.argv[2], per_part, name]
            subprocess.run(command, check=True, env=dict(os.environ))
