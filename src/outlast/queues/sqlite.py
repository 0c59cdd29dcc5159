"""The embedded queue: one SQLite file, for all processes of one machine."""

import json
import secrets
import sqlite3
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import wraps
from typing import Any, Concatenate, Literal, ParamSpec, TypeVar, cast

from outlast.clock import Clock, SystemClock
from outlast.errors import QueueUnreachable
from outlast.items import (
    Accepted,
    Draft,
    Failure,
    ItemState,
    Lease,
    LeasedItem,
    QueueStats,
    QueueTraits,
    State,
    Storing,
)
from outlast.machine import boot_name
from outlast.paging import FIRST_ROWS, rows_to_read
from outlast.queues.ledger import Standing
from outlast.sqlite_files import SqliteFile, path_and_options

_READY, _LEASED, _DONE, _DEAD = range(4)
_STATES: tuple[State, ...] = ("ready", "leased", "done", "dead")
_MOST_PAYLOAD_BYTES = 64 << 20

# An item's `lease` is the number of the lease that holds it, None without one. A lease keeps the numbers of its items,
# so that to end it needs no index that each lease and each ack would have to change. What is ready is found by partial
# indexes, in the order of publishing. `not_before` and `until` are seconds of the machine's monotonic clock, which all
# processes of one boot share; from another boot they mean nothing, and count as past.
_SCHEMA = (
    """CREATE TABLE IF NOT EXISTS outlast_items (
        seq INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, payload TEXT NOT NULL, state INTEGER NOT NULL DEFAULT 0,
        lease INTEGER, claim INTEGER NOT NULL DEFAULT 0, errors INTEGER NOT NULL DEFAULT 0,
        deaths INTEGER NOT NULL DEFAULT 0, releases INTEGER NOT NULL DEFAULT 0, not_before REAL, boot TEXT, reason TEXT,
        published_at REAL NOT NULL, sent INTEGER NOT NULL DEFAULT 0)""",
    """CREATE INDEX IF NOT EXISTS outlast_ready ON outlast_items (seq)
        WHERE state = 0 AND deaths = 0 AND not_before IS NULL""",
    """CREATE INDEX IF NOT EXISTS outlast_suspects ON outlast_items (seq)
        WHERE state = 0 AND deaths > 0 AND not_before IS NULL""",
    "CREATE INDEX IF NOT EXISTS outlast_later ON outlast_items (seq) WHERE state = 0 AND not_before IS NOT NULL",
    "CREATE INDEX IF NOT EXISTS outlast_dead ON outlast_items (seq) WHERE state = 3",
    """CREATE TABLE IF NOT EXISTS outlast_leases (
        number INTEGER PRIMARY KEY, until REAL NOT NULL, boot TEXT NOT NULL, begun INTEGER NOT NULL,
        open INTEGER NOT NULL, items TEXT NOT NULL)""",
    """CREATE TABLE IF NOT EXISTS outlast_counts (
        only INTEGER PRIMARY KEY CHECK (only = 1), ready INTEGER NOT NULL, leased INTEGER NOT NULL,
        done INTEGER NOT NULL, dead INTEGER NOT NULL)""",
    "INSERT OR IGNORE INTO outlast_counts VALUES (1, 0, 0, 0, 0)",
    """CREATE TABLE IF NOT EXISTS outlast_ledger (
        only INTEGER PRIMARY KEY CHECK (only = 1), name TEXT NOT NULL, strangers INTEGER NOT NULL DEFAULT 0)""",
    "CREATE TABLE IF NOT EXISTS outlast_successes (version TEXT PRIMARY KEY)",  # as JSON, in which none is null
)
_TAKE = """UPDATE outlast_items SET state = 1, lease = ?, claim = claim + 1 WHERE seq IN (
        SELECT seq FROM outlast_items WHERE state = 0 AND {which} AND not_before IS NULL ORDER BY seq LIMIT ?)
    RETURNING seq, id, payload, claim, errors, deaths, releases"""
_TAKE_NAMED = """UPDATE outlast_items SET state = 1, lease = ?, claim = claim + 1
    WHERE seq IN (SELECT value FROM json_each(?)) RETURNING seq, id, payload, claim, errors, deaths, releases"""
