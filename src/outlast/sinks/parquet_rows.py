"""Results as Parquet: written as parts and as large files, and read again with every page checked."""

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from outlast.errors import BadObject, ObjectMissing, SettingsError
from outlast.items import Result
from outlast.ports import OpenObject, Store
from outlast.sinks.parquet_layout import Part

SCHEMA = pa.schema(
    [
        pa.field("id", pa.string(), nullable=False),
        pa.field("value", pa.string(), nullable=False),
        pa.field("version", pa.string()),
        pa.field("claim", pa.int64(), nullable=False),
    ]
)
KEYS = ("id", "version", "claim")  # what is enough to know what is stored
PART_BYTES = 8 << 20  # a part is made by one small write, so a chunk of large results goes into several
# A row group of a large file, which is what is read of it at a time; of rows, since readers like them of this size.
_GROUP_BYTES, _GROUP_ROWS = 16 << 20, 128 << 10
_READERS = 8  # parts are small, so that reading many from a bucket is a matter of round trips
# Each page carries its checksum, which is verified when it is read. Values differ, so a dictionary of them is no use.
_HOW: dict[str, Any] = {
    "compression": "zstd",
    "use_dictionary": ["version"],
    "write_page_checksum": True,
    "store_schema": False,
}
_MAGIC = b"PAR1"


def table_of(results: Sequence[Result]) -> Any:
    """Results as an Arrow table."""
    columns = (
        [one.id for one in results],
        [one.value for one in results],
        [one.version for one in results],
        [one.claim for one in results],
    )
    return pa.Table.from_arrays(
        [pa.array(column, kind.type) for column, kind in zip(columns, SCHEMA, strict=True)], schema=SCHEMA
    )


def as_parquet(table: Any) -> bytes:
    """A small table as the content of a file."""
    target = pa.BufferOutputStream()
    pq.write_table(table, target, **_HOW)
    return bytes(target.getvalue())


def as_file(tables: Iterator[Any], most_bytes: int) -> Iterator[bytes]:
    """The content of one file, piece by piece, one row group per table, until it has so many bytes."""
    target = _Pieces()
    writer = pq.ParquetWriter(target, SCHEMA, **_HOW)
    for table in tables:
        writer.write_table(table, row_group_size=len(table))
        yield from target.take()
        if target.bytes >= most_bytes:
            break
    writer.close()
    yield from target.take()


def row_groups(tables: Iterable[Any]) -> Iterator[Any]:
    """Tables joined and cut to the size of a row group."""
    waiting: list[Any] = []
    size = rows = 0
    for table in tables:
        for piece in _cut(table):
            if waiting and (rows + len(piece) > _GROUP_ROWS or size + piece.nbytes > _GROUP_BYTES):
                yield pa.concat_tables(waiting)
                waiting, size, rows = [], 0, 0
            waiting.append(piece)
            size, rows = size + piece.nbytes, rows + len(piece)
    if waiting:
        yield pa.concat_tables(waiting)


def _cut(table: Any) -> Iterator[Any]:
    most = max(1, min(_GROUP_ROWS, len(table) * _GROUP_BYTES // max(table.nbytes, 1)))
    for at in range(0, len(table), most):
        yield table.slice(at, most)


class _Pieces:
    """What a writer has written since somebody took it, as a file that can only grow."""

    closed = False

    def __init__(self) -> None:
        self.bytes = 0
        self._pieces: list[bytes] = []

    def write(self, data: Any) -> int:
        piece = bytes(data)
        self._pieces.append(piece)
        self.bytes += len(piece)
        return len(piece)

    def flush(self) -> None:
        """Nothing waits."""

    def close(self) -> None:
        """Nothing is held."""

    def take(self) -> list[bytes]:
        pieces, self._pieces = self._pieces, []
        return pieces


def tables_of_parts(
    store: Store, parts: Sequence[Part], columns: Sequence[str] = tuple(SCHEMA.names)
) -> Iterator[tuple[Part, Any | None]]:
    """Each part with its rows, or with None if a death has cut it short; in order, and some ahead in a bucket.

    Raises ObjectMissing for one that is gone and SettingsError for one that is damaged.
    """
    if store.traits.local:
        for part in parts:
            yield part, _read_part(store, part.name, columns)
        return
    with ThreadPoolExecutor(_READERS, "outlast-parts") as readers:
        ahead: deque[tuple[Part, Future[Any]]] = deque()
        try:
            for part in parts:
                ahead.append((part, readers.submit(_read_part, store, part.name, columns)))
                if len(ahead) >= _READERS:
                    first, reading = ahead.popleft()
                    yield first, reading.result()
            for first, reading in ahead:
                yield first, reading.result()
        finally:
            readers.shutdown(wait=True, cancel_futures=True)


def _read_part(store: Store, name: str, columns: Sequence[str]) -> Any | None:
    with _checked(store, name):
        data = store.read(name)
        if not store.traits.whole_records and not _is_whole(data):
            return None
        return (
            _checked_columns(pq.ParquetFile(pa.BufferReader(data), page_checksum_verification=True))
            .read(list(columns), use_threads=False)
            .select(list(columns))
        )


def _is_whole(data: bytes) -> bool:
    """Whether a file has its end, which is written last (Parquet's format: length of the footer, and its mark)."""
    return (
        len(data) >= 12 and data[:4] == data[-4:] == _MAGIC and int.from_bytes(data[-8:-4], "little") + 12 <= len(data)
    )


def tables_of_files(store: Store, names: Sequence[str], columns: Sequence[str] = tuple(SCHEMA.names)) -> Iterator[Any]:
    """The rows of large files, one after the other, a row group at a time; errors as for parts."""
    for name in names:
        with _checked(store, name), store.open(name) as opened:
            file = _checked_columns(
                pq.ParquetFile(pa.PythonFile(_Reading(opened), mode="r"), page_checksum_verification=True)
            )
            for group in range(file.num_row_groups):
                yield file.read_row_group(group, columns=list(columns), use_threads=False).select(list(columns))


def _checked_columns(file: Any) -> Any:
    """The file, if its columns are ours."""
    found = file.schema_arrow
    if found.names != SCHEMA.names or found.types != SCHEMA.types:
        raise pa.ArrowInvalid(f"its columns are {', '.join(f'{one.name}: {one.type}' for one in found)}")
    return file


@contextmanager
def _checked(store: Store, name: str) -> Iterator[None]:
    try:
        yield
    except ObjectMissing:
        raise
    except (pa.ArrowException, OSError, ValueError, BadObject) as error:  # Arrow's words for content without sense
        why = " ".join(str(error).split())
        raise SettingsError(
            f"{name} in {store.url} is damaged: {why}; nothing was changed. Bring it back from a copy, or else move "
            "it away and make the items that it held ready again"
        ) from error


class _Reading:
    """An open object as a file that Arrow reads."""

    closed = False

    def __init__(self, opened: OpenObject) -> None:
        self._opened, self._at = opened, 0

    def read(self, size: int = -1) -> bytes:
        rest = max(self._opened.bytes - self._at, 0)
        data = bytearray(rest if size < 0 else min(size, rest))
        self._opened.read_into(self._at, memoryview(data))
        self._at += len(data)
        return bytes(data)

    def seek(self, offset: int, whence: int = 0) -> int:
        self._at = offset + (0, self._at, self._opened.bytes)[whence]
        return self._at

    def tell(self) -> int:
        return self._at

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def close(self) -> None:
        """Whoever opened it closes it."""
