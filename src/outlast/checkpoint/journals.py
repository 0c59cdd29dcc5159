"""Reading the journals of a task: each when it is asked for, from the parts that it consists of."""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial

from outlast.checkpoint.places import TaskPlace
from outlast.checkpoint.sealed import digest
from outlast.errors import CheckpointCorrupt, ObjectMissing, StoreUnreachable
from outlast.events import Logged, LoopStarted, Recorded, Restored, read_lines
from outlast.ports import OpenObject, Store, read_whole
from outlast.threads import in_parallel

_LOOKS = 3  # a journal that is being shortened changes its parts between the listing and the reading
_LARGEST_BYTES = 1 << 30
# No line of outlast's is as long. One that somebody else wrote must not cost a job's start all memory.
_LONGEST_LINE, _PIECE_BYTES = 4 << 20, 1 << 20
_READERS = 8


@dataclass(frozen=True, slots=True)
class JournalParts:
    """Where the lines of one journal are: what stands for its first parts, newest first, and the parts, in order."""

    shorts: tuple[int, ...] = ()
    parts: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class ReadJournal:
    """One journal. `problems`: what of it could not be read, in words; `unknown`: lines of a later version, perhaps."""

    recorded: tuple[Recorded, ...] = ()
    problems: tuple[str, ...] = ()
    unknown: int = 0
    damaged: int = 0


def journal_parts(store: Store, place: TaskPlace) -> dict[int, JournalParts]:
    """The journals that a task has."""
    found: dict[int, JournalParts] = {}
    for entry in store.list(place.journals):
        name = place.journal_of(entry.name)
        if name is None:
            continue
        one = found.get(name.attempt, JournalParts())
        if name.shortened:
            found[name.attempt] = replace(one, shorts=tuple(sorted([*one.shorts, name.part], reverse=True)))
        else:
            found[name.attempt] = replace(one, parts=tuple(sorted([*one.parts, name.part])))
    return found


def seal_lines(lines: bytes) -> bytes:
    """Lines under a header that tells whether they are whole."""
    return json.dumps({"journal": "shortened", "digest": digest(lines)}).encode() + b"\n" + lines


