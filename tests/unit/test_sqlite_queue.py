"""What is special about the queue in a SQLite file: clocks, boots, forks, places where it cannot be."""

import os
import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import outlast
from outlast.items import Draft, Lease, Result
from outlast.paging import rows_to_read
from outlast.queues.sqlite import SqliteQueue
from outlast.registry import open_queue, open_sink
from outlast.testing import FakeClock


def _taken(queue: SqliteQueue) -> object:
    return queue.lease(1, 60.0, begin=True, max_deaths=3)


@pytest.mark.parametrize("jump", [3600.0, -3600.0])
def test_b31_a_wall_clock_that_jumps_ends_no_lease(tmp_path: Path, jump: float) -> None:
    url, clock, other = f"sqlite:///{tmp_path}/w.db", FakeClock(), FakeClock()
    queue, ahead = SqliteQueue(url, clock=clock), SqliteQueue(url, clock=other)
    queue.publish([Draft("a", "1")])
    lease = _taken(queue)
    other.set_wall(other.wall_seconds() + jump)
    clock.advance(59)
    other.advance(59)
    assert _taken(ahead) is None
    assert queue.ack(lease, ["a"]) == {"a"}


def test_a_lease_of_another_boot_has_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    url = f"sqlite:///{tmp_path}/w.db"
    queue = SqliteQueue(url, clock=FakeClock(monotonic_seconds=900_000.0))  # up for days
    queue.publish([Draft("a", "1"), Draft("b", "1")])
    queue.fail(_taken(queue), [], max_errors=3)
    monkeypatch.setattr("outlast.queues.sqlite.boot_name", lambda: "another boot")
    after = SqliteQueue(url, clock=FakeClock(monotonic_seconds=10.0))
    leases = [_taken(after), _taken(after)]
    assert sorted(lease.items[0].id for lease in leases) == ["a", "b"]


def test_a_forked_child_uses_a_connection_of_its_own(tmp_path: Path) -> None:
    queue = open_queue(f"sqlite:///{tmp_path}/w.db")
    queue.publish([Draft("a", "1"), Draft("b", "1")])
    pid = os.fork()
    if pid == 0:
        lease = queue.lease(1, 60, begin=True, max_deaths=3)
        os._exit(0 if lease is not None and queue.ack(lease, ["a"]) == {"a"} else 1)
    assert os.waitpid(pid, 0)[1] == 0
    stats = queue.stats()
    assert (stats.ready, stats.done) == (1, 1)


@pytest.mark.parametrize(
    "url",
    ["sqlite://", "sqlite:///", "sqlite:///a.db?mode=ro", "sqlite:work.db", "redis://x", "work.db", "pubsub:x", ""],
)
def test_a_url_that_names_no_queue_is_refused_by_name(url: str) -> None:
    with pytest.raises(outlast.SettingsError, match="queue="):
        outlast.Queue(url)


def test_a_file_that_is_something_else_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("these are my notes, and no database at all, and long enough to look like one" * 20)
    before = path.read_bytes()
    for act in (lambda: outlast.Queue(f"sqlite:///{path}").publish({"a": 1}), open_sink(f"sqlite:///{path}").prepare):
        with pytest.raises(outlast.SettingsError, match=r"notes\.txt"):
            act()
    assert path.read_bytes() == before


