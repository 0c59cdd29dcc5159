"""PostgreSQL databases that many processes use: found by URL, reached with patience, their errors translated."""

import os
import re
import select
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from typing import Any, NoReturn, TypeVar
from urllib.parse import unquote

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.pq import Conninfo, ConnStatus, TransactionStatus
from psycopg.waiting import Ready

from outlast.clock import format_duration
from outlast.console import Console
from outlast.errors import ExitingError, SettingsError
from outlast.urls import masked

Connection = psycopg.Connection[tuple[Any, ...]]
T = TypeVar("T")

PATIENCE_SECONDS = 20.0
ANSWER_SECONDS = 60.0
_CONNECT_SECONDS = 5
_LONGEST_PAUSE_SECONDS = 2.0
_TELL_AFTER_SECONDS = 2.0
_MOST_IDLE = 4
# A host that is gone is noticed within half a minute, whether we wait for its answer (keepalives) or it for our data.
_OWN_DEFAULTS: dict[str, str | int] = {
    "connect_timeout": _CONNECT_SECONDS,
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 30_000,
    "application_name": "outlast",
}
# Without a compiler, too: it takes a tenth of a second when a plan looks dear, as one with a forbidden part does.
_BY_INDEX = "SELECT " + ", ".join(
    f"set_config('{way}', 'off', true)" for way in ("enable_seqscan", "enable_bitmapscan", "enable_sort", "jit")
)
# How a generator of psycopg says what it waits for, and is told what there is: 1 to read, 2 to write, 3 both.
_EVENTS = {1: select.POLLIN, 2: select.POLLOUT, 3: select.POLLIN | select.POLLOUT}
_READY = {events: Ready(number) for number, events in _EVENTS.items()}
# Classes of SQLSTATE (PostgreSQL's documentation, Appendix A, 2026-11-30).
_CONNECTION = ("08", "57P")  # the connection, and the server going down or coming up
# Of uniqueness: a statement that was thought lost has come first (a lease has its token, a table its name).
_PASSING = ("08", "23505", "25006", "40", "53", "55P03", "57", "58")
_NEEDS_A_HUMAN = ("22", "23", "28", "3D", "3F", "42")
# A refused connection brings words only. In another language these are tried again, and then called unreachable.
_REFUSED = (
    "password authentication failed",
    "no password supplied",
    "does not exist",
    "no pg_hba.conf entry",
    "permission denied for database",
)
_GRANT = "ask its owner for the right (GRANT), or connect as the owner"
# What to do, by SQLSTATE and, for a refused connection, by words.
_ADVICE = {
    "42501": _GRANT,
    "42P01": "a table is missing: was it dropped, or is another schema meant (search_path)?",
}
_ADVICE_IN_WORDS = {
    r'role ".*" does not exist': "make it (createuser), or name another user",
    r'database ".*" does not exist': "make it (createdb), or name another database",
    "password authentication failed|no password supplied": (
        "give the password of this user in the URL, in PGPASSWORD or in ~/.pgpass"
    ),
    "no pg_hba.conf entry": "let this user and this address in, in the server's pg_hba.conf",
    "permission denied for database": _GRANT,
}


