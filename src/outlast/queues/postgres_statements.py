"""The queue's tables in PostgreSQL, and the statements on them."""

from outlast.items import State

# What `state` says, which knows more than the users of a queue: suspects are ready items with a death behind them, and
# later ones are ready after their `not_before`.
READY, SUSPECT, LATER, LEASED, DONE, DEAD = range(6)
STATES: dict[State, tuple[int, ...]] = {
    "ready": (READY, SUSPECT, LATER),
    "leased": (LEASED,),
    "done": (DONE,),
    "dead": (DEAD,),
}
STATE_OF: dict[int, State] = {code: name for name, codes in STATES.items() for code in codes}
FORMAT = 1
MAKING = 0x6F75746C617374  # the number of the advisory lock under which tables are made: "outlast"

# A lease is one row, with the numbers of its items; these keep the number of the lease that holds them, or else of what
# was the last to settle them, so that a verb whose answer was lost can be told from one that never arrived. The counts
# are spread over slots, since a single row would make everybody wait for everybody. Collation "C" is what an index
# survives when the system's library changes its order.
#
# No statistics are kept: those of an hour ago say "nothing is leased" or "this queue has one item", and a plan made on
# them reads all items to find a hundred. Without them, each statement finds its rows by the index meant for it: items
# by their numbers, which the lease has.
SCHEMA = (
    """CREATE TABLE IF NOT EXISTS outlast_queues (
        queue integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY, name text COLLATE "C" NOT NULL UNIQUE,
        format smallint NOT NULL)""",
    "CREATE SEQUENCE IF NOT EXISTS outlast_order",
    """CREATE TABLE IF NOT EXISTS outlast_items (
        seq bigint PRIMARY KEY, claim bigint NOT NULL DEFAULT 0, lease bigint,
        published timestamptz NOT NULL DEFAULT clock_timestamp(), not_before timestamptz,
        queue integer NOT NULL, errors integer NOT NULL DEFAULT 0, deaths integer NOT NULL DEFAULT 0,
        releases integer NOT NULL DEFAULT 0, state smallint NOT NULL DEFAULT 0,
        id text COLLATE "C" NOT NULL, payload text NOT NULL, reason text,
        UNIQUE (id, queue))""",
    """ALTER TABLE outlast_items ALTER queue SET STATISTICS 0, ALTER state SET STATISTICS 0,
        ALTER id SET STATISTICS 0, ALTER lease SET STATISTICS 0, ALTER not_before SET STATISTICS 0""",
    "CREATE INDEX IF NOT EXISTS outlast_ready ON outlast_items (queue, state, seq) WHERE state <= 1",
    "CREATE INDEX IF NOT EXISTS outlast_later ON outlast_items (queue, not_before) WHERE state = 2",
    "CREATE INDEX IF NOT EXISTS outlast_dead ON outlast_items (queue, seq) WHERE state = 5",
    """CREATE TABLE IF NOT EXISTS outlast_leases (
        lease bigint PRIMARY KEY, until timestamptz NOT NULL, renewed timestamptz NOT NULL DEFAULT clock_timestamp(),
        queue integer NOT NULL, begun boolean NOT NULL, open integer NOT NULL, items bigint[] NOT NULL)""",
    "CREATE INDEX IF NOT EXISTS outlast_until ON outlast_leases (queue, until)",
    """CREATE TABLE IF NOT EXISTS outlast_counts (
        queue integer NOT NULL, slot integer NOT NULL, ready bigint NOT NULL, leased bigint NOT NULL,
        done bigint NOT NULL, dead bigint NOT NULL, PRIMARY KEY (queue, slot)) WITH (fillfactor = 50)""",
    """CREATE TABLE IF NOT EXISTS outlast_ledgers (
        queue integer PRIMARY KEY, name text COLLATE "C" NOT NULL, strangers boolean NOT NULL DEFAULT false)""",
    "CREATE TABLE IF NOT EXISTS outlast_sent (seq bigint PRIMARY KEY)",
    """CREATE TABLE IF NOT EXISTS outlast_successes (
        queue integer NOT NULL, version text COLLATE "C" NOT NULL, PRIMARY KEY (queue, version))""",
)
EXISTS = "SELECT to_regclass('outlast_successes') IS NOT NULL"  # the table that came last
FIND_QUEUE = "SELECT queue, format FROM outlast_queues WHERE name = %s"
ADD_QUEUE = "INSERT INTO outlast_queues (name, format) VALUES (%s, %s) ON CONFLICT (name) DO NOTHING"