_TAKE_READY, _TAKE_SUSPECT = _TAKE.format(which="deaths = 0"), _TAKE.format(which="deaths > 0")
_TAKE_ONE = _TAKE_READY.replace("seq IN (", "seq = (")  # half the time of a list of one
_ANY_READY = "SELECT 1 FROM outlast_items WHERE state = 0 AND deaths = 0 AND not_before IS NULL LIMIT 1"
_HELD = "state = 1 AND lease = ?"
_DUE = "state = 0 AND not_before IS NOT NULL AND (not_before <= ? OR boot <> ?)"
# All that a lease holds, in one statement and by their places; else item by item (JSON's functions stop at a NUL).
_ALL = "seq IN (SELECT value FROM json_each((SELECT items FROM outlast_leases WHERE number = ?)))"
# One look for both: leases that have expired, and a row of nothing where items are due.
_PAST = f"""SELECT number, begun, items FROM outlast_leases WHERE until <= ? OR boot <> ?
    UNION ALL SELECT NULL, NULL, NULL WHERE EXISTS (SELECT 1 FROM outlast_items WHERE {_DUE})"""
_OPEN_ITEMS = "seq IN (SELECT value FROM json_each(?)) AND state = 1 AND lease = ?"


_Arguments = ParamSpec("_Arguments")
_Answer = TypeVar("_Answer")
_Verb = Callable[Concatenate["SqliteQueue", _Arguments], _Answer]


def _once_published(*, before: Any) -> Callable[[_Verb[_Arguments, _Answer]], _Verb[_Arguments, _Answer]]:
    """For a verb that needs the tables; `before`: its answer where nobody has published, and no file is made."""

    def with_check(verb: _Verb[_Arguments, _Answer]) -> _Verb[_Arguments, _Answer]:
        @wraps(verb)
        def checked(self: "SqliteQueue", /, *args: _Arguments.args, **more: _Arguments.kwargs) -> _Answer:
            return verb(self, *args, **more) if self._is_there() else cast(_Answer, before)

        return checked

    return with_check


