"""PostgreSQL as it is: restarts, silence, other people's tables, users without rights, passwords, many at once."""

import os
import threading
import time
import traceback
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest

from outlast.errors import ExitingError, QueueUnreachable, SettingsError, SinkUnreachable
from outlast.items import Draft, Failure, Lease, Result
from outlast.postgresql import PostgresDatabase, one_trip
from outlast.queues.postgres import PostgresQueue
from outlast.sinks.postgres import PostgresSink
from service import postgres_server
from service.postgres_server import execute, fresh_database, fresh_queue, fresh_table


def drafts(count: int) -> list[Draft]:
    return [Draft(f"item-{number:05d}", f'{{"n":{number}}}') for number in range(count)]


def taken(queue: PostgresQueue, most: int = 10, *, seconds: float = 60.0) -> Lease | None:
    return queue.lease(most, seconds, begin=True, max_deaths=3)


def stored_and_acked(queue: PostgresQueue, sink: PostgresSink, lease: Lease) -> frozenset[str]:
    def storing(connection: object, held: frozenset[str]) -> None:
        sink.store(
            [Result(item.id, "1", None, item.claim) for item in lease.items if item.id in held], connection=connection
        )

    return queue.ack(lease, [item.id for item in lease.items], storing=storing)


def database(url: str, **how: float) -> PostgresDatabase:
    return PostgresDatabase(url, setting="queue", known=frozenset(), unreachable=QueueUnreachable, **how)


# --- the server goes away -----------------------------------------------------------------------------


def test_work_goes_on_after_the_server_was_killed_and_started_again() -> None:
    with postgres_server.own_server() as server:
        queue, sink = PostgresQueue(server.url), PostgresSink(f"{server.url}?table=labels")
        sink.prepare()
        queue.publish(drafts(1500))
        slow = taken(queue, 5, seconds=0.5)
        assert slow is not None

        def work() -> None:
            mine, into = PostgresQueue(server.url), PostgresSink(f"{server.url}?table=labels")
            while lease := taken(mine, 5):
                stored_and_acked(mine, into, lease)  # or nothing of it: the server may have forgotten the lease
                time.sleep(0.002)

        with ThreadPoolExecutor(3) as pool:
            workers = [pool.submit(work) for _ in range(3)]
            time.sleep(0.3)
            server.stop_at_once()
            time.sleep(0.5)
            server.start()
            assert 0 < (queue.stats().done or 0) < 1500
            for worker in workers:
                worker.result()
        # It ended while nobody could renew it, which is not its worker's fault.
        assert queue.extend(slow.renewal, 60)
        assert len(stored_and_acked(queue, sink, slow)) == 5
        assert {result.id for result in sink.results()} == {draft.id for draft in drafts(1500)}
        stats = queue.stats()
        assert (stats.ready, stats.leased, stats.done, stats.dead) == (0, 0, 1500, 0)
        assert {item.deaths for item in queue.items()} == {0}


def test_a_server_that_stays_away_is_named_without_its_password() -> None:
    url = "postgresql://worker:s3cret@127.0.0.1:1/db"
    for error, verb in (
        (QueueUnreachable, PostgresQueue(url, patience_seconds=0.1).stats),
        (SinkUnreachable, PostgresSink(url, patience_seconds=0.1).prepare),
    ):
        with pytest.raises(error, match=r"postgresql://worker:\*\*\*@127.0.0.1:1/db") as raised:
            verb()
        assert raised.value.code == 75
        assert "s3cret" not in "".join(traceback.format_exception(raised.value))


def test_a_server_that_does_not_answer_is_not_waited_for_for_ever() -> None:
    silent = database(fresh_queue().partition("?")[0], patience_seconds=0.1)
    begun = time.monotonic()
    with pytest.raises(QueueUnreachable, match="no answer within"):
        silent.run(lambda connection, _: connection.execute("SELECT pg_sleep(60)"), answer_seconds=0.3)
    assert time.monotonic() - begun < 5
    assert silent.run(lambda connection, _: connection.execute("SELECT 1").fetchall()) == [(1,)]


