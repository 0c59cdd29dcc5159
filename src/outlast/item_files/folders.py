"""The files in a folder as items: the id is a file's path below the folder, the payload says where it is."""

import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from pathspec import GitIgnoreSpec

from outlast.errors import SettingsError
from outlast.worker.publishing import Row


@dataclass(slots=True)
class LeftOut:
    """What was met in folders and is no item: real paths of the queue's own files, and how many hidden names."""

    own: set[str] = field(default_factory=set)
    hidden: int = 0

    @property
    def told(self) -> str:
        """In words; empty if there is nothing to tell."""
        names = ", ".join(sorted(map(os.path.basename, self.own)))
        told = [f"the queue itself ({names})"] if names else []
        told += [f"{self.hidden} hidden {'name' if self.hidden == 1 else 'names'}"] if self.hidden else []
        return " and ".join(told)


def folder_rows(
    folder: str, patterns: Sequence[str] = (), *, own: frozenset[str] = frozenset(), left_out: LeftOut | None = None
) -> Iterator[Row]:
    """A row for each file below a folder, in the order of their names: ("a/b.png", {"path": "/whole/path/a/b.png"}).

    Links are followed, but not in circles. Names that begin with a dot are passed over, and the queue's `own` files, by
    their real paths; `left_out` notes both. `patterns`, written as in .gitignore, choose: "*.png" in any folder,
    "train/**" below one. Raises SettingsError for a folder that cannot be read.
    """
    root = Path(os.path.abspath(folder))  # noqa: PTH100 - resolve() would follow links, and the path is what was asked
    wanted = GitIgnoreSpec.from_lines(patterns) if patterns else None
    for name, why in _files(root, "", (), own, left_out or LeftOut()):
        if wanted is None or wanted.match_file(name):
            yield Row(name, {"path": str(root / name)}, why=why)


def _files(
    folder: Path, prefix: str, above: tuple[tuple[int, int], ...], own: frozenset[str], left_out: LeftOut
) -> Iterator[tuple[str, str | None]]:
    """Names below the folder, each with what is wrong with it."""
    try:
        here = folder.stat()
        names = sorted(os.listdir(folder))  # noqa: PTH208 - of millions of files the names alone fit into memory
    except OSError as error:
        raise SettingsError(f"{folder} cannot be read: {error.strerror or error}") from error
    place, real, own_places = (here.st_dev, here.st_ino), os.path.realpath(folder), _places(own)
    for name in names if place not in above else ():
        if name.startswith("."):
            left_out.hidden += 1
            continue
        if (path := f"{real.rstrip('/')}/{name}") in own:
            left_out.own.add(path)
            continue
        try:
            found = (folder / name).stat()
        except OSError as error:
            yield f"{prefix}{name}", f"cannot be read: {error.strerror or error}"
            continue
        if stat.S_ISDIR(found.st_mode):
            yield from _files(folder / name, f"{prefix}{name}/", (*above, place), own, left_out)
        elif (found.st_dev, found.st_ino) in own_places:
            left_out.own.add(own_places[found.st_dev, found.st_ino])
        elif stat.S_ISREG(found.st_mode):
            yield f"{prefix}{name}", None


def _places(paths: frozenset[str]) -> dict[tuple[int, int], str]:
    """(device, inode) of those of the files that are there, for names that link to them."""
    found = {}
    for path in paths:
        with suppress(OSError):
            status = Path(path).stat()
            found[status.st_dev, status.st_ino] = path
    return found
