"""Batch work in a rehearsal's copy: which queues and sinks a worker uses, and what they hold by meaning.

Claims, times and the order of rows differ from run to run and mean nothing. What counts is that each published id has
exactly one result, equal to the uninterrupted run's, or is a dead letter there, too.
"""

import json
import math
import os
import re
import sqlite3
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TypeVar

from outlast.errors import OutlastError
from outlast.events import BatchStarted, Recorded
from outlast.items import State
from outlast.registry import open_queue, open_sink
from outlast.rehearsal_place import local_path
from outlast.rehearse.compare import EQUAL, Distance, compare_documents
from outlast.rehearse.documents import Document, read_document, table_leaves
from outlast.rehearse.sqlite_tables import tables_of

QUEUE, SINK = "queue ", "sink "  # how the names of these results begin
_BESIDE = ("-wal", "-shm", "-journal")  # of a SQLite file
_BESIDE_JSONL = ("", ".index", ".torn", *(f".index{end}" for end in _BESIDE))
# What these sinks make in their folders (sinks/parquet_layout.py, sinks/objects.py); all else there is the program's.
_OF_PARQUET = re.compile(r"sink\.json|(parts|results|compactions)/.*")
_OF_OBJECTS = re.compile(r"outlast-sink|(versions|[0-9a-f]{2})/.*")
_SHOWN = 5
# How `outlast work` says what one worker did; other runs divide the same work in another way.
_OWN_WORDS = re.compile(r'nothing (?:is left|came): [\d,]+ computed here|\{"computed": \d+, "known": \d+')


@dataclass(frozen=True, slots=True)
class Place:
    """A queue or a sink in a copy: its URL with PATH in place of the file, and that file relative to the copy."""

    pattern: str
    path: str

    @classmethod
    def of(cls, url: str, started_in: str, folder: Path) -> "Place | None":
        """None for one that is not in the copy, or whose kind nobody knows."""
        path = local_path(url, started_in=started_in) if url else None
        if path is None:
            return None
        inside = os.path.relpath(os.path.realpath(path), os.path.realpath(folder))
        if inside.startswith(".."):
            return None
        scheme, colon, rest = url.partition(":")
        if scheme == "sqlite":
            _, mark, options = rest.partition("?")
            return cls(f"sqlite:///PATH{mark}{options}", inside)
        return cls(f"{scheme}:PATH" if colon and scheme in ("jsonl", "parquet") else "PATH", inside)

    def url(self, folder: Path) -> str:
        """The place in another copy."""
        return self.pattern.replace("PATH", str(folder / self.path))

    @property
    def kind(self) -> str:
        return self.pattern.partition(":")[0] if ":" in self.pattern else "objects"

    @property
    def name(self) -> str:
        options = self.pattern.partition("?")[2]
        return f"{self.path}?{options}" if options else self.path

    def owns(self, path: str) -> bool:
        """Whether a file of the copy is part of it."""
        if self.kind == "sqlite":
            return path in {self.path, *(f"{self.path}{end}" for end in _BESIDE)}
        if self.kind == "jsonl":
            return path in {f"{self.path}{end}" for end in _BESIDE_JSONL}
        before = "" if self.path == "." else f"{self.path}/"
        names = _OF_PARQUET if self.kind == "parquet" else _OF_OBJECTS
        return path.startswith(before) and names.fullmatch(path.removeprefix(before)) is not None


@dataclass(frozen=True, slots=True)
class Batch:
    """One queue and one sink that a worker joins; None for what is not in the copy, or of the program's own making.

    `outside` names what lies elsewhere, and `own` says whether the program made its sink itself.
    """

    queue: Place | None
    sink: Place | None
    outside: tuple[str, ...] = ()
    own: bool = False

    @property
    def places(self) -> list[Place]:
        return [place for place in (self.queue, self.sink) if place is not None]


def find_batches(recorded: Iterable[Recorded], folder: Path) -> tuple[Batch, ...]:
    """The queues and sinks that the workers of a run have used."""
    found: dict[Batch, None] = {}
    for one in recorded:
        event = one.event
        if isinstance(event, BatchStarted):
            queue, sink = (Place.of(url, event.folder, folder) for url in (event.queue, event.sink))
            named = ((event.queue, queue), (event.sink, sink))
            outside = tuple(url for url, place in named if url and place is None)
            found[Batch(queue, sink, outside, own=not event.sink)] = None
    return tuple(found)