def test_a_deadlock_is_nobodys_business() -> None:
    url = fresh_database()
    execute(url, "CREATE TABLE pair (id integer PRIMARY KEY, n integer)", "INSERT INTO pair VALUES (1, 0), (2, 0)")

    def add(first: int, second: int) -> None:
        def work(connection: psycopg.Connection[tuple[object, ...]], _: bool) -> None:
            with one_trip(connection):
                connection.execute("UPDATE pair SET n = n + 1 WHERE id = %s", (first,))
                connection.execute("SELECT pg_sleep(0.2)")
                connection.execute("UPDATE pair SET n = n + 1 WHERE id = %s", (second,))

        database(f"{url}?options=-cdeadlock_timeout%3D50ms").run(work)

    with ThreadPoolExecutor(2) as pool:
        for done in [pool.submit(add, 1, 2), pool.submit(add, 2, 1)]:
            done.result()
    assert execute(url, "SELECT n FROM pair") == [(2,), (2,)]


def test_a_forked_child_uses_the_queue_and_leaves_its_parents_sessions_alone() -> None:
    queue = PostgresQueue(fresh_queue())
    queue.publish(drafts(2))
    [before] = queue._database._idle
    child = os.fork()
    if child == 0:
        left = 1
        try:
            lease = taken(queue, 1)
            assert lease is not None
            left = 0 if queue.ack(lease, [item.id for item in lease.items]) else 2
        finally:
            os._exit(left)
    assert os.waitpid(child, 0)[1] == 0
    assert queue.stats().done == 1
    assert queue._database._idle == [before]


# --- many at once -------------------------------------------------------------------------------------


def test_many_make_the_tables_at_once() -> None:
    url = fresh_database()

    def start(number: int) -> int:
        PostgresSink(f"{url}?table=labels").prepare()
        return PostgresQueue(f"{url}?queue=q{number % 2}").publish(drafts(5)).new

    with ThreadPoolExecutor(8) as pool:
        assert sum(pool.map(start, range(8))) == 10


def test_queues_in_one_database_do_not_mix() -> None:
    url = fresh_database()
    one, other = PostgresQueue(f"{url}?queue=one"), PostgresQueue(f"{url}?queue=o%27ther")
    one.publish(drafts(3))
    other.publish(drafts(2))
    lease = taken(other)
    assert lease is not None
    assert len(lease.items) == 2
    one.bury(lease, [])
    assert (one.stats().ready, other.stats().leased) == (3, 2)
    assert one.retry(state="done") == 0
    assert [item.id for item in one.items()] == [draft.id for draft in drafts(3)]


def test_counts_are_true_whatever_many_hands_do_while_a_keeper_extends() -> None:
    url, renewals, done = fresh_database(), [], threading.Event()
    queue = PostgresQueue(url)
    queue.publish(drafts(400))

    def keep() -> None:
        keeper = PostgresQueue(url)
        while not done.is_set():
            for renewal in renewals[-4:]:
                keeper.extend(renewal, 60)

    def work(number: int) -> None:
        mine = PostgresQueue(url)
        while lease := taken(mine, 7):
            renewals.append(lease.renewal)
            ids = [item.id for item in lease.items]
            mine.ack(lease, ids[number::3])
            mine.release(lease, [name for name in ids if name.endswith("7") and lease.items[0].releases == 0])
            mine.ack(lease, ids)

    with ThreadPoolExecutor(4) as pool:
        keeping = pool.submit(keep)
        working = [pool.submit(work, number) for number in range(3)]
        try:
            for one in working:
                one.result()
        finally:
            done.set()
        keeping.result()
    assert counted(url) == {"done": 400}
    assert execute(url, "SELECT count(*) FROM outlast_leases") == [(0,)]


