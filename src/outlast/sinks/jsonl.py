"""Results in a file of JSON lines: appended under a lock, one line per result, mended after any kill."""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import TypeVar

from outlast.console import Console
from outlast.errors import SettingsError, SinkUnreachable
from outlast.items import LeasedItem, Result, SinkTraits, Stored, one_per_id
from outlast.paging import FIRST_ROWS, rows_to_read
from outlast.sinks.jsonl_file import LockedFile, locked, translating
from outlast.sinks.jsonl_index import Cover, Entry, IndexUnusable, JsonlIndex, Range
from outlast.sinks.jsonl_repair import Repair
from outlast.sinks.result_lines import Head, NoRecord, line_of, result_of
from outlast.sqlite_files import refuse_places_without_shared_memory

_SMALL_BYTES = 4 << 20  # rewritten, and its index made anew, in less than a second
_QUICK_BYTES = 16 << 20  # in a few; a chunk may have to wait for that, but not for more
_NEEDLESS_BYTES = 1 << 20

T = TypeVar("T")


class JsonlSink:
    """``jsonl:PATH`` as an items.Sink: the file has one line ``{"id", "value", "version", "claim"}`` per result.

    For many processes of one machine. Each chunk is one write at the end of the file and one fdatasync, under an
    exclusive flock of the file itself; other programs may read it at any time and must not write it. The wait for the
    lock ends after 60 s in which nobody has got on. A folder that several machines share is refused, since flock
    holds within one of them only, or its file system does not say (nfs(5) and flock(2), read 2026-11-30).

    A result that replaces another is appended first. The old line, with its newline, is then overwritten by blanks,
    which makes them the beginning of the line after it, where JSON lets them mean nothing. So every line is one whole
    result for each reader of JSON lines, and their number is that of the results (for a moment, or after a kill until
    the next look of any process, it may be higher by those that are being replaced). `prepare` puts a copy without
    blanks in the file's place when there is half as much blank as content; up to 4 MiB it and `close` do so always,
    and up to 16 MiB a chunk may. Such a copy needs the room for itself, and goes without when there is none.

    Beside it there is ``PATH.index``, a SQLite file that leads from an id to its line, so that a probe costs the same
    at any size. It is derived: when it is missing, damaged, or of another content (told by inode, length and a digest
    of the last bytes that it covers), it is made anew from the file. What a kill cut short goes to ``PATH.torn``, with
    a line on the console; a whole record that lacks only its newline is kept.
    """

    def __init__(self, url: str, *, console: Console | None = None) -> None:
        self._url = url
        self._path = _path_of(url)
        self._index = JsonlIndex(f"{self._path}.index")
        self._console = console or Console()
        self._has_replaced = False

    @property
    def url(self) -> str:
        return self._url

    @property
    def traits(self) -> SinkTraits:
        return SinkTraits()

    @property
    def database(self) -> None:
        return None

    def prepare(self) -> None:
        with translating(self._url):
            refuse_places_without_shared_memory(self._path, setting="sink")
            os.makedirs(os.path.dirname(self._path), exist_ok=True)
        self._exclusively(self._tidy)

    def known(self, items: Sequence[LeasedItem]) -> Mapping[str, Stored]:
        ids = [item.id for item in items]
        found = self._found(ids)
        if found is None:  # somebody is storing, or was killed in it
            found = self._exclusively(lambda _repair, _cover: self._index.entries(ids))
        return {name: Stored(entry.head.version, entry.head.claim) for name, entry in found.items()}

    def store(self, results: Sequence[Result], *, connection: object | None = None) -> None:
        if results:
            self._exclusively(lambda repair, cover: self._append(results, repair, cover))

    def results(self) -> Iterator[Result]:
        if not os.path.exists(self._path):  # to look for it makes no file
            raise SettingsError(f"sink={self._url!r}: there is no file {self._path}")
        last, most = "", FIRST_ROWS
        while True:
            page = self._page(last, most)
            yield from page
            if len(page) < most:
                return
            last, most = page[-1].id, rows_to_read(most, sum(len(one.value) for one in page))

    def close(self) -> None:
        """Lets go of the index; a small file is rewritten where lines were replaced."""
        if self._has_replaced:
            try:
                self._exclusively(self._tidy_small)
            except SinkUnreachable as error:  # all is stored, and the next `prepare` does the same
                self._console.warning(str(error))
        self._index.close()

    def _exclusively(self, work: Callable[[Repair, Cover], T]) -> T:
        """Runs it with the file locked and in agreement with the index."""
        with locked(self._path, self._url) as file:
            repair = Repair(file, self._index, self._url, self._console)
            try:
                return work(repair, repair.agree())
            except IndexUnusable:
                repair.forget()
            try:
                return work(repair, repair.agree())
            except IndexUnusable as error:
                raise SinkUnreachable(f"sink={self._url!r}: another program changes the file or its index") from error

    def _found(self, ids: Sequence[str]) -> dict[str, Entry] | None:
        """Where the results of these ids are; None where the index does not say now."""
        try:
            return self._index.entries(ids) if self._is_current() else None
        except IndexUnusable:
            return None

    def _is_current(self) -> bool:
        """Whether the index covers all of the file, as seen without the lock."""
        if not self._index.is_open():
            return False
        cover = self._index.cover()
        try:
            there = os.stat(self._path)
        except OSError:
            return False
        return cover is not None and (cover.inode, cover.bytes) == (there.st_ino, there.st_size)

    def _append(self, results: Sequence[Result], repair: Repair, cover: Cover) -> None:
        newest = one_per_id(results)
        file, there = repair.file, self._index.entries(list(newest))
        lines: list[tuple[Head, bytes]] = []
        for result in newest.values():
            line, old = line_of(result), there.get(result.id)
            if old is None or (old.head.claim <= result.claim and file.read(old.place) != line):
                lines.append((Head(result.id, result.version, result.claim), line))
        if not lines:
            return
        start = at = file.append(b"".join(line for _, line in lines))
        entries = []
        for head, line in lines:
            entries.append(Entry(head, Range(at, len(line))))
            at += len(line)
        after = repair.add(entries, at, cover, undo=lambda: file.cut(start))
        self._has_replaced = self._has_replaced or after.blank > cover.blank
        if after.bytes <= _QUICK_BYTES and _is_mostly_blank(after):
            self._rewrite(repair)

    def _tidy(self, repair: Repair, cover: Cover) -> None:
        repair.file.drop_unfinished()
        repair.file.sync_folder()
        if not self._tidy_small(repair, cover) and _is_mostly_blank(cover):
            self._rewrite(repair)

    def _tidy_small(self, repair: Repair, cover: Cover) -> bool:
        if small := cover.blank > 0 and cover.bytes <= _SMALL_BYTES:
            self._rewrite(repair)
        return small

    def _rewrite(self, repair: Repair) -> None:
        try:
            repair.file.rewrite()
        except OSError as error:
            self._console.warning(f"{self._path} is whole, but could not be made smaller: {error}")
            return
        repair.forget()
        repair.agree()

    def _page(self, after: str, most: int) -> list[Result]:
        """The next results in the order of ids, read while nobody writes."""
        with locked(self._path, self._url, shared=True) as file, suppress(IndexUnusable):  # it is mended below
            if self._is_current():
                return _read(file, self._index.page(after, most))
        return self._exclusively(lambda repair, _cover: _read(repair.file, self._index.page(after, most)))


def _is_mostly_blank(cover: Cover) -> bool:
    return cover.blank > max(_NEEDLESS_BYTES, (cover.bytes - cover.blank) // 2)


def _read(file: LockedFile, entries: Sequence[Entry]) -> list[Result]:
    """The results at these places; raises IndexUnusable where another line is."""
    in_place = sorted(entries, key=lambda entry: entry.place.start)
    try:
        read = {one.head.id: result_of(file.read(one.place), one.head) for one in in_place}
    except NoRecord as error:
        raise IndexUnusable from error
    return [read[one.head.id] for one in entries]


def _path_of(url: str) -> str:
    path = url.partition(":")[2]
    if not path or path == "-" or "\0" in path or path.endswith("/"):
        raise SettingsError(f"sink={url!r} names no file: write jsonl:results.jsonl, or jsonl:/folder/results.jsonl")
    if "://" in path or (path.startswith("//") and not path.startswith("///")):
        raise SettingsError(
            f"sink={url!r}: results can be appended to a file of this machine only, as in jsonl:results.jsonl; for a "
            "bucket there is parquet:gs://BUCKET/FOLDER"
        )
    return os.path.realpath(os.path.expanduser(path))