class PostgresDatabase:
    """One database, from several threads and in forked children; connections are made when needed.

    `known` are the options of the URL that are outlast's own, found in `options` afterwards. `unreachable` is raised
    where the server does not answer for `patience_seconds`, or refuses; SettingsError where a human must change
    something. `setting` names what led here.
    """

    def __init__(
        self,
        url: str,
        *,
        setting: str,
        known: frozenset[str],
        unreachable: type[ExitingError],
        patience_seconds: float = PATIENCE_SECONDS,
    ) -> None:
        self.shown = f"{setting}={masked(url)!r}"
        self.options, self._conninfo = self._read(url, known)
        self._unreachable, self._patience_seconds = unreachable, patience_seconds
        self._lock = threading.Lock()
        self._idle: list[_BoundedConnection] = []
        self._owner = os.getpid()
        self._name: str | None = None

    def _read(self, url: str, known: frozenset[str]) -> tuple[dict[str, str], str]:
        unreadable = SettingsError(
            f"{self.shown} is not a URL that PostgreSQL's client can read; write "
            "postgresql://USER:PASSWORD@HOST:PORT/DATABASE with special characters as %XX (@ is %40, / is %2F)"
        )
        place, _, query = url.partition("?")
        if (
            "@" in place.partition("://")[2].partition("/")[2]
            or place.count("@") > 1
            or ("@" in query and "@" not in place)
        ):
            raise unreadable  # what else would be named here may be a part of the password
        pairs = [pair for pair in query.split("&") if pair]
        named = [(unquote(pair.partition("=")[0]), pair) for pair in pairs]
        own = {name: unquote(pair.partition("=")[2]) for name, pair in named if name in known}
        theirs = {option.keyword.decode() for option in Conninfo.get_defaults()} | {"ssl"}
        strange = [name for name, _ in named if name not in known | theirs]
        if strange:
            raise SettingsError(
                f"{self.shown}: option {strange[0]!r} is not known; there is {', '.join(sorted(known))}, and what "
                "PostgreSQL's clients know"
            )
        rest = "&".join(pair for name, pair in named if name not in known)
        try:
            given = conninfo_to_dict(f"{place}?{rest}" if rest else place)
            ours = {name: value for name, value in _OWN_DEFAULTS.items() if name not in given}
            if "PGCONNECT_TIMEOUT" in os.environ:
                ours.pop("connect_timeout", None)
            settings: dict[str, Any] = {**ours, **given, "client_encoding": "utf8"}
            return own, make_conninfo(**settings)
        except psycopg.Error:  # its words may hold a part of the password
            raise unreadable from None

    @property
    def name(self) -> str:
        """The same for all URLs by which the same server, database, user and schemas are reached."""
        if self._name is None:
            self._name = self.run(lambda connection, _: _name_of(connection))
        return self._name

    # --- doing something ----------------------------------------------------------------------------

    def run(self, work: Callable[[Connection, bool], T], *, answer_seconds: float | None = ANSWER_SECONDS) -> T:
        """What `work` returns, which is repeated where it may be: after a lost connection, a deadlock and the like.

        Its second argument says whether an earlier try may have happened although its answer was lost. Whatever it
        begins it has to commit. An answer that takes longer than `answer_seconds` counts as lost; None: no limit.
        """
        began = time.monotonic()
        until, pause = began + self._patience_seconds, 0.0
        unsure = told = False
        while True:
            connection = None
            try:
                connection = self._taken(answer_seconds)
                value = work(connection, unsure)
            except psycopg.Error as error:
                lost = connection is not None and _is_lost(error, connection)
                self._discard(connection, others=lost)
                may_pass = connection is None or lost or _begins(error, _PASSING)
                if not may_pass or _is_refusal(error) or time.monotonic() + pause > until:
                    self._raise_translated(error, connection)
                unsure = unsure or connection is not None
                if connection is None and not told and time.monotonic() - began > _TELL_AFTER_SECONDS:
                    told = True
                    for_so_long = format_duration(self._patience_seconds)
                    Console().warning(f"{self.shown} does not answer: {_words(error)}; trying for {for_so_long}")
            except BaseException:
                self._discard(connection)
                raise
            else:
                self._give_back(connection)
                return value
            time.sleep(pause)
            pause = min(max(0.05, pause * 2), _LONGEST_PAUSE_SECONDS)

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """A session in a transaction, for a reader that takes its time; what fails then is not repeated."""
        connection = self.run(lambda _, __: self._connected(ANSWER_SECONDS))
        try:
            with self._translating(connection), connection.transaction():
                yield connection
        finally:
            connection.close()

    @contextmanager
    def _translating(self, connection: Connection) -> Iterator[None]:
        try:
            yield
        except psycopg.Error as error:
            self._raise_translated(error, connection)

    def close(self) -> None:
        """Ends all sessions that are not in use."""
        with self._lock:
            self._disown()
            for connection in self._idle:
                connection.close()
            self._idle = []

    # --- connections --------------------------------------------------------------------------------

    def _taken(self, answer_seconds: float | None) -> "_BoundedConnection":
        with self._lock:
            self._disown()
            connection = self._idle.pop() if self._idle else None
        if connection is None:
            return self._connected(answer_seconds)
        connection.answer_seconds = answer_seconds
        return connection

    def _connected(self, answer_seconds: float | None) -> "_BoundedConnection":
        # No prepared statements: they belong to a session, and poolers lend another one to each transaction.
        connection = _BoundedConnection.connect(self._conninfo, autocommit=True, prepare_threshold=None)
        connection.isolation_level = psycopg.IsolationLevel.READ_COMMITTED
        connection.answer_seconds = answer_seconds
        return connection

    def _give_back(self, connection: "_BoundedConnection") -> None:
        with self._lock:
            self._disown()
            idle = connection.info.transaction_status == TransactionStatus.IDLE
            if idle and len(self._idle) < _MOST_IDLE:
                self._idle.append(connection)
                return
        connection.close()

    def _discard(self, connection: Connection | None, *, others: bool = False) -> None:
        """`others`: what has ended this one has ended those, too."""
        if connection is not None:
            connection.close()
        if others:
            self.close()

    def _disown(self) -> None:
        """A child forgets its parent's sessions; to close them would end them for the parent."""
        if self._owner != os.getpid():
            self._idle, self._owner = [], os.getpid()

    def _raise_translated(self, error: psycopg.Error, connection: Connection | None) -> NoReturn:
        said = f"{self.shown}: {_words(error)}"
        if _is_refusal(error):
            advice = _advice(error)
            raise SettingsError(f"{said}: {advice}" if advice else said) from error
        if connection is None and isinstance(error, psycopg.ProgrammingError):  # a setting's value, found out late
            raise SettingsError(said) from error
        if isinstance(error, psycopg.OperationalError | psycopg.InternalError | psycopg.IntegrityError):
            raise self._unreachable(
                f"{said}; what was asked for may have happened, and to start again is safe"
            ) from error
        raise error