class Journals(Mapping[int, tuple[Recorded, ...]]):
    """The events of each attempt that has a journal, read when asked for. Nothing rests on them, so one that cannot
    be read is an empty one, and `problems` says why. `without`: names of events that are not wanted.
    """

    def __init__(self, store: Store, place: TaskPlace, *, without: tuple[str, ...] = ()) -> None:
        self._store, self._place, self._without = store, place, without
        self._parts = journal_parts(store, place)
        self._read: dict[int, ReadJournal] = {}

    def __iter__(self) -> Iterator[int]:
        return iter(sorted(self._parts))

    def __len__(self) -> int:
        return len(self._parts)

    def __getitem__(self, attempt: int) -> tuple[Recorded, ...]:
        return self.journal(attempt).recorded

    def journal(self, attempt: int) -> ReadJournal:
        """One journal with what is wrong with it; raises KeyError for an attempt that has none."""
        if attempt not in self._read:
            self._keep(attempt)
        return self._read[attempt]

    def read_all(self) -> None:
        """Reads all of them, on a bucket several at a time."""
        threads = 1 if self._store.traits.local else _READERS
        in_parallel((partial(self._keep, attempt) for attempt in self), threads=threads)

    def _keep(self, attempt: int) -> None:
        self._read[attempt] = self._look(attempt)

    def before(self, attempt: int, part: int) -> ReadJournal:
        """The journal without its parts from `part` on; empty where there is none."""
        there = self._parts.get(attempt, JournalParts())
        return self._read_parts(attempt, replace(there, parts=tuple(one for one in there.parts if one < part)))

    def _look(self, attempt: int) -> ReadJournal:
        read = ReadJournal(problems=(f"{self._place.journal(attempt)} is gone",))
        for _ in range(_LOOKS):
            there = self._parts[attempt]
            try:
                read = self._read_parts(attempt, there)
                if not read.problems:
                    break
                self._parts = {**self._parts, **journal_parts(self._store, self._place)}
            except ObjectMissing:
                self._parts = {**self._parts, **journal_parts(self._store, self._place)}
                continue
            except StoreUnreachable:
                break
            if self._parts[attempt] == there:  # so that is how it is
                break
        return read

    def _read_parts(self, attempt: int, there: JournalParts) -> ReadJournal:
        problems: list[str] = []
        lines, since = b"", 0
        for part in there.shorts:
            try:
                lines, since = self._short(self._place.short_journal(attempt, part)), part
                break
            except (CheckpointCorrupt, StoreUnreachable) as error:
                problems.append(str(error))
        recorded, unknown, damaged = [], 0, 0
        for data in (lines, *self._live(attempt, there, since, problems)):
            read = read_lines(data, without=self._without)
            recorded += read.recorded
            unknown, damaged = unknown + read.unknown, damaged + read.damaged
        return ReadJournal(tuple(recorded), tuple(problems), unknown, damaged)

    @contextmanager
    def _opened(self, name: str) -> Iterator[OpenObject]:
        with self._store.open(name) as opened:
            if opened.bytes > _LARGEST_BYTES:
                raise CheckpointCorrupt(f"{name} has {opened.bytes} bytes, far more than any journal")
            yield opened

    def _short(self, name: str) -> bytes:
        with self._opened(name) as opened:
            header, _, lines = read_whole(opened).partition(b"\n")
        try:
            if json.loads(header)["digest"] == digest(lines):
                return lines
        except (ValueError, KeyError, TypeError, RecursionError):
            pass
        raise CheckpointCorrupt(f"{name} is not whole")

    def _live(self, attempt: int, there: JournalParts, since: int, problems: list[str]) -> Iterator[bytes]:
        for part in there.parts:
            name = self._place.journal(attempt, part)
            if part < since:  # the shortened journal stands for it
                continue
            try:
                with self._opened(name) as opened:
                    yield from _whole_lines(opened)
            except (CheckpointCorrupt, StoreUnreachable) as error:
                problems.append(str(error))


def _whole_lines(opened: OpenObject) -> Iterator[bytes]:
    """The object in pieces that end with a line, but for the last; of a line that is too long, a word that is none."""
    rest, cut = b"", False
    for offset in range(0, opened.bytes, _PIECE_BYTES):
        piece = bytearray(min(_PIECE_BYTES, opened.bytes - offset))
        opened.read_into(offset, memoryview(piece))
        lines, newline, begun = bytes(piece).rpartition(b"\n")
        if newline:
            lines = rest + lines + newline
            yield b"too long" + lines[lines.index(b"\n") :] if cut else lines
            rest, cut = begun, False
        elif not cut:
            rest += begun
        if len(rest) > _LONGEST_LINE:
            rest, cut = b"", True
    yield rest


def read_journals(store: Store, place: TaskPlace) -> dict[int, tuple[Recorded, ...]]:
    """The events of each attempt that has a journal."""
    return dict(Journals(store, place))


def logged_numbers(journals: Mapping[int, tuple[Recorded, ...]]) -> list[tuple[int, dict[str, float]]]:
    """What `job.log` was given, by step, rewound: what an attempt logged past the point where a later one resumed
    is dropped, since the later one did those steps again."""
    numbers: dict[int, dict[str, float]] = {}
    for attempt in sorted(journals):
        events = [recorded.event for recorded in journals[attempt]]
        began = [event.step for event in events if isinstance(event, Restored | LoopStarted)]
        if not began:
            continue  # it ended before it did a step
        resumed = began[0]
        numbers = {step: values for step, values in numbers.items() if step < resumed}
        for event in events:
            if isinstance(event, Logged):
                values = {name: float(value) for name, value in event.values.items() if _is_number(value)}
                numbers.setdefault(event.step, {}).update(values)
    return sorted(numbers.items())


def _is_number(value: float | str) -> bool:
    """JSON has no word for what is not finite, so that is text in a journal."""
    return not isinstance(value, str) or value in ("nan", "inf", "-inf")