def test_a_worker_that_looks_behind_what_it_had_comes_back_for_what_others_release(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("outlast.queues.postgres._SLOW_LOOK_SECONDS", 0.0)
    monkeypatch.setattr("outlast.queues.postgres._LOOKS_BETWEEN", 1e6)
    url = fresh_queue()
    mine, other = PostgresQueue(url), PostgresQueue(url)
    mine.publish(drafts(6))
    first, second = taken(other, 2), taken(mine, 2)
    assert first is not None
    assert second is not None
    other.release(first, [item.id for item in first.items])
    found = [lease for lease in (taken(mine, 2), taken(mine, 2)) if lease is not None]
    assert [item.id for lease in found for item in lease.items] == [f"item-{number:05d}" for number in (4, 5, 0, 1)]
    mine.release(second, [item.id for item in second.items])
    again = taken(mine)
    assert again is not None
    assert [item.id for item in again.items] == ["item-00002", "item-00003"]


def counted(url: str) -> dict[str, int]:
    """Items by state, which must be what the counts say."""
    queue = PostgresQueue(url)
    states = [item.state for item in queue.items()]
    stats = queue.stats()
    told = {"ready": stats.ready, "leased": stats.leased, "done": stats.done, "dead": stats.dead}
    assert told == {state: states.count(state) for state in told}
    return {state: count for state, count in told.items() if count}


# --- store and ack ------------------------------------------------------------------------------------


def test_queue_and_sink_know_that_they_share_a_database_and_when_they_do_not() -> None:
    url = fresh_database()
    queue, sink = PostgresQueue(f"{url}?queue=a"), PostgresSink(f"{url}?table=b&application_name=c")
    assert queue.database == sink.database
    assert PostgresSink(fresh_database()).database != queue.database
    elsewhere = PostgresSink(f"{url}?options=-csearch_path%3Dpg_temp")  # where its table would be another one
    assert elsewhere.database != queue.database


def test_what_is_stored_in_an_ack_is_not_there_when_the_ack_is_undone() -> None:
    url = fresh_database()
    queue, sink = PostgresQueue(url), PostgresSink(url)
    sink.prepare()
    queue.publish(drafts(3))
    lease = taken(queue)
    assert lease is not None

    def storing(connection: object, held: frozenset[str]) -> None:
        sink.store([Result(item.id, "1", None, item.claim) for item in lease.items], connection=connection)
        raise RuntimeError("at the last moment")

    with pytest.raises(RuntimeError, match="last moment"):
        queue.ack(lease, [item.id for item in lease.items], storing=storing)
    assert (list(sink.results()), queue.stats().leased) == ([], 3)
    assert len(stored_and_acked(queue, sink, lease)) == 3
    assert (len(list(sink.results())), queue.stats().done) == (3, 3)


def test_a_store_that_the_server_refuses_inside_an_ack_is_told_and_undone() -> None:
    url = fresh_database()
    queue, sink = PostgresQueue(url), PostgresSink(url)
    sink.prepare()
    queue.publish(drafts(3))
    lease = taken(queue)
    assert lease is not None
    execute(url, "DROP TABLE results")
    with pytest.raises(SettingsError, match='relation "results" does not exist'):
        stored_and_acked(queue, sink, lease)
    assert queue.stats().leased == 3


# --- what cannot be -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://worker:s3cret@more@127.0.0.1:1/db",
        "postgresql://worker:s3cret/more@127.0.0.1:1/db",
        "postgresql://worker:s3cret?more@127.0.0.1:1/db",
        "postgresql://worker:%s3cret@127.0.0.1:1/db",
        "postgresql://worker:s3cret@127.0.0.1:port/db",
        "postgresql://127.0.0.1:1/db?user=worker&password=s3cret",
        "postgresql://127.0.0.1:1/db?PASSWORD=s3cret&tabel=x",
        "postgresql://worker:s3cret@127.0.0.1:1/db?tabel=x",
        "postgresql://worker:s3cret@127.0.0.1:1/db?connect_timeout=soon",
        "postgresql://worker:s3cret@[::1/db",
    ],
)
@pytest.mark.parametrize("opened", [PostgresQueue, PostgresSink])
def test_no_error_shows_a_password(url: str, opened: Callable[..., PostgresQueue | PostgresSink]) -> None:
    with pytest.raises(ExitingError) as raised:
        _ = opened(url, patience_seconds=0.0).database
    assert "s3cret" not in "".join(traceback.format_exception(raised.value))
    assert "worker" in str(raised.value) or "127.0.0.1" in str(raised.value)


