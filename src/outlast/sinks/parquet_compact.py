"""Compaction: parts joined into few files with one row per id, at no risk to a row, whenever it dies."""

import time
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from itertools import chain
from typing import Any

from outlast.errors import ObjectExists, ObjectMissing, OutlastError, SinkUnreachable
from outlast.ports import BulkStore, Store, StoredObject
from outlast.sinks.parquet_index import whole_parts
from outlast.sinks.parquet_layout import (
    Compaction,
    Part,
    PartSet,
    new_token,
    newest_compaction,
    parts_in,
    result_name,
    results_in,
)
from outlast.sinks.parquet_merge import merged
from outlast.sinks.parquet_rows import SCHEMA, as_file, row_groups, tables_of_files

FILE_BYTES = 128 << 20
_ROUNDS = 20
_DELETERS = 16  # a delete is a request, or a wait for the disk, which such waits share
_DEBRIS_NS = 24 * 3600 * 1_000_000_000


def compact(store: Store, *, file_bytes: int = FILE_BYTES) -> int:
    """Leaves one row per id of all that was stored before it began, in files of about `file_bytes`; how many rows.

    New files first, then one small record, which only one of several compactions can make, then the old files go. A
    death before the record leaves files that do not count, one after it files that do not count any more; the next
    compaction removes both. One that was overtaken by another begins again with what is left to do.
    """
    for _ in range(_ROUNDS):
        done = _one_round(store, file_bytes)
        if done is not None:
            return done.rows
    raise SinkUnreachable(
        f"{store.url} was compacted by others {_ROUNDS} times while this compaction tried; nothing is lost"
    )


def _one_round(store: Store, file_bytes: int) -> Compaction | None:
    """The newest compaction, made here or found good; None if another one came between."""
    now, numbers = newest_compaction(store)
    # In this order: should there be a newer one by now, its number is taken when ours is made.
    parts = parts_in(store)
    _remove_old(store, now, parts)
    waiting = [part for part in parts if part.key not in now.holds]
    named = {file.name for file in now.files}
    strays = [name for _, name in results_in(store) if name not in named]
    if not waiting and not strays:
        return now
    made = _write(store, now, waiting, max([0, *numbers]) + 1, file_bytes) if waiting else _renamed(now, numbers)
    if made is None or not _commit(store, made):
        return None
    _remove_old(store, made, parts_in(store))
    # What a death on a mount has cut short. Nobody writes a part for a day: the lease would be lost.
    dead_since = time.time_ns() - _DEBRIS_NS
    _delete(store, [part.name for part in waiting if part.key not in made.holds and part.written_ns < dead_since])
    return made


def _renamed(now: Compaction, numbers: Sequence[int]) -> Compaction:
    """The same files under a new number: whoever was writing for that one has lost, and the files left over can go."""
    return Compaction(max([0, *numbers]) + 1, new_token(), now.files, now.rows, now.holds)


def _write(store: Store, now: Compaction, waiting: Sequence[Part], number: int, file_bytes: int) -> Compaction | None:
    """The files of a new compaction; None if one of those that it reads is gone: another compaction was quicker."""
    who, joined = new_token(), PartSet()
    files: list[StoredObject] = []
    oldest = tables_of_files(store, [file.name for file in now.files])
    tables = _Counted(row_groups(merged(oldest, whole_parts(store, waiting, joined, SCHEMA.names))))
    try:
        while (first := next(tables, None)) is not None:
            name = result_name(number, who, len(files))
            files.append(StoredObject(name, 0))
            size = store.write(name, as_file(chain([first], tables), file_bytes))
            files[-1] = StoredObject(name, size)
    except BaseException as error:
        with suppress(OutlastError):  # the next compaction removes them, and `error` is what went wrong
            _delete(store, [file.name for file in files])
        if isinstance(error, ObjectMissing) and newest_compaction(store)[0].number >= number:
            return None
        raise
    holds = now.holds.copy()
    holds.update(joined)
    return Compaction(number, who, tuple(files), tables.rows, holds)


class _Counted:
    """An iterator over tables that counts their rows."""

    def __init__(self, tables: Iterator[Any]) -> None:
        self._tables = tables
        self.rows = 0

    def __iter__(self) -> "_Counted":
        return self

    def __next__(self) -> Any:
        table = next(self._tables)
        self.rows += len(table)
        return table


def _commit(store: Store, made: Compaction) -> bool:
    """Whether this compaction is the newest now.

    Nothing is deleted here if it is not, or if the store fails: its record may be there all the same, and another
    compaction may have built on it. What does not count goes under a newest record, in the next round.
    """
    try:
        store.create(made.name, made.as_bytes())
    except ObjectExists:
        return newest_compaction(store)[0].who == made.who  # ours, from a request whose answer was lost
    # A number is free again when a later compaction has removed its record: then there is that later one.
    return newest_compaction(store)[1][-1] == made.number


def _remove_old(store: Store, now: Compaction, parts: Iterable[Part]) -> None:
    """Deletes what does not count any more; files first, as people read them by pattern, and records last."""
    named = {file.name for file in now.files}
    _delete(store, [name for number, name in results_in(store) if number <= now.number and name not in named])
    _delete(store, [part.name for part in parts if part.key in now.holds])
    _, numbers = newest_compaction(store)
    _delete(store, [Compaction(number).name for number in numbers if number < now.number])


def _delete(store: Store, names: Sequence[str]) -> None:
    if not names:
        return
    with ThreadPoolExecutor(_DELETERS, "outlast-deletes") as deleters:
        if isinstance(store, BulkStore):
            size = store.delete_batch
            done = deleters.map(store.delete_all, [names[at : at + size] for at in range(0, len(names), size)])
        else:
            done = deleters.map(store.delete, names)
        for _ in done:
            pass
