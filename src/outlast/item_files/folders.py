"""The files in a folder as items: the id is a file's path below the folder, the payload says where it is."""

import os
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path

from pathspec import GitIgnoreSpec

from outlast.errors import SettingsError
from outlast.worker.publishing import Row


def folder_rows(folder: str, patterns: Sequence[str] = ()) -> Iterator[Row]:
    """A row for each file below a folder, in the order of their names: ("a/b.png", {"path": "/whole/path/a/b.png"}).

    Links are followed, but not in circles. Names that begin with a dot are passed over. `patterns`, written as in
    .gitignore, choose: "*.png" in any folder, "train/**" below one. Raises SettingsError for a folder that cannot be
    read.
    """
    root = Path(os.path.abspath(folder))  # noqa: PTH100 - resolve() would follow links, and the path is what was asked
    wanted = GitIgnoreSpec.from_lines(patterns) if patterns else None
    for name, why in _files(root, "", ()):
        if wanted is None or wanted.match_file(name):
            yield Row(name, {"path": str(root / name)}, why=why)


def _files(folder: Path, prefix: str, above: tuple[tuple[int, int], ...]) -> Iterator[tuple[str, str | None]]:
    """Names below the folder, each with what is wrong with it."""
    try:
        here = folder.stat()
        names = sorted(os.listdir(folder))  # noqa: PTH208 - of millions of files the names alone fit into memory
    except OSError as error:
        raise SettingsError(f"{folder} cannot be read: {error.strerror or error}") from error
    place = (here.st_dev, here.st_ino)
    for name in names if place not in above else ():
        if name.startswith("."):
            continue
        try:
            mode = (folder / name).stat().st_mode
        except OSError as error:
            yield f"{prefix}{name}", f"cannot be read: {error.strerror or error}"
            continue
        if stat.S_ISDIR(mode):
            yield from _files(folder / name, f"{prefix}{name}/", (*above, place))
        elif stat.S_ISREG(mode):
            yield f"{prefix}{name}", None
