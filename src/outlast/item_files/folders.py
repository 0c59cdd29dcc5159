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
    """What is no item though it lies in a folder. `own`: the real paths of files that are the queue's own.

    `found`: which of them were met, and `hidden`: how many names that begin with a dot.
    """

    own: frozenset[str] = frozenset()
    found: set[str] = field(default_factory=set)
    hidden: int = 0

    def is_own(self, path: str) -> bool:
        """Whether a file, by its real path, is the queue's; notes it."""
        if path not in self.own:
            return False
        self.found.add(path)
        return True

    def places(self) -> dict[tuple[int, int], str]:
        """(device, inode) of the queue's files that are there, for names that link to them."""
        found = {}
        for path in self.own:
            with suppress(OSError):
                status = Path(path).stat()
                found[status.st_dev, status.st_ino] = path
        return found

    def __str__(self) -> str:
        """In words; empty if there is nothing to tell."""
        names = ", ".join(sorted(map(os.path.basename, self.found)))
        told = [f"the queue itself ({names})"] if names else []
        told += [f"{self.hidden} hidden {'name' if self.hidden == 1 else 'names'}"] if self.hidden else []
        return " and ".join(told)


def folder_rows(folder: str, patterns: Sequence[str] = (), left_out: LeftOut | None = None) -> Iterator[Row]:
    """A row for each file below a folder, in the order of their names: ("a/b.png", {"path": "/whole/path/a/b.png"}).

    Links are followed, but not in circles. Names that begin with a dot are passed over, and what is `left_out`, which
    notes both. `patterns`, written as in
    .gitignore, choose: "*.png" in any folder, "train/**" below one. Raises SettingsError for a folder that cannot be
    read.
    """
    root = Path(os.path.abspath(folder))  # noqa: PTH100 - resolve() would follow links, and the path is what was asked
    wanted = GitIgnoreSpec.from_lines(patterns) if patterns else None
    for name, why in _files(root, "", (), left_out or LeftOut()):
        if wanted is None or wanted.match_file(name):
            yield Row(name, {"path": str(root / name)}, why=why)


def _files(
    folder: Path, prefix: str, above: tuple[tuple[int, int], ...], left_out: LeftOut
) -> Iterator[tuple[str, str | None]]:
    """Names below the folder, each with what is wrong with it."""
    try:
        here = folder.stat()
        names = sorted(os.listdir(folder))  # noqa: PTH208 - of millions of files the names alone fit into memory
    except OSError as error:
        raise SettingsError(f"{folder} cannot be read: {error.strerror or error}") from error
    place, real, own = (here.st_dev, here.st_ino), os.path.realpath(folder), left_out.places()
    for name in names if place not in above else ():
        if name.startswith("."):
            left_out.hidden += 1
            continue
        if left_out.is_own(f"{real.rstrip('/')}/{name}"):
            continue
        try:
            found = (folder / name).stat()
        except OSError as error:
            yield f"{prefix}{name}", f"cannot be read: {error.strerror or error}"
            continue
        if stat.S_ISDIR(found.st_mode):
            yield from _files(folder / name, f"{prefix}{name}/", (*above, place), left_out)
        elif (found.st_dev, found.st_ino) in own:
            left_out.found.add(own[found.st_dev, found.st_ino])
        elif stat.S_ISREG(found.st_mode):
            yield f"{prefix}{name}", None
