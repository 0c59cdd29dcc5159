"""Real PostgreSQL on the loopback: one server per test run, a fresh database, queue or table for whoever asks.

    fresh_database()   the URL of a database that nobody has used
    fresh_queue()      the URL of a queue that nobody has used, in a database that this process has for all of them
    fresh_table()      the URL of a sink's table that is not there yet, likewise
    own_server()       a server that a test may stop and start

PostgreSQL does not run as root, so there it is started as the user `postgres`.
"""

import os
import pwd
import secrets
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import psycopg
import pytest

from service import servers

# Files instead of shared memory, which a killed server would leave behind; nothing here must survive a power cut.
_SETTINGS = {
    "listen_addresses": "127.0.0.1",
    "fsync": "off",
    "full_page_writes": "off",
    "shared_buffers": "32MB",
    "dynamic_shared_memory_type": "mmap",
    "max_connections": "200",
    "log_min_messages": "fatal",
}


@dataclass(frozen=True)
class Server:
    """A server's folder and port."""

    folder: Path
    port: int

    @property
    def url(self) -> str:
        """Its first database, as the superuser."""
        return f"postgresql://postgres@127.0.0.1:{self.port}/postgres"

    def start(self) -> None:
        """Starts it and waits until it answers."""
        settings = [f"-c{name}={value}" for name, value in _SETTINGS.items()]
        command = [_program("postgres"), "-D", str(self.folder / "data"), f"-p{self.port}", f"-k{self.folder}"]
        servers.start_kept(self.folder.stem, [*_as_its_user(), *command, *settings])
        servers.wait_for(self._answers, "PostgreSQL")

    def stop_at_once(self) -> None:
        """As a crash would end it: nobody is told, and the next start recovers from the log."""
        self.control("stop", "-m", "immediate")

    def control(self, *action: str) -> None:
        """Runs pg_ctl on it."""
        command = [*_as_its_user(), _program("pg_ctl"), "-D", str(self.folder / "data"), "-s", *action]
        subprocess.run(command, check=True, cwd="/", timeout=60)

    def _answers(self) -> bool:
        try:
            psycopg.connect(self.url, connect_timeout=5).close()
        except psycopg.OperationalError:
            return False
        return True


def server() -> Server:
    """The test run's server; skips where PostgreSQL is not installed."""
    port = servers.shared("postgres", lambda port: str(_made("postgres", port).port))
    return Server(servers.shared_folder() / "postgres.state", int(port))


@contextmanager
def own_server() -> Iterator[Server]:
    """A server of one test's own, running."""
    mine = _made(f"postgres-{secrets.token_hex(4)}", servers.free_port())
    try:
        yield mine
    finally:
        mine.stop_at_once()


def fresh_database(at: Server | None = None) -> str:
    """The URL of a new database, as the superuser."""
    there, name = at or server(), f"d{secrets.token_hex(6)}"
    execute(there.url, f"CREATE DATABASE {name}")
    return there.url.removesuffix("postgres") + name


def fresh_queue() -> str:
    """The URL of a queue that nobody has used, beside others in one database."""
    return f"{_database_of(os.getpid())}?queue={secrets.token_hex(6)}"


def fresh_table() -> str:
    """The URL of a sink whose table is not there yet, beside others in one database."""
    return f"{_database_of(os.getpid())}?table=t{secrets.token_hex(6)}"


def execute(url: str, *statements: str) -> list[tuple[object, ...]]:
    """Runs statements as somebody else would; returns the last one's rows."""
    with psycopg.connect(url.partition("?")[0], autocommit=True) as connection:
        for statement in statements:
            cursor = connection.execute(statement)
        return cursor.fetchall() if cursor.description else []


@cache
def _database_of(pid: int) -> str:
    return fresh_database()


def _made(name: str, port: int) -> Server:
    if not _found("postgres"):
        pytest.skip("PostgreSQL is not installed: apt-get install postgresql")
    folder = servers.shared_folder() / f"{name}.state"
    folder.mkdir()
    if os.getuid() == 0:
        os.chown(folder, *_its_user())
    initdb = [_program("initdb"), "-D", str(folder / "data"), "-A", "trust", "--no-sync", "-U", "postgres", "-EUTF8"]
    done = subprocess.run(
        [*_as_its_user(), *initdb, "--locale=C"], cwd="/", capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    made = Server(folder, port)
    made.start()
    return made


def _as_its_user() -> list[str]:
    if os.getuid() != 0:
        return []
    user, group = _its_user()
    # Changing the user forgets the wish to end with the keeper, so it is told anew.
    return ["setpriv", f"--reuid={user}", f"--regid={group}", "--clear-groups", "--pdeathsig=KILL"]


def _its_user() -> tuple[int, int]:
    try:
        entry = pwd.getpwnam("postgres")
    except KeyError:
        pytest.skip("PostgreSQL does not run as root, and there is no user postgres")
    return entry.pw_uid, entry.pw_gid


def _program(name: str) -> str:
    found = _found(name)
    assert found is not None, f"{name} is not installed"
    return found


@cache
def _found(name: str) -> str | None:
    """The newest; Debian keeps them out of PATH."""
    folders = sorted(
        Path("/usr/lib/postgresql").glob("*/bin"), key=lambda folder: int(folder.parent.name), reverse=True
    )
    return shutil.which(name, path=os.pathsep.join([*map(str, folders), os.environ["PATH"]]))