def is_own_words(line: str) -> bool:
    """Whether a line says what one worker did, which is no result."""
    return _OWN_WORDS.match(line) is not None


def without_batches(paths: Sequence[str], batches: Sequence[Batch]) -> list[str]:
    """The files that are no queue's and no sink's."""
    places = [place for batch in batches for place in batch.places]
    return [path for path in paths if not any(place.owns(path) for place in places)]


def compare_batches(batches: Sequence[Batch], expected: Path, actual: Path) -> list[tuple[str, Distance]]:
    """What each queue and sink holds in one folder against the other, and the rest of the databases they are in."""
    found: list[tuple[str, Distance]] = []
    for batch in batches:
        acknowledged: dict[str, Fate] = {}
        if batch.queue is not None:
            ours, theirs = _fates(batch.queue, expected), _fates(batch.queue, actual)
            acknowledged = theirs if isinstance(theirs, dict) else {}
            found.append((f"{QUEUE}{batch.queue.name}", _compared(ours, theirs, _compare_fates)))
        if batch.sink is not None:
            before, after = _results(batch.sink, expected), _results(batch.sink, actual)
            distance = _compared(before, after, partial(_compare_results, acknowledged=acknowledged))
            found.append((f"{SINK}{batch.sink.name}", distance))
    tables: dict[str, set[str]] = {}
    for batch in batches:
        for place in batch.places:
            if place.kind == "sqlite":
                of_sinks = tables.setdefault(place.path, set())
                of_sinks |= {_table_of(place)} if place is batch.sink else set()
    found += [(path, _compare_other_tables(expected / path, actual / path, some)) for path, some in tables.items()]
    return [(name, distance) for name, distance in found if name.startswith((QUEUE, SINK)) or not distance.equal]


# --- queues -------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Fate:
    """What became of an item, and why if it is dead."""

    state: State
    reason: str | None = None


NotRead = str  # why a place could not be read


def _fates(place: Place, folder: Path) -> dict[str, Fate] | NotRead:
    if not (folder / place.path).exists():
        return "is missing"
    try:
        with closing(open_queue(place.url(folder))) as queue:
            return {item.id: Fate(item.state, item.reason) for item in queue.items()}
    except OutlastError as error:
        return f"cannot be read: {error}"


def _compare_fates(expected: dict[str, Fate], actual: dict[str, Fate]) -> Distance:
    lost = [name for name in expected if name not in actual]
    if lost:
        return _different(f"{_count(lost, 'published item')} {_are(lost)} not in the queue any more: {_names(lost)}")
    more = [name for name in actual if name not in expected]
    if more:
        return _different(
            f"{_count(more, 'item')} {_are(more)} there that the uninterrupted run never published: {_names(more)}"
        )
    left = [name for name, fate in actual.items() if fate.state in ("ready", "leased") and fate != expected[name]]
    if left:
        return _different(
            f"{len(left)} of {len(actual)} items are neither done nor dead letters: {_names(left)}; the worker left "
            "before its work was done"
        )
    dead = [name for name, fate in actual.items() if fate.state == "dead" != expected[name].state]
    if dead:
        why = (actual[dead[0]].reason or "no reason").strip().splitlines()[-1]
        return _different(
            f"{_count(dead, 'item')} {_are(dead)} dead letters that the uninterrupted run has not: {_names(dead)}; "
            f"{why}. If kills alone made them so, raise max_deaths"
        )
    other = [name for name, fate in actual.items() if fate.state != expected[name].state]
    if other:
        name = other[0]
        return _different(f"item {name!r} is {actual[name].state}, and {expected[name].state} in the uninterrupted run")
    return EQUAL


# --- sinks --------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Held:
    """What a sink holds: (version, value as JSON text) by id, and ids that have several results."""

    results: dict[str, tuple[str | None, str]] = field(default_factory=dict)
    times: Counter[str] = field(default_factory=Counter)

    def add(self, name: str, version: str | None, value: str) -> None:
        self.results[name] = (version, value)
        self.times[name] += 1