def test_a_wrong_database_is_told_at_once() -> None:
    url, begun = postgres_server.server().url.removesuffix("postgres") + "nowhere", time.monotonic()
    with pytest.raises(SettingsError, match=r'"nowhere" does not exist: make it .createdb'):
        PostgresQueue(url).stats()
    with pytest.raises(SettingsError, match=r'"nobody-here" does not exist: make it .createuser'):
        PostgresQueue(url.replace("postgres@", "nobody-here@")).stats()
    assert time.monotonic() - begun < 3


def test_a_user_without_rights_is_told_which_is_missing_before_any_work() -> None:
    url = fresh_database()
    execute(
        url,
        "DROP ROLE IF EXISTS looker",
        "CREATE ROLE looker LOGIN",
        "CREATE TABLE results (id text PRIMARY KEY, value text, version text, claim bigint)",
        "GRANT SELECT ON results TO looker",
    )
    as_looker = url.replace("postgres@", "looker@")
    with pytest.raises(SettingsError, match=r"permission denied for table results: ask its owner .*GRANT"):
        PostgresSink(as_looker).prepare()
    execute(url, f"REVOKE CONNECT ON DATABASE {url.rpartition('/')[2].partition('?')[0]} FROM PUBLIC")
    with pytest.raises(SettingsError, match=r"permission denied for database .*GRANT"):
        PostgresSink(as_looker).prepare()
    execute(url, f"GRANT CONNECT ON DATABASE {url.rpartition('/')[2].partition('?')[0]} TO looker")
    with pytest.raises(SettingsError, match="permission denied for schema public"):
        PostgresQueue(as_looker).publish(drafts(1))
    PostgresQueue(url).publish(drafts(2))
    execute(url, "GRANT SELECT ON ALL TABLES IN SCHEMA public TO looker")
    watching = PostgresQueue(as_looker)  # to look is enough for looking
    assert watching.stats().ready == 2
    with pytest.raises(SettingsError, match="permission denied"):
        taken(watching)


def test_a_table_that_is_not_there_is_told_with_those_that_are() -> None:
    url = fresh_database()
    PostgresQueue(url).publish(drafts(1))
    for table in ("feats", "Labels", "a.t"):
        execute(url, "CREATE SCHEMA IF NOT EXISTS a")
        PostgresSink(f"{url}?table={table}").prepare()
    with pytest.raises(
        SettingsError, match=r'there is no table "feat" \(\?table=\); there is Labels, feats$'
    ) as raised:
        list(PostgresSink(f"{url}?table=feat").results())
    assert "LINE" not in str(raised.value)
    for table in ("feats", "Labels", "a.t"):
        assert list(PostgresSink(f"{url}?table={table}").results()) == []