def test_a_place_that_cannot_be_written_says_so(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for url, code in ((f"sqlite:///{tmp_path}/file/work.db", 75), (f"sqlite:///{tmp_path}", 78)):
        with pytest.raises(outlast.ExitingError) as caught:
            outlast.Queue(url).publish({"a": 1})
        assert caught.value.code == code
        assert str(tmp_path) in str(caught.value)


@pytest.mark.parametrize("kind", ["nfs4", "fuse.gcsfuse", "fuse", "cifs", "9p"])
def test_a_network_mount_is_refused_before_anything_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    monkeypatch.setattr("outlast.sqlite_files.file_system_of", lambda path: kind)
    with pytest.raises(outlast.SettingsError, match="postgresql"):
        outlast.Queue(f"sqlite:///{tmp_path}/work.db").publish({"a": 1})
    assert list(tmp_path.iterdir()) == []


def test_relative_and_absolute_urls_name_the_same_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    outlast.Queue("sqlite:///work.db").publish({"a": 1})
    assert (tmp_path / "work.db").exists()
    assert outlast.Queue(f"sqlite:////{str(tmp_path).lstrip('/')}/work.db").stats().ready == 1
    assert open_queue("sqlite:///work.db").database == open_sink(f"sqlite:///{tmp_path}/work.db?table=t").database


@pytest.mark.parametrize("table", ["", "sqlite_master", "outlast_items"])
def test_a_table_that_a_sink_cannot_have_is_refused(tmp_path: Path, table: str) -> None:
    with pytest.raises(outlast.SettingsError, match="table"):
        open_sink(f"sqlite:///{tmp_path}/r.db?table={table}")


def test_a_table_of_another_shape_is_left_alone(tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "r.db") as connection:
        connection.execute("CREATE TABLE labels (id TEXT, value TEXT)")
    connection.close()
    with pytest.raises(outlast.SettingsError, match="no column version; it has no column claim"):
        open_sink(f"sqlite:///{tmp_path}/r.db?table=labels").prepare()


def test_a_table_that_wants_more_than_a_sink_gives_is_refused_before_any_work(tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "r.db") as connection:
        columns = "id TEXT PRIMARY KEY, value TEXT, version TEXT, claim INTEGER, at REAL NOT NULL DEFAULT 0"
        connection.execute(f"CREATE TABLE good ({columns})")
        connection.execute(f"CREATE TABLE bad ({columns}, who TEXT NOT NULL)")
    connection.close()
    open_sink(f"sqlite:///{tmp_path}/r.db?table=good").prepare()
    with pytest.raises(outlast.SettingsError, match="column who must be given and has no default"):
        open_sink(f"sqlite:///{tmp_path}/r.db?table=bad").prepare()


def test_large_payloads_and_values_are_read_a_few_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    queue, sink = outlast.Queue(f"sqlite:///{tmp_path}/w.db"), open_sink(f"sqlite:///{tmp_path}/w.db")
    sink.prepare()
    large = "x" * 100_000
    queue.publish((f"item-{number:03d}", large) for number in range(160))
    sink.store([Result(f"item-{number:03d}", f'"{large}"', None, 1) for number in range(160)])
    asked: list[int] = []

    def noted(last: int, characters: int) -> int:
        asked.append(rows_to_read(last, characters))
        return asked[-1]

    for module in ("queues", "sinks"):
        monkeypatch.setattr(f"outlast.{module}.sqlite.rows_to_read", noted)
    assert len(list(queue.items())) == len(list(sink.results())) == 160
    assert asked == [41, 41] * 2  # of a tenth of a megabyte each


def test_who_only_looks_makes_no_file(tmp_path: Path) -> None:
    queue = outlast.Queue(f"sqlite:///{tmp_path}/typo.db")
    assert queue.stats().ready == 0
    assert list(queue.items()) == []
    assert queue.retry() == 0
    assert _taken(queue.port) is None
    assert not queue.port.extend("1", 5.0)
    assert list(tmp_path.iterdir()) == []
    queue.publish({"a": 1})
    assert queue.stats().ready == 1


def test_ids_alone_can_be_published_and_what_is_rejected_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with outlast.Queue(f"sqlite:///{tmp_path}/work.db") as queue:
        assert queue.publish(["a", "b"]).new == 2
        assert {item.id: item.payload for item in queue.items()} == {"a": '{"id":"a"}', "b": '{"id":"b"}'}
        assert capsys.readouterr().err == ""
        assert len(queue.publish({7: 1, "c": 1}).rejected) == 1  # type: ignore[dict-item]  # what a user may try
        assert "1 of the rows" in capsys.readouterr().err


_OF_A_LEASE: dict[str, tuple[Callable[[Any, Lease], object], object]] = {
    "begin": (lambda queue, lease: queue.begin(lease), False),
    "extend": (lambda queue, lease: queue.extend(lease.renewal, 60.0), False),
    "expire": (lambda queue, lease: queue.expire(lease.renewal), None),
    "lift": (lambda queue, lease: queue.lift(lease, {"a": 3}).items, ()),
    "ack": (lambda queue, lease: queue.ack(lease, ["a"]), frozenset()),
    "held": (lambda queue, lease: queue.held(lease.renewal), frozenset()),
    "unsent": (lambda queue, lease: list(queue.unsent(["a"])), []),
    "mark_sent": (lambda queue, lease: queue.mark_sent(["a"]), None),
}


@pytest.mark.parametrize("verb", _OF_A_LEASE)
def test_a_file_that_was_deleted_under_a_worker_is_not_made_anew(verb: str, tmp_path: Path) -> None:
    """Neither by its keeper, which sees it for the first time, nor by the worker, nor by one that had let go of it."""
    ask, answer = _OF_A_LEASE[verb]
    path = tmp_path / "work.db"
    worker = open_queue(f"sqlite:///{path}")
    worker.publish([Draft("a", "1")])
    lease = worker.lease(1, 60.0, begin=True, max_deaths=3)
    closed = open_queue(f"sqlite:///{path}")
    assert closed.stats().leased == 1
    closed.close()
    shutil.rmtree(tmp_path)
    tmp_path.mkdir()
    assert ask(open_queue(f"sqlite:///{path}"), lease) == ask(closed, lease) == answer
    with pytest.raises(outlast.QueueUnreachable, match="was deleted"):
        ask(worker, lease)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("url", ["results.db", "out.JSONL", "a/b.parquet", "x.csv"])
def test_a_sink_without_its_scheme_is_no_folder(url: str) -> None:
    with pytest.raises(outlast.SettingsError, match="write"):
        open_sink(url)


@pytest.mark.parametrize(
    "url", ["parqet:out", "gs:bucket/results", "mysql://u:secret@h/d", "csv:out.csv", "postgresql+x:a"]
)
def test_a_sink_whose_scheme_is_mistyped_is_no_folder(url: str) -> None:
    with pytest.raises(outlast.SettingsError, match=r"sink=.*is no sink's URL.*parquet:FOLDER") as caught:
        open_sink(url)
    assert "secret" not in str(caught.value)


def test_a_queue_whose_scheme_is_mistyped_shows_no_password() -> None:
    with pytest.raises(outlast.SettingsError, match="is no queue's URL") as caught:
        open_queue("postgresql+psycopg://u:secret@h/d")
    assert "secret" not in str(caught.value)


def test_the_dead_are_found_by_their_index_among_any_number(tmp_path: Path) -> None:
    queue = SqliteQueue(f"sqlite:///{tmp_path}/work.db")
    queue.publish([Draft(f"{number}", "1") for number in range(50)])
    told: list[str] = []
    with queue._file.reading() as connection:
        connection.set_trace_callback(told.append)
    assert list(queue.items("dead")) == []
    assert queue.retry() == 0
    asked = [one for one in told if "outlast_items" in one and "state = 3" in one]
    assert len(asked) == 2
    with queue._file.reading() as connection:
        connection.set_trace_callback(None)
        plans = [str(connection.execute(f"EXPLAIN QUERY PLAN {one}").fetchall()) for one in asked]
    assert all("outlast_dead" in plan for plan in plans), plans
