"""Checkpoints in a bucket that is mounted as a folder (gcsfuse, rclone, s3fs, …): new names, written once, in order."""

import errno
import os
import stat
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from functools import partial
from itertools import chain

from outlast.errors import CheckpointCorrupt, ObjectExists, ObjectMissing, SettingsError, StoreUnreachable
from outlast.ports import Bytes, OpenObject, Pace, StoredObject, StoreTraits, full_speed, read_whole
from outlast.stores.segments import JoinedSegments, SegmentNames, checked_parts, folder_of, joined

_PIECE_BYTES = 4 << 20
_CLOSED_WITHIN_SECONDS = 10.0  # some mounts finish an upload a moment after close() has returned
_NEVER_AT_FIRST = {errno.EACCES, errno.EPERM, errno.EROFS, errno.EEXIST, errno.ENOTDIR}
_NO_FSYNC = {errno.EINVAL, errno.ENOSYS, errno.ENOTSUP}
_LOST_THE_RACE = {errno.ESTALE, errno.EEXIST}  # gcsfuse, when somebody else's object came first


class MountStore:
    """A folder on a mounted bucket, as a ports.Store.

    Nothing is renamed or linked, no file is written twice, and none but in order. An object is there once close()
    has returned without an error and its size is what was written; fsync alone promises nothing on such mounts. What
    is `create`d is read back whole.

    What a death leaves. A killed writer's mount uploads what it has, under the final name. For a large object that is
    a cut one, which no record names. A record is handed over in one write, so the moment that hurts is between
    making the name and that write: it leaves an empty object. It is never taken for a record, since those carry their
    digest, but its name is taken for good: `create` raises ObjectExists for it. A claim like that is passed over and
    the next attempt takes the next number; a commit like that is a checkpoint that does not verify, and the next save
    has another name.

    What O_EXCL promises here holds between the processes of one mount. Between two machines it depends on the mount:
    gcsfuse refuses the second writer, others let the last one win (docs/howto/mounted-bucket.md).
    """

    def __init__(self, path: str) -> None:
        if not path:
            raise SettingsError("url='' names no folder")
        self._root = os.path.abspath(os.path.expanduser(path))
        self._device = _device_of(self._root)
        self._segments = SegmentNames()
        self._has_worked = False  # the url is right, then, and what goes wrong later a retry may mend

    @property
    def url(self) -> str:
        return self._root

    @property
    def traits(self) -> StoreTraits:
        return StoreTraits(object_bytes=64 << 20, parallel=2, whole_records=False)

    def create(self, name: str, data: bytes) -> None:
        path = self._path(name)
        with self._answering("write", name):
            self._make_whole(path, name, data)

    def write(self, name: str, buffers: Iterable[Bytes], *, pace: Pace = full_speed) -> int:
        path = self._path(name)
        with self._answering("write", name):
            try:
                written = self._write_new(path, buffers, pace)
            except FileExistsError as error:
                raise ObjectExists(f"{name} is already in {self.url}") from error
            found = _size_after_close(path, written)
            if found != written:
                raise OSError(errno.EIO, f"{written} bytes were written, and {found} are there")
        return written

    def append(self, name: str, data: bytes) -> None:
        """A new segment: mounts refuse to append, or write the whole object anew each time."""
        self._path(name)
        segment = self._segments.next(name)
        with self._answering("write", name):
            self._write_new(self._inside(segment), [data], sync=False)

    def read(self, name: str) -> bytes:
        with self.open(name) as opened:
            return read_whole(opened)

    @contextmanager
    def open(self, name: str) -> Iterator[OpenObject]:
        path = self._path(name)
        with self._answering("read", name):
            handle = _open_read(path)
            segments = [] if handle is not None else list(self._walk(folder_of(name)))
        # What the caller does meanwhile may fail, too, and is not the store's to explain: only reads are translated.
        if handle is None:
            if not segments:
                raise ObjectMissing(f"{name} is not in {self.url}")
            yield JoinedSegments(name, segments, self._read_segment)
            return
        try:
            yield _OpenFile(handle, path, answering=partial(self._answering, "read", name))
        finally:
            os.close(handle)

    def delete(self, name: str) -> None:
        path = self._path(name)
        with self._answering("delete", name):
            with suppress(FileNotFoundError):
                os.unlink(path)
            for segment in list(self._walk(folder_of(name))):
                with suppress(FileNotFoundError):
                    os.unlink(self._inside(segment.name))
            with suppress(OSError):  # an empty folder is nothing in a bucket
                os.rmdir(self._inside(folder_of(name)))

    def settle(self, prefix: str) -> None:
        """Nothing to do: what is there after a close is in the bucket."""
        self._path(prefix)

    def sweep(self, prefix: str) -> int:
        """Nothing to do: there are no unfinished names."""
        self._path(prefix)
        return 0

    def list(self, prefix: str) -> list[StoredObject]:
        if prefix:
            self._path(f"{prefix}/here")
        with self._answering("list", prefix or "."):
            return joined(self._walk(prefix))

    def _walk(self, prefix: str) -> Iterator[StoredObject]:
        waiting = [prefix]
        while waiting:
            folder = waiting.pop()
            try:
                with os.scandir(self._inside(folder)) as entries:
                    found = sorted(entries, key=lambda entry: entry.name)
            except (FileNotFoundError, NotADirectoryError):
                continue
            for entry in found:
                name = f"{folder}/{entry.name}" if folder else entry.name
                if entry.is_dir(follow_symlinks=False):
                    waiting.append(name)
                    continue
                with suppress(FileNotFoundError):  # it went meanwhile
                    yield StoredObject(name, entry.stat(follow_symlinks=False).st_size)

    def _inside(self, name: str) -> str:
        return os.path.join(self._root, *name.split("/"))

    def _path(self, name: str) -> str:
        """The file of a name; raises CheckpointCorrupt for one that leads out of the store."""
        folder = self._root
        for part in checked_parts(name, self.url)[:-1]:
            folder = os.path.join(folder, part)
            if os.path.islink(folder):
                raise CheckpointCorrupt(f"{folder} is a link; outlast follows none inside a store")
        return self._inside(name)

    def _make_whole(self, path: str, name: str, data: bytes) -> None:
        """Makes a small object and reads it back."""
        try:
            self._write_new(path, [data])
        except FileExistsError as error:
            raise ObjectExists(f"{name} is already in {self.url}") from error
        except OSError as error:
            if error.errno in _LOST_THE_RACE and os.path.exists(path):
                raise ObjectExists(f"{name} is already in {self.url}") from error
            raise
        _size_after_close(path, len(data))
        found = _content(path)
        if found == data:
            return
        if len(found) >= len(data) or not data.startswith(found):
            raise ObjectExists(f"{name} is already in {self.url}: somebody else's came after ours")
        raise OSError(errno.EIO, f"{len(data)} bytes were written, and {len(found)} are there")

    def _write_new(self, path: str, buffers: Iterable[Bytes], pace: Pace = full_speed, *, sync: bool = True) -> int:
        pieces = _paced(buffers, pace)
        # A write that is given up at once must not make the name: some mounts upload an empty object after close().
        first = next(pieces, memoryview(b""))
        handle = _create_file(path, self._device)
        try:
            try:
                self._stay_on_the_mount(handle)
                written = sum(_write_whole(handle, piece) for piece in chain([first], pieces))
                if sync:
                    _sync(handle)
            finally:
                os.close(handle)  # where most mounts upload, and say what went wrong
        except BaseException as error:
            if not (isinstance(error, OSError) and error.errno in _LOST_THE_RACE):  # then it is not ours
                with suppress(OSError):
                    os.unlink(path)
            raise
        return written

    def _stay_on_the_mount(self, handle: int) -> None:
        """When a mount goes, its folder stays, on the machine's own disk: a save into that would be lost."""
        if os.fstat(handle).st_dev != self._device:
            raise OSError(errno.ENOTCONN, "the bucket is not mounted there any more")

    def _read_segment(self, name: str, target: memoryview) -> None:
        answering = partial(self._answering, "read", name)
        with answering():
            handle = _open_read(self._inside(name))
        if handle is None:
            raise CheckpointCorrupt(f"{name} in {self.url} has gone")
        try:
            _OpenFile(handle, name, answering=answering).read_into(0, target)
        finally:
            os.close(handle)

    @contextmanager
    def _answering(self, verb: str, name: str) -> Iterator[None]:
        try:
            yield
            self._has_worked = self._has_worked or verb == "write"
        except OSError as error:
            if not self._has_worked and error.errno in _NEVER_AT_FIRST:
                raise SettingsError(f"url={self.url!r} cannot hold checkpoints: {error}; nothing was saved") from error
            raise StoreUnreachable(f"cannot {verb} {name} in {self.url}: {error.strerror or error}") from error


