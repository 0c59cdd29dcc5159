"""The queue for many machines: tables in a PostgreSQL database, from version 13 on (tried on 15)."""

import json
import secrets
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Literal, TypeVar

from outlast.errors import QueueUnreachable, SettingsError
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
from outlast.paging import FIRST_ROWS, rows_to_read
from outlast.postgresql import PATIENCE_SECONDS, Connection, PostgresDatabase, one_trip
from outlast.queues import postgres_statements as sql
from outlast.queues.ledger import Standing

_MOST_PAYLOAD_BYTES = 64 << 20
_MOST_ID_BYTES = 2000  # an entry of an index has to fit into a third of a page
_OLDEST_SERVER = 130_000
_SLOW_LOOK_SECONDS = 0.02
_LOOKS_BETWEEN = 20

T = TypeVar("T")


class PostgresQueue:
    """``postgresql://USER:PASSWORD@HOST/DATABASE?queue=NAME`` as an items.Queue.

    A database may have several queues; without a name it is the one called `default`. Leases, and what is told of them
    while they last, survive the death of any client, but a crash of the server may undo the last of them; publishing
    and settling survive that too. While the server cannot be reached, each verb tries again for `patience_seconds`.
    """

    def __init__(self, url: str, *, patience_seconds: float = PATIENCE_SECONDS) -> None:
        self._url = url
        self._database = PostgresDatabase(
            url,
            setting="queue",
            known=frozenset({"queue"}),
            unreachable=QueueUnreachable,
            patience_seconds=patience_seconds,
        )
        self._queue_name = self._database.options.get("queue", "default")
        if not self._queue_name or "\0" in self._queue_name:
            raise SettingsError(f"{self._database.shown}: queue={self._queue_name!r} is not a queue's name")
        self._last_found, self._look_from_start = 0, 0.0
        self._making = threading.Lock()
        self._made: int | None = None

    @property
    def url(self) -> str:
        return self._url

    @property
    def traits(self) -> QueueTraits:
        return QueueTraits(most_payload_bytes=_MOST_PAYLOAD_BYTES, publish_batch=5000)

    @property
    def database(self) -> str:
        return self._database.name

    def publish(self, drafts: Sequence[Draft]) -> Accepted:
        fresh, same, conflicting, refused = _sorted_out(drafts)
        if not fresh:
            return Accepted(new=0, already=same, conflicting=conflicting, refused=refused)
        told = {"queue": self._number(), "ids": list(fresh), "payloads": list(fresh.values())}
        added, other = self._once(lambda connection: _publish(connection, told))
        already = len(fresh) - added - len(other) + same
        return Accepted(new=added, already=already, conflicting=(*other, *conflicting), refused=refused)

    # --- leases -------------------------------------------------------------------------------------

    def lease(self, most: int, seconds: float, *, begin: bool, max_deaths: int) -> Lease | None:
        number = secrets.randbits(62)
        told = {
            "queue": self._number(),
            "lease": number,
            "most": most,
            "seconds": seconds,
            "begin": begin,
            "max_deaths": max_deaths,
            "after": 0,
        }

        def work(connection: Connection, again: bool) -> list[Any]:
            if again and (rows := connection.execute(sql.OF_LEASE, told).fetchall()):
                return rows
            begun, after = time.monotonic(), self._after()
            with one_trip(connection, durable=False):
                taken = connection.execute(sql.TAKE_UNLESS, {**told, "after": after})
            if rows := taken.fetchall():
                self._remember(after, time.monotonic() - begun, max(row[0] for row in rows))
                return rows
            with one_trip(connection, durable=False):
                connection.execute(sql.END_EXPIRED, told)
                connection.execute(sql.MAKE_DUE, told)
                taken = connection.execute(sql.TAKE, told)
            return taken.fetchall()

        rows = sorted(self._database.run(work))
        return _lease(number, rows) if rows else None

    # The index of what is ready keeps the entries of what was, until the server cleans up, which a long transaction of
    # anybody prevents. Where it takes long to read past these, the next looks begin behind what was found last, and
    # only now and then at the oldest.

    def _after(self) -> int:
        """The number behind which to look; 0 when it is time to look from the beginning."""
        return self._last_found if time.monotonic() < self._look_from_start else 0

    def _remember(self, after: int, took_seconds: float, last_found: int) -> None:
        self._last_found = last_found
        if after == 0:
            pause = _LOOKS_BETWEEN * took_seconds if took_seconds > _SLOW_LOOK_SECONDS else 0.0
            self._look_from_start = time.monotonic() + pause

    def begin(self, lease: Lease) -> bool:
        return self._change_lease(sql.BEGIN, int(lease.token))

    def extend(self, renewal: str, seconds: float) -> bool:
        return self._change_lease(sql.EXTEND, seconds, int(renewal))

    def expire(self, renewal: str) -> None:
        self._change_lease(sql.EXPIRE, int(renewal))

    def _change_lease(self, statement: str, *told: Any) -> bool:
        def work(connection: Connection, _: bool) -> bool:
            with one_trip(connection, durable=False):
                changed = connection.execute(statement, told)
            return changed.rowcount == 1

        return self._database.run(work)

    def lift(self, lease: Lease, claims: Mapping[str, int]) -> Lease:
        number = int(lease.token)
        told = {"queue": self._number(), "lease": number, "ids": list(claims), "claims": list(claims.values())}

        def work(connection: Connection, _: bool) -> Lease:
            with one_trip(connection, durable=False):
                connection.execute(sql.LIFT, told)
                held = connection.execute(sql.OF_LEASE, told)
            return _lease(number, held.fetchall())

        return self._database.run(work)

    # --- how an item's lease ends -------------------------------------------------------------------

    def ack(self, lease: Lease, ids: Sequence[str], *, storing: Storing | None = None) -> frozenset[str]:
        return self._settle(sql.ACK, lease, dict.fromkeys(ids, ""), storing=storing)

    def release(self, lease: Lease, ids: Sequence[str]) -> frozenset[str]:
        self._look_from_start = 0.0
        return self._settle(sql.RELEASE, lease, dict.fromkeys(ids, ""))

    def fail(
        self, lease: Lease, failures: Sequence[Failure], *, max_errors: int, delay_seconds: float = 0.0
    ) -> frozenset[str]:
        reasons = {one.id: _storable(one.reason) for one in failures}
        return self._settle(sql.FAIL, lease, reasons, max_errors=max_errors, delay=delay_seconds)

    def bury(self, lease: Lease, failures: Sequence[Failure]) -> frozenset[str]:
        return self._settle(sql.BURY, lease, {one.id: _storable(one.reason) for one in failures})

    def _settle(
        self, statement: str, lease: Lease, reasons: dict[str, str], *, storing: Storing | None = None, **more: float
    ) -> frozenset[str]:
        reasons = {one: why for one, why in reasons.items() if _refusal(one) is None}
        if not reasons:
            return frozenset()
        told = {
            "queue": self._number(),
            "lease": int(lease.token),
            "mark": secrets.randbits(62),
            "ids": list(reasons),
            "reasons": list(reasons.values()),
            **more,
        }

        def work(connection: Connection, again: bool) -> frozenset[str]:
            with one_trip(connection):
                settled = connection.execute(statement, {**told, "again": again})
                if storing is not None and (held := frozenset(row[0] for row in settled)):
                    storing(connection, held)
                    settled.scroll(0, "absolute")
                connection.execute(sql.DROP_IF_SETTLED, told)
            return frozenset(row[0] for row in settled)

        return self._database.run(work)

    # --- looking, and retrying ----------------------------------------------------------------------

    def stats(self) -> QueueStats:
        told = {"queue": self._number()}

        def work(connection: Connection, _: bool) -> QueueStats:
            with one_trip(connection):
                counts, oldest = connection.execute(sql.STATS, told), connection.execute(sql.OLDEST, told)
            [(ready, leased, done, dead)], [(age,)] = counts.fetchall(), oldest.fetchall()
            return QueueStats(ready, leased, done, dead, oldest_seconds=age)

        return self._database.run(work)

    def note_success(self, version: str | None) -> None:
        self._change(sql.NOTE_SUCCESS, {"queue": self._number(), "version": json.dumps(version)})

    def has_success(self, version: str | None) -> bool:
        return bool(self._look(sql.HAS_SUCCESS, {"queue": self._number(), "version": json.dumps(version)}))

    def items(self, state: State | None = None) -> Iterator[ItemState]:
        """Page by page: a reader with a snapshot would keep the server from forgetting what is settled meanwhile."""
        page = sql.page_of(state)
        last, most = -1, FIRST_ROWS
        while True:
            told = {"queue": self._number(), "last": last, "most": most}
            rows = self._database.run(partial(_page, page, told))
            for _, name, code, *rest in rows:
                yield ItemState(name, sql.STATE_OF[code], *rest)
            if len(rows) < most:
                return
            last = rows[-1][0]
            most = rows_to_read(most, sum(len(row[3]) for row in rows))

    def retry(self, ids: Sequence[str] | None = None, *, state: Literal["dead", "done"] = "dead") -> int:
        statement = sql.retry_of(state, all_of_them=ids is None)
        told = {"queue": self._number(), "ids": [one for one in ids or () if _refusal(one) is None]}

        def work(connection: Connection) -> tuple[int, str]:
            [(count, transaction)] = connection.execute(statement, told).fetchall()
            return count, transaction

        return self._once(work)

    # --- as the ledger of a broker (outlast.queues.ledger) ------------------------------------------

    def dedicate(self, name: str) -> str | None:
        told = {"queue": self._number(), "name": name}

        def work(connection: Connection, _: bool) -> str | None:
            with one_trip(connection):
                connection.execute(sql.DEDICATE, told)
                ledger = connection.execute(sql.LEDGER, told)
            row = ledger.fetchone()
            return None if row is None else str(row[0])

        return self._database.run(work)

    def note_strangers(self) -> None:
        self._change(sql.NOTE_STRANGERS, {"queue": self._number()})

    def has_strangers(self) -> bool:
        return any(strangers for _, strangers in self._look(sql.LEDGER, {"queue": self._number()}))

    def lease_named(self, ids: Sequence[str], seconds: float, *, begin: bool, max_deaths: int) -> Standing:
        named = list(dict.fromkeys(ids))
        strange = frozenset(one for one in named if _refusal(one) is not None)
        if strange:
            return Standing(unknown=strange)
        number = secrets.randbits(62)
        told = {
            "queue": self._number(),
            "lease": number,
            "ids": named,
            "seconds": seconds,
            "begin": begin,
            "max_deaths": max_deaths,
        }

        def work(connection: Connection, again: bool) -> Standing:
            if again and (taken := connection.execute(sql.OF_LEASE, told)).rowcount:
                standing = connection.execute(sql.STANDING, told)
            else:
                with one_trip(connection, durable=False):
                    connection.execute(sql.END_EXPIRED, told)
                    connection.execute(sql.MAKE_DUE, told)
                    taken = connection.execute(sql.TAKE_NAMED, told)
                    standing = connection.execute(sql.STANDING, told)
            rows = sorted(taken.fetchall())
            return _standing(named, _lease(number, rows) if rows else None, standing.fetchall())

        return self._database.run(work)

    def held(self, renewal: str) -> frozenset[str]:
        return frozenset(row[0] for row in self._look(sql.HELD, {"lease": int(renewal)}))

    def unsent(self, ids: Sequence[str]) -> Sequence[Draft]:
        return [Draft(*row) for row in self._look(sql.UNSENT, self._named(ids))]

    def mark_sent(self, ids: Sequence[str]) -> None:
        self._change(sql.MARK_SENT, self._named(ids))

    def _named(self, ids: Sequence[str]) -> dict[str, Any]:
        return {"queue": self._number(), "ids": [one for one in ids if _refusal(one) is None]}

    def _change(self, statement: str, told: Mapping[str, Any]) -> None:
        def work(connection: Connection, _: bool) -> None:
            with one_trip(connection):
                connection.execute(statement, told)

        self._database.run(work)

    def _look(self, statement: str, told: Mapping[str, Any]) -> list[tuple[Any, ...]]:
        return self._database.run(partial(_page, statement, told))

    def close(self) -> None:
        self._database.close()

    # --- the tables ---------------------------------------------------------------------------------

    def _once(self, work: Callable[[Connection], tuple[T, str]]) -> T:
        """What `work` returns with the number of its transaction, which is not repeated if it has happened."""
        last: list[tuple[T, str]] = []

        def once(connection: Connection, again: bool) -> T:
            if again and last:
                value, transaction = last.pop()
                [(happened,)] = connection.execute(sql.HAS_COMMITTED, (transaction,)).fetchall()
                if happened:
                    return value
            with connection.transaction():
                last[:] = [work(connection)]
            return last[0][0]

        return self._database.run(once, answer_seconds=None)

    def _number(self) -> int:
        """The queue's number in the database; makes what is missing, while other processes do the same."""
        with self._making:
            if self._made is None:
                self._made = self._database.run(self._find_or_make)
            return self._made

    def _find_or_make(self, connection: Connection, _: bool) -> int:
        if connection.info.server_version < _OLDEST_SERVER:
            raise SettingsError(
                f"{self._database.shown} is PostgreSQL {connection.info.server_version // 10_000}, and 13 or newer is "
                "needed"
            )
        [(there,)] = connection.execute(sql.EXISTS).fetchall()
        if not there:
            with connection.transaction():
                # "If not exists" alone does not wait for somebody who is making it.
                connection.execute("SELECT pg_advisory_xact_lock(%s)", (sql.MAKING,))
                for statement in sql.SCHEMA:
                    connection.execute(statement)
        row = connection.execute(sql.FIND_QUEUE, (self._queue_name,)).fetchone()
        if row is None:
            connection.execute(sql.ADD_QUEUE, (self._queue_name, sql.FORMAT))
            [row] = connection.execute(sql.FIND_QUEUE, (self._queue_name,)).fetchall()
        number, written = row
        if written > sql.FORMAT:
            raise SettingsError(
                f"{self._database.shown}: a newer outlast made this queue (format {written}, this one knows "
                f"{sql.FORMAT}); install that version"
            )
        return int(number)


