"""A file of lines that many processes of one machine append to: one at a time, under its lock."""

import errno
import fcntl
import os
import random
import stat
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from hashlib import blake2b

from outlast.errors import SettingsError, SinkUnreachable
from outlast.sinks.jsonl_index import Range

PATIENCE_SECONDS = 60.0
_LONGEST_PAUSE_SECONDS = 0.02
_DIGESTED_BYTES = 4096
_BLOCK_BYTES = 1 << 20
_BLANKS = b" " * _BLOCK_BYTES
_NO_FILE = {errno.EEXIST, errno.EISDIR, errno.ENOTDIR, errno.ENAMETOOLONG, errno.ELOOP, errno.ENXIO, errno.EINVAL}
_NO_LOCKS = {errno.ENOTSUP, errno.ENOSYS, errno.ENOLCK, errno.EINVAL}


class LockedFile:
    """The file in the hands of this process; nobody else who keeps to the lock changes it meanwhile."""

    def __init__(self, path: str, handle: int) -> None:
        self.path, self.handle = path, handle

    @property
    def size(self) -> int:
        return os.fstat(self.handle).st_size

    @property
    def inode(self) -> int:
        return os.fstat(self.handle).st_ino

    def read(self, place: Range) -> bytes:
        return os.pread(self.handle, place.bytes, place.start)

    def append(self, data: bytes) -> int:
        """Adds whole lines to the end, durably; what does not fit leaves nothing. Returns where they begin."""
        start = self.size
        try:
            _write_at(self.handle, data, start)
            _sync_data(self.handle)
        except BaseException:
            self.cut(start)
            raise
        return start

    def cut(self, size: int) -> None:
        """Takes off what comes after; a failure is mended by the next one who looks at the file's tail."""
        with suppress(OSError):
            os.ftruncate(self.handle, size)

    def cut_durably(self, size: int) -> None:
        os.ftruncate(self.handle, size)
        _sync_data(self.handle)

    def blank(self, places: Iterable[Range]) -> None:
        """Makes blanks of lines and their newlines: then they belong to the line after them, and mean nothing there."""
        for place in places:
            end = min(place.start + place.bytes, self.size)
            for start in range(place.start, end, _BLOCK_BYTES):
                _write_at(self.handle, _BLANKS[: min(_BLOCK_BYTES, end - start)], start)
        _sync_data(self.handle)

    def digest(self, end: int, superseded: Sequence[Range] = ()) -> str:
        """Of the last bytes before `end`, as they are once what is superseded is blanks."""
        first = max(0, end - _DIGESTED_BYTES)
        tail = bytearray(os.pread(self.handle, end - first, first))
        for place in superseded:
            start, stop = max(place.start, first), min(place.start + place.bytes, end)
            if start < stop:
                tail[start - first : stop - first] = b" " * (stop - start)
        return blake2b(tail, digest_size=16).hexdigest()

    def end_without_blanks(self) -> int:
        """Where the file ends if blanks at its end, which no line follows, are left out."""
        end = self.size
        while end:
            first = max(0, end - _BLOCK_BYTES)
            kept = os.pread(self.handle, end - first, first).rstrip(b" ")
            if kept:
                return first + len(kept)
            end = first
        return 0

    def set_aside(self, fragment: bytes) -> str:
        """Adds what is no record to another file, durably, before it goes from this one; returns that file's name."""
        name = f"{self.path}.torn"
        handle = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666)
        try:
            rest = memoryview(fragment.rstrip(b"\n") + b"\n")
            while rest:
                rest = rest[os.write(handle, rest) :]
            os.fsync(handle)
        finally:
            os.close(handle)
        self.sync_folder()
        return name

    def show_life(self) -> None:
        """Whoever waits for the lock goes on waiting: a long work is under way, and not stuck."""
        os.utime(self.handle)

    def rewrite(self) -> None:
        """Puts a copy without needless blanks in its place, which is locked, too; durable, and a kill costs nothing."""
        name = _unfinished(self.path)
        with suppress(FileNotFoundError):
            os.unlink(name)
        copy = os.open(name, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(copy, fcntl.LOCK_EX)
            self._copy_lines(copy)
            _own_as(copy, os.fstat(self.handle))
            os.fsync(copy)
            os.replace(name, self.path)
        except BaseException:
            os.close(copy)
            with suppress(OSError):  # the next one who opens the file removes it
                os.unlink(name)
            raise
        old, self.handle = self.handle, copy
        _let_go(old)
        self.sync_folder()

    def drop_unfinished(self) -> None:
        """Removes what a kill in `rewrite` has left."""
        with suppress(FileNotFoundError):
            os.unlink(_unfinished(self.path))

    def sync_folder(self) -> None:
        folder = os.open(os.path.dirname(self.path), os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)

    def _copy_lines(self, copy: int) -> None:
        end, position, written, at_start = self.size, 0, 0, True
        while position < end:
            block = os.pread(self.handle, min(_BLOCK_BYTES, end - position), position)
            if not block:
                raise OSError(errno.EIO, "the file became shorter while it was read")
            position += len(block)
            kept = b"\n".join(
                line.lstrip(b" ") if number or at_start else line for number, line in enumerate(block.split(b"\n"))
            )
            at_start = (at_start and not kept) or kept.endswith(b"\n")
            _write_at(copy, kept, written)
            written += len(kept)
            self.show_life()


@contextmanager
def locked(path: str, url: str, *, shared: bool = False) -> Iterator[LockedFile]:
    """The file under its lock, made if there is none; `shared`: with others who only read.

    Raises SettingsError where no such file can be, and SinkUnreachable where it cannot be opened, or where another
    process has held the lock for PATIENCE_SECONDS without a sign of life.
    """
    with translating(url):
        opened = LockedFile(path, _open_locked(path, url, fcntl.LOCK_SH if shared else fcntl.LOCK_EX))
        try:
            yield opened
        finally:
            _let_go(opened.handle)


@contextmanager
def translating(url: str) -> Iterator[None]:
    """Translates what the disk says."""
    try:
        yield
    except OSError as error:
        if error.errno in _NO_FILE:
            raise SettingsError(
                f"sink={url!r}: no file of results can be there: {error}; nothing was changed"
            ) from error
        what = "the disk is full" if error.errno in (errno.ENOSPC, errno.EDQUOT) else error.strerror or str(error)
        raise SinkUnreachable(f"sink={url!r}: {what}; what is stored stays as it was") from error


def _open_locked(path: str, url: str, how: int) -> int:
    while True:
        # Not blocking, since opening a pipe that was put there would wait for ever.
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC, 0o666)
        try:
            opened = os.fstat(handle)
            if not stat.S_ISREG(opened.st_mode):
                raise SettingsError(f"sink={url!r}: {path} is there and no regular file; nothing was changed")
            _wait_for_lock(handle, path, url, how)
            with suppress(FileNotFoundError):
                there = os.stat(path)
                if (there.st_dev, there.st_ino) == (opened.st_dev, opened.st_ino):
                    return handle
        except BaseException:
            os.close(handle)
            raise
        os.close(handle)  # it was rewritten or removed meanwhile