class _OpenFile:
    """A file of a mount, open for ranged reads, as a ports.OpenObject."""

    def __init__(self, handle: int, path: str, *, answering: Callable[[], AbstractContextManager[None]]) -> None:
        self._handle, self._path, self._answering = handle, path, answering
        with answering():
            self.bytes = os.fstat(handle).st_size

    def read_into(self, offset: int, target: memoryview) -> None:
        done = 0
        while done < len(target):
            with self._answering():
                moved = os.preadv(self._handle, [target[done : done + _PIECE_BYTES]], offset + done)
            if moved <= 0:
                raise CheckpointCorrupt(f"{self._path} ends at {offset + done} bytes, before its content does")
            done += moved


def _device_of(path: str) -> int:
    """The device of the nearest folder that is there."""
    while not os.path.exists(path):
        path = os.path.dirname(path)
    return os.stat(path).st_dev


def _create_file(path: str, device: int) -> int:
    """A new file on a device; its folders are made there and nowhere else: a mount that goes leaves an empty folder."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        return os.open(path, flags, 0o666)
    except FileNotFoundError:  # most often the folder is there, and asking first costs some mounts several requests
        if _device_of(path) != device:
            raise OSError(errno.ENOTCONN, "the bucket is not mounted there any more") from None
        os.makedirs(os.path.dirname(path), exist_ok=True)
        return os.open(path, flags, 0o666)


def _open_read(path: str) -> int | None:
    """A handle, or None where there is no file; raises CheckpointCorrupt for a link."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise CheckpointCorrupt(f"{path} is a link") from error
        raise
    if stat.S_ISREG(os.fstat(handle).st_mode):
        return handle
    os.close(handle)
    return None  # a folder is no object


