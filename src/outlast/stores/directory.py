"""Checkpoints in a folder of a local disk: new names only, synced, and hard links to publish small records."""

import errno
import os
import secrets
import stat
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from functools import partial

from outlast.errors import (
    CheckpointCorrupt,
    ObjectExists,
    ObjectMissing,
    SettingsError,
    StoreUnreachable,
)
from outlast.ports import Bytes, Pace, StoredObject, StoreTraits, full_speed, read_whole
from outlast.stores.blocks import LargeFiles, Staging
from outlast.stores.disk import LARGEST_WRITE_BYTES, Disk, LocalDisk
from outlast.stores.writers import write_large

_UNFINISHED = ".tmp-"
_DEBRIS_SECONDS = 3600.0
_GATHER_BYTES = 4 << 20  # small buffers are gathered up to this size, so that many of them cost few calls


class DirectoryStore:
    """A folder on a local disk, as a ports.Store.

    A record appears whole or not at all: it is written under an unfinished name, synced, and then linked to its
    own name, which fails if the name is taken; the folder is synced last. Data objects are written straight under
    their final, new names. Folders below the root that are links, and links in place of files, are refused.
    """

    def __init__(self, path: str, *, disk: Disk | None = None, large: LargeFiles | None = None) -> None:
        if not path:
            raise SettingsError("url='' names no folder")
        self._root = os.path.abspath(os.path.expanduser(path))
        self._disk = disk or LocalDisk()
        self._large = large or LargeFiles()
        self._staging = Staging(self._large.block_bytes, self._large.blocks)
        self._known_folders: set[str] = set()
        self._has_worked = False  # the url is right, then, and what goes wrong later a retry may mend

    @property
    def url(self) -> str:
        return self._root

    @property
    def traits(self) -> StoreTraits:
        return StoreTraits(local=True, parallel=2)  # reads: two threads keep disk and memory busy

    def create(self, name: str, data: bytes) -> None:
        path = self._new_path(name)
        folder = os.path.dirname(path)
        unfinished = os.path.join(folder, f"{_UNFINISHED}{os.getpid()}-{secrets.token_hex(6)}")
        with self._answering("write", name):
            self._write_file(unfinished, [data])
            try:
                self._disk.link(unfinished, path)
            except FileExistsError:
                raise ObjectExists(f"{name} is already in {self.url}") from None
            except OSError as error:
                raise _without_links(error, folder) from error
            finally:
                with suppress(OSError):  # debris of this name is never chosen, and swept later
                    self._disk.unlink(unfinished)
            self._disk.sync_folder(folder)

    def write(self, name: str, buffers: Iterable[Bytes], *, pace: Pace = full_speed) -> int:
        path = self._new_path(name)
        with self._answering("write", name):
            try:
                written = self._write_file(path, buffers, pace)
            except FileExistsError:
                raise ObjectExists(f"{name} is already in {self.url}") from None
            self._disk.sync_folder(os.path.dirname(path))
        return written

    def append(self, name: str, data: bytes) -> None:
        path = self._new_path(name)
        with self._answering("write", name):
            handle = self._disk.open_append(path)
            try:
                self._write_all(handle, memoryview(data))
            finally:
                self._disk.close(handle)

    def read(self, name: str) -> bytes:
        with self.open(name) as opened:
            return read_whole(opened)

    @contextmanager
    def open(self, name: str) -> Iterator["_OpenFile"]:
        path = self._path(name)
        with self._answering("read", name):
            handle = self._open_read(name, path)
        # What the caller does meanwhile may fail, too, and is not the store's to explain: only reads are translated.
        try:
            yield _OpenFile(self._disk, handle, path, answering=partial(self._answering, "read", name))
        finally:
            self._disk.close(handle)

    def _open_read(self, name: str, path: str) -> int:
        try:
            return self._disk.open_read(path)
        except (FileNotFoundError, NotADirectoryError):
            raise ObjectMissing(f"{name} is not in {self.url}") from None
        except OSError as error:
            if error.errno in (errno.ELOOP, errno.ENXIO, 0):
                raise CheckpointCorrupt(f"{path} is a link or not a regular file") from error
            raise

    def list(self, prefix: str) -> list[StoredObject]:
        folder = self._folder(prefix)
        with self._answering("list", prefix or "."):
            found = [
                StoredObject(name, status.st_size)
                for name, status in self._walk(folder, f"{prefix}/" if prefix else "")
                if not os.path.basename(name).startswith(_UNFINISHED)
            ]
        return sorted(found, key=lambda entry: entry.name)

    def delete(self, name: str) -> None:
        path = self._path(name)
        with self._answering("delete", name):
            try:
                self._disk.unlink(path)
            except FileNotFoundError:
                return
            self._disk.sync_folder(os.path.dirname(path))

    def settle(self, prefix: str) -> None:
        folder = self._folder(prefix)
        with self._answering("sync", prefix), suppress(FileNotFoundError):
            self._disk.sync_folder(folder)

    def sweep(self, prefix: str) -> int:
        """Removes unfinished records that a death left behind; a live writer's is milliseconds old."""
        dead_since = time.time() - _DEBRIS_SECONDS
        removed = 0
        with self._answering("sweep", prefix):
            for name, status in self._walk(self._folder(prefix), f"{prefix}/"):
                if os.path.basename(name).startswith(_UNFINISHED) and status.st_mtime < dead_since:
                    with suppress(FileNotFoundError):  # another sweep was quicker
                        self._disk.unlink(self._path(name))
                        removed += 1
        return removed

    def _walk(self, folder: str, prefix: str) -> Iterator[tuple[str, os.stat_result]]:
        waiting = [(folder, prefix)]
        while waiting:
            folder, prefix = waiting.pop()
            try:
                entries = list(self._disk.entries(folder))
            except FileNotFoundError:
                continue
            for name, status in entries:
                if stat.S_ISDIR(status.st_mode):
                    waiting.append((os.path.join(folder, name), f"{prefix}{name}/"))
                else:
                    yield prefix + name, status

    def _folder(self, prefix: str) -> str:
        """The folder of a prefix; the links that it passes are refused, itself included."""
        return os.path.dirname(self._path(f"{prefix}/.here")) if prefix else self._root

    def _path(self, name: str) -> str:
        """The file of a name; raises CheckpointCorrupt for a name that leads out of the store."""
        parts = name.split("/")
        if any(part in ("", ".", "..") or "\0" in part for part in parts):
            raise CheckpointCorrupt(f"{name!r} is not a name inside {self.url}")
        folder = self._root
        for part in parts[:-1]:
            folder = os.path.join(folder, part)
            if self._disk.is_link(folder):
                raise CheckpointCorrupt(f"{folder} is a link; outlast follows none inside a store")
        return os.path.join(folder, parts[-1])

    def _new_path(self, name: str) -> str:
        path = self._path(name)
        with self._answering("write", name):
            self._make_folders(os.path.dirname(path))
        return path

    def _make_folders(self, folder: str) -> None:
        """Makes what is missing, and syncs the parents, so that a folder survives a power cut.

        Those of folders that are there already, too: whoever made them may have been killed before that.
        """
        if folder in self._known_folders:
            return
        parent = os.path.dirname(folder)
        if folder.startswith(f"{self._root}/") or not os.path.isdir(folder):
            self._make_folders(parent)
            self._disk.make_folder(folder)
            self._disk.sync_folder(parent)
        else:
            with suppress(OSError):  # what holds the store need not be ours to open
                self._disk.sync_folder(parent)
        self._known_folders.add(folder)

    def _write_file(self, path: str, buffers: Iterable[Bytes], pace: Pace = full_speed) -> int:
        rest = iter(buffers)
        first, is_large = _first_of(rest, self._large.from_bytes)
        handle = self._disk.create_file(path)
        try:
            try:
                pieces = _each(first, rest)
                if is_large:
                    written = write_large(
                        self._disk, path, handle, pieces, pace, plan=self._large, staging=self._staging
                    )
                else:
                    written = self._write_small(handle, pieces, pace)
                self._disk.sync(handle)
            finally:
                self._disk.close(handle)
        except BaseException:
            with suppress(OSError):  # it would only fill the disk; no record will ever name it
                self._disk.unlink(path)
            raise
        return written

    def _write_small(self, handle: int, buffers: Iterable[Bytes], pace: Pace) -> int:
        written = 0
        for piece in _gathered(buffers):
            pace(len(piece))
            written += self._write_all(handle, piece)
        return written

    def _write_all(self, handle: int, data: memoryview) -> int:
        done = 0
        while done < len(data):
            moved = self._disk.write(handle, data[done : done + LARGEST_WRITE_BYTES])
            if moved <= 0:
                raise OSError(errno.EIO, "the disk takes no more bytes")
            done += moved
        return done

    @contextmanager
    def _answering(self, verb: str, name: str) -> Iterator[None]:
        try:
            yield
            self._has_worked = self._has_worked or verb == "write"
        except OSError as error:
            if not self._has_worked and isinstance(error, FileExistsError | NotADirectoryError):
                raise SettingsError(f"url={self.url!r} cannot hold checkpoints: {error}") from error
            raise StoreUnreachable(f"cannot {verb} {name} in {self.url}: {error.strerror or error}") from error