def _page(statement: str, told: Mapping[str, Any], connection: Connection, _: bool) -> list[tuple[Any, ...]]:
    with one_trip(connection):
        page = connection.execute(statement, told)
    return page.fetchall()


def _lease(number: int, rows: Sequence[tuple[Any, ...]]) -> Lease:
    return Lease(str(number), str(number), tuple(LeasedItem(*row[1:]) for row in rows))


def _standing(named: Sequence[str], lease: Lease | None, rows: Sequence[tuple[Any, ...]]) -> Standing:
    """What rows of (id, state, whether it is of this lease, seconds until it is due, until its lease ends) say."""
    held: dict[str, float] = {}
    later: dict[str, float] = {}
    for name, state, mine, due, ends in rows:
        if state == sql.LEASED and not mine:
            held[name] = ends or 0.0
        elif state < sql.LEASED:
            later[name] = due or 0.0
    return Standing(
        lease=lease,
        settled=frozenset(row[0] for row in rows if row[1] > sql.LEASED),
        held=held,
        later=later,
        unknown=frozenset(named) - {row[0] for row in rows},
    )


def _publish(connection: Connection, told: Mapping[str, Any]) -> tuple[tuple[int, tuple[str, ...]], str]:
    [(added, transaction)] = connection.execute(sql.PUBLISH, told).fetchall()
    if added == len(told["ids"]):
        return (added, ()), transaction
    return (added, tuple(row[0] for row in connection.execute(sql.CONFLICTING, told))), transaction


