"""What the user names to publish: files, patterns, folders, objects in buckets, standard input; and their formats."""

import glob
import importlib
import os
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from outlast.errors import SettingsError
from outlast.item_files.folders import LeftOut, folder_rows
from outlast.item_files.lines import RowReader, csv_rows, jsonl_rows, tsv_rows, txt_rows
from outlast.item_files.streams import STANDARD_INPUT, Meter, opened, shown
from outlast.registry import open_store
from outlast.worker.publishing import Row

_FOLDER = "folder"
_PARQUET = "parquet"
_READERS: dict[str, RowReader] = {"csv": csv_rows, "tsv": tsv_rows, "jsonl": jsonl_rows, "txt": txt_rows}
FORMATS = (*_READERS, _PARQUET)
_ENDINGS = {".csv": "csv", ".tsv": "tsv", ".jsonl": "jsonl", ".ndjson": "jsonl", ".txt": "txt", ".parquet": _PARQUET}
_GZIP_ENDING = ".gz"
_WILD = frozenset("*?[")


@dataclass(slots=True)
class Source:
    """One thing to read items from. `name` is a path, a URL or "-"; `meter` tells how far it has been read.

    `patterns` choose among the files of a folder. The queue's `own` files are passed over, and `left_out` notes that.
    """

    name: str
    format: str = ""
    meter: Meter = field(default_factory=Meter)
    patterns: tuple[str, ...] = ()
    own: frozenset[str] = frozenset()
    left_out: LeftOut = field(default_factory=LeftOut)

    @property
    def shown(self) -> str:
        """Its name for people."""
        return shown(self.name)

    def rows(self, id_column: str = "id") -> Iterator[Row]:
        """Its rows, read as they are asked for.

        Raises SettingsError when it cannot be read, or is not of its format; StoreUnreachable when the storage does not
        answer; both at any time.
        """
        if self.format == _FOLDER:
            return folder_rows(self.name, self.patterns, own=self.own, left_out=self.left_out)
        if self.format == _PARQUET:
            return self._parquet_rows(id_column)
        return self._text_rows(_READERS[self.format], id_column)

    def _text_rows(self, read: RowReader, id_column: str) -> Iterator[Row]:
        with opened(self.name, self.meter) as content:
            yield from read(content, self.shown, id_column)

    def _parquet_rows(self, id_column: str) -> Iterator[Row]:
        parquet = _parquet()
        with opened(self.name, self.meter, seekable=True) as content:
            file = parquet.ParquetRows(content, self.shown, id_column)
            for number, row in enumerate(file.rows(), start=1):
                self.meter.done_bytes = (self.meter.bytes or 0) * number // file.total
                yield row


def find_sources(
    names: Sequence[str],
    *,
    format: str | None = None,  # noqa: A002 - the option's name
    patterns: Sequence[str] = (),
    own: frozenset[str] = frozenset(),
    left_out: LeftOut | None = None,
) -> list[Source]:
    """What the names mean, in their order, patterns expanded in the order of what they match.

    `format` is one of FORMATS, else it is seen from each name's ending, which may have .gz after it. `patterns` choose
    among the files of folders. In folders, and in what a pattern matches, the queue's `own` files are passed over, by
    their real paths; `left_out` notes what was. Raises SettingsError for what is not there, may not be read, or has no
    known format.
    """
    left_out = left_out or LeftOut()
    found = [one for name in names for one in _expanded(name, own, left_out)]
    for one in found:
        one.own, one.left_out = own, left_out
        if one.format == _FOLDER:
            one.patterns = tuple(patterns)
        else:
            one.format = format or _format_of(one.name)
    if patterns and not any(one.format == _FOLDER for one in found):
        raise SettingsError("--glob chooses among the files of a folder, and there is no folder among the names")
    if sum(one.name == STANDARD_INPUT for one in found) > 1:
        raise SettingsError("standard input (-) can be read once only")
    if any(one.format == _PARQUET for one in found):
        _parquet()  # before anything is published
    return found


def _format_of(name: str) -> str:
    if name == STANDARD_INPUT:
        raise SettingsError(f"standard input needs --format, one of {', '.join(FORMATS)}")
    path = Path(name.lower().removesuffix(_GZIP_ENDING))
    if path.suffix not in _ENDINGS:
        raise SettingsError(
            f"the name of {name} does not tell its format; there are {', '.join(_ENDINGS)}, perhaps with "
            f"{_GZIP_ENDING}, else --format says it. To publish files themselves as items, name their folder"
        )
    return _ENDINGS[path.suffix]


def _parquet() -> Any:
    try:
        return importlib.import_module("outlast.item_files.parquet")
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "pyarrow":
            raise
        raise SettingsError("Parquet files need pyarrow: pip install 'outlast[parquet]'") from error


# --- names and patterns ---------------------------------------------------------------------------------


def _expanded(name: str, own: frozenset[str], left_out: LeftOut) -> list[Source]:
    """What a name or pattern stands for; the format is told for folders only."""
    name = name.removeprefix("file://")
    if name == STANDARD_INPUT:
        return [Source(name)]
    if "://" in name:
        return _objects(name)
    name = os.path.expanduser(name)  # noqa: PTH111 - a name stays as it is written, "./" and all
    if os.path.lexists(name) or not _WILD & set(name):
        return [_local(name)]
    matches = sorted(glob.glob(name, recursive=True))  # noqa: PTH207 - names as the shell would write them
    real = {match: os.path.realpath(match) for match in matches}
    left_out.own |= own & set(real.values())
    wanted = [_local(match) for match in matches if real[match] not in own]
    if not wanted:
        raise SettingsError(f"nothing matches {name!r}")
    return wanted


def _local(name: str) -> Source:
    """A file, pipe or folder that can be read."""
    try:
        found = os.stat(name)  # noqa: PTH116 - names stay as they are written
    except OSError as error:
        raise SettingsError(f"{name} cannot be read: {error.strerror or error}") from error
    if not os.access(name, os.R_OK):
        raise SettingsError(f"{name} cannot be read: permission denied")
    if stat.S_ISDIR(found.st_mode):
        return Source(name, _FOLDER)
    return Source(name, meter=Meter(found.st_size if stat.S_ISREG(found.st_mode) else None))


def _objects(url: str) -> list[Source]:
    """The object at a URL, or those in one folder of a bucket that its last part matches."""
    folder, _, last = url.rpartition("/")
    if not last or folder.endswith(":/"):
        raise SettingsError(f"{url} names no object; it is BUCKET/FOLDER/FILE after the scheme")
    if not _WILD & set(last):
        return [Source(url)]
    there = [one for one in open_store(folder).list("") if "/" not in one.name and fnmatchcase(one.name, last)]
    if not there:
        raise SettingsError(f"nothing matches {url!r}")
    return [Source(f"{folder}/{one.name}", meter=Meter(one.bytes)) for one in there]
