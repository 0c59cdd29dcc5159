"""What a folder of Parquet results is made of: its names, the record of a compaction, which parts that one holds.

    sink.json                       says that the folder is such a sink, and of which format
    parts/<when>-<who>-<n>.parquet  what one store() was given; nobody has joined it yet
    results/<m>-<who>-<n>.parquet   what compaction m made: one row per id, in the order of the ids
    compactions/<m>.json            its record, made last: the files that count, and all parts whose rows they hold

A part that the newest record holds does not count any more, nor does a file in results/ that it does not name. Files of
any other name are somebody else's: they are passed over, and stay.
"""

import json
import os
import re
import secrets
import time
from bisect import bisect_right
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import xxhash

from outlast.errors import ObjectExists, ObjectMissing, SettingsError
from outlast.ports import Store, StoredObject

FORMAT = 1
MARK, PARTS, RESULTS, COMPACTIONS = "sink.json", "parts", "results", "compactions"
_PART = re.compile(rf"{PARTS}/(\d{{20}})-([0-9a-f]{{16}})-(\d{{8,}})\.parquet")
_RESULT = re.compile(rf"{RESULTS}/(\d{{12}})-[0-9a-f]{{16}}-\d{{6}}\.parquet")
_COMPACTION = re.compile(rf"{COMPACTIONS}/(\d{{12}})\.json")
_MARK_TEXT = json.dumps({"outlast": "parquet sink", "format": FORMAT}).encode() + b"\n"


class PartSet:
    """Which parts, by who wrote them and their number: as spans, so that a million parts are a few dozen numbers."""

    def __init__(self, spans: Mapping[str, Iterable[Iterable[int]]] | None = None) -> None:
        self._spans = {who: [(first, last) for first, last in held] for who, held in (spans or {}).items()}

    def add(self, who: str, number: int) -> None:
        spans = self._spans.setdefault(who, [])
        if spans and spans[-1][1] == number - 1:
            spans[-1] = (spans[-1][0], number)
        else:
            self._spans[who] = _joined([*spans, (number, number)])

    def update(self, other: "PartSet") -> None:
        for who, held in other.as_spans().items():
            self._spans[who] = _joined([*self._spans.get(who, ()), *held])

    def __contains__(self, part: tuple[str, int]) -> bool:
        return self._holds(part[0], (part[1], part[1]))

    def covers(self, other: "PartSet") -> bool:
        """Whether all parts of another are in this one."""
        return all(self._holds(who, span) for who, held in other.as_spans().items() for span in held)

    def _holds(self, who: str, span: tuple[int, int]) -> bool:
        held = self._spans.get(who, [])
        at = bisect_right(held, span[0], key=lambda one: one[0]) - 1
        return at >= 0 and span[1] <= held[at][1]

    def as_spans(self) -> dict[str, list[tuple[int, int]]]:
        return {who: list(held) for who, held in self._spans.items()}

    def copy(self) -> "PartSet":
        return PartSet(self._spans)


