"""Files as comparable leaves: numbers and everything else, each with a name that a person can look up."""

import ast
import csv
import io
import json
import pickle
import re
import sqlite3
import struct
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any

from outlast.rehearse.pickles import is_pickle, read_pickle
from outlast.rehearse.sqlite_tables import MAGIC, tables_of

_NUMBER = re.compile(
    r"(?<![\w.])[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?(?![\w.])|\b[-+]?(?:nan|inf(?:inity)?)\b", re.I
)
_CHUNK = 4096
# struct's letter for one number; a complex value is two of them.
_NPY_CODES = {
    "f2": "e", "f4": "f", "f8": "d", "c8": "f", "c16": "d", "b1": "B",
    "i1": "b", "i2": "h", "i4": "i", "i8": "q", "u1": "B", "u2": "H", "u4": "I", "u8": "Q",
}  # fmt: skip
_SAFETENSORS_CODES = {
    "F16": "e", "F32": "f", "F64": "d", "BOOL": "B", "I8": "b", "I16": "h", "I32": "i", "I64": "q",
    "U8": "B", "U16": "H", "U32": "I", "U64": "Q", "BF16": "bf",
}  # fmt: skip
# What json, zipfile, zlib, struct and literal_eval raise for a file that is cut, nested too deeply or encrypted.
_FOREIGN: tuple[type[Exception], ...] = (ValueError, LookupError, TypeError, SyntaxError, EOFError, RuntimeError)
_FOREIGN += (
    AttributeError,
    pickle.UnpicklingError,
    struct.error,
    zipfile.BadZipFile,
    zlib.error,
    sqlite3.Error,
    csv.Error,
)
_GZIP = b"\x1f\x8b"
# In torch's files: a digest of the other members (torch 2.13, caffe2/serialize/inline_container.cc, writeEndOfFile).
_TORCH_PICKLE, _TORCH_DIGEST = "/data.pkl", "/.data/serialization_id"


class Unreadable(Exception):
    """Not a document of the kind that its name says, or one that is cut: only its bytes can be compared."""


@dataclass(frozen=True, slots=True)
class Numbers:
    """An array: `data` holds struct numbers of one `code` ("bf" is bfloat16)."""

    data: bytes
    code: str
    order: str = "<"

    def chunks(self) -> Iterator[bytes]:
        """The bytes in pieces of whole numbers."""
        size = _CHUNK * self.width
        return (self.data[at : at + size] for at in range(0, len(self.data), size))

    @property
    def width(self) -> int:
        return 2 if self.code == "bf" else struct.calcsize(self.code)

    def values(self, data: bytes) -> tuple[float, ...]:
        """The numbers in one piece."""
        count = len(data) // self.width
        if self.code == "bf":  # the upper half of a float32
            words = struct.unpack(f"<{count}H", data)
            return struct.unpack(f"<{count}f", struct.pack(f"<{count}I", *(word << 16 for word in words)))
        return struct.unpack(f"{self.order}{count}{self.code}", data)


Leaf = float | int | str | bytes | Numbers
Document = dict[str, Leaf]


def read_document(path: str, data: bytes) -> Document:
    """The leaves of a file, by the kind that its name says. Raises Unreadable for what has no kind here."""
    reader = _READERS.get(PurePosixPath(path).suffix.lower())
    try:
        if reader is not None:
            return reader(data)
        if data.startswith(MAGIC):
            return _read_sqlite(data)
        if is_pickle(data):
            return dict(read_pickle(data))
        if holds_members(data):
            return _read_zip(data)
        return _read_text(data)
    except _FOREIGN as error:
        raise Unreadable(f"{path}: {error}") from error


def holds_members(data: bytes) -> bool:
    """Whether these are the bytes of a zip file, as npz and torch's files are, of a database or of a pickle: equal when
    what they hold is."""
    return data.startswith(MAGIC) or is_pickle(data) or zipfile.is_zipfile(io.BytesIO(data))


def unpacked(data: bytes, *, most: int) -> bytes:
    """What a gzip file holds: its head has the time. Raises Unreadable for any other, or for more bytes than `most`."""
    if not data.startswith(_GZIP):
        raise Unreadable("not a gzip file")
    held = bytearray()
    try:
        while data:  # it may have several parts
            part = zlib.decompressobj(wbits=31)
            held += part.decompress(data, most + 1 - len(held))
            if not part.eof or len(held) > most:
                raise Unreadable("cut, or too much")
            data = part.unused_data
    except zlib.error as error:
        raise Unreadable(str(error)) from error
    return bytes(held)


def split_numbers(text: str) -> tuple[str, list[float]]:
    """A text with its numbers taken out (and marked), and the numbers."""
    numbers = [float(found) for found in _NUMBER.findall(text)]
    return _NUMBER.sub("\0", text), numbers