class SqliteQueue:
    """``sqlite:///work.db`` as an items.Queue.

    Publishing is durable against a power cut; one may undo the last leases and acks, which repeats work and loses
    none, since a result in the same file goes with its ack.
    """

    def __init__(self, url: str, *, clock: Clock | None = None) -> None:
        path, _ = path_and_options(url, setting="queue")
        self._url = f"sqlite:///{path}"  # also for a process with another current folder, such as a keeper
        self._file = SqliteFile(path, setting="queue", unreachable=QueueUnreachable)
        self._clock = clock or SystemClock()
        self._boot = boot_name()
        self._making = threading.Lock()
        self._made = False
        self._had_some = False  # what the last lease came to

    @property
    def url(self) -> str:
        return self._url

    @property
    def traits(self) -> QueueTraits:
        return QueueTraits(most_payload_bytes=_MOST_PAYLOAD_BYTES, publish_batch=5000)

    @property
    def database(self) -> str:
        return self._file.name

    @property
    def files(self) -> frozenset[str]:
        return self._file.files

    # --- publishing ---------------------------------------------------------------------------------

    def publish(self, drafts: Sequence[Draft]) -> Accepted:
        self._make()
        with self._file.writing(durable=True) as connection:
            [(before,)] = connection.execute("SELECT coalesce(max(seq), 0) FROM outlast_items").fetchall()
            now = self._clock.wall_seconds()
            new = connection.executemany(
                "INSERT INTO outlast_items (id, payload, published_at) VALUES (?, ?, ?) ON CONFLICT (id) DO NOTHING",
                ((draft.id, draft.payload, now) for draft in drafts),
            ).rowcount
            _count(connection, ready=new)
            if new == len(drafts):
                return Accepted(new=new, already=0)
            return _compared(connection, drafts, before)

    # --- leases -------------------------------------------------------------------------------------

    @_once_published(before=None)
    def lease(self, most: int, seconds: float, *, begin: bool, max_deaths: int) -> Lease | None:
        if not self._had_some:  # who waits for others to end looks often, and is in nobody's way
            with self._file.reading() as connection:
                if not self._anything(connection):
                    return None
        with self._file.writing(durable=False) as connection:
            self._end_expired(connection, max_deaths)
            number = secrets.randbits(62)
            rows = connection.execute(_TAKE_ONE if most == 1 else _TAKE_READY, (number, most)).fetchall()
            if not rows:
                rows = connection.execute(_TAKE_SUSPECT, (number, 1)).fetchall()
            self._had_some = bool(rows)
            return self._leased(connection, number, rows, seconds, begin)

    def _leased(
        self, connection: sqlite3.Connection, number: int, rows: list[tuple[Any, ...]], seconds: float, begin: bool
    ) -> Lease | None:
        """Notes the lease of items that were just taken under this number."""
        if not rows:
            return None
        rows.sort()
        held = json.dumps([row[0] for row in rows])
        lease = (number, self._now() + seconds, self._boot, int(begin), len(rows), held)
        connection.execute("INSERT INTO outlast_leases VALUES (?, ?, ?, ?, ?, ?)", lease)
        _count(connection, ready=-len(rows), leased=len(rows))
        return Lease(str(number), str(number), tuple(LeasedItem(*row[1:]) for row in rows))

    @_once_published(before=False)
    def begin(self, lease: Lease) -> bool:
        with self._file.writing(durable=False) as connection:
            begun = connection.execute("UPDATE outlast_leases SET begun = 1 WHERE number = ?", (int(lease.token),))
            return begun.rowcount == 1

    @_once_published(before=False)
    def extend(self, renewal: str, seconds: float) -> bool:
        until = (self._now() + seconds, self._boot, int(renewal))
        with self._file.writing(durable=False) as connection:
            there = connection.execute("UPDATE outlast_leases SET until = ?, boot = ? WHERE number = ?", until)
            return there.rowcount == 1

    @_once_published(before=None)
    def expire(self, renewal: str) -> None:
        with self._file.writing(durable=False) as connection:
            connection.execute("UPDATE outlast_leases SET until = -1 WHERE number = ?", (int(renewal),))

    def lift(self, lease: Lease, claims: Mapping[str, int]) -> Lease:
        if not self._is_there():
            return Lease(lease.token, lease.renewal, ())
        number = int(lease.token)
        with self._file.writing(durable=False) as connection:
            connection.executemany(
                f"UPDATE outlast_items SET claim = max(claim, ?) WHERE id = ? AND {_HELD}",
                [(claim, name, number) for name, claim in claims.items()],
            )
            rows = connection.execute(
                """SELECT seq, id, payload, claim, errors, deaths, releases FROM outlast_items WHERE seq IN
                    (SELECT value FROM outlast_leases, json_each(items) WHERE number = ?1)
                    AND state = 1 AND lease = ?1 ORDER BY seq""",
                (number,),
            ).fetchall()
        return Lease(lease.token, lease.renewal, tuple(LeasedItem(*row[1:]) for row in rows))

    # --- how an item's lease ends -------------------------------------------------------------------

    def ack(self, lease: Lease, ids: Sequence[str], *, storing: Storing | None = None) -> frozenset[str]:
        change = "UPDATE outlast_items SET state = 2, lease = NULL, reason = NULL WHERE "
        return self._settle(lease, *_those(lease, ids, change), storing)

    def release(self, lease: Lease, ids: Sequence[str]) -> frozenset[str]:
        change = "UPDATE outlast_items SET state = 0, lease = NULL, releases = releases + 1 WHERE "
        return self._settle(lease, *_those(lease, ids, change))

    def fail(
        self, lease: Lease, failures: Sequence[Failure], *, max_errors: int, delay_seconds: float = 0.0
    ) -> frozenset[str]:
        later = self._now() + delay_seconds if delay_seconds > 0 else None
        change = f"""UPDATE outlast_items SET errors = errors + 1, state = iif(errors + 1 > ?, 3, 0), reason = ?,
            lease = NULL, not_before = iif(errors + 1 > ?, NULL, ?), boot = ? WHERE id = ? AND {_HELD}"""
        told = [(max_errors, one.reason, max_errors, later, self._boot, one.id) for one in failures]
        return self._settle(lease, told, change)

    def bury(self, lease: Lease, failures: Sequence[Failure]) -> frozenset[str]:
        change = f"UPDATE outlast_items SET state = 3, reason = ?, lease = NULL WHERE id = ? AND {_HELD}"
        return self._settle(lease, [(one.reason, one.id) for one in failures], change)

    def _settle(
        self, lease: Lease, told: Sequence[tuple[Any, ...]], change: str, storing: Storing | None = None
    ) -> frozenset[str]:
        """Applies a change, with each of what is told, to the items that the lease holds."""
        number = int(lease.token)
        if not told or not self._is_there():
            return frozenset()
        returning = f"{change} RETURNING id, state"
        with self._file.writing(durable=False) as connection:
            changed = [row for one in told for row in connection.execute(returning, (*one, number)).fetchall()]
            if changed:
                states = [state for _, state in changed]
                ready, done, dead = (states.count(state) for state in (_READY, _DONE, _DEAD))
                _count(connection, ready=ready, leased=-len(states), done=done, dead=dead)
                told_all = "DELETE FROM outlast_leases WHERE number = ? AND open <= ?"
                if not connection.execute(told_all, (number, len(changed))).rowcount:
                    fewer = "UPDATE outlast_leases SET open = open - ? WHERE number = ?"
                    connection.execute(fewer, (len(changed), number))
            held = frozenset(name for name, _ in changed)
            if storing is not None and held:
                storing(connection, held)
        return held

    def _anything(self, connection: sqlite3.Connection) -> bool:
        """Whether a lease could be had, or something has to be ended first."""
        past = (self._now(), self._boot)
        checks: tuple[tuple[str, tuple[object, ...]], ...] = (
            (_ANY_READY, ()),
            ("SELECT 1 FROM outlast_items WHERE state = 0 AND deaths > 0 AND not_before IS NULL LIMIT 1", ()),
            ("SELECT 1 FROM outlast_leases WHERE until <= ? OR boot <> ? LIMIT 1", past),
            (f"SELECT 1 FROM outlast_items WHERE {_DUE} LIMIT 1", past),
        )
        return any(connection.execute(*check).fetchone() for check in checks)

    def _end_expired(self, connection: sqlite3.Connection, max_deaths: int) -> None:
        past = (self._now(), self._boot)
        for number, begun, items in connection.execute(_PAST, (*past, *past)).fetchall():
            if number is None:
                connection.execute(f"UPDATE outlast_items SET not_before = NULL WHERE {_DUE}", past)
                continue
            if begun:
                died = """UPDATE outlast_items SET deaths = deaths + 1, lease = NULL, state = iif(deaths + 1 > ?, 3, 0),
                    reason = 'its process died while it was in progress, ' || (deaths + 1)
                        || iif(deaths = 0, ' time', ' times')"""
                change, given = died, [max_deaths]
            else:
                change, given = "UPDATE outlast_items SET lease = NULL, state = 0", []
            told = (*given, items, number)
            states = [row[0] for row in connection.execute(f"{change} WHERE {_OPEN_ITEMS} RETURNING state", told)]
            dead = states.count(_DEAD)
            _count(connection, leased=-len(states), dead=dead, ready=len(states) - dead)
            connection.execute("DELETE FROM outlast_leases WHERE number = ?", (number,))

    # --- looking ------------------------------------------------------------------------------------

    @_once_published(before=QueueStats(ready=0, leased=0, done=0, dead=0))
    def stats(self) -> QueueStats:
        with self._file.reading() as connection:
            row = connection.execute("SELECT ready, leased, done, dead FROM outlast_counts").fetchone()
            [(ended,)] = connection.execute(
                "SELECT coalesce(sum(open), 0) FROM outlast_leases WHERE until <= ? OR boot <> ?",
                (self._now(), self._boot),
            ).fetchall()
            oldest = connection.execute(
                """SELECT min(published_at) FROM outlast_items WHERE seq IN (
                    SELECT * FROM (SELECT seq FROM outlast_items
                        WHERE state = 0 AND deaths = 0 AND not_before IS NULL ORDER BY seq LIMIT 1)
                    UNION ALL SELECT * FROM (SELECT seq FROM outlast_items
                        WHERE state = 0 AND deaths > 0 AND not_before IS NULL ORDER BY seq LIMIT 1)
                    UNION ALL SELECT * FROM (SELECT seq FROM outlast_items
                        WHERE state = 0 AND not_before IS NOT NULL ORDER BY seq LIMIT 1)
                    UNION ALL SELECT value FROM outlast_leases, json_each(items)) AND state < 2"""
            ).fetchone()[0]
        age = None if oldest is None else max(0.0, self._clock.wall_seconds() - oldest)
        ready, leased, done, dead = row
        return QueueStats(ready=ready + ended, leased=leased - ended, done=done, dead=dead, oldest_seconds=age)

    @_once_published(before=None)
    def note_success(self, version: str | None) -> None:
        with self._file.writing(durable=False) as connection:
            connection.execute("INSERT OR IGNORE INTO outlast_successes VALUES (?)", (json.dumps(version),))

    @_once_published(before=False)
    def has_success(self, version: str | None) -> bool:
        with self._file.reading() as connection:
            noted = connection.execute("SELECT 1 FROM outlast_successes WHERE version = ?", (json.dumps(version),))
            return noted.fetchone() is not None

    @_once_published(before=iter(()))
    def items(self, state: State | None = None) -> Iterator[ItemState]:
        """Page by page, so that no reader keeps the write-ahead log from being cut."""
        where = "" if state is None else f"AND state = {_STATES.index(state)}"  # as text: indexes here are of one state
        last, most = 0, FIRST_ROWS
        while True:
            with self._file.reading() as connection:
                page = connection.execute(
                    f"""SELECT seq, id, state, payload, claim, errors, deaths, releases, reason FROM outlast_items
                        WHERE seq > ? {where} ORDER BY seq LIMIT ?""",
                    (last, most),
                ).fetchall()
            for seq, name, number, *rest in page:
                last = seq
                yield ItemState(name, _STATES[number], *rest)
            if len(page) < most:
                return
            most = rows_to_read(most, sum(len(row[3]) for row in page))

    @_once_published(before=0)
    def retry(self, ids: Sequence[str] | None = None, *, state: Literal["dead", "done"] = "dead") -> int:
        change = f"""UPDATE outlast_items SET state = 0, errors = 0, deaths = 0, releases = 0, reason = NULL,
            not_before = NULL, sent = 0 WHERE state = {_STATES.index(state)}"""
        with self._file.writing(durable=True) as connection:
            if ids is None:
                changed = connection.execute(change).rowcount
            else:
                changed = connection.executemany(f"{change} AND id = ?", [(one,) for one in ids]).rowcount
            counts = {"ready": max(changed, 0), state: -max(changed, 0)}
            _count(connection, **cast(Any, counts))
        return max(changed, 0)

    # --- as the ledger of a broker (outlast.queues.ledger) ------------------------------------------

    def dedicate(self, name: str) -> str | None:
        self._make()
        with self._file.writing(durable=True) as connection:
            connection.execute(
                "INSERT OR IGNORE INTO outlast_ledger SELECT 1, ?, 0 WHERE NOT EXISTS (SELECT 1 FROM outlast_items)",
                (name,),
            )
            owner = connection.execute("SELECT name FROM outlast_ledger").fetchone()
        return None if owner is None else str(owner[0])

    def note_strangers(self) -> None:
        self._make()
        with self._file.writing(durable=True) as connection:
            connection.execute("UPDATE outlast_ledger SET strangers = 1")

    def has_strangers(self) -> bool:
        self._make()
        with self._file.reading() as connection:
            return connection.execute("SELECT 1 FROM outlast_ledger WHERE strangers").fetchone() is not None

    def lease_named(self, ids: Sequence[str], seconds: float, *, begin: bool, max_deaths: int) -> Standing:
        self._make()
        with self._file.writing(durable=False) as connection:
            self._end_expired(connection, max_deaths)
            rows = connection.execute(
                f"""SELECT items.id, items.seq, items.state, items.deaths, items.not_before, leases.until
                    FROM outlast_items AS items LEFT JOIN outlast_leases AS leases ON leases.number = items.lease
                    WHERE items.id IN ({_marks(ids)})""",
                ids,
            ).fetchall()
            unknown = frozenset(ids) - {row[0] for row in rows}
            if unknown:
                return Standing(unknown=unknown)
            now = self._now()
            later = {row[0]: row[4] - now for row in rows if row[2] == _READY and row[4] is not None}
            here = [row for row in rows if row[2] == _READY and row[4] is None]
            wanted = [row for row in here if not row[3]]
            if here and not wanted and connection.execute(_ANY_READY).fetchone() is None:
                wanted = [min(here, key=lambda row: row[1])]
            number = secrets.randbits(62)
            taken = connection.execute(_TAKE_NAMED, (number, json.dumps([row[1] for row in wanted]))).fetchall()
            return Standing(
                lease=self._leased(connection, number, taken, seconds, begin),
                settled=frozenset(row[0] for row in rows if row[2] in (_DONE, _DEAD)),
                held={row[0]: row[5] - now for row in rows if row[2] == _LEASED},
                later=later | {row[0]: 0.0 for row in here if row not in wanted},
            )

    @_once_published(before=frozenset())
    def held(self, renewal: str) -> frozenset[str]:
        with self._file.reading() as connection:
            rows = connection.execute(
                """SELECT id FROM outlast_items WHERE state = 1 AND lease = ?1 AND seq IN
                    (SELECT value FROM outlast_leases, json_each(items) WHERE number = ?1)""",
                (int(renewal),),
            )
            return frozenset(row[0] for row in rows)

    @_once_published(before=())
    def unsent(self, ids: Sequence[str]) -> Sequence[Draft]:
        with self._file.reading() as connection:
            rows = connection.execute(
                f"""SELECT id, payload FROM outlast_items
                    WHERE id IN ({_marks(ids)}) AND state = 0 AND sent = 0 ORDER BY seq""",
                ids,
            )
            return [Draft(*row) for row in rows]

    @_once_published(before=None)
    def mark_sent(self, ids: Sequence[str]) -> None:
        with self._file.writing(durable=True) as connection:
            connection.executemany("UPDATE outlast_items SET sent = 1 WHERE id = ?", [(one,) for one in ids])

    def close(self) -> None:
        self._file.close()
        self._made = False  # who opens it again looks again

    def _now(self) -> float:
        return self._clock.monotonic_seconds()

    def _is_there(self) -> bool:
        """Whether anybody has published: who only looks makes no file."""
        if not self._made and not self._file.exists:
            return False
        self._make()
        return True

    def _make(self) -> None:
        with self._making:
            if self._made:
                return
            with self._file.writing(durable=True) as connection:
                for statement in _SCHEMA:
                    connection.execute(statement)
            self._made = True


