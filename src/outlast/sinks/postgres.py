"""Results in a table of a PostgreSQL database, from version 13 on (tried on 15)."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import psycopg
from psycopg.sql import Identifier

from outlast.errors import SettingsError, SinkUnreachable
from outlast.items import LeasedItem, Result, SinkTraits, Stored, one_per_id
from outlast.paging import FIRST_ROWS, rows_to_read
from outlast.postgresql import PATIENCE_SECONDS, Connection, PostgresDatabase

_DEFAULT_TABLE = "results"
_COLUMNS = {"id": ("text", "character varying"), "value": ("text",), "version": ("text",), "claim": ("bigint",)}
_MOST_NAME_BYTES = 63  # of a longer one PostgreSQL silently keeps the beginning
_MAKING = 0x6F75746C617375  # the number of the advisory lock under which tables are made; not the queues'

# The value is text, not jsonb, which would refuse some JSON (a NUL in a string) and change other (large numbers).
_CREATE = """CREATE TABLE IF NOT EXISTS {table} (
    id text COLLATE "C" PRIMARY KEY, value text NOT NULL, version text, claim bigint NOT NULL)"""
_IS_THERE = "SELECT to_regclass(%s) IS NOT NULL"
_SHAPE = """SELECT attname, format_type(atttypid, NULL), attnotnull AND NOT atthasdef AND attidentity = ''
    FROM pg_attribute WHERE attrelid = to_regclass(%s) AND attnum > 0 AND NOT attisdropped"""
_IS_UNIQUE = """SELECT EXISTS (SELECT FROM pg_index AS i JOIN pg_attribute AS a
        ON a.attrelid = i.indrelid AND a.attnum = i.indkey[0]
    WHERE i.indrelid = to_regclass(%s) AND i.indisunique AND i.indimmediate AND i.indisvalid AND i.indnkeyatts = 1
        AND i.indpred IS NULL AND i.indexprs IS NULL AND a.attname = 'id')"""
_KNOWN = "SELECT id, version, claim FROM {table} WHERE id = ANY (%(ids)b::text[])"
# In the order of ids, so that of two that store the same ones none waits for what the other holds.
_UPSERT = """INSERT INTO {table} AS t (id, value, version, claim)
    SELECT id, value, version, claim
    FROM unnest(%(ids)b::text[], %(values)b::text[], %(versions)b::text[], %(claims)b::bigint[])
        AS told (id, value, version, claim)
    ORDER BY id COLLATE "C"
    ON CONFLICT (id) DO UPDATE SET value = excluded.value, version = excluded.version, claim = excluded.claim
    WHERE excluded.claim >= t.claim"""
# As a user would write them in `table=`; of those that need no schema.
_TABLES = r"""SELECT relname FROM pg_class WHERE relkind IN ('r', 'p', 'v', 'm', 'f') AND pg_table_is_visible(oid)
    AND relnamespace NOT IN ('pg_catalog'::regnamespace, 'information_schema'::regnamespace)
    AND relname NOT LIKE 'outlast\_%%' ORDER BY relname LIMIT %s"""
_MOST_NAMES = 20
_ALL = "SELECT id, value, version, claim FROM {table}"


class PostgresSink:
    """``postgresql://USER:PASSWORD@HOST/DATABASE?table=NAME`` as an items.Sink; the table is `results` unless named.

    ``table=SCHEMA.NAME`` names one of another schema. A table that is there may have more columns, where these have
    defaults. While the server cannot be reached, each verb tries again for `patience_seconds`.
    """

    def __init__(self, url: str, *, patience_seconds: float = PATIENCE_SECONDS) -> None:
        self._url = url
        self._database = PostgresDatabase(
            url,
            setting="sink",
            known=frozenset({"table"}),
            unreachable=SinkUnreachable,
            patience_seconds=patience_seconds,
        )
        names = self._database.options.get("table", _DEFAULT_TABLE).split(".")
        if len(names) > 2 or not all(_can_be_a_name(name) for name in names) or names[-1].startswith("outlast_"):
            raise SettingsError(
                f"{self._database.shown}: table={'.'.join(names)!r} is not a table's name that a sink can have: one to "
                f"{_MOST_NAME_BYTES} bytes, with at most one dot behind the schema, and not one of outlast's own"
            )
        self._table = Identifier(*names).as_string(None)
        self._create, self._all = (statement.format(table=self._table) for statement in (_CREATE, _ALL))
        escaped = self._table.replace("%", "%%")  # in statements that have parameters
        self._known, self._upsert = (statement.format(table=escaped) for statement in (_KNOWN, _UPSERT))

    @property
    def url(self) -> str:
        return self._url

    @property
    def traits(self) -> SinkTraits:
        return SinkTraits()

    @property
    def database(self) -> str:
        return self._database.name

    def prepare(self) -> None:
        self._database.run(lambda connection, _: self._make(connection))

    def _make(self, connection: Connection) -> None:
        if not _says(connection, _IS_THERE, self._table):
            with connection.transaction():
                # "If not exists" alone does not wait for somebody who is making it.
                connection.execute("SELECT pg_advisory_xact_lock(%s)", (_MAKING,))
                connection.execute(self._create)
        lacks = self._lacks(connection)
        if lacks:
            raise SettingsError(
                f"{self._database.shown}: table {self._table} is there and cannot keep results: {'; '.join(lacks)}. "
                "Nothing was changed; name another table (?table=NAME)"
            )
        # What a worker would find out after its first chunk: may it read and write here?
        connection.execute(self._known, {"ids": []})
        connection.execute(self._upsert, {"ids": [], "values": [], "versions": [], "claims": []})

    def _lacks(self, connection: Connection) -> list[str]:
        there = {name: (kind, needed) for name, kind, needed in connection.execute(_SHAPE, (self._table,))}
        lacks = [f"it has no column {name} ({kinds[0]})" for name, kinds in _COLUMNS.items() if name not in there]
        lacks += [
            f"column {name} is {there[name][0]}, not {kinds[0]}"
            for name, kinds in _COLUMNS.items()
            if name in there and there[name][0] not in kinds
        ]
        lacks += [
            f"column {name} must be given and has no default"
            for name, (_, needed) in there.items()
            if needed and name not in _COLUMNS
        ]
        if "id" in there and not _says(connection, _IS_UNIQUE, self._table):
            lacks.append("id is neither its primary key nor unique")
        return lacks

    def known(self, items: Sequence[LeasedItem]) -> Mapping[str, Stored]:
        told = {"ids": [item.id for item in items]}
        rows = self._database.run(lambda connection, _: connection.execute(self._known, told).fetchall())
        return {name: Stored(version, claim) for name, version, claim in rows}

    def store(self, results: Sequence[Result], *, connection: object | None = None) -> None:
        told = _columns(results)
        if not told["ids"]:
            return
        if isinstance(connection, psycopg.Connection):
            connection.execute(self._upsert, told)
            return
        self._database.run(lambda own, _: own.execute(self._upsert, told))

    def results(self) -> Iterator[Result]:
        """From one snapshot, in the order in which the server has them; a lost connection ends it."""
        self._database.run(lambda connection, _: self._refuse_no_table(connection))
        with self._database.reading() as connection, connection.cursor("outlast_results") as cursor:
            cursor.execute(self._all)
            most = FIRST_ROWS
            while rows := cursor.fetchmany(most):
                yield from (Result(*row) for row in rows)
                most = rows_to_read(most, sum(len(row[1]) for row in rows))

    def _refuse_no_table(self, connection: Connection) -> None:
        if _says(connection, _IS_THERE, self._table):
            return
        names = [name for (name,) in connection.execute(_TABLES, (_MOST_NAMES,)).fetchall()]
        there = f"there is {', '.join(names)}" if names else "this user sees none in the database"
        raise SettingsError(f"{self._database.shown}: there is no table {self._table} (?table=); {there}")

    def close(self) -> None:
        self._database.close()


def _can_be_a_name(name: str) -> bool:
    return "\0" not in name and 1 <= len(name.encode(errors="replace")) <= _MOST_NAME_BYTES


def _says(connection: Connection, question: str, table: str) -> bool:
    [(answer,)] = connection.execute(question, (table,)).fetchall()
    return bool(answer)


def _columns(results: Sequence[Result]) -> dict[str, list[Any]]:
    """The results as columns, one per id: one statement cannot replace what it has just added."""
    rows = one_per_id(results).values()
    return {
        "ids": [row.id for row in rows],
        "values": [row.value for row in rows],
        "versions": [row.version for row in rows],
        "claims": [row.claim for row in rows],
    }
