"""A results file and its index, brought to agree: whatever a kill left, one whole line per result remains."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from outlast.console import Console
from outlast.errors import SettingsError
from outlast.sinks.jsonl_file import LockedFile
from outlast.sinks.jsonl_index import Cover, Entry, IndexUnusable, JsonlIndex, Range
from outlast.sinks.result_lines import NoJson, NoRecord, head_of, lines_between, looks_cut_short, rest_of_glued

_BATCH_LINES = 1000
_SHOWN = 60


@dataclass(frozen=True, slots=True)
class Repair:
    """What brings a locked file and its index to agree; every step may be the last one of a life.

    A line is appended first, then it is in the index together with the place of the line that it replaces, and only
    then that one becomes blanks. So a kill leaves at most lines that the index does not know yet, or knows to be
    superseded; both are seen at the next look.
    """

    file: LockedFile
    index: JsonlIndex
    url: str
    console: Console

    def agree(self) -> Cover:
        """Reads on from where the index ends, or all of the file where the index is of another content."""
        try:
            self.index.open()
            cover, superseded = self.index.cover(), self.index.superseded()
        except IndexUnusable:
            cover, superseded = None, []
        if cover is None or not self._covers(cover, superseded):
            cover = self.forget()
        elif superseded:
            cover = self._blank(superseded, cover)
        return self._read_on(cover) if self.file.size > cover.bytes else cover

    def forget(self) -> Cover:
        """Empties the index; one that is damaged is put aside."""
        cover = Cover(self.file.inode, 0, self.file.digest(0), 0)
        try:
            self.index.open()
            self.index.clear(cover)
        except IndexUnusable:
            place = self.index.start_over()
            self.console.warning(f"{self.file.path}: its index was damaged, is {place} now, and is made anew")
            self.index.clear(cover)
        return cover

    def add(
        self, entries: Sequence[Entry], end: int, cover: Cover, *, undo: Callable[[], object] = lambda: None
    ) -> Cover:
        """Takes over lines that stand in the file up to `end`. Of two for an id the higher claim stays, else the later.

        `undo` is called where they are not taken over. Raises IndexUnusable where the index names a line that is not
        there: nothing is overwritten then.
        """
        try:
            there = self.index.entries([one.head.id for one in entries])
            staying: dict[str, Entry] = {}
            replaced: list[Range] = []
            for one in entries:
                rival = staying.get(one.head.id) or there.get(one.head.id)
                if rival is not None and rival.head.claim > one.head.claim:
                    replaced.append(one.place)
                    continue
                staying[one.head.id] = one
                if rival is not None:
                    self._check(rival)
                    replaced.append(rival.place)
            cover = replace(cover, bytes=end, digest=self.file.digest(end, replaced))
            self.index.add(list(staying.values()), replaced, cover)
        except BaseException:
            undo()
            raise
        return self._blank(replaced, cover) if replaced else cover

    def _covers(self, cover: Cover, superseded: Sequence[Range]) -> bool:
        return (
            cover.inode == self.file.inode
            and cover.bytes <= self.file.size
            and cover.digest == self.file.digest(cover.bytes, superseded)
        )

    def _check(self, entry: Entry) -> None:
        try:
            found = head_of(self.file.read(entry.place))
        except (NoJson, NoRecord) as error:
            raise IndexUnusable from error
        if found != entry.head:
            raise IndexUnusable

    def _blank(self, places: Sequence[Range], cover: Cover) -> Cover:
        self.file.blank(places)
        cover = replace(cover, blank=cover.blank + sum(one.bytes for one in places))
        self.index.blanked(cover)
        return cover

    def _read_on(self, cover: Cover) -> Cover:
        """Takes over the lines that the index does not cover."""
        batch: list[Entry] = []
        seen = cover.bytes > 0
        for start, at, line in lines_between(self.file.handle, cover.bytes, self.file.size):
            entry = self._entry(at, line, strange=not seen and at == start)
            if entry is None:
                continue
            seen = True
            batch.append(entry)
            if len(batch) >= _BATCH_LINES:
                cover = self.add(batch, entry.place.start + entry.place.bytes, cover)
                batch = []
                self.file.show_life()
        cover = self.add(batch, self.file.size, cover)
        end = self.file.end_without_blanks()
        if end < self.file.size:  # the last lines were replaced by earlier ones of higher claims
            self.file.cut_durably(end)
            cover = replace(cover, bytes=end, digest=self.file.digest(end))
            self.index.blanked(cover)
        return cover

    def _entry(self, at: int, line: bytes, *, strange: bool) -> Entry | None:
        """A line as an entry; what is not JSON is moved out of the file.

        `strange`: nothing before this line says that the file is one of results. Raises SettingsError for a line of
        another program.
        """
        try:
            head = head_of(line)
        except NoRecord as error:
            raise self._foreign(at, line) from error
        except NoJson as error:
            rest = rest_of_glued(line)
            fragment = line[:rest]
            if strange and not looks_cut_short(fragment):
                raise self._foreign(at, line) from error
            self._move_out(at, fragment)
            if rest is None:
                return None
            at, line = at + rest, line[rest:]
            head = head_of(line)
        if not line.endswith(b"\n"):
            self.file.append(b"\n")
            line += b"\n"
        return Entry(head, Range(at, len(line)))

    def _move_out(self, at: int, fragment: bytes) -> None:
        name = self.file.set_aside(fragment)
        if at + len(fragment) == self.file.size:
            self.file.cut_durably(at)
        else:
            self.file.blank([Range(at, len(fragment))])
        self.console.warning(
            f"{self.file.path}: {len(fragment)} bytes of a line that was cut short, at byte {at}, are in {name} now; "
            "its item is done again unless it has a result"
        )

    def _foreign(self, at: int, line: bytes) -> SettingsError:
        shown = line[:_SHOWN].decode(errors="replace")
        return SettingsError(
            f"sink={self.url!r}: {self.file.path} has a line, at byte {at}, that is no result: {shown!r}; nothing was "
            "changed. Name another file, or take that line out"
        )
