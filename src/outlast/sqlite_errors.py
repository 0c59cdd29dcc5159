"""What went wrong with a SQLite file, and what to do about it, by SQLite's result codes.

Source of the codes and their causes: SQLite's documentation, Result and Error Codes (2026-11-30).
"""

import errno
import re
import sqlite3

# By the primary code, which is the low byte of an extended one.
_DAMAGED = {
    sqlite3.SQLITE_NOTADB: "it is no SQLite file: name another one, or move it away; nothing was changed",
    sqlite3.SQLITE_CORRUPT: (
        "it is damaged: keep a copy of it with its -wal, save what can be read with `sqlite3 FILE .recover`, and begin "
        "a new one; nothing was changed"
    ),
}
# SQLite has one code for these and for every mistake in a statement, which would be ours; so by the text.
_OTHER_TABLES = re.compile(
    r"no such (table|column)|has no column named|ON CONFLICT clause does not match|there is already an? |is a view"
)
_LACKS = (
    "it lacks what is asked for: tables were dropped or changed, or it is another program's file; nothing was changed"
)
_WILL_NOT_TAKE = (
    "it does not take what is to be written: a trigger or a rule of its table forbids it; nothing was changed"
)
_PASSING = {
    sqlite3.SQLITE_FULL: "make room on its disk, or raise the quota, and start again; what was stored before stays",
    sqlite3.SQLITE_READONLY: (
        "this user may not write it, or its file system is mounted read-only: file and folder must both be writable, "
        "for the -wal and -shm beside it"
    ),
    sqlite3.SQLITE_PERM: "this user may not write it, or its folder",
    sqlite3.SQLITE_CANTOPEN: (
        "this user may not write there: file and folder must both be writable, for the -wal and -shm beside it"
    ),
    sqlite3.SQLITE_BUSY: (
        "another program holds it for longer than is waited for: end that one (an open transaction in a shell or an "
        "editor, a backup; `fuser FILE` names it)"
    ),
    sqlite3.SQLITE_LOCKED: "another connection of this program holds it: end its transaction",
    sqlite3.SQLITE_IOERR: (
        "the disk, or a network mount, did not do what it was asked to: see the system's log, and make sure that it is "
        "on a healthy local disk with room"
    ),
    sqlite3.SQLITE_PROTOCOL: (
        "its locks do not work, as on network mounts: take a folder on a local disk, or postgresql:// for several "
        "machines"
    ),
    sqlite3.SQLITE_NOMEM: "this machine is out of memory: give the container more, or take smaller chunks",
}
_NO_RIGHTS = "this user may not read or make it there: give rights on the folder, or name another"
_THROUGH_A_FILE = "a part of its path is a file: name another"
_OF_FILES = {
    errno.ENOSPC: _PASSING[sqlite3.SQLITE_FULL],
    errno.EDQUOT: _PASSING[sqlite3.SQLITE_FULL],
    errno.EROFS: _PASSING[sqlite3.SQLITE_READONLY],
    errno.EACCES: _NO_RIGHTS,
    errno.EPERM: _NO_RIGHTS,
    errno.ENOTDIR: _THROUGH_A_FILE,
    errno.EEXIST: _THROUGH_A_FILE,
}


def for_a_human(error: sqlite3.DatabaseError) -> str | None:
    """What is wrong and what to do, where no retry helps; None where one may."""
    if isinstance(error, sqlite3.IntegrityError | sqlite3.DataError):
        return f"{_WILL_NOT_TAKE} ({error})"
    what = _LACKS if is_a_statements(error) and _OTHER_TABLES.search(str(error)) else _DAMAGED.get(_code(error))
    return None if what is None else f"{what} ({error})"


def for_a_retry(error: sqlite3.DatabaseError | OSError) -> str:
    """What went wrong, and what to do should it stay so."""
    if isinstance(error, OSError):
        said, advice = error.strerror or str(error), _OF_FILES.get(error.errno or 0)
    else:
        said, advice = str(error), _PASSING.get(_code(error))
    return said if advice is None else f"{said}: {advice}"


def is_a_statements(error: sqlite3.DatabaseError) -> bool:
    """Whether SQLite says that a statement is wrong, or that what it names is not there."""
    return _code(error) == sqlite3.SQLITE_ERROR


def _code(error: sqlite3.DatabaseError) -> int:
    """The primary result code, 0 for an error that is Python's own."""
    return int(getattr(error, "sqlite_errorcode", 0)) & 0xFF