def _count(changed: str, ready: str, leased: str, done: str, dead: str) -> str:
    """Adds to the counts what has changed; nothing where that is nothing."""
    return f"""INSERT INTO outlast_counts AS c (queue, slot, ready, leased, done, dead)
        SELECT %(queue)s, pg_backend_pid() %% 64, {ready}, {leased}, {done}, {dead} FROM {changed} HAVING count(*) > 0
        ON CONFLICT (queue, slot) DO UPDATE SET ready = c.ready + excluded.ready, leased = c.leased + excluded.leased,
            done = c.done + excluded.done, dead = c.dead + excluded.dead"""


# In the order of ids, so that of two publishers of the same ids none waits for what the other holds; numbered in the
# order given.
PUBLISH = f"""WITH added AS (
        INSERT INTO outlast_items (seq, queue, id, payload)
        SELECT seq, %(queue)s, id, payload FROM (
            SELECT nextval('outlast_order') AS seq, id, payload
            FROM unnest(%(ids)b::text[], %(payloads)b::text[]) AS told (id, payload)) AS numbered
        ORDER BY id COLLATE "C" ON CONFLICT (id, queue) DO NOTHING RETURNING 1),
    counted AS ({_count("added", "count(*)", "0", "0", "0")})
    SELECT count(*), pg_current_xact_id()::text FROM added"""
CONFLICTING = """SELECT told.id
    FROM unnest(%(ids)b::text[], %(payloads)b::text[]) WITH ORDINALITY AS told (id, payload, number)
    JOIN outlast_items AS i ON i.queue = %(queue)s AND i.id = told.id
    WHERE i.payload <> told.payload ORDER BY told.number"""
HAS_COMMITTED = "SELECT pg_xact_status(%s::xid8) = 'committed'"

# --- leases -------------------------------------------------------------------------------------------

# While the server was down nobody could renew a lease: those of before have some seconds more, unless they were ended.
_PAST = """until <= (SELECT clock_timestamp()) AND (
    until = '-infinity' OR renewed > pg_postmaster_start_time()
    OR clock_timestamp() > pg_postmaster_start_time() + interval '10 s')"""
# Whoever settles something holds its lease FOR KEY SHARE: passed over here, and not in the way of an extension.
END_EXPIRED = f"""WITH expired AS (
        DELETE FROM outlast_leases WHERE lease = ANY (ARRAY(
            SELECT lease FROM outlast_leases WHERE queue = %(queue)s AND {_PAST}
            ORDER BY until LIMIT 200 FOR UPDATE SKIP LOCKED))
        RETURNING lease, begun, items),
    ended AS (
        UPDATE outlast_items AS i SET lease = NULL, deaths = deaths + begun::integer,
            state = CASE WHEN begun AND deaths + 1 > %(max_deaths)s THEN 5 WHEN begun OR deaths > 0 THEN 1 ELSE 0 END,
            reason = CASE WHEN begun THEN format('its process died while it was in progress, %%s %%s', deaths + 1,
                CASE deaths WHEN 0 THEN 'time' ELSE 'times' END) ELSE reason END
        FROM expired
        WHERE i.seq = ANY (expired.items) AND i.lease = expired.lease AND state = 3
        RETURNING state)
    {_count("ended", "count(*) FILTER (WHERE state < 5)", "-count(*)", "0", "count(*) FILTER (WHERE state = 5)")}"""
MAKE_DUE = """UPDATE outlast_items SET state = CASE WHEN deaths > 0 THEN 1 ELSE 0 END, not_before = NULL
    WHERE seq = ANY (ARRAY(
        SELECT seq FROM outlast_items WHERE queue = %(queue)s AND state = 2 AND not_before <= (SELECT clock_timestamp())
        ORDER BY not_before LIMIT 1000 FOR UPDATE SKIP LOCKED))"""
_ITEM = "seq, id, payload, claim, errors, deaths, releases"
# What was found is leased.
_TAKEN = f"""taken AS (
        UPDATE outlast_items SET state = 3, lease = %(lease)s, claim = claim + 1
        WHERE seq = ANY (ARRAY(SELECT seq FROM others UNION ALL SELECT seq FROM suspect))
        RETURNING {_ITEM}),
    made AS (
        INSERT INTO outlast_leases (lease, queue, until, begun, open, items)
        SELECT %(lease)s, %(queue)s, clock_timestamp() + make_interval(secs => %(seconds)s), %(begin)s, count(*),
            array_agg(seq ORDER BY seq)
        FROM taken HAVING count(*) > 0),
    counted AS ({_count("taken", "-count(*)", "count(*)", "0", "0")})
    SELECT {_ITEM} FROM taken"""
_TAKE = f"""WITH others AS (
        SELECT seq FROM outlast_items WHERE queue = %(queue)s AND state = 0 AND seq > %(after)s AND {{unless}}
        ORDER BY seq LIMIT %(most)s FOR UPDATE SKIP LOCKED),
    suspect AS (
        SELECT seq FROM outlast_items WHERE queue = %(queue)s AND state = 1 AND {{unless}}
            AND NOT EXISTS (SELECT FROM others)
        ORDER BY seq LIMIT 1 FOR UPDATE SKIP LOCKED),
    {_TAKEN}"""