class _OpenFile:
    """A file open for ranged reads, as a ports.ScatteringObject."""

    def __init__(
        self, disk: Disk, handle: int, path: str, *, answering: Callable[[], AbstractContextManager[None]]
    ) -> None:
        self._disk, self._handle, self._path, self._answering = disk, handle, path, answering
        with answering():
            self.bytes = disk.size(handle)

    def read_into(self, offset: int, target: memoryview) -> None:
        done = 0
        while done < len(target):
            piece = target[done : done + LARGEST_WRITE_BYTES]
            with self._answering():
                moved = self._disk.read_at(self._handle, piece, offset + done)
            if moved <= 0:
                raise CheckpointCorrupt(f"{self._path} ends at {offset + done} bytes, before its content does")
            done += moved

    def read_into_all(self, offset: int, targets: Sequence[memoryview]) -> None:
        first, done = 0, 0
        while first < len(targets):
            rest = targets[first:] if first else targets
            moved = self._disk.read_all_at(self._handle, rest, offset + done)
            if moved <= 0:
                raise CheckpointCorrupt(f"{self._path} ends at {offset + done} bytes, before its content does")
            done += moved
            for target in rest:
                if moved < len(target):
                    break
                moved -= len(target)
                first += 1
            if moved:  # a part of one, which the kernel may do
                self.read_into(offset + done, targets[first][moved:])
                done += len(targets[first]) - moved
                first += 1