def _read_text(data: bytes) -> Document:
    if b"\0" in data:
        raise Unreadable("not a text")
    lines = data.decode().splitlines()  # a UnicodeDecodeError is a ValueError
    return {f"line {number}": line for number, line in enumerate(lines, 1)}


def _read_csv(data: bytes) -> Document:
    rows = list(csv.reader(io.StringIO(data.decode(), newline="")))
    heads = rows[0] if rows else []
    leaves: Document = {"header": ",".join(heads)}
    for number, row in enumerate(rows[1:], 2):
        leaves[f"row {number}"] = f"row of {len(row)}"
        for index, cell in enumerate(row):
            name = heads[index] if index < len(heads) else str(index)
            leaves[f"row {number}, {name!r}"] = cell
    return leaves


def _read_sqlite(data: bytes) -> Document:
    leaves: Document = {}
    database = sqlite3.connect(":memory:")
    try:
        # A database in WAL mode cannot be opened in memory; the two bytes say that it is none (sqlite.org/fileformat).
        database.deserialize(data[:18] + b"\1\1" + data[20:])
        for name, made, rows in tables_of(database):
            leaves |= {f"table {name}": made, **table_leaves(name, rows)}
    finally:
        database.close()
    return leaves


def table_leaves(name: str, rows: Iterable[str]) -> Document:
    """A table's rows, in the order of their contents: where a row lies in the file is no part of a result."""
    ordered = sorted(rows)
    numbered = {f"table {name}, row {number}": row for number, row in enumerate(ordered, 1)}
    return {f"table {name}, rows": len(ordered), **numbered}


def _read_json(data: bytes) -> Document:
    leaves: Document = {}
    _walk(json.loads(data), "$", leaves)
    return leaves


def _read_json_lines(data: bytes) -> Document:
    leaves: Document = {}
    for number, line in enumerate(data.splitlines(), 1):
        if line.strip():
            _walk(json.loads(line), f"line {number}", leaves)
    return leaves


def _walk(value: Any, name: str, leaves: Document) -> None:
    if isinstance(value, dict):
        leaves[name] = f"object of {sorted(value)}"
        for key, one in value.items():
            _walk(one, f"{name}.{key}", leaves)
    elif isinstance(value, list):
        leaves[name] = f"list of {len(value)}"
        for index, one in enumerate(value):
            _walk(one, f"{name}[{index}]", leaves)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        leaves[name] = value
    else:
        leaves[name] = json.dumps(value)


def _read_npy(data: bytes, name: str = "array") -> Document:
    if data[:6] != b"\x93NUMPY":
        raise Unreadable("not an npy file")
    wide = data[6] >= 2
    length = struct.unpack_from("<I" if wide else "<H", data, 8)[0]
    begin = (12 if wide else 10) + length
    header = ast.literal_eval(data[begin - length : begin].decode())
    described = str(header["descr"])  # a list of fields for a structured array
    order, dtype = described[:1], described[1:]
    body = data[begin:]
    spec: Document = {f"{name} (dtype and shape)": f"{described} {header['shape']} {header['fortran_order']}"}
    if dtype not in _NPY_CODES:
        return {**spec, name: body}
    return {**spec, name: Numbers(body, _NPY_CODES[dtype], ">" if order == ">" else "<")}


def _read_zip(data: bytes) -> Document:
    leaves: Document = {}
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        for member in sorted(archive.namelist()):
            content = archive.read(member)
            if member.endswith(".npy"):
                leaves |= _read_npy(content, member)
            elif member.endswith(_TORCH_PICKLE):
                leaves |= read_pickle(content, member)
            elif not member.endswith(_TORCH_DIGEST):
                leaves[member] = content
    return leaves


def _read_safetensors(data: bytes) -> Document:
    length = struct.unpack_from("<Q", data)[0]
    header = json.loads(data[8 : 8 + length])
    leaves: Document = {"metadata": json.dumps(header.pop("__metadata__", {}), sort_keys=True)}
    for name, entry in sorted(header.items()):
        begin, end = entry["data_offsets"]
        body = data[8 + length + begin : 8 + length + end]
        leaves[f"{name} (dtype and shape)"] = f"{entry['dtype']} {entry['shape']}"
        code = _SAFETENSORS_CODES.get(entry["dtype"])
        leaves[name] = Numbers(body, code) if code else body
    return leaves


_READERS: dict[str, Callable[[bytes], Document]] = {
    ".csv": _read_csv,
    ".json": _read_json,
    ".jsonl": _read_json_lines,
    ".npy": _read_npy,
    ".npz": _read_zip,
    ".safetensors": _read_safetensors,
}
