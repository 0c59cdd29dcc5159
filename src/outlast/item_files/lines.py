"""Items in files of text: csv, tsv, JSON lines, and one id a line. Always UTF-8; a byte order mark is passed over."""

import codecs
import csv
import io
import json
from collections.abc import Callable, Iterator
from typing import Any, NoReturn

from outlast.errors import SettingsError
from outlast.worker.publishing import Row

# A row that is longer is rejected, and passed over in pieces.
MOST_ROW_BYTES = 64 << 20
_SKIP_BYTES = 1 << 20
_HEAD_BYTES = 8192
_MARK = "\ufeff"
# How files begin that are no text, and what they are.
_KINDS = {
    b"PAR1": "Parquet: --format parquet, or a name that ends in .parquet",
    b"PK\x03\x04": "a zip archive, as spreadsheets (.xlsx) are: save it as csv",
    b"\xff\xfe": "UTF-16 text: save it as UTF-8",
    b"\xfe\xff": "UTF-16 text: save it as UTF-8",
}
_TOO_LONG = f"longer than {MOST_ROW_BYTES >> 20} MiB"
_NOT_UTF8 = "not UTF-8 text"

RowReader = Callable[[io.BufferedReader, str, str], Iterator[Row]]


def csv_rows(content: io.BufferedReader, name: str, id_column: str) -> Iterator[Row]:
    """Rows of comma-separated values below a header. A payload is {column: text}; ids are the text as it is written.

    A row may go over several lines, inside quotes; its line is the first. One with more or fewer fields than the header
    is rejected, and so is one with quotes that are wrong. Empty lines are passed over. Raises SettingsError for a
    header without the id's column, or with a column twice.
    """
    return _separated(content, name, id_column, ",")


def tsv_rows(content: io.BufferedReader, name: str, id_column: str) -> Iterator[Row]:
    """As `csv_rows`, with tabs."""
    return _separated(content, name, id_column, "\t")


def jsonl_rows(content: io.BufferedReader, name: str, id_column: str) -> Iterator[Row]:
    """An object on each line, which is the payload; empty lines are passed over. NaN and Infinity are no JSON."""
    if _head(content, name).lstrip()[:1] == b"[":
        raise SettingsError(f"{name} holds a JSON array; jsonl is one object a line (`jq -c '.[]'` makes that of it)")
    decode = json.JSONDecoder(parse_constant=_no_constant).decode
    for number, line in _numbered(content):
        if isinstance(line, _Bad):
            yield Row(None, None, number, line.why)
        elif line.strip():
            yield _json_row(line, number, id_column, decode)


def txt_rows(content: io.BufferedReader, name: str, _id_column: str) -> Iterator[Row]:
    """An id on each line, as it stands there; the payload is {"id": id}. Empty lines are passed over."""
    _head(content, name)
    for number, line in _numbered(content):
        if isinstance(line, _Bad):
            yield Row(None, None, number, line.why)
        elif line.strip():
            yield Row(line, {"id": line}, number)


def row_of(payload: dict[str, Any], number: int, id_column: str) -> Row:
    """A row with the id from one of its fields: text as it is, a whole number as its decimal digits.

    Everything else is no id. A number with a point is none, since each program writes it in another way.
    """
    if id_column not in payload:
        return Row(None, payload, number, f"no field {id_column!r}")
    value = payload[id_column]
    if isinstance(value, str):
        return Row(value, payload, number)
    if value is None:
        return Row(None, payload, number, f"{id_column!r} is null")
    if isinstance(value, int) and not isinstance(value, bool):
        return Row(str(value), payload, number)
    what = type(value).__name__
    return Row(None, payload, number, f"{id_column!r} is a {what}; an id is text or a whole number")


# --- JSON lines -----------------------------------------------------------------------------------------


def _json_row(line: str, number: int, id_column: str, decode: Callable[[str], Any]) -> Row:
    try:
        found = decode(line)
    except json.JSONDecodeError as error:
        return Row(None, None, number, f"no JSON: {error.msg} at character {error.pos + 1} of {len(line)}")
    except (ValueError, RecursionError) as error:  # NaN, a number without end, nesting without end
        return Row(None, None, number, f"no JSON: {error}")
    if not isinstance(found, dict):
        return Row(None, None, number, f"a JSON {type(found).__name__}, and no object")
    return row_of(found, number, id_column)


def _no_constant(word: str) -> NoReturn:
    raise ValueError(f"{word} is no number of JSON")


# --- separated values -----------------------------------------------------------------------------------


