"""The files of a lint: named ones, and those found in folders; each read once, within bounds."""

import errno
import os
import stat
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pathspec import PathSpec

from outlast.lint.known import Known
from outlast.lint.reading.kinds import kind_of
from outlast.lint.source import Source

MOST_BYTES = 4 << 20
"""Larger ones are refused: nobody writes a manifest of 4 MiB by hand, and a look at one has to end in time."""
MOST_IN_A_LINE = 1 << 20
_NEVER = {
    ".git", ".hg", ".svn", "node_modules", "__pycache__", ".venv", "venv", ".tox", ".nox", ".terraform",
    ".mypy_cache", ".ruff_cache", ".pytest_cache",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class NotRead:
    """A file that could not be looked at. `asked`: it was named by the user, or is one that lint should understand."""

    path: Path
    why: str
    line: int | None = None


def find_files(paths: Iterable[Path], exclude: Iterable[str] = ()) -> Iterator[tuple[Path | NotRead, bool]]:
    """(file, whether it was named itself), each once, folders in order; links to folders inside are not followed.

    A folder that cannot be looked into comes as what was not read.
    """
    spec = PathSpec.from_lines("gitignore", exclude)
    seen: set[Path] = set()
    for path in paths:
        named = not os.path.isdir(path)  # noqa: PTH112 - Path.is_dir raises for a name too long, or hidden from us
        for file in [path] if named else _below(path, spec):
            if isinstance(file, NotRead):
                yield file, file.path == path
                continue
            real = Path(os.path.realpath(file))
            if real not in seen:
                seen.add(real)
                yield file, named


def _below(folder: Path, exclude: "PathSpec[Any]") -> Iterator[Path | NotRead]:
    closed: list[OSError] = []
    for where, folders, names in os.walk(folder, onerror=closed.append):
        here = Path(where)
        folders[:] = sorted(
            name
            for name in folders
            if name not in _NEVER
            and not os.path.exists(here / name / "pyvenv.cfg")  # noqa: PTH110 - Path.exists raises in a closed folder
            and not exclude.match_file(f"{(here / name).relative_to(folder)}/")
        )
        for name in sorted(names):
            if not exclude.match_file(str((here / name).relative_to(folder))):
                yield here / name
    yield from (NotRead(Path(error.filename), error.strerror or str(error)) for error in closed)


def read_source(path: Path, *, named: bool, known: Known) -> Source | NotRead | None:
    """A file as the checks get it; None for one of no kind that is read, unless it was named."""
    try:
        if not named and (not path.is_file() or kind_of(path, _head(path)) is None):
            return None
        if not path.is_file():
            return NotRead(path, "it is no file" if path.exists() else "there is no such file")
        data = _start_of(path, MOST_BYTES + 1)
        if len(data) > MOST_BYTES:
            size = max(path.stat().st_size, len(data))  # what grows, or has no end, tells another one
            return NotRead(path, f"it has {size:,} bytes; at most {MOST_BYTES:,} are read")
    except OSError as error:
        return NotRead(path, error.strerror or str(error))
    return _as_source(path, data, known)


def _head(path: Path) -> str:
    """The first line, where the name alone does not tell."""
    if path.suffix:
        return ""
    return _start_of(path, 200).decode(errors="replace").split("\n", 1)[0]


def _start_of(path: Path, most: int) -> bytes:
    """Its first bytes. What would block is an error: a pipe that came in the file's place, a log of the kernel."""
    with os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
        found = file.read(most) if stat.S_ISREG(os.fstat(file.fileno()).st_mode) else None
    if found is None:
        raise OSError(errno.EAGAIN, "it is no file with an end")
    return found


def _as_source(path: Path, data: bytes, known: Known) -> Source | NotRead:
    if b"\0" in data:
        return NotRead(path, "it is a binary file")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        return NotRead(path, "it is no UTF-8 text", data.count(b"\n", 0, error.start) + 1)
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    longest = max(map(len, text.split("\n")))
    if longest > MOST_IN_A_LINE:
        return NotRead(path, f"one of its lines has {longest:,} characters; at most {MOST_IN_A_LINE:,} are read")
    kind = kind_of(path, text.split("\n", 1)[0])
    if kind is None:
        return NotRead(path, "it is none of the kinds that lint reads: YAML, shell, Dockerfile, Terraform, Python")
    return Source(path, text, kind, known)