def _joined(spans: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Spans in order, with those that touch or overlap as one."""
    joined: list[tuple[int, int]] = []
    for first, last in sorted(spans):
        if joined and first <= joined[-1][1] + 1:
            joined[-1] = (joined[-1][0], max(joined[-1][1], last))
        else:
            joined.append((first, last))
    return joined


@dataclass(frozen=True, slots=True)
class Part:
    """One part: its object's name, its writer's token, its number among that one's, and when (ns since the epoch)."""

    name: str
    who: str
    number: int
    written_ns: int

    @property
    def key(self) -> tuple[str, int]:
        return self.who, self.number


class PartNames:
    """New names for parts: no two alike, also in forked children, and later ones sort behind earlier ones."""

    def __init__(self) -> None:
        self._who, self._number, self._pid, self._last_ns = "", 0, -1, 0

    def next(self) -> Part:
        if self._pid != os.getpid():
            self.renew()
        part_of, number = self._who, self._number
        self._number += 1
        self._last_ns = max(self._last_ns + 1, time.time_ns())
        name = f"{PARTS}/{self._last_ns:020d}-{part_of}-{number:08d}.parquet"
        return Part(name, part_of, number, self._last_ns)

    def renew(self) -> None:
        """From now on under a new token."""
        self._who, self._number, self._pid = new_token(), 0, os.getpid()


def new_token() -> str:
    """Names one writer: 64 random bits."""
    return secrets.token_hex(8)


def parts_in(store: Store) -> list[Part]:
    """All parts, held or not, in the order in which they were written."""
    found = [_PART.fullmatch(entry.name) for entry in store.list(PARTS)]
    parts = [Part(match[0], match[2], int(match[3]), int(match[1])) for match in found if match]
    return sorted(parts, key=lambda part: part.name)


def results_in(store: Store) -> list[tuple[int, str]]:
    """(compaction, name) of all files that compactions have made, whole or not."""
    found = [_RESULT.fullmatch(entry.name) for entry in store.list(RESULTS)]
    return [(int(match[1]), match[0]) for match in found if match]


def result_name(number: int, who: str, file: int) -> str:
    """The name of a compaction's file."""
    return f"{RESULTS}/{number:012d}-{who}-{file:06d}.parquet"


@dataclass(frozen=True, slots=True)
class Compaction:
    """The record of one compaction; number 0 is the state before the first one."""

    number: int = 0
    who: str = ""
    files: tuple[StoredObject, ...] = ()
    rows: int = 0
    holds: PartSet = field(default_factory=PartSet)

    @property
    def name(self) -> str:
        return f"{COMPACTIONS}/{self.number:012d}.json"

    def as_bytes(self) -> bytes:
        """One line of JSON behind its digest."""
        text = json.dumps(
            {
                "format": FORMAT,
                "number": self.number,
                "who": self.who,
                "files": [[file.name, file.bytes] for file in self.files],
                "rows": self.rows,
                "holds": self.holds.as_spans(),
            }
        ).encode()
        return f"{xxhash.xxh3_128_hexdigest(text)} ".encode() + text + b"\n"


def newest_compaction(store: Store) -> tuple[Compaction, list[int]]:
    """The newest whole record, and the numbers of all, whole or not, in rising order.

    A record that a death has cut short, which some mounts leave, counts for nothing: nothing was deleted for it.
    """
    while True:
        numbers = sorted(
            int(match[1]) for entry in store.list(COMPACTIONS) if (match := _COMPACTION.fullmatch(entry.name))
        )
        try:
            for number in reversed(numbers):
                name = Compaction(number).name
                data = store.read(name)
                if data.endswith(b"\n"):
                    return _parsed(data, name, store.url), numbers
        except ObjectMissing:
            continue  # a newer one has come meanwhile, and this one went
        return Compaction(), numbers


def _parsed(data: bytes, name: str, url: str) -> Compaction:
    digest, _, text = data.rstrip(b"\n").partition(b" ")
    if digest.decode("latin-1") != xxhash.xxh3_128_hexdigest(text):
        raise SettingsError(
            f"{name} in {url} is damaged: its content does not match its digest, so nobody can tell which files hold "
            "the results; nothing was changed. Bring it back from a copy"
        )
    found: dict[str, Any] = json.loads(text)
    _check_format(found, name, url)
    files = tuple(StoredObject(file, size) for file, size in found["files"])
    return Compaction(found["number"], found["who"], files, found["rows"], PartSet(found["holds"]))


def mark(store: Store) -> None:
    """Says that this folder is a sink; raises SettingsError where a later outlast has said so in another format."""
    try:
        store.create(MARK, _MARK_TEXT)
    except ObjectExists:
        is_sink(store)


def is_sink(store: Store) -> bool:
    """Whether anybody has made the folder a sink; raises SettingsError as `mark` does."""
    try:
        data = store.read(MARK)
    except ObjectMissing:
        return bool(parts_in(store) or newest_compaction(store)[1])
    if data != _MARK_TEXT and data.endswith(b"\n"):  # else a death on a mount has cut it short
        _check_format(json.loads(data), MARK, store.url)
    return True


def _check_format(found: dict[str, Any], name: str, url: str) -> None:
    if found.get("format") != FORMAT:
        raise SettingsError(
            f"{name} in {url} is of format {found.get('format')!r}, and this outlast knows {FORMAT}; update outlast"
        )
