"""Bytes to read items from: a file, standard input, an object in a bucket, each of them perhaps in gzip."""

import gzip
import io
import os
import shutil
import sys
import tempfile
import zlib
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import IO, Any, cast

from outlast.errors import BadObject, SettingsError, StoreUnreachable
from outlast.ports import OpenObject
from outlast.registry import open_store

STANDARD_INPUT = "-"
_BUFFER_BYTES = 1 << 20
_SMALL_BUFFER_BYTES = 64 << 10  # for a reader that has buffers of its own
_OBJECT_BUFFER_BYTES = 8 << 20  # a request to a bucket costs about what so many bytes do
_GZIP = b"\x1f\x8b"
_HUMAN = (FileNotFoundError, PermissionError, IsADirectoryError, NotADirectoryError)


@dataclass(slots=True)
class Meter:
    """How far a source has been read, of `bytes` (None: nobody knows)."""

    bytes: int | None = None
    done_bytes: int = 0


@contextmanager
def opened(name: str, meter: Meter, *, seekable: bool = False) -> Iterator[io.BufferedReader]:
    """The content of a file, an object's URL or standard input, out of gzip if it is in that.

    `seekable`: as a whole, for a format that is read from its end; what cannot be sought is copied to a temporary file.
    Raises SettingsError when there is no such thing or it may not be read, or is damaged, and StoreUnreachable when the
    storage does not answer, at any time until it is closed.
    """
    with ExitStack() as stack, _told_of(shown(name)):
        raw, buffer_bytes = _raw(name, meter, stack)
        if seekable:
            content = _buffered(_Metered(raw, Meter()), _SMALL_BUFFER_BYTES, stack)
            yield content if raw.seekable() else _copied(content, stack)
            return
        metered = _buffered(_Metered(raw, meter), buffer_bytes, stack)
        if metered.peek(2)[:2] == _GZIP:
            unpacked = stack.enter_context(gzip.GzipFile(fileobj=metered, mode="rb"))
            yield _buffered(unpacked, _BUFFER_BYTES, stack)
        else:
            yield metered


def shown(name: str) -> str:
    """The name for people."""
    return "standard input" if name == STANDARD_INPUT else name


@contextmanager
def _told_of(name: str) -> Iterator[None]:
    """What goes wrong inside is told as an error of reading `name`."""
    try:
        yield
    except (EOFError, zlib.error) as error:
        raise SettingsError(f"{name} is damaged: its gzip stream cannot be read to the end ({error})") from error
    except BadObject as error:
        raise SettingsError(f"{name} cannot be read: {error}") from error
    except OSError as error:
        if error.errno is None:  # the word of a library, not of the system
            raise SettingsError(f"{name} is damaged: {error}") from error
        kind = SettingsError if isinstance(error, _HUMAN) else StoreUnreachable
        raise kind(f"{name} cannot be read: {error.strerror or error}") from error


def _raw(name: str, meter: Meter, stack: ExitStack) -> tuple[io.RawIOBase, int]:
    """The bytes as they lie there, and how many to read at a time."""
    if name == STANDARD_INPUT:
        if sys.stdin is None:
            raise SettingsError("standard input is closed")
        source = sys.stdin.buffer
        return cast(io.RawIOBase, getattr(source, "raw", source)), _BUFFER_BYTES
    if "://" in name:
        folder, _, last = name.rpartition("/")
        found = stack.enter_context(open_store(folder).open(last))
        meter.bytes = found.bytes
        return _ObjectBytes(found), _OBJECT_BUFFER_BYTES
    return stack.enter_context(io.FileIO(name)), _BUFFER_BYTES


def _buffered(raw: Any, buffer_bytes: int, stack: ExitStack) -> io.BufferedReader:
    reader: io.BufferedReader = io.BufferedReader(raw, buffer_bytes)
    return stack.enter_context(reader)


def _copied(content: io.BufferedReader, stack: ExitStack) -> io.BufferedReader:
    copy: IO[bytes] = stack.enter_context(tempfile.TemporaryFile())  # noqa: SIM115 - the stack closes it
    shutil.copyfileobj(content, copy, _BUFFER_BYTES)
    copy.seek(0)
    return cast(io.BufferedReader, copy)


class _Metered(io.RawIOBase):
    """A raw stream, with what was read of it counted. Closing it leaves the stream open."""

    def __init__(self, raw: io.RawIOBase, meter: Meter) -> None:
        self._raw, self._meter = raw, meter

    def readable(self) -> bool:
        return True

    def readinto(self, target: memoryview) -> int | None:  # type: ignore[override]  # BufferedReader gives this
        moved = self._raw.readinto(target)
        self._meter.done_bytes += moved or 0
        return moved

    def seekable(self) -> bool:
        return self._raw.seekable()

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        return self._raw.seek(offset, whence)

    def tell(self) -> int:
        return self._raw.tell()


class _ObjectBytes(io.RawIOBase):
    """An object of a store as a raw stream, read by ranges."""

    def __init__(self, opened: OpenObject) -> None:
        self._opened, self._at = opened, 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        start = {os.SEEK_SET: 0, os.SEEK_CUR: self._at, os.SEEK_END: self._opened.bytes}[whence]
        self._at = max(0, start + offset)
        return self._at

    def tell(self) -> int:
        return self._at

    def readinto(self, target: memoryview) -> int:  # type: ignore[override]  # BufferedReader gives this
        view = memoryview(target).cast("B")
        wanted = max(0, min(len(view), self._opened.bytes - self._at))
        if wanted:
            self._opened.read_into(self._at, view[:wanted])
        self._at += wanted
        return wanted