def _wait_for_lock(handle: int, path: str, url: str, how: int) -> None:
    until, seen, pause = time.monotonic() + PATIENCE_SECONDS, 0, 0.0005
    while True:
        try:
            fcntl.flock(handle, how | fcntl.LOCK_NB)
        except BlockingIOError:
            pass
        except OSError as error:
            if error.errno in _NO_LOCKS:
                raise SettingsError(
                    f"sink={url!r}: the file system of {path} has no file locks ({error.strerror}); take a folder on a "
                    "local disk"
                ) from error
            raise
        else:
            return
        changed = os.fstat(handle).st_mtime_ns
        if changed != seen:
            until, seen = time.monotonic() + PATIENCE_SECONDS, changed
        if time.monotonic() > until:
            raise SinkUnreachable(
                f"sink={url!r}: another process has held the lock of {path} for {PATIENCE_SECONDS:.0f} s without "
                "writing; see who it is with: fuser " + path
            )
        time.sleep(pause * random.uniform(0.5, 1.0))  # noqa: S311  spreads those who wait, hides nothing
        pause = min(pause * 2, _LONGEST_PAUSE_SECONDS)


def _write_at(handle: int, data: bytes, start: int) -> None:
    rest = memoryview(data)
    while rest:
        moved = os.pwrite(handle, rest, start)
        rest, start = rest[moved:], start + moved


def _let_go(handle: int) -> None:
    with suppress(OSError):  # a child that was forked meanwhile has the file open, too, and would keep the lock
        fcntl.flock(handle, fcntl.LOCK_UN)
    os.close(handle)


def _sync_data(handle: int) -> None:
    getattr(os, "fdatasync", os.fsync)(handle)  # macOS has no fdatasync


def _unfinished(path: str) -> str:
    return f"{path}.rewriting"


def _own_as(handle: int, original: os.stat_result) -> None:
    with suppress(PermissionError):  # another user's file: the copy is ours then
        os.fchown(handle, original.st_uid, original.st_gid)
    os.fchmod(handle, stat.S_IMODE(original.st_mode))