class _BoundedConnection(psycopg.Connection[tuple[Any, ...]]):
    """A connection on which nobody waits for an answer for ever.

    TCP's keepalives tell that the other machine is there, not that its server still works.
    """

    answer_seconds: float | None = ANSWER_SECONDS

    def __del__(self, *_: Any) -> None:
        """Warns of nothing: who drops a queue drops its sessions, and the client ends those of its process."""

    def wait(self, gen: Any, *args: Any, **kwargs: Any) -> Any:
        """Does what Connection.wait does, up to a limit, which not every psycopg 3.2 can have."""
        if self.answer_seconds is None:
            return super().wait(gen, *args, **kwargs)
        until = time.monotonic() + self.answer_seconds
        poll, socket = select.poll(), self.pgconn.socket
        try:
            wanted = next(gen)
            while True:
                poll.register(socket, _EVENTS[int(wanted)])
                found = poll.poll(max(0.0, until - time.monotonic()) * 1000)
                if not found:
                    self.pgconn.finish()  # or leaving the transaction would wait once more
                    with suppress(psycopg.Error, RuntimeError):  # of the connection that was just ended
                        gen.close()
                    raise psycopg.OperationalError(f"no answer within {self.answer_seconds:g} s")
                [(_, events)] = found
                both = events & ~(select.POLLIN | select.POLLOUT)  # an error, or the end: whoever reads finds out
                wanted = gen.send(wanted if both else _READY[events])
        except StopIteration as end:
            return end.value


# --- for those who write statements -------------------------------------------------------------------


@contextmanager
def one_trip(connection: Connection, *, durable: bool = True) -> Iterator[None]:
    """A transaction whose statements are sent together; what they return can be fetched after it.

    They find their rows by an index, in its order, whatever the server thinks of how many there are: what it knows of a
    queue is old, and wrong by then. To read all and sort out a hundred is cheaper once, but not for each hundred.
    Without `durable`, a crash of the server (not of this process) may undo it.
    """
    with _pipeline(connection), connection.transaction():
        connection.execute(_BY_INDEX if durable else f"{_BY_INDEX}, set_config('synchronous_commit', 'off', true)")
        yield


def _pipeline(connection: Connection) -> AbstractContextManager[object]:
    """Statements inside are sent without waiting for the answer of each."""
    return connection.pipeline() if psycopg.Pipeline.is_supported() else nullcontext()


def _name_of(connection: Connection) -> str:
    row = connection.execute(
        "SELECT current_database(), current_user, current_schemas(false)::text, "
        "coalesce(host(inet_server_addr()), 'socket'), coalesce(inet_server_port(), 0), "
        "has_function_privilege('pg_control_system()', 'execute')"
    ).fetchone()
    assert row is not None
    database, user, schemas, host, port, may_ask = row
    system = 0
    if may_ask:
        found = connection.execute("SELECT system_identifier FROM pg_control_system()").fetchone()
        system = found[0] if found else 0
    return f"postgresql:{system}@{host}:{port}/{database} as {user} in {schemas}"


def _words(error: psycopg.Error) -> str:
    """One line of what the server said, without the statement that it quotes."""
    return " ".join((error.diag.message_primary or str(error)).split()) or type(error).__name__


def _advice(error: psycopg.Error) -> str | None:
    if error.sqlstate in _ADVICE:
        return _ADVICE[error.sqlstate]
    return next((advice for words, advice in _ADVICE_IN_WORDS.items() if re.search(words, str(error))), None)


def _begins(error: psycopg.Error, classes: tuple[str, ...]) -> bool:
    return (error.sqlstate or "none").startswith(classes)


def _is_lost(error: psycopg.Error, connection: Connection) -> bool:
    gone = connection.closed or connection.pgconn.status != ConnStatus.OK
    return gone or _begins(error, _CONNECTION) or (isinstance(error, psycopg.OperationalError) and not error.sqlstate)


def _is_refusal(error: psycopg.Error) -> bool:
    if error.sqlstate:
        return _begins(error, _NEEDS_A_HUMAN) and not _begins(error, _PASSING)
    return isinstance(error, psycopg.OperationalError) and any(words in str(error) for words in _REFUSED)