def _paced(buffers: Iterable[Bytes], pace: Pace) -> Iterator[memoryview]:
    """Pieces of a bounded size, each announced to the pace just before it is handed out."""
    for buffer in buffers:
        view = memoryview(buffer).cast("B")
        for start in range(0, len(view), _PIECE_BYTES):
            piece = view[start : start + _PIECE_BYTES]
            pace(len(piece))
            yield piece


def _write_whole(handle: int, piece: memoryview) -> int:
    done = 0
    while done < len(piece):
        moved = os.write(handle, piece[done:])
        if moved <= 0:
            raise OSError(errno.EIO, "the mount takes no more bytes")
        done += moved
    return done


def _sync(handle: int) -> None:
    try:
        os.fsync(handle)
    except OSError as error:
        if error.errno not in _NO_FSYNC:
            raise


def _size_after_close(path: str, expected: int) -> int:
    """The size that the mount shows, once it is what was written or the patience is at its end."""
    until = time.monotonic() + _CLOSED_WITHIN_SECONDS
    while True:
        found = -1
        with suppress(FileNotFoundError):
            found = os.stat(path).st_size
        if found == expected or time.monotonic() > until:
            return found
        time.sleep(0.02)


def _content(path: str) -> bytes:
    with open(path, "rb", buffering=0) as stored:
        return stored.readall()
