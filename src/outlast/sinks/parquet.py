"""Results in Parquet files, in a folder or a bucket: the sink for millions."""

import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from outlast.errors import BadObject, ObjectExists, ObjectMissing, SettingsError, SinkUnreachable, StoreUnreachable
from outlast.items import LeasedItem, Result, SinkTraits, Stored, one_per_id
from outlast.ports import Store
from outlast.sinks.parquet_compact import compact
from outlast.sinks.parquet_index import StoredIndex, sorted_rows
from outlast.sinks.parquet_layout import COMPACTIONS, PARTS, PartNames, is_sink, mark
from outlast.sinks.parquet_rows import PART_BYTES, SCHEMA, as_parquet, table_of


class ParquetSink:
    """``parquet:FOLDER`` or ``parquet:s3://BUCKET/FOLDER`` as an items.CompactableSink.

    Each `store` makes a new part, whole or not at all, under `FOLDER/parts`, with the columns id, value (JSON text),
    version and claim; `compact` joins parts into a few files under `FOLDER/results`. After a compaction that ended well
    `FOLDER/results/*.parquet` holds exactly one row per id, for pandas, DuckDB or whoever reads Parquet. While one is
    at work, and after one that was killed, the rows are there twice or in a file without its end, until the next one
    ends well; a row is missing at no time. `results` gives one result per id always, sorted by id.

    `known` looks into an index in the machine's temporary folder, made from all parts by `prepare`: about two seconds
    of processor time for each million results, and 60 bytes for each result. It looks for what others have stored since
    only for items that were leased before. On a mounted bucket another machine may see old listings for as long as the
    mount keeps them.
    """

    def __init__(self, store: Store, *, url: str) -> None:
        self._store, self._url = store, url
        self._names = PartNames()
        self._index = StoredIndex(store)
        self._storing = threading.Lock()

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
        with self._translating():
            mark(self._store)
            self._store.sweep(PARTS)
            self._store.sweep(COMPACTIONS)
            self._index.build()

    def known(self, items: Sequence[LeasedItem]) -> Mapping[str, Stored]:
        with self._translating():
            found = self._index.find(items)
            # Nobody can have stored a newer claim than the one before this lease.
            if any(
                item.claim > 1 and (item.id not in found or found[item.id].claim < item.claim - 1) for item in items
            ):
                self._index.refresh()
                found = self._index.find(items)
            return found

    def store(self, results: Sequence[Result], *, connection: object | None = None) -> None:
        with self._translating(), self._storing:
            for piece in _pieces(list(one_per_id(results).values())):
                self._store_part(piece)

    def results(self) -> Iterator[Result]:
        with self._translating():
            self._must_be_sink("to read")
            _, _, tables = sorted_rows(self._store, SCHEMA.names)
            for table in tables:
                columns = [table[name].to_pylist() for name in SCHEMA.names]
                yield from map(Result, *columns)

    def compact(self) -> int:
        with self._translating():
            self._must_be_sink("to join")
            for folder in (PARTS, COMPACTIONS):
                self._store.sweep(folder)
            return compact(self._store)

    def close(self) -> None:
        self._index.close()

    def _store_part(self, results: Sequence[Result]) -> None:
        data = as_parquet(table_of(results))
        while True:
            part = self._names.next()
            try:
                self._store.create(part.name, data)
            except ObjectExists:  # a copy of this very process, say from a snapshot of the machine
                self._names.renew()
                continue
            self._index.add(part, results)
            return

    def _must_be_sink(self, what: str) -> None:
        if not is_sink(self._store):
            raise SettingsError(f"nobody has stored results there, so there is nothing {what}; is the place right?")

    @contextmanager
    def _translating(self) -> Iterator[None]:
        try:
            yield
        except StoreUnreachable as error:
            raise SinkUnreachable(f"sink={self._url!r}: {error}") from error
        except ObjectMissing as error:
            raise SinkUnreachable(
                f"sink={self._url!r}: {error}: most likely it was compacted meanwhile, so try again"
            ) from error
        except (BadObject, SettingsError) as error:
            raise SettingsError(f"sink={self._url!r}: {error}") from error


def _pieces(results: Sequence[Result]) -> Iterator[Sequence[Result]]:
    """Results cut so that a part is small; one that is large is alone in its part."""
    start, size = 0, 0
    for at, one in enumerate(results):
        size += len(one.id) + len(one.value)
        if at > start and size > PART_BYTES:
            yield results[start:at]
            start, size = at, len(one.id) + len(one.value)
    if start < len(results):
        yield results[start:]
