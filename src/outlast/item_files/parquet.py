"""Items in Parquet files, by pyarrow (the extra `parquet`), a batch of rows at a time."""

import base64
from collections.abc import Iterator, Mapping
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import IO, Any
from uuid import UUID

import pyarrow as pa
import pyarrow.parquet as pq

from outlast.errors import SettingsError
from outlast.item_files.lines import row_of
from outlast.worker.publishing import Row

_BATCH_ROWS = 256
_BUFFER_BYTES = 1 << 20  # of each column; whole columns of a row group may be larger than memory, so none is read ahead


class ParquetRows:
    """The rows of one file, whose lines are numbered from 1.

    A payload is {column: value} as JSON: moments as ISO 8601 text, decimals as text, durations as seconds, bytes as
    base64 text. Raises SettingsError for what is no Parquet file, or whose column of ids is missing or holds neither
    text nor whole numbers.
    """

    def __init__(self, content: IO[bytes], name: str, id_column: str) -> None:
        self._name, self._id = name, id_column
        try:
            self._file = pq.ParquetFile(content, buffer_size=_BUFFER_BYTES, pre_buffer=False)
        except pa.ArrowException as error:
            raise SettingsError(f"{name} is no Parquet file: {_first_line(error)}") from error
        self.total = self._file.metadata.num_rows
        self._check(self._file.schema_arrow)

    def rows(self) -> Iterator[Row]:
        """All of them; raises SettingsError where the file is damaged."""
        number = 0
        try:
            for batch in self._file.iter_batches(batch_size=_BATCH_ROWS, use_threads=False):
                for found in _exact(batch).to_pylist():
                    number += 1
                    yield row_of(_plain(found), number, self._id)
        except (pa.ArrowException, ValueError) as error:  # ValueError: nanoseconds inside a nested value
            raise SettingsError(f"{self._name} cannot be read after row {number}: {_first_line(error)}") from error

    def _check(self, schema: Any) -> None:
        names = list(schema.names)
        twice = sorted({column for column in names if names.count(column) > 1})
        if twice:
            raise SettingsError(f"{self._name} has more than one column {', '.join(map(repr, twice))}")
        if self._id not in names:
            there = ", ".join(map(repr, names))
            raise SettingsError(f"{self._name} has no column {self._id!r} (--id names another); there are {there}")
        kind = schema.field(self._id).type
        if pa.types.is_dictionary(kind):
            kind = kind.value_type
        text = (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view)
        if not pa.types.is_integer(kind) and not any(fits(kind) for fits in text):
            raise SettingsError(f"{self._name}: column {self._id!r} is {kind}; an id is text or a whole number")


def _exact(batch: Any) -> Any:
    """The batch with moments in nanoseconds, for which Python has no type, as text."""
    columns = [
        column.cast(pa.string()) if pa.types.is_timestamp(column.type) and column.type.unit == "ns" else column
        for column in batch.columns
    ]
    return pa.RecordBatch.from_arrays(columns, names=batch.schema.names)


def _plain(value: Any) -> Any:
    """A value of Arrow as JSON has it."""
    if isinstance(value, Mapping):
        return {key: _plain(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(inner) for inner in value]
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, timedelta):
        return value.total_seconds()
    if isinstance(value, datetime | date | time):
        return value.isoformat()
    return str(value) if isinstance(value, Decimal | UUID) else value


def _first_line(error: Exception) -> str:
    return str(error).splitlines()[0] if str(error) else type(error).__name__
