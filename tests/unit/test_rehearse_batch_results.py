"""Queues and sinks compared by meaning: claims, times and order count for nothing, what is lost or doubled for all."""

import json
import math
import os
import sqlite3
from collections.abc import Callable, Mapping
from contextlib import closing
from pathlib import Path

import pytest

import outlast
from outlast.errors import SettingsError
from outlast.events import BatchStarted, Recorded
from outlast.items import Draft, Failure, Result
from outlast.registry import open_queue, open_sink
from outlast.rehearsal_place import REHEARSAL_FOLDER, local_path
from outlast.rehearse.batches import Batch, compare_batches, find_batches, is_own_words, without_batches
from outlast.rehearse.compare import Distance
from outlast.rehearse.records import explain_records

QUEUE = "sqlite:///work.db"
SINKS = [
    "sqlite:///results.db?table=labels",
    "sqlite:///work.db?table=labels",
    "jsonl:out/r.jsonl",
    "parquet:out",
    "out",
]
VALUES: Mapping[str, object] = {"a": 1, "b": {"label": "cat", "score": 0.5}, "c": None}


def fill(
    folder: Path,
    sink: str,
    values: Mapping[str, object],
    *,
    done: str = "abc",
    dead: str = "",
    claim: int = 1,
    version: str | None = "m-1",
) -> None:
    """Publishes a, b and c; some are acknowledged, some dead, and the sink holds what it is given."""
    folder.mkdir(exist_ok=True)
    here = Path.cwd()
    os.chdir(folder)
    try:
        with closing(open_queue(QUEUE)) as queue, closing(open_sink(sink)) as place:
            queue.publish([Draft(name, json.dumps({"n": name})) for name in "abc"])
            for _ in range(claim - 1):
                lease = queue.lease(3, 60, begin=False, max_deaths=3)
                assert lease is not None
                queue.release(lease, list("abc"))
            lease = queue.lease(3, 60, begin=True, max_deaths=3)
            assert lease is not None
            place.prepare()
            order = sorted(values, reverse=claim > 1)
            place.store([Result(name, json.dumps(values[name]), version, claim) for name in order])
            queue.ack(lease, list(done))
            queue.bury(lease, [Failure(name, "it is broken") for name in dead])
            queue.release(lease, [name for name in "abc" if name not in done + dead])
    finally:
        os.chdir(here)


def batch(folder: Path, sink: str) -> tuple[Batch, ...]:
    started = BatchStarted(QUEUE, sink, "m-1", str(folder))
    return find_batches([Recorded(started, 1.0, 1.0)], folder)


def compared(tmp_path: Path, sink: str) -> dict[str, Distance]:
    """By "queue" and "sink"; whatever else differs by its path."""
    found = compare_batches(batch(tmp_path / "1", sink), tmp_path / "1", tmp_path / "2")
    return {name.partition(" ")[0]: distance for name, distance in found}


@pytest.mark.parametrize("sink", SINKS)
def test_claims_times_and_order_mean_nothing(sink: str, tmp_path: Path) -> None:
    fill(tmp_path / "1", sink, VALUES)
    fill(tmp_path / "2", sink, VALUES, claim=3)
    assert all(distance.equal for distance in compared(tmp_path, sink).values())
    assert set(compared(tmp_path, sink)) == {"queue", "sink"}


WRONG: dict[str, tuple[Callable[..., None], dict[str, str]]] = {
    "a value": (
        lambda folder, sink: fill(folder, sink, {**VALUES, "b": {"label": "dog", "score": 0.5}}),
        {"sink": 'result of \'b\'.label: expected "cat", found "dog"'},
    ),
    "a version": (
        lambda folder, sink: fill(folder, sink, VALUES, version="m-2"),
        {"sink": "3 results are of another version: 'a' has 'm-2', expected 'm-1'"},
    ),
    "a result is missing": (
        lambda folder, sink: fill(folder, sink, {"a": 1, "c": None}),
        {"sink": "1 item is done in the queue and has no result: 'b'; acknowledged before"},
    ),
    "work is left": (
        lambda folder, sink: fill(folder, sink, {"a": 1}, done="a"),
        {
            "queue": "2 of 3 items are neither done nor dead letters: 'b', 'c'",
            "sink": "2 results are missing: 'b', 'c'",
        },
    ),
    "a dead letter": (
        lambda folder, sink: fill(folder, sink, {"a": 1, "c": None}, done="ac", dead="b"),
        {"queue": "1 item is dead letters that the uninterrupted run has not: 'b'; it is broken"},
    ),
    "results of nobody": (
        lambda folder, sink: fill(folder, sink, {**VALUES, "z": 1}),
        {"sink": "1 result too many: 'z'"},
    ),
}


@pytest.mark.parametrize("kind", WRONG)
@pytest.mark.parametrize("sink", SINKS)
def test_what_is_lost_or_too_much_is_named(sink: str, kind: str, tmp_path: Path) -> None:
    make, expected = WRONG[kind]
    fill(tmp_path / "1", sink, VALUES)
    make(tmp_path / "2", sink)
    found = compared(tmp_path, sink)
    for name, detail in expected.items():
        assert detail in found[name].detail
    assert {name for name, distance in found.items() if math.isinf(distance.relative)} >= set(expected)


def test_two_results_of_one_id_are_seen_in_a_file_of_lines(tmp_path: Path) -> None:
    for name in "12":
        fill(tmp_path / name, "jsonl:r.jsonl", VALUES)
    with (tmp_path / "2/r.jsonl").open("a") as file:
        file.write('{"id": "a", "value": 1, "version": "m-1", "claim": 9}\n')
    assert "1 id has more than one result: 'a'" in compared(tmp_path, "jsonl:r.jsonl")["sink"].detail