def _sorted_out(
    drafts: Sequence[Draft],
) -> tuple[dict[str, str], int, tuple[str, ...], tuple[tuple[str, str], ...]]:
    """(payloads by id, how many stand there twice alike, ids that stand there twice otherwise, refused ones)."""
    fresh: dict[str, str] = {}
    same, conflicting, refused = 0, [], []
    for draft in drafts:
        reason = _refusal(draft.id) or _refusal(draft.payload, most_bytes=_MOST_PAYLOAD_BYTES, what="payload")
        if reason is not None:
            refused.append((draft.id, reason))
        elif fresh.setdefault(draft.id, draft.payload) == draft.payload:
            same += 1
        else:
            conflicting.append(draft.id)
    return fresh, same - len(fresh), tuple(conflicting), tuple(refused)


def _refusal(text: str, *, most_bytes: int = _MOST_ID_BYTES, what: str = "id") -> str | None:
    """Why PostgreSQL cannot keep a text as it is; None if it can."""
    if "\0" in text:
        return f"the {what} has a NUL character, which PostgreSQL cannot keep"
    try:
        size = len(text) if text.isascii() else len(text.encode())
    except UnicodeEncodeError:
        return f"the {what} has half a character (a lone surrogate), which PostgreSQL cannot keep"
    if size > most_bytes:
        return f"the {what} has {size:,} bytes, and at most {most_bytes:,} can be kept"
    return None


def _storable(reason: str) -> str:
    """A reason with what PostgreSQL cannot keep written as an escape."""
    return reason.encode(errors="backslashreplace").decode().replace("\0", "\\x00")