def _those(lease: Lease, ids: Sequence[str], change: str) -> tuple[list[tuple[Any, ...]], str]:
    """What is told, and the statement for it: for all of a lease's items by their places, for one by its id."""
    if 1 < len(ids) == len(lease.items) and set(ids) == {item.id for item in lease.items}:
        return [(int(lease.token),)], f"{change} {_ALL} AND {_HELD}"
    return [(one,) for one in ids], f"{change} id = ? AND {_HELD}"


def _count(connection: sqlite3.Connection, *, ready: int = 0, leased: int = 0, done: int = 0, dead: int = 0) -> None:
    """Keeps the counts, so that to ask for them costs the same at any size."""
    connection.execute(
        "UPDATE outlast_counts SET ready = ready + ?, leased = leased + ?, done = done + ?, dead = dead + ?",
        (ready, leased, done, dead),
    )


def _marks(values: Sequence[str]) -> str:
    """A statement's places for values; JSON in their stead would cut texts at a NUL."""
    return ",".join("?" * len(values))


def _compared(connection: sqlite3.Connection, drafts: Sequence[Draft], before: int) -> Accepted:
    """What became of drafts of which some were there, or stood among them twice."""
    stored: dict[str, tuple[int, str]] = {}
    for draft in drafts:
        row = connection.execute("SELECT seq, payload FROM outlast_items WHERE id = ?", (draft.id,)).fetchone()
        stored.setdefault(draft.id, row)
    new, already, conflicting, seen = 0, 0, [], set()
    for draft in drafts:
        seq, payload = stored[draft.id]
        if seq > before and draft.id not in seen:
            new += 1
        elif payload == draft.payload:
            already += 1
        else:
            conflicting.append(draft.id)
        seen.add(draft.id)
    return Accepted(new=new, already=already, conflicting=tuple(conflicting))