def test_a_server_that_is_waited_for_is_told_once(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("outlast.postgresql._TELL_AFTER_SECONDS", 0.1)
    with pytest.raises(QueueUnreachable):
        database("postgresql://worker:s3cret@127.0.0.1:1/db", patience_seconds=0.5).run(lambda *_: None)
    said = capsys.readouterr().err
    assert said.count("does not answer: ") == 1
    assert "trying for 0.5 s" in said
    assert "s3cret" not in said


def test_a_database_that_is_read_only_for_now_is_unreachable() -> None:
    url = fresh_table()
    PostgresSink(url).prepare()
    sink = PostgresSink(f"{url}&options=-cdefault_transaction_read_only%3Don", patience_seconds=0.2)
    with pytest.raises(SinkUnreachable, match="read-only"):
        sink.store([Result("a", "1", None, 1)])


@pytest.mark.parametrize(
    ("table", "lacks"),
    [
        ("CREATE TABLE t (id text PRIMARY KEY, value text, version text)", "no column claim"),
        ("CREATE TABLE t (id bigint PRIMARY KEY, value text, version text, claim bigint)", "id is bigint, not text"),
        ("CREATE TABLE t (id text PRIMARY KEY, value jsonb, version text, claim bigint)", "value is jsonb, not text"),
        ("CREATE TABLE t (id text, value text, version text, claim bigint)", "neither its primary key nor unique"),
        (
            "CREATE TABLE t (id text, value text, version text, claim bigint, PRIMARY KEY (id, version))",
            "neither its primary key nor unique",
        ),
        (
            "CREATE TABLE t (id text PRIMARY KEY, value text, version text, claim bigint, run text NOT NULL)",
            "column run must be given and has no default",
        ),
        ("CREATE VIEW t AS SELECT ''::text id, ''::text value, ''::text AS version, 1::bigint claim", "nor unique"),
    ],
)
def test_a_table_of_another_shape_is_left_alone_and_told(table: str, lacks: str) -> None:
    url = fresh_database()
    execute(url, table)
    with pytest.raises(SettingsError, match=lacks):
        PostgresSink(f"{url}?table=t").prepare()


def test_a_table_with_more_columns_is_used_and_they_are_left_alone() -> None:
    url = fresh_database()
    execute(
        url,
        "CREATE SCHEMA out",
        "CREATE TABLE out.t (at date DEFAULT now(), id varchar(9) UNIQUE, value text, version text, claim bigint)",
    )
    sink = PostgresSink(f"{url}?table=out.t")
    sink.prepare()
    sink.store([Result("a", "1", "v", 2), Result("a", "0", "v", 1), Result("a", "3", "v", 2)])
    assert list(sink.results()) == [Result("a", "3", "v", 2)]
    with pytest.raises(SettingsError, match="too long"):
        sink.store([Result("ten letters", "1", "v", 1)])


@pytest.mark.parametrize("name", ['my"table', "t'; DROP TABLE results; --", "Ä 🦜", "%25s", "select", "x" * 63])
def test_any_name_is_a_tables(name: str) -> None:
    url = fresh_database()
    sink = PostgresSink(f"{url}?table={name}")
    sink.prepare()
    sink.store([Result("a", "1", None, 1)])
    tables = "SELECT relname FROM pg_class WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace"
    assert execute(url, tables) == [(name.replace("%25", "%"),)]
    assert len(list(PostgresSink(f"{url}?table={name}").results())) == 1


@pytest.mark.parametrize("name", ["", "outlast_items", "a.b.c", "x" * 64, "a%00b", "."])
def test_what_cannot_be_a_tables_name_is_told(name: str) -> None:
    with pytest.raises(SettingsError, match="table="):
        PostgresSink(f"postgresql://127.0.0.1:1/db?table={name}")


def test_what_the_server_cannot_keep_is_refused_by_its_reason_and_the_rest_is_published() -> None:
    queue = PostgresQueue(fresh_queue())
    bad = [Draft("a\0b", "1"), Draft("\ud800", "1"), Draft("x" * 2001, "1"), Draft("p", '"\ud800"'), Draft("n", '"\0"')]
    told = queue.publish([*bad, Draft("ok", "1")])
    assert told.new == 1
    assert [name for name, _ in told.refused] == [draft.id for draft in bad]
    whys = [why for _, why in told.refused]
    assert all(word in why for word, why in zip(["NUL", "half a", "2,001 bytes", "half a", "NUL"], whys, strict=True))
    lease = taken(queue)
    assert lease is not None
    assert queue.ack(lease, [draft.id for draft in bad]) == frozenset()
    assert queue.retry([draft.id for draft in bad]) == 0
    queue.bury(lease, [Failure("ok", "it said \0 and \ud800")])
    assert [item.reason for item in queue.items("dead")] == ["it said \\x00 and \\ud800"]


def test_a_queue_of_a_newer_outlast_is_not_touched() -> None:
    url = fresh_database()
    PostgresQueue(url).stats()
    execute(url, "UPDATE outlast_queues SET format = 2")
    with pytest.raises(SettingsError, match="newer outlast"):
        PostgresQueue(url).stats()


def test_rows_of_any_size_are_read_in_pages_that_fit() -> None:
    url = fresh_database()
    queue, sink = PostgresQueue(url), PostgresSink(url)
    sink.prepare()
    payload = f'"{"x" * 1_000_000}"'
    queue.publish([Draft(f"{number}", payload) for number in range(12)])
    sink.store([Result(f"{number}", payload, None, 1) for number in range(12)])
    assert [item.payload == payload for item in queue.items()] == [True] * 12
    assert [result.value == payload for result in sink.results()] == [True] * 12