def _separated(content: io.BufferedReader, name: str, id_column: str, separator: str) -> Iterator[Row]:
    _head(content, name)
    csv.field_size_limit(max(csv.field_size_limit(), MOST_ROW_BYTES))
    lines = _RowLines(content)
    rows = csv.reader(lines, delimiter=separator, strict=True)
    columns = _columns(lines, rows, name)
    if columns and id_column not in columns:
        there = ", ".join(map(repr, columns))
        raise SettingsError(f"{name} has no column {id_column!r} (--id names another); there are {there}")
    at = columns.index(id_column) if columns else 0
    while (row := _next_row(lines, rows)) is not None:
        if isinstance(row, _Bad):
            yield Row(None, None, lines.first, row.why)
        elif len(row) == len(columns):
            yield Row(row[at], dict(zip(columns, row, strict=True)), lines.first)
        elif row:
            yield Row(None, None, lines.first, f"fields: {len(row)}, where the header has {len(columns)}")


def _columns(lines: "_RowLines", rows: Iterator[list[str]], name: str) -> list[str]:
    columns: list[str] | _Bad | None = []
    while columns == []:
        columns = _next_row(lines, rows)
    if isinstance(columns, _Bad):
        raise SettingsError(f"the header of {name} cannot be read: {columns.why}")
    twice = sorted({column for column in columns or () if (columns or []).count(column) > 1})
    if twice:
        raise SettingsError(f"{name} has more than one column {', '.join(map(repr, twice))}; a row is a mapping")
    return columns or []


def _next_row(lines: "_RowLines", rows: Iterator[list[str]]) -> "list[str] | _Bad | None":
    """The reader starts afresh after an error, with the line after those that it has taken."""
    lines.begin()
    try:
        row = next(rows, None)
    except csv.Error as error:
        upto = "" if lines.number == lines.first else f" (up to line {lines.number}, all of which is passed over)"
        return _Bad(f"{lines.why or error}{upto}")
    return row if lines.why is None else _Bad(lines.why)


class _RowLines:
    """The lines of a file for a csv reader, with a limit for what one row may take of them."""

    def __init__(self, content: io.BufferedReader) -> None:
        self._content = content
        self._bytes = 0
        self.number = 0
        self.first = 1
        self.why: str | None = None  # what is wrong with the lines since `begin`

    def begin(self) -> None:
        """A row begins with the next line."""
        self.first, self._bytes, self.why = self.number + 1, 0, None

    def __iter__(self) -> "_RowLines":
        return self

    def __next__(self) -> str:
        line = _line(self._content, MOST_ROW_BYTES - self._bytes)
        if line == b"":
            raise StopIteration
        self.number += 1
        if line is None:
            self.why = f"{_TOO_LONG}; is a quote not closed?"
            raise csv.Error(self.why)
        self._bytes += len(line)
        try:
            text = line.decode()
        except UnicodeDecodeError:
            self.why = _NOT_UTF8
            return line.decode(errors="replace")
        return text.removeprefix(_MARK) if self.number == 1 else text


# --- lines ----------------------------------------------------------------------------------------------


class _Bad:
    """Why a line is no row."""

    def __init__(self, why: str) -> None:
        self.why = why


def _numbered(content: io.BufferedReader) -> Iterator[tuple[int, "str | _Bad"]]:
    """Lines from 1 on, without their ends."""
    number = 0
    while (line := _line(content, MOST_ROW_BYTES)) != b"":
        number += 1
        if line is None:
            yield number, _Bad(_TOO_LONG)
            continue
        try:
            text = line.decode()
        except UnicodeDecodeError:
            yield number, _Bad(_NOT_UTF8)
            continue
        text = text.removesuffix("\n").removesuffix("\r")
        yield number, text.removeprefix(_MARK) if number == 1 else text


def _line(content: io.BufferedReader, most: int) -> bytes | None:
    """The next line, empty at the end; None for one that is longer than `most` bytes, which is passed over."""
    line = content.readline(most + 1)
    if len(line) <= most:
        return line
    while line and not line.endswith(b"\n"):
        line = content.readline(_SKIP_BYTES)
    return None


def _head(content: io.BufferedReader, name: str) -> bytes:
    """How the file begins, once it is known to be text; raises SettingsError saying what it is instead."""
    head = content.peek(_HEAD_BYTES)[:_HEAD_BYTES]
    for begin, what in _KINDS.items():
        if head.startswith(begin):
            raise SettingsError(f"{name} is {what}")
    first = head.partition(b"\n")[0]  # of a file of text this is text, whatever has happened to what follows
    if b"\0" in first or (b"\0" in head and not _is_utf8(first)):
        raise SettingsError(f"{name} is no text; --format says what it is, unless its name does")
    if b"\r" in head and b"\n" not in head and not head.endswith(b"\r"):
        raise SettingsError(f"{name} ends its lines with CR alone; `tr '\\r' '\\n'` mends that")
    return head


def _is_utf8(begin: bytes) -> bool:
    """Whether it may be the beginning of UTF-8 text; it may end inside a character."""
    try:
        codecs.getincrementaldecoder("utf-8")().decode(begin)
    except UnicodeDecodeError:
        return False
    return True
