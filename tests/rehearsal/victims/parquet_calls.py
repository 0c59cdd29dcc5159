"""A Parquet sink that meets its fate at one call: stores and compactions on a disk or mount that counts its calls.

    parquet_calls.py disk|mount FATE,FATE… FOLDER STRIDE

For each fate and each STRIDEth call n that changes the folder, counted from another one for each fate, on a fresh copy
of a sink with a compaction, parts behind it and one that the compaction holds already, a child stores and compacts with
the fate waiting at call n (see calls.py and mount_calls.py for fates). Prints one JSON
line per n: how it ended, and what stands there then and after one more compaction.
"""

import json
import os
import shutil
import sys
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from calls import FatefulDisk, forked
from mount_calls import FatefulMount

from outlast.errors import ExitingError
from outlast.items import LeasedItem, Result
from outlast.registry import open_sink
from outlast.sinks import parquet_compact, parquet_rows
from outlast.sinks.parquet import ParquetSink

parquet_compact._DELETERS = 1  # so that each life makes its calls in the same order
parquet_compact.compact.__kwdefaults__["file_bytes"] = 1  # a file has one row group
parquet_rows._GROUP_ROWS = 6
Rows = dict[str, tuple[str, int]]


def batch(number: int) -> list[Result]:
    """Some ids that others have, too; of batch 3 the claims are lower than what is there, of batch 5 equal."""
    claim = {3: 1, 5: 4}.get(number, number)
    return [Result(f"id-{(number * 3 + one) % 13}", f'"batch {number}"', f"v{number}", claim) for one in range(5)]


def right(batches: list[int]) -> Rows:
    """What counts of these batches."""
    found: Rows = {}
    for number in batches:
        for one in batch(number):
            if one.id not in found or one.claim >= found[one.id][1]:
                found[one.id] = (one.value, one.claim)
    return found


def prepare(folder: Path) -> list[int]:
    """A sink as a compaction leaves it that was killed before it deleted a part; the batches in it."""
    sink = open_sink(f"parquet:{folder}")
    assert isinstance(sink, ParquetSink)
    sink.prepare()
    sink.store(batch(1))
    sink.store(batch(4))
    held = sorted((folder / "parts").iterdir())[0]
    content = held.read_bytes()
    sink.compact()
    held.write_bytes(content)
    sink.store(batch(2))
    return [1, 4, 2]


def life(url: str, trace: Path) -> dict[str, Any]:
    """Stores and compacts, and tells the trace what it begins and what was promised."""

    def tell(text: str) -> None:
        with trace.open("a") as told:
            told.write(f"{text}\n")

    try:
        sink = open_sink(url)
        assert isinstance(sink, ParquetSink)
        sink.prepare()
        for numbers in ([3, 5], [6]):
            for number in numbers:
                tell(f"try {number}")
                sink.store(batch(number))
                tell(f"done {number}")
            sink.compact()
    except ExitingError as error:
        return {"code": error.code, "error": str(error)}
    return {"code": 0}


def look(url: str, folder: Path) -> dict[str, Any]:
    """What a reader gets, what a worker knows, and what a pattern finds in results/."""
    sink = open_sink(url)
    rows = [(one.id, one.value, one.claim) for one in sink.results()]
    known = sink.known([LeasedItem(f"id-{number}", "null", 9) for number in range(13)])
    by_pattern: list[str] | None = []
    try:
        for path in sorted((folder / "results").glob("*.parquet")):
            by_pattern += pq.read_table(path)["id"].to_pylist()
    except (OSError, ValueError):
        by_pattern = None
    names = [str(path.relative_to(folder)) for path in sorted(folder.rglob("*")) if path.is_file()]
    return {
        "rows": rows,
        "known": {one: stored.claim for one, stored in known.items()},
        "by_pattern": by_pattern,
        "names": [name for name in names if "/.tmp-" not in name],
    }


def lives(kind: str, fate: str, folder: Path, calls: Iterator[int], stored: list[int]) -> Iterator[dict[str, Any]]:
    """One line for each call that the fate is met at; ends with the first one that is not reached any more."""
    door_of = FatefulDisk if kind == "disk" else FatefulMount
    for number in calls:
        where, trace = folder / f"{fate}-{number}", folder / f"{fate}-{number}-trace"
        shutil.copytree(folder / "origin", where)
        door = door_of(fate, number)

        def fated(door: Any = door, where: Path = where, trace: Path = trace) -> dict[str, Any]:
            door.install()
            return {**life(f"parquet:{where}", trace), "met": door.met}

        first = forked(fated, folder / "errors")
        if not first["killed"] and not first.get("met"):
            return
        told = [line.split() for line in trace.read_text().splitlines()] if trace.exists() else []
        done = stored + [int(one) for verb, one in told if verb == "done"]
        tried = stored + [int(one) for verb, one in told if verb == "try"]
        then = look(f"parquet:{where}", where)
        sink = open_sink(f"parquet:{where}")
        assert isinstance(sink, ParquetSink)
        after = {"then": then, "count": sink.compact(), "end": look(f"parquet:{where}", where)}
        shutil.rmtree(where)
        yield {
            "kind": kind,
            "fate": fate,
            "n": number,
            "first": first,
            "done": right(done),
            "tried": right(tried),
            **after,
        }


def main(kind: str, fates: list[str], folder: Path, stride: int) -> None:
    stored = prepare(folder / "origin")
    if kind == "mount":
        FatefulMount("none", 0).install()  # what a mount leaves is read by the rules of mounts
    for place, fate in enumerate(fates):
        for line in lives(kind, fate, folder, count(1 + place % stride, stride), stored):
            sys.stdout.write(json.dumps(line) + "\n")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2].split(","), Path(sys.argv[3]), int(sys.argv[4]))
    sys.stdout.flush()
    os._exit(0)