def _results(place: Place, folder: Path) -> Held | NotRead:
    held = Held()
    if not (folder / place.path).exists():
        return "is missing"
    try:
        if place.kind == "jsonl":
            for line in (folder / place.path).read_text(errors="surrogateescape").splitlines():
                if line.strip():
                    said = json.loads(line)
                    held.add(said["id"], said.get("version"), json.dumps(said["value"]))
        else:
            with closing(open_sink(place.url(folder))) as sink:
                for one in sink.results():
                    held.add(one.id, one.version, one.value)
    except (OutlastError, OSError, ValueError, LookupError, TypeError) as error:
        return f"cannot be read: {type(error).__name__}: {error}"
    return held


def _compare_results(expected: Held, actual: Held, acknowledged: dict[str, Fate]) -> Distance:
    doubled = [name for name, times in actual.times.items() if times > max(1, expected.times[name])]
    if doubled:
        return _different(f"{_count(doubled, 'id')} {_have(doubled)} more than one result: {_names(doubled)}")
    missing = [name for name in expected.results if name not in actual.results]
    done = [name for name in missing if name in acknowledged and acknowledged[name].state == "done"]
    if done:
        return _different(
            f"{_count(done, 'item')} {_are(done)} done in the queue and {_have(done)} no result: {_names(done)}; "
            "acknowledged before the result was stored"
        )
    if missing:
        return _different(f"{_count(missing, 'result')} {_are(missing)} missing: {_names(missing)}")
    more = [name for name in actual.results if name not in expected.results]
    if more:
        return _different(f"{_count(more, 'result')} too many: {_names(more)}")
    other = [name for name, (version, _) in actual.results.items() if version != expected.results[name][0]]
    if other:
        first = min(other)
        return _different(
            f"{_count(other, 'result')} {_are(other)} of another version: {first!r} has {actual.results[first][0]!r}, "
            f"expected {expected.results[first][0]!r}"
        )
    return compare_documents(_document(expected), _document(actual))


def _document(held: Held) -> Document:
    """Each result as leaves, by id."""
    leaves: Document = {}
    for name in sorted(held.results):
        _, value = held.results[name]
        for leaf, found in read_document("value.json", value.encode(errors="surrogatepass")).items():
            leaves[f"result of {name!r}{leaf.removeprefix('$')}"] = found
    return leaves


# --- what else is in a database --------------------------------------------------------------------------


def _table_of(place: Place) -> str:
    options = dict(one.partition("=")[::2] for one in place.pattern.partition("?")[2].split("&"))
    return options.get("table", "results")


def _compare_other_tables(expected: Path, actual: Path, ours: set[str]) -> Distance:
    if not expected.exists() or not actual.exists():
        return EQUAL  # told already, as a queue's or a sink's
    try:
        return compare_documents(_other_tables(expected, ours), _other_tables(actual, ours))
    except sqlite3.Error as error:
        return Distance(math.inf, f"cannot be read: {error}")


def _other_tables(path: Path, ours: set[str]) -> Document:
    leaves: Document = {}
    with closing(sqlite3.connect(path)) as database:
        for name, _, rows in tables_of(database):
            if name not in ours and not name.startswith("outlast_"):
                leaves |= table_leaves(name, rows)
    return leaves


# --- words ----------------------------------------------------------------------------------------------


T = TypeVar("T")


def _compared(expected: T | NotRead, actual: T | NotRead, compare: Callable[[T, T], Distance]) -> Distance:
    if isinstance(expected, str) or isinstance(actual, str):
        return _different(str(actual if isinstance(actual, str) else f"of the uninterrupted run {expected}"))
    return compare(expected, actual)


def _different(detail: str) -> Distance:
    return Distance(math.inf, detail)


def _names(ids: Sequence[str]) -> str:
    more = f" and {len(ids) - _SHOWN} more" if len(ids) > _SHOWN else ""
    return ", ".join(map(repr, sorted(ids)[:_SHOWN])) + more


def _count(ids: Sequence[str], what: str) -> str:
    return f"{len(ids)} {what}{'s' * (len(ids) != 1)}"


def _are(ids: Sequence[str]) -> str:
    return "is" if len(ids) == 1 else "are"


def _have(ids: Sequence[str]) -> str:
    return "has" if len(ids) == 1 else "have"
