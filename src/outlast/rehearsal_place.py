"""Where queues and sinks may be while a rehearsal runs: in its copy, since what lies elsewhere is somebody's real work.

The rehearsal kills workers and lets items be computed again; a file of the copy bears that, and nothing else has to.
"""

import os
from pathlib import Path
from urllib.parse import unquote, urlsplit

from outlast.errors import SettingsError
from outlast.urls import masked

REHEARSAL_FOLDER = "OUTLAST_REHEARSAL_FOLDER"  # the copy that a rehearsal's attempts work in


def local_path(url: str, *, started_in: str = "") -> str | None:
    """The absolute path of a queue's or a sink's file or folder on this machine; None where it is none, or unknown.

    A relative one begins at the current folder, or where the program was `started_in`.
    """
    scheme, colon, rest = url.partition(":")
    if scheme == "sqlite" and rest.startswith("///"):
        rest = rest[3:].partition("?")[0]
    elif not colon:
        rest = url
    elif scheme == "file" or (scheme == "parquet" and rest.startswith("file:")):
        rest = unquote(urlsplit(url.removeprefix("parquet:")).path)
    elif "/" in scheme:  # a folder with a colon in its name
        rest = url
    elif scheme not in ("jsonl", "parquet") or "://" in rest:
        return None
    return os.path.abspath(Path(started_in) / Path(rest).expanduser())  # noqa: PTH100 - a link stays what it is


def refuse_outside(url: str, *, setting: str) -> None:
    """In a rehearsal: raises SettingsError for a place outside of its copy. Elsewhere it does nothing."""
    folder = os.environ.get(REHEARSAL_FOLDER)
    if not folder:
        return
    path = local_path(url)
    inside = path is not None and os.path.realpath(path).startswith(os.path.realpath(folder) + os.sep)
    if not inside:
        raise SettingsError(
            f"{setting}={masked(url)!r} is outside of the rehearsal's copy, and was not touched: a rehearsal kills its "
            "workers. Give it a file in the folder, say sqlite:///work.db, or say --real-store if it may be used"
        )