# Takes nothing where something has to be ended first. Most often nothing has, and to plan for it takes the server
# longer than all the rest.
TAKE_UNLESS = _TAKE.format(
    unless=f"""NOT EXISTS (
        SELECT FROM outlast_leases WHERE queue = %(queue)s AND {_PAST}
        UNION ALL SELECT FROM outlast_items
        WHERE queue = %(queue)s AND state = 2 AND not_before <= (SELECT clock_timestamp()))"""
)
TAKE = _TAKE.format(unless="true")
_OF_LEASE = "seq = ANY (ARRAY(SELECT unnest(items) FROM outlast_leases WHERE lease = %(lease)s))"
OF_LEASE = f"SELECT {_ITEM} FROM outlast_items WHERE {_OF_LEASE} AND lease = %(lease)s AND state = 3 ORDER BY seq"
BEGIN = "UPDATE outlast_leases SET begun = true WHERE lease = %s"
EXTEND = """UPDATE outlast_leases SET until = clock_timestamp() + make_interval(secs => %s),
    renewed = clock_timestamp() WHERE lease = %s"""
EXPIRE = "UPDATE outlast_leases SET until = '-infinity' WHERE lease = %s"
LIFT = f"""UPDATE outlast_items AS i SET claim = told.claim
    FROM unnest(%(ids)b::text[], %(claims)b::bigint[]) AS told (id, claim)
    WHERE i.{_OF_LEASE} AND i.id = told.id AND i.lease = %(lease)s AND i.state = 3 AND i.claim < told.claim"""

# --- as the ledger of a broker ------------------------------------------------------------------------

DEDICATE = """INSERT INTO outlast_ledgers (queue, name) SELECT %(queue)s, %(name)s
    WHERE NOT EXISTS (SELECT FROM outlast_items WHERE queue = %(queue)s) ON CONFLICT (queue) DO NOTHING"""
NOTE_SUCCESS = "INSERT INTO outlast_successes VALUES (%(queue)s, %(version)s) ON CONFLICT DO NOTHING"
HAS_SUCCESS = "SELECT 1 FROM outlast_successes WHERE queue = %(queue)s AND version = %(version)s"
LEDGER = "SELECT name, strangers FROM outlast_ledgers WHERE queue = %(queue)s"
NOTE_STRANGERS = "UPDATE outlast_ledgers SET strangers = true WHERE queue = %(queue)s"
_NAMED = "queue = %(queue)s AND id = ANY (%(ids)b::text[])"
TAKE_NAMED = f"""WITH known AS (
        SELECT count(*) = cardinality(%(ids)b::text[]) AS whole FROM outlast_items WHERE {_NAMED}),
    others AS (
        SELECT seq FROM outlast_items WHERE {_NAMED} AND state = 0 AND (SELECT whole FROM known)
        ORDER BY seq FOR UPDATE SKIP LOCKED),
    suspect AS (
        SELECT seq FROM outlast_items WHERE {_NAMED} AND state = 1 AND (SELECT whole FROM known)
            AND NOT EXISTS (SELECT FROM outlast_items WHERE queue = %(queue)s AND state = 0)
        ORDER BY seq LIMIT 1 FOR UPDATE SKIP LOCKED),
    {_TAKEN}"""
STANDING = f"""SELECT id, state, coalesce(lease = %(lease)s, false),
        extract(epoch FROM not_before - clock_timestamp())::double precision,
        extract(epoch FROM (SELECT until FROM outlast_leases WHERE outlast_leases.lease = outlast_items.lease)
            - clock_timestamp())::double precision
    FROM outlast_items WHERE {_NAMED}"""
HELD = f"SELECT id FROM outlast_items WHERE {_OF_LEASE} AND lease = %(lease)s AND state = 3"
UNSENT = f"""SELECT id, payload FROM outlast_items WHERE {_NAMED} AND state < 3
        AND NOT EXISTS (SELECT FROM outlast_sent WHERE outlast_sent.seq = outlast_items.seq)
    ORDER BY seq"""
MARK_SENT = f"""INSERT INTO outlast_sent (seq) SELECT seq FROM outlast_items WHERE {_NAMED} ORDER BY seq
    ON CONFLICT (seq) DO NOTHING"""

# --- how an item's lease ends -------------------------------------------------------------------------