def test_numbers_have_a_distance_and_other_tables_are_compared(tmp_path: Path) -> None:
    sink = "sqlite:///work.db?table=labels"
    fill(tmp_path / "1", sink, VALUES)
    fill(tmp_path / "2", sink, {**VALUES, "b": {"label": "cat", "score": 0.500001}})
    assert compared(tmp_path, sink)["sink"].relative == pytest.approx(2e-6, rel=0.1)
    for name in "12":
        with closing(sqlite3.connect(tmp_path / name / "work.db")) as database, database:
            database.execute("CREATE TABLE results (n INTEGER)")
            database.executemany("INSERT INTO results VALUES (?)", [(1,), (2,)][: int(name)])
    assert "table results, row 2 is too much" in compared(tmp_path, sink)["work.db"].detail


def test_a_place_that_cannot_be_read_is_not_the_same(tmp_path: Path) -> None:
    for name in "12":
        fill(tmp_path / name, "jsonl:r.jsonl", VALUES)
    (tmp_path / "2/r.jsonl").write_text('{"id": "a"\n')
    assert "cannot be read" in compared(tmp_path, "jsonl:r.jsonl")["sink"].detail
    for name in "12":
        (tmp_path / name / "r.jsonl").unlink()
    assert math.isinf(compared(tmp_path, "jsonl:r.jsonl")["sink"].relative)


@pytest.mark.parametrize(
    ("sink", "left"), [("out", ["out/notes.txt", "t.csv"]), ("parquet:out", ["out/notes.txt", "t.csv"])]
)
def test_what_else_lies_in_the_folder_of_a_sink_stays_a_result(sink: str, left: list[str], tmp_path: Path) -> None:
    fill(tmp_path / "1", sink, VALUES)
    (tmp_path / "1/out/notes.txt").write_text("mine")
    (tmp_path / "1/t.csv").write_text("mine")
    files = sorted(str(path.relative_to(tmp_path / "1")) for path in (tmp_path / "1").rglob("*") if path.is_file())
    assert without_batches(files, batch(tmp_path / "1", sink)) == left


def test_what_lies_outside_is_named_and_belongs_to_nobody(tmp_path: Path) -> None:
    started = BatchStarted("postgresql://db/x", "jsonl:../r.jsonl", None, str(tmp_path))
    (found,) = find_batches([Recorded(started, 1.0, 1.0)], tmp_path)
    assert found.places == []
    assert found.outside == ("postgresql://db/x", "jsonl:../r.jsonl")
    (own,) = find_batches([Recorded(BatchStarted(QUEUE, "", None, str(tmp_path)), 1.0, 1.0)], tmp_path)
    assert (own.own, own.outside) == (True, ())


PLACES = {
    "sqlite:///work.db": "work.db",
    "sqlite:///a/work.db": "a/work.db",
    "jsonl:r.jsonl": "r.jsonl",
    "parquet:out": "out",
    "parquet:file:///mnt/out": "/mnt/out",
    "sqlite:////mnt/work.db": "/mnt/work.db",
    "out": "out",
    "./a:b": "a:b",
    "file:///mnt/out": "/mnt/out",
    "parquet:s3://bucket/out": None,
    "gs://bucket/out": None,
    "postgresql://host/db": None,
    "pubsub://project/subscription": None,
}


@pytest.mark.parametrize("url", PLACES)
def test_in_a_rehearsal_no_place_outside_the_copy_is_opened(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = PLACES[url]
    monkeypatch.chdir(tmp_path)
    assert local_path(url) == (None if path is None else str(tmp_path / path))
    outside = path is None or path.startswith("/")
    monkeypatch.setenv(REHEARSAL_FOLDER, str(tmp_path))
    opens = outlast.Queue if url.startswith(("sqlite", "postgresql", "pubsub")) else open_sink
    if outside:
        with pytest.raises(SettingsError, match="outside of the rehearsal's copy"):
            opens(url)
    else:
        opens(url).close()
    monkeypatch.setenv(REHEARSAL_FOLDER, str(tmp_path / "elsewhere"))
    with pytest.raises(SettingsError, match="outside"):
        opens(url)


def test_a_workers_own_words_are_no_result() -> None:
    assert is_own_words("nothing is left: 1,200 computed here, 3 known already, 0 dead")
    assert is_own_words("nothing came: 1 computed here, 0 known already")
    assert is_own_words('{"computed": 12, "known": 0, "failed": 0, "dead": 0}')
    assert not is_own_words("accuracy 97 % of 1200")


def test_records_too_many_or_too_few_are_explained(tmp_path: Path) -> None:
    ours, theirs = tmp_path / "a.csv", tmp_path / "b.csv"
    ours.write_text("i-1,1\ni-2,4\ni-3,9\n")
    for text, words in {
        "i-1,1\ni-2,4\ni-2,4\ni-3,9\n": "1 record is too many, which are there already, the first of them i-2,4",
        "i-1,1\ni-3,9\n": "1 record is missing, the first of them i-2,4",
        "i-3,9\ni-3,9\ni-1,1\n": "1 record is missing",
        "i-3,9\ni-2,4\ni-1,1\n": "the same 3 records in another order",
    }.items():
        theirs.write_text(text)
        assert words in (explain_records(ours, theirs) or "")
    for other in ("i-1,1\ni-2,5\ni-3,9\n", "i-1,1\ni-2,4\ni-3,9\nnew\n"):
        theirs.write_text(other)
        assert explain_records(ours, theirs) is None