def _first_of(buffers: Iterator[Bytes], enough: int) -> tuple[deque[Bytes], bool]:
    """The first buffers, up to so many bytes, and whether there are that many."""
    first: deque[Bytes] = deque()
    size = 0
    for buffer in buffers:
        first.append(buffer)
        size += memoryview(buffer).nbytes
        if size >= enough:
            return first, True
    return first, False


def _each(first: deque[Bytes], rest: Iterator[Bytes]) -> Iterator[Bytes]:
    """One after the other, none kept: they may be large, and made for this."""
    while first:
        yield first.popleft()
    yield from rest


def _gathered(buffers: Iterable[Bytes]) -> Iterator[memoryview]:
    gathered = bytearray()
    for buffer in buffers:
        view = memoryview(buffer).cast("B")
        if len(gathered) + len(view) <= _GATHER_BYTES:
            gathered += view
            continue
        if gathered:
            yield memoryview(gathered)
            gathered = bytearray()
        if len(view) <= _GATHER_BYTES:
            gathered += view
        else:
            yield view
    if gathered:
        yield memoryview(gathered)


def _without_links(error: OSError, folder: str) -> Exception:
    """A mount of a kind that nobody told us of, say: no retry would help."""
    if error.errno in (errno.EPERM, errno.ENOTSUP, errno.ENOSYS):
        return SettingsError(
            f"the file system of {folder} has no hard links, which a folder of checkpoints needs; nothing was saved; "
            "a mounted bucket, which needs none, is told by the type of its file system, and this one was not "
            "recognised as one: use a local disk, NFS, or the bucket's own url"
        )
    return error