def _settle(change: str) -> str:
    """Changes the items that the lease holds, and marks them; with `again`, those marked before count, too."""
    return f"""WITH held AS MATERIALIZED (
        SELECT lease, items FROM outlast_leases WHERE lease = %(lease)s FOR KEY SHARE),
    settled AS (
        UPDATE outlast_items AS i SET lease = %(mark)s, {change}
        FROM unnest(%(ids)b::text[], %(reasons)b::text[]) AS told (id, reason)
        WHERE i.seq = ANY (ARRAY(SELECT unnest(items) FROM held)) AND i.id = told.id AND i.state = 3
            AND i.lease = %(lease)s
        RETURNING i.id, i.state),
    counted AS ({
        _count(
            "settled",
            "count(*) FILTER (WHERE state < 3)",
            "-count(*)",
            "count(*) FILTER (WHERE state = 4)",
            "count(*) FILTER (WHERE state = 5)",
        )
    }),
    left_open AS (
        UPDATE outlast_leases SET open = open - (SELECT count(*) FROM settled) WHERE lease = %(lease)s)
    SELECT id FROM settled UNION ALL
    SELECT id FROM outlast_items
    WHERE %(again)s AND queue = %(queue)s AND id = ANY (%(ids)b::text[]) AND lease = %(mark)s AND state <> 3"""


_BACK = "CASE WHEN i.deaths > 0 THEN 1 ELSE 0 END"
ACK = _settle("state = 4, reason = NULL")
RELEASE = _settle(f"state = {_BACK}, releases = i.releases + 1")
FAIL = _settle(
    f"""errors = i.errors + 1, reason = told.reason,
        state = CASE WHEN i.errors + 1 > %(max_errors)s THEN 5 WHEN %(delay)s > 0 THEN 2 ELSE {_BACK} END,
        not_before = CASE WHEN i.errors + 1 <= %(max_errors)s AND %(delay)s > 0
            THEN clock_timestamp() + make_interval(secs => %(delay)s) END"""
)
BURY = _settle("state = 5, reason = told.reason")
DROP_IF_SETTLED = "DELETE FROM outlast_leases WHERE lease = %(lease)s AND open <= 0"

# --- looking, and retrying ----------------------------------------------------------------------------

STATS = f"""WITH ended AS (
        SELECT coalesce(sum(open), 0) AS items FROM outlast_leases WHERE queue = %(queue)s AND {_PAST})
    SELECT (coalesce(sum(ready), 0) + (SELECT items FROM ended))::bigint,
        (coalesce(sum(leased), 0) - (SELECT items FROM ended))::bigint,
        coalesce(sum(done), 0)::bigint, coalesce(sum(dead), 0)::bigint
    FROM outlast_counts WHERE queue = %(queue)s"""
OLDEST = """SELECT extract(epoch FROM clock_timestamp() - min(published))::double precision FROM (
    (SELECT published FROM outlast_items WHERE queue = %(queue)s AND state = 0 ORDER BY seq LIMIT 1) UNION ALL
    (SELECT published FROM outlast_items WHERE queue = %(queue)s AND state = 1 ORDER BY seq LIMIT 1) UNION ALL
    (SELECT published FROM outlast_items WHERE queue = %(queue)s AND state = 2) UNION ALL
    (SELECT published FROM outlast_leases AS l JOIN outlast_items AS i
        ON i.seq = ANY (l.items) AND i.state = 3 AND i.lease = l.lease
        WHERE l.queue = %(queue)s)) AS not_settled"""


def page_of(state: State | None) -> str:
    """Some items after the number `last`, in their order."""
    only = "" if state is None else f"AND {_is_in(state)}"
    return f"""SELECT seq, id, state, payload, claim, errors, deaths, releases, reason FROM outlast_items
        WHERE seq > %(last)s AND queue = %(queue)s {only} ORDER BY seq LIMIT %(most)s"""


def retry_of(state: State, *, all_of_them: bool) -> str:
    """Makes items ready again."""
    named = "" if all_of_them else "AND id = ANY (%(ids)b::text[])"
    retried = f"""UPDATE outlast_items SET state = 0, errors = 0, deaths = 0, releases = 0, reason = NULL, lease = NULL
        WHERE queue = %(queue)s AND {_is_in(state)} {named} RETURNING seq"""
    gone = {"done": "0", "dead": "0"} | {state: "-count(*)"}
    return f"""WITH retried AS ({retried}),
        forgotten AS (DELETE FROM outlast_sent WHERE seq IN (SELECT seq FROM retried)),
        counted AS ({_count("retried", "count(*)", "0", gone["done"], gone["dead"])})
        SELECT count(*), pg_current_xact_id()::text FROM retried"""


def _is_in(state: State) -> str:
    """In literals: an index that is made for some states is found by nothing else."""
    codes = STATES[state]
    return f"state = {codes[0]}" if len(codes) == 1 else f"state IN ({', '.join(map(str, codes))})"
